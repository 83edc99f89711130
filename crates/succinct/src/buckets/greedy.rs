//! The greedy migration of LSM-trie's published system, to compare [`Migration`](super::migration::Migration)
//! with.
//!
//! The fullest bucket is paired with the emptiest that has given nothing itself, and hands over the items
//! above a mark until it fits; what was given may be given on. Items are ordered by a hash rotated by their
//! present bucket, so that those that move twice are shuffled afresh. Only counts come out: no table of ours
//! is made this way.
//!
//! Source: LSM-trie (Wu et al., ATC'15); pairing, rotation and the limit of rounds as its authors' program
//! has them.

use super::migration::{Item, Page};

/// Rounds after which the greedy form gives up.
const MOST_ROUNDS: usize = 100;

/// What the greedy form comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Whether every bucket fits its page in the end.
    pub fits: bool,
    /// Items away from home.
    pub moved: u64,
    /// Steps from home to the farthest item.
    pub most_steps: u32,
}

/// Migrates `items` among `buckets` pages.
#[expect(clippy::indexing_slicing, reason = "an item without a bucket would be lost")]
pub fn migrate(items: &[Item], buckets: u32, page: Page) -> Outcome {
    let mut homes: Vec<Vec<(Item, u32)>> = vec![Vec::new(); buckets as usize];
    for item in items {
        homes[item.bucket as usize].push((*item, 0));
    }
    let mut gave = vec![false; homes.len()];
    let load = |bucket: &[(Item, u32)]| bucket.iter().map(|(item, _)| item.bytes).sum::<u32>();
    let mut fits = false;
    for _ in 0..MOST_ROUNDS {
        let mut by_load: Vec<(u32, usize)> =
            homes.iter().enumerate().map(|(at, bucket)| (load(bucket), at)).collect();
        by_load.sort_unstable();
        fits = by_load.last().is_none_or(|(load, _)| *load <= page.capacity);
        if fits {
            break;
        }
        let mut takers = by_load.iter().copied().filter(|(_, at)| gave.get(*at) == Some(&false));
        let mut moves = Vec::new();
        for &(load, from) in by_load.iter().rev().take_while(|(load, _)| *load > page.capacity) {
            // A bucket has one mark and one target, so it can give once.
            if gave.get(from) == Some(&true) {
                continue;
            }
            let Some((_, to)) = takers.next().filter(|(_, to)| *to != from) else { break };
            moves.push((from, to, load));
        }
        if moves.is_empty() {
            break;
        }
        for (from, to, mut load) in moves {
            let mut bucket = std::mem::take(&mut homes[from]);
            bucket.sort_unstable_by_key(|(item, _)| item.order.rotate_left(from as u32 % 32));
            while load > page.capacity
                && let Some((item, steps)) = bucket.pop()
            {
                load -= item.bytes;
                homes[to].push((item, steps + 1));
            }
            homes[from] = bucket;
            gave[from] = true;
        }
    }
    let steps = || homes.iter().flatten().map(|(_, steps)| *steps);
    Outcome {
        fits,
        moved: steps().filter(|steps| *steps > 0).count() as u64,
        most_steps: steps().max().unwrap_or(0),
    }
}
