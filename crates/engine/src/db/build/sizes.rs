//! How much of a bulk build's items belongs to each part of the trie: what decides how deep its leaves lie.
//!
//! Items that were all seen are counted in a histogram over the digests' top bits, with the largest group of
//! each bucket: exactly where they are counted in the store's order, else as a majority vote tells. Items
//! that come in the store's order are placed while they come: what is still to come is taken to be as dense
//! as what has come, which digests are, but for a group larger than others.
//!
//! Where items of one key came in different batches they were counted several times. A sample of the keys
//! says how many of them there are (adaptive sampling: Flajolet 1990), and the counts are scaled by that.

use super::gather::Gathered;
use crate::compaction::{Amount, Sizes};
use crate::entry::{Cursor, EntryRef};
use siltstone_design::digest::mix64;
use siltstone_design::{EncodedKey, TriePath};
use std::collections::HashMap;

/// Bytes of a table that an entry takes beside key and value, about.
const ENTRY_OVERHEAD_BYTES: u64 = 4;
/// How full pages are.
const PAGE_FILL: (u64, u64) = (24, 25);
/// Keys in the sample at most.
const SAMPLE_KEYS: usize = 4096;
/// Buckets of a histogram.
const MOST_BITS: u32 = 16;
const LEAST_BITS: u32 = 8;
/// Groups that have to have come before those to come are taken to be like them.
const GROUPS_TO_KNOW: u64 = 256;

/// About what entries of so many bytes of keys and values take of a table.
#[inline]
fn table_bytes(user_bytes: u64) -> u64 {
    (user_bytes + ENTRY_OVERHEAD_BYTES) * PAGE_FILL.1 / PAGE_FILL.0
}

/// A part of the digests, and what belongs to it.
#[derive(Clone, Copy, Default)]
struct Bucket {
    bytes: u64,
    entries: u64,
    /// Digest half and bytes of its largest group.
    group: (u64, u64),
}

impl Bucket {
    /// Adds to a group, as far as it has more than all others together (Boyer and Moore's majority vote).
    fn vote(&mut self, hi: u64, bytes: u64) {
        if self.group.0 == hi {
            self.group.1 += bytes;
        } else if bytes > self.group.1 {
            self.group = (hi, bytes - self.group.1);
        } else {
            self.group.1 -= bytes;
        }
    }

    fn add_group(&mut self, hi: u64, bytes: u64) {
        if self.group.0 == hi {
            self.group.1 += bytes;
        } else if bytes > self.group.1 {
            self.group = (hi, bytes);
        }
    }
}

/// A group whose items are being added.
#[derive(Default)]
struct OpenGroup {
    hi: u64,
    bytes: u64,
    entries: u64,
}

/// Counts items by their digests.
pub(super) struct Histogram {
    bits: u32,
    buckets: Vec<Bucket>,
    distinct: Distinct,
    group: OpenGroup,
    /// The first and the last digest half.
    range: Option<(u64, u64)>,
    groups: u64,
    all: Bucket,
}

impl Histogram {
    /// A histogram in about so many bytes of memory.
    pub fn new(bytes: u64) -> Self {
        let buckets = (bytes / size_of::<Bucket>() as u64).max(1);
        let bits = buckets.ilog2().clamp(LEAST_BITS, MOST_BITS);
        Self {
            bits,
            buckets: vec![Bucket::default(); 1 << bits],
            distinct: Distinct::default(),
            group: OpenGroup::default(),
            range: None,
            groups: 0,
            all: Bucket::default(),
        }
    }

    /// Adds the next of items in the store's order.
    #[inline]
    pub fn add(&mut self, entry: &EntryRef<'_>) {
        let hi = entry.key.digest.hi;
        if self.group.hi != hi {
            self.end_group();
            self.group.hi = hi;
        }
        self.group.bytes += table_bytes(entry.user_bytes());
        self.group.entries += 1;
        self.distinct.add(entry.key.fingerprint);
    }

    /// Adds items that are sorted.
    pub fn add_all(&mut self, items: &Gathered) {
        let mut walk = items.walk();
        while let Some(entry) = walk.peek() {
            self.add(&entry);
            // A walk in memory meets no errors.
            if !matches!(walk.advance(), Ok(Some(_))) {
                break;
            }
        }
        self.end_batch();
    }

    /// Notes the key of an item that is counted by [`Self::add_unsorted`].
    #[inline]
    pub fn note(&mut self, key: &EncodedKey<'_>) {
        self.distinct.add(key.fingerprint);
    }

    /// Counts items in no order, of which `items` has the upper digest halves and bytes, and empties it. What
    /// the largest groups have is then known about, and only of those that are most of what is near them.
    pub fn add_unsorted(&mut self, items: &mut Vec<(u64, u32)>) {
        for (hi, bytes) in items.drain(..) {
            let bytes = table_bytes(u64::from(bytes));
            if let Some(bucket) = self.buckets.get_mut((hi >> (64 - self.bits)) as usize) {
                bucket.bytes += bytes;
                bucket.entries += 1;
                bucket.vote(hi, bytes);
            }
        }
    }

    fn end_group(&mut self) {
        let OpenGroup { hi, bytes, entries } = std::mem::take(&mut self.group);
        if entries == 0 {
            return;
        }
        let bucket = self.buckets.get_mut((hi >> (64 - self.bits)) as usize);
        for bucket in bucket.into_iter().chain([&mut self.all]) {
            bucket.bytes += bytes;
            bucket.entries += entries;
            bucket.add_group(hi, bytes);
        }
        self.groups += 1;
        let (first, last) = self.range.unwrap_or((hi, hi));
        self.range = Some((first.min(hi), last.max(hi)));
    }

    /// Ends a batch of items in the store's order.
    pub fn end_batch(&mut self) {
        self.end_group();
    }

    /// Returns the sizes of items that are all there.
    pub fn seen(&self) -> Seen<'_> {
        Seen { histogram: self, scale: self.distinct.share() }
    }

    /// Returns the sizes of items of which more will come, in the store's order; `None` where too few have
    /// come to say.
    pub fn expected(&self) -> Option<Expected> {
        let (first, last) = self.range?;
        let (bytes, entries) = (self.all.bytes - self.all.group.1, self.all.entries);
        let width = (last - first) as f64 / 2f64.powi(64);
        if self.groups < GROUPS_TO_KNOW || width <= 0.0 {
            return None;
        }
        let (bytes, entries) = (bytes as f64 / width, entries as f64 / width);
        Some(Expected { bytes, entries, group: self.all.group })
    }
}

/// What belongs to the trie, of items that are all counted.
pub(super) struct Seen<'a> {
    histogram: &'a Histogram,
    /// The share of what was counted that is left when each key is there once.
    scale: f64,
}

impl Seen<'_> {
    fn bucket(&self, path: TriePath) -> Bucket {
        let Histogram { bits, buckets, .. } = self.histogram;
        let shift = 64 - bits;
        let (first, last) = ((path.first() >> shift) as usize, (path.last() >> shift) as usize);
        let within = buckets.get(first..=last).unwrap_or(&[]);
        let mut sum = Bucket::default();
        for bucket in within {
            sum.bytes += bucket.bytes;
            sum.entries += bucket.entries;
            sum.add_group(bucket.group.0, bucket.group.1);
        }
        let finer = u32::from(path.depth()).saturating_sub(*bits);
        if finer == 0 {
            return sum;
        }
        // Below the buckets all groups but the largest are taken to be spread evenly.
        let is_here = path.contains(sum.group.0);
        let group = if is_here { sum.group.1 } else { 0 };
        let others = (sum.bytes - sum.group.1.min(sum.bytes)) >> finer.min(63);
        let entries = (sum.entries >> finer.min(63)).max(u64::from(is_here));
        Bucket { bytes: others + group, entries, group: (sum.group.0, group) }
    }

    fn scaled(&self, count: u64) -> u64 {
        (count as f64 * self.scale).ceil() as u64
    }
}

impl Sizes for Seen<'_> {
    fn amount(&self, path: TriePath) -> Amount {
        let bucket = self.bucket(path);
        Amount { entries: self.scaled(bucket.entries), bytes: self.scaled(bucket.bytes) }
    }

    fn largest_group_bytes(&self, path: TriePath) -> u64 {
        self.scaled(self.bucket(path).group.1)
    }
}

/// What belongs to the trie, of items that come in the store's order, as far as those tell that have come.
pub(super) struct Expected {
    /// Of all digests there are, but for the largest group.
    bytes: f64,
    entries: f64,
    group: (u64, u64),
}

impl Sizes for Expected {
    fn amount(&self, path: TriePath) -> Amount {
        let share = 0.5f64.powi(i32::from(path.depth()));
        let group = self.largest_group_bytes(path);
        let entries = ((self.entries * share) as u64).max(1);
        Amount { entries, bytes: (self.bytes * share) as u64 + group }
    }

    fn largest_group_bytes(&self, path: TriePath) -> u64 {
        if path.contains(self.group.0) { self.group.1 } else { 0 }
    }
}

/// Estimates how many of the keys that were added are different.
#[derive(Default)]
struct Distinct {
    /// Only keys whose hash ends with so many zeros are in the sample.
    zeros: u32,
    /// How often each was added.
    sample: HashMap<u64, u32>,
}

impl Distinct {
    #[inline]
    fn add(&mut self, fingerprint: u64) {
        let hash = mix64(fingerprint ^ 0x1e5a_3b5a_3b1e_5a3b);
        if hash.trailing_zeros() >= self.zeros {
            self.take(hash);
        }
    }

    #[cold]
    fn take(&mut self, hash: u64) {
        *self.sample.entry(hash).or_default() += 1;
        while self.sample.len() > SAMPLE_KEYS {
            self.zeros += 1;
            self.sample.retain(|hash, _| hash.trailing_zeros() >= self.zeros);
        }
    }

    /// Returns which share of the additions was that of a key for the first time.
    fn share(&self) -> f64 {
        let added: u64 = self.sample.values().map(|count| u64::from(*count)).sum();
        if added == 0 { 1.0 } else { self.sample.len() as f64 / added as f64 }
    }
}
