//! Moves what overflows from full buckets to those with room, so that pages fill up and a reader takes one
//! step at most.
//!
//! The idea: a bucket that holds more than its page gives the items with its highest orders (a hash of the
//! key) to another. Its page says from which order on they are where: LSM-trie's HashMark and target.
//!
//! Source: LSM-trie (Wu et al., ATC'15), "Selecting items for migration". Where we differ, and why:
//!
//! - The paper pairs the fullest bucket with the emptiest, again and again; what was given may be given on,
//!   and a reader follows a chain ([`greedy`](super::greedy) has that form). Here what was taken is never
//!   given on, so *one* step always leads to an item. A bucket may still give of its own and take of others,
//!   whatever room is left.
//! - A bucket may give several *parcels*, each with a mark and a target of its own. So nothing has to fit one
//!   hole.
//! - Parcels are placed largest first, each into the hole that fits it best, and no parcel is much larger
//!   than it has to be. So hardly more moves than the overflow itself, which any plan has to move.
//! - Where holes are too small for the end of a bucket, single items are chosen that fit; they lie between
//!   two marks.
//! - A bucket that none of this relieves, since others took the holes that its large items need, comes first
//!   in another attempt.
//!
//! Invariants of a plan: every bucket's own items below its first mark, its parcels' notes and what it takes
//! fit the capacity; marks ascend.

use std::cmp::Reverse;
use std::collections::BTreeSet;

/// An item of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// Its home.
    pub bucket: u32,
    /// Its place among those of its bucket: the highest move first, equal ones together.
    pub order: u32,
    /// What it takes of a page.
    pub bytes: u32,
}

/// Items that live away from home: those from `mark` on, up to the mark of the bucket's next parcel.
///
/// A parcel whose target is the bucket itself has no items; it ends the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parcel {
    /// Lowest order in it.
    pub mark: u32,
    /// The bucket where they are.
    pub target: u32,
    /// How many they are.
    pub items: u32,
}

/// What moves where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Migration {
    /// Ends of the buckets' stretches in `parcels`.
    ends: Vec<u32>,
    parcels: Vec<Parcel>,
}

/// Parcels of one bucket at most.
pub const MOST_PARCELS: usize = 12;
/// How many ends of a bucket are tried that relieve it.
const SPARE_ATOMS: usize = 2;
/// Attempts at a plan: each puts the bucket first that the one before could not relieve.
const ATTEMPTS: usize = 16;

/// What a page holds, and what a parcel's note in it costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Bytes for items and notes.
    pub capacity: u32,
    /// Bytes of a note.
    pub note_bytes: u32,
}

/// A bucket that holds too much.
struct Giver {
    bucket: u32,
    excess: u32,
    /// Bytes of the smallest parcel that relieves it.
    parcel: u32,
    atoms: Vec<Atom>,
}

impl Migration {
    /// A plan for `items`, which ascend by bucket, in `buckets` pages; `None` where none is found.
    ///
    /// ```
    /// use siltstone_succinct::buckets::migration::{Item, Migration, Page, Parcel};
    ///
    /// let items: Vec<Item> = (0..5).map(|order| Item { bucket: 0, order, bytes: 30 }).collect();
    /// let plan = Migration::plan(&items, 2, Page { capacity: 100, note_bytes: 4 }).unwrap();
    /// assert_eq!(plan.parcels(0), [Parcel { mark: 2, target: 1, items: 3 }]);
    /// assert_eq!(plan.target(0, 4), Some(1));
    /// assert_eq!(plan.target(0, 1), None);
    /// ```
    pub fn plan(items: &[Item], buckets: u32, page: Page) -> Option<Self> {
        let mut first = BTreeSet::new();
        for _ in 0..ATTEMPTS {
            match Self::attempt(items, buckets, page, &first) {
                Ok(plan) => return Some(plan),
                // Its items are large, and the holes that were large enough went to others.
                Err(Some(bucket)) if first.insert(bucket) => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// A plan that relieves the buckets in `first` first; or else the bucket that it could not relieve, if it
    /// was one.
    fn attempt(items: &[Item], buckets: u32, page: Page, first: &BTreeSet<u32>) -> Result<Self, Option<u32>> {
        let mut loads = vec![0u32; buckets as usize];
        for item in items {
            let load = loads.get_mut(item.bucket as usize).ok_or(None)?;
            *load = load.checked_add(item.bytes).ok_or(None)?;
        }
        let mut holes = Holes::default();
        let mut givers = Vec::new();
        for (bucket, &load) in (0..).zip(&loads) {
            if load > page.capacity.saturating_mul(MOST_PARCELS as u32) {
                return Err(None);
            }
            if load > page.capacity {
                let atoms = atoms(items, bucket);
                let excess = load - page.capacity;
                let mut parcel = 0;
                for atom in atoms.iter().rev() {
                    if parcel < excess + page.note_bytes {
                        parcel += atom.bytes;
                    }
                }
                givers.push(Giver { bucket, excess, parcel, atoms });
            } else {
                holes.open(page.capacity - load, bucket);
            }
        }
        // What is hardest to place comes first, and leaves its own room to what is smaller.
        givers.sort_by_key(|giver| (!first.contains(&giver.bucket), Reverse(giver.parcel), giver.bucket));
        let mut by_bucket: Vec<Vec<Parcel>> = vec![Vec::new(); loads.len()];
        for Giver { bucket, excess, mut atoms, .. } in givers {
            holes.filled.clear();
            if give_end(&mut atoms, excess, page, &mut holes).is_none() {
                holes.undo();
                atoms.iter_mut().for_each(|atom| atom.target = None);
                give_singly(&mut atoms, excess, page, &mut holes).ok_or(Some(bucket))?;
            }
            let parcels = parcels(&atoms, bucket);
            let stays: u32 = atoms.iter().filter(|atom| atom.target.is_none()).map(|atom| atom.bytes).sum();
            let taken = stays + parcels.len() as u32 * page.note_bytes;
            holes.open(page.capacity.checked_sub(taken).ok_or(Some(bucket))?, bucket);
            *by_bucket.get_mut(bucket as usize).ok_or(None)? = parcels;
        }
        let mut plan = Self { ends: Vec::with_capacity(loads.len()), parcels: Vec::new() };
        for mut parcels in by_bucket {
            plan.parcels.append(&mut parcels);
            plan.ends.push(plan.parcels.len() as u32);
        }
        Ok(plan)
    }

    /// The parcels of `bucket`, by ascending marks.
    pub fn parcels(&self, bucket: u32) -> &[Parcel] {
        let bucket = bucket as usize;
        let from = bucket.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let to = self.ends.get(bucket).copied().unwrap_or(from);
        self.parcels.get(from as usize..to as usize).unwrap_or(&[])
    }

    /// Where an item of `bucket` with this order has gone; `None` where it is at home.
    pub fn target(&self, bucket: u32, order: u32) -> Option<u32> {
        let parcels = self.parcels(bucket);
        let past = parcels.partition_point(|parcel| parcel.mark <= order);
        parcels.get(past.checked_sub(1)?).map(|parcel| parcel.target).filter(|target| *target != bucket)
    }

    /// Items away from home.
    pub fn moved(&self) -> u64 {
        self.parcels.iter().map(|parcel| u64::from(parcel.items)).sum()
    }
}

/// The items of `bucket` by ascending order.
#[expect(clippy::indexing_slicing, reason = "both ends were found in the items")]
fn atoms(items: &[Item], bucket: u32) -> Vec<Atom> {
    let from = items.partition_point(|item| item.bucket < bucket);
    let to = items.partition_point(|item| item.bucket <= bucket);
    let mut group = items[from..to].to_vec();
    group.sort_unstable_by_key(|item| item.order);
    let mut atoms: Vec<Atom> = Vec::with_capacity(group.len());
    for Item { order, bytes, .. } in group {
        match atoms.last_mut() {
            Some(atom) if atom.order == order => {
                atom.bytes += bytes;
                atom.items += 1;
            }
            _ => atoms.push(Atom { order, bytes, items: 1, target: None }),
        }
    }
    atoms
}

/// The parcels that the atoms of `bucket` make, by ascending marks.
fn parcels(atoms: &[Atom], bucket: u32) -> Vec<Parcel> {
    let mut parcels: Vec<Parcel> = Vec::new();
    for atom in atoms {
        let target = atom.target.unwrap_or(bucket);
        let items = if atom.target.is_some() { atom.items } else { 0 };
        match parcels.last_mut() {
            Some(parcel) if parcel.target == target => parcel.items += items,
            None if target == bucket => {}
            _ => parcels.push(Parcel { mark: atom.order, target, items }),
        }
    }
    parcels
}

/// Items of one order, which stay together.
#[derive(Clone, Copy)]
struct Atom {
    order: u32,
    bytes: u32,
    items: u32,
    /// Where it goes.
    target: Option<u32>,
}

/// Takes off the end of `atoms`, which ascend by order, until they have `excess` bytes and the notes' fewer.
fn give_end(atoms: &mut [Atom], excess: u32, page: Page, holes: &mut Holes) -> Option<()> {
    let (mut end, mut excess) = (atoms.len(), excess);
    for _ in 0..MOST_PARCELS {
        excess += page.note_bytes;
        let left = atoms.get_mut(..end)?;
        // As little as relieves the bucket, or a little more where that leaves less of a hole; failing that,
        // as much as goes into the largest.
        let (mut from, mut bytes) = (left.len(), 0u32);
        let mut best: Option<(u32, usize, u32)> = None;
        let mut spare = SPARE_ATOMS;
        while from > 0 && spare > 0 {
            from -= 1;
            bytes = bytes.checked_add(left.get(from)?.bytes)?;
            if bytes >= excess {
                spare -= 1;
                let rest = holes.best(bytes).map(|(room, _)| room - bytes);
                if let Some(rest) = rest
                    && best.is_none_or(|(so_far, ..)| rest < so_far)
                {
                    best = Some((rest, from, bytes));
                }
            }
        }
        if best.is_none() {
            let largest = holes.largest()?;
            let (mut from, mut bytes) = (left.len(), 0u32);
            while let Some(atom) = from.checked_sub(1).and_then(|at| left.get(at))
                && bytes + atom.bytes <= largest
            {
                from -= 1;
                bytes += atom.bytes;
            }
            best = (from < left.len()).then_some((0, from, bytes));
        }
        let (_, from, bytes) = best?;
        let target = holes.fill(bytes)?;
        left.get_mut(from..)?.iter_mut().for_each(|atom| atom.target = Some(target));
        end = from;
        if bytes >= excess {
            return Some(());
        }
        excess -= bytes;
    }
    None
}

/// Takes single atoms, wherever they stand, until the others have `excess` bytes and the notes' fewer: where
/// holes are small, what fits them has to be chosen.
fn give_singly(atoms: &mut [Atom], excess: u32, page: Page, holes: &mut Holes) -> Option<()> {
    let mut excess = excess;
    // A parcel from the middle takes two notes: where it begins, and where it ends.
    for _ in 0..MOST_PARCELS / 2 {
        excess += 2 * page.note_bytes;
        let largest = holes.largest()?;
        let fitting = || atoms.iter().enumerate().filter(|(_, a)| a.target.is_none() && a.bytes <= largest);
        let enough = fitting().filter(|(_, a)| a.bytes >= excess).min_by_key(|(_, a)| a.bytes);
        let (at, atom) = enough.or_else(|| fitting().max_by_key(|(_, a)| a.bytes))?;
        let (bytes, target) = (atom.bytes, holes.fill(atom.bytes)?);
        atoms.get_mut(at)?.target = Some(target);
        if bytes >= excess {
            return Some(());
        }
        excess -= bytes;
    }
    None
}

/// The room that buckets have, by size.
#[derive(Default)]
struct Holes {
    by_room: BTreeSet<(u32, u32)>,
    /// What was filled since this was cleared: room, bucket, bytes.
    filled: Vec<(u32, u32, u32)>,
}

impl Holes {
    fn largest(&self) -> Option<u32> {
        self.by_room.last().map(|(room, _)| *room)
    }

    /// The smallest hole that `bytes` go into: its room and bucket.
    fn best(&self, bytes: u32) -> Option<(u32, u32)> {
        self.by_room.range((bytes, 0)..).next().copied()
    }

    /// Puts `bytes` where they fit best and returns the bucket.
    fn fill(&mut self, bytes: u32) -> Option<u32> {
        let (room, bucket) = self.best(bytes)?;
        self.by_room.remove(&(room, bucket));
        self.open(room - bytes, bucket);
        self.filled.push((room, bucket, bytes));
        Some(bucket)
    }

    fn undo(&mut self) {
        while let Some((room, bucket, bytes)) = self.filled.pop() {
            self.by_room.remove(&(room - bytes, bucket));
            self.by_room.insert((room, bucket));
        }
    }

    fn open(&mut self, room: u32, bucket: u32) {
        if room > 0 {
            self.by_room.insert((room, bucket));
        }
    }
}
