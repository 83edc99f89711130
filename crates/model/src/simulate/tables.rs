//! Tables as sorted slices of 32-bit keys: sorting what a memtable holds, and merging tables so that each key
//! remains once. An item-level simulator spends nearly all its time here.
//!
//! A merge of a small table into a larger one copies blocks of [`LANES`] keys and counts, without a branch
//! per key, how many of them come before the next key of the small one; tables of like size are merged key by
//! key, without a branch on which is smaller. Both leave the same keys behind.
//!
//! Invariant: every slice given to a merge is strictly ascending, and so is every slice made by one.

/// Keys copied and compared at once.
const LANES: usize = 16;

/// From how many keys of the larger table per key of the smaller one on copying blocks pays.
const BLOCK_RATIO: usize = 8;

/// A buffer that merges append to; it only ever grows, so that merging allocates nothing once it is warm.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    keys: Vec<u32>,
    len: usize,
}

impl Merged {
    /// Forgets all keys.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// The keys so far.
    pub(crate) fn keys(&self) -> &[u32] {
        self.keys.get(..self.len).unwrap_or_default()
    }

    /// Room for `more` keys after those so far.
    fn room(&mut self, more: usize) -> &mut [u32] {
        let needed = self.len + more;
        if self.keys.len() < needed {
            self.keys.resize(needed.next_power_of_two(), 0);
        }
        self.keys.get_mut(self.len..needed).unwrap_or_default()
    }

    /// Appends `keys`, which all come after those so far.
    pub(crate) fn append(&mut self, keys: &[u32]) {
        self.room(keys.len()).copy_from_slice(keys);
        self.len += keys.len();
    }

    /// Appends the union of `a` and `b`, whose keys all come after those so far.
    pub(crate) fn append_union(&mut self, a: &[u32], b: &[u32]) {
        let (few, many) = if a.len() <= b.len() { (a, b) } else { (b, a) };
        let out = self.room(few.len() + many.len());
        self.len += if many.len() >= few.len().saturating_mul(BLOCK_RATIO) {
            union_by_blocks(few, many, out)
        } else {
            union_by_keys(few, many, out)
        };
    }
}

/// Writes the union to `out`, which has room for both, and returns its length.
///
/// Each key waits for the comparison before it, so both halves of the key range are merged in step: two
/// chains of comparisons take hardly longer than one.
#[expect(
    clippy::indexing_slicing,
    reason = "the hot loop; `out` is as long as both inputs, and no cursor passes its end"
)]
fn union_by_keys(a: &[u32], b: &[u32], out: &mut [u32]) -> usize {
    let middle = a.len() / 2;
    let Some(&pivot) = a.get(middle) else {
        out[..b.len()].copy_from_slice(b);
        return b.len();
    };
    let (a, upper_a) = a.split_at(middle);
    let (b, upper_b) = b.split_at(b.partition_point(|key| *key < pivot));
    let room = a.len() + b.len();
    let (lower_out, upper_out) = out.split_at_mut(room);
    let (mut i, mut j, mut k) = (0, 0, 0);
    let (mut upper_i, mut upper_j, mut upper_k) = (0, 0, 0);
    while i < a.len() && j < b.len() && upper_i < upper_a.len() && upper_j < upper_b.len() {
        let (x, y) = (a[i], b[j]);
        let (upper_x, upper_y) = (upper_a[upper_i], upper_b[upper_j]);
        lower_out[k] = x.min(y);
        upper_out[upper_k] = upper_x.min(upper_y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
        k += 1;
        upper_i += usize::from(upper_x <= upper_y);
        upper_j += usize::from(upper_y <= upper_x);
        upper_k += 1;
    }
    k += union_of_rest(&a[i..], &b[j..], &mut lower_out[k..]);
    upper_k += union_of_rest(&upper_a[upper_i..], &upper_b[upper_j..], &mut upper_out[upper_k..]);
    // Close the gap that keys in both tables left.
    out.copy_within(room..room + upper_k, k);
    k + upper_k
}

/// The same by one chain of comparisons.
#[expect(clippy::indexing_slicing, reason = "as above")]
fn union_of_rest(a: &[u32], b: &[u32], out: &mut [u32]) -> usize {
    let (mut i, mut j, mut k) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        let (x, y) = (a[i], b[j]);
        out[k] = x.min(y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
        k += 1;
    }
    for rest in [&a[i..], &b[j..]] {
        out[k..k + rest.len()].copy_from_slice(rest);
        k += rest.len();
    }
    k
}

/// The same, for few keys among many.
#[expect(
    clippy::indexing_slicing,
    reason = "the hot loop; `out` is as long as both inputs, and no cursor passes its end"
)]
fn union_by_blocks(few: &[u32], many: &[u32], out: &mut [u32]) -> usize {
    let (mut i, mut j, mut k) = (0, 0, 0);
    'keys: while let Some(&key) = few.get(i) {
        // A block that is not followed by another is left to the loop over single keys.
        while let Some(block) = many.get(j..).and_then(<[u32]>::first_chunk::<LANES>) {
            out[k..k + LANES].copy_from_slice(block);
            let below = block.iter().map(|&other| u32::from(other < key)).sum::<u32>() as usize;
            j += below;
            k += below;
            if below < LANES {
                out[k] = key;
                k += 1;
                i += 1;
                j += usize::from(block[below] == key);
                continue 'keys;
            }
        }
        break;
    }
    k + union_of_rest(&few[i..], &many[j..], &mut out[k..])
}

/// Sorts `keys`, all below 2^`bits`, and drops repetitions. `scratch` is overwritten.
///
/// Radix sort by 11 bits a pass, least significant first: a memtable of some thousand keys costs half of what
/// sorting by comparison does.
#[expect(
    clippy::indexing_slicing,
    reason = "digits are below the length of the count arrays, places below that of the keys"
)]
pub(crate) fn sort_distinct(keys: &mut Vec<u32>, scratch: &mut Vec<u32>, bits: u32) {
    const DIGIT: u32 = 11;
    let passes = bits.div_ceil(DIGIT).clamp(1, 3) as usize;
    if keys.len() < 256 {
        keys.sort_unstable();
        keys.dedup();
        return;
    }
    let digit = |key: u32, pass: usize| ((key >> (pass as u32 * DIGIT)) & ((1 << DIGIT) - 1)) as usize;
    let mut places = [[0u32; 1 << DIGIT]; 3];
    for &key in keys.iter() {
        for (pass, counts) in places.iter_mut().enumerate().take(passes) {
            counts[digit(key, pass)] += 1;
        }
    }
    scratch.resize(keys.len(), 0);
    for (pass, counts) in places.iter_mut().enumerate().take(passes) {
        let mut before = 0;
        for count in counts.iter_mut() {
            before += std::mem::replace(count, before);
        }
        for &key in keys.iter() {
            let place = &mut counts[digit(key, pass)];
            scratch[*place as usize] = key;
            *place += 1;
        }
        std::mem::swap(keys, scratch);
    }
    keys.dedup();
}

/// The union of tables.
pub(crate) fn union(tables: &[Vec<u32>]) -> Vec<u32> {
    let (mut union, mut next) = (Merged::default(), Merged::default());
    for table in tables {
        next.clear();
        next.append_union(union.keys(), table);
        std::mem::swap(&mut union, &mut next);
    }
    union.keys().to_vec()
}

/// Removes from `keys` those that `newer` holds; both ascend.
pub(crate) fn subtract(keys: &mut Vec<u32>, newer: &[u32]) {
    let mut rest = newer;
    keys.retain(|&key| {
        let skipped = rest.iter().take_while(|&&other| other < key).count();
        rest = rest.get(skipped..).unwrap_or_default();
        rest.first() != Some(&key)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn keys(at_most: u32, len: usize) -> impl Strategy<Value = Vec<u32>> {
        proptest::collection::btree_set(0..at_most, 0..len).prop_map(|set| set.into_iter().collect())
    }

    fn sets() -> impl Strategy<Value = (Vec<u32>, Vec<u32>)> {
        prop_oneof![
            (keys(400, 200), keys(400, 200)),
            (keys(4000, 8), keys(4000, 900)),
            (keys(900, 60), keys(900, 600)),
            (keys(u32::MAX, 40), keys(u32::MAX, 400)),
        ]
    }

    proptest! {
        #[test]
        fn a_union_holds_each_key_of_both_once((a, b) in sets()) {
            let expected: Vec<u32> = a.iter().chain(&b).copied().collect::<BTreeSet<_>>().into_iter().collect();
            for union in [union_by_keys, union_by_blocks] {
                let mut out = vec![0; a.len() + b.len()];
                let len = union(&a, &b, &mut out);
                prop_assert_eq!(&out[..len], &expected[..]);
            }
            let mut merged = Merged::default();
            merged.append_union(&a, &b);
            prop_assert_eq!(merged.keys(), &expected[..]);
            let highest = expected.last().copied().unwrap_or(0);
            if highest < u32::MAX {
                merged.append(&[highest + 1]);
                prop_assert_eq!(merged.keys().len(), expected.len() + 1);
            }
        }

        #[test]
        fn sorting_leaves_each_key_once(mut unsorted in proptest::collection::vec(0u32..1 << 23, 0..3000)) {
            let expected: Vec<u32> = unsorted.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
            sort_distinct(&mut unsorted, &mut Vec::new(), 23);
            prop_assert_eq!(unsorted, expected);
        }

        #[test]
        fn subtracting_leaves_the_difference((a, b) in sets()) {
            let newer: BTreeSet<u32> = b.iter().copied().collect();
            let expected: Vec<u32> = a.iter().copied().filter(|key| !newer.contains(key)).collect();
            let mut rest = a;
            subtract(&mut rest, &b);
            prop_assert_eq!(rest, expected);
        }
    }
}
