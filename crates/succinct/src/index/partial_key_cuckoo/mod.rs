//! Partial-key cuckoo hashing: SILT's index of a log, and its filter of a hash store.
//!
//! The idea: of a key only a tag of 15 bits is kept, in one of two buckets of four lanes. From one bucket and
//! the tag the other bucket follows, so that entries make room for others without their keys, which lie on
//! the device.
//!
//! Source: Lim, Fan, Andersen and Kaminsky, "SILT" (SOSP 2011), §3.1 and §3.2. Where we differ, and why:
//!
//! - Room is made by the shortest chain of moves, found before anything moves: a failed insertion changes
//!   nothing (the published code leaves an orphan), and tables fill to 0.97 instead of 0.93 before the first
//!   one fails.
//! - The paper's form, in which the tag *is* the other bucket ([`Form::OtherBucket`]), has at most 2^15
//!   buckets, and its tags tell less apart the fewer there are. In [`Form::Mixed`] the tag is of the key
//!   alone, and the other bucket is a hash of the tag minus the bucket: any number of buckets will do, and
//!   false positives stay at 8/2^15.
//!
//! [`PartialKeyCuckoo`] is the index: a number of 32 bits beside each tag. [`HashFilter`] (`filter.rs`) has
//! the same tags in the same lanes without the numbers: the lane is then the place. `tags.rs` packs tags and
//! finds buckets.
//!
//! Invariants: an entry stands in one of its two buckets; its lane in `numbers` holds its number.

mod filter;
mod tags;

pub use filter::HashFilter;
pub use tags::{Form, MOST_BUCKETS_BY_TAG};

use crate::filter::cuckoo::search::{Chain, Move};
use tags::Tags;

/// Lanes of a bucket.
pub const LANES: usize = 4;
/// Keys whose cache lines are fetched together.
const BATCH: usize = 32;
/// Buckets that a search for an empty lane looks into, at first and before it gives up.
const SHORT_SEARCH: usize = 64;
const LONG_SEARCH: usize = 512;

/// No room was found for an entry: the table is as full as it gets, and as it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the partial-key cuckoo table is full")
    }
}

impl std::error::Error for Full {}

/// Up to eight numbers that may be a key's, in no order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Candidates {
    numbers: [u32; 2 * LANES],
    count: usize,
}

impl Candidates {
    #[expect(
        clippy::indexing_slicing,
        reason = "a key has two buckets at most, and there is room for all their lanes"
    )]
    fn push(&mut self, number: u32) {
        self.numbers[self.count] = number;
        self.count += 1;
    }
}

impl std::ops::Deref for Candidates {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        self.numbers.get(..self.count).unwrap_or(&[])
    }
}

/// A multimap from hashed keys to numbers that forgets all but 15 bits of each key.
///
/// ```
/// use siltstone_succinct::index::partial_key_cuckoo::{Form, PartialKeyCuckoo};
///
/// let mut index = PartialKeyCuckoo::new(Form::Mixed, 8);
/// index.insert(0x5bd1_e995_9d6b_7f03, 1000).expect("room for 32 entries");
/// index.insert(0x1b87_3593_cc9e_2d51, 2000).expect("room for 32 entries");
/// assert!(index.candidates(0x1b87_3593_cc9e_2d51).contains(&2000));
/// assert!(index.replace(0x1b87_3593_cc9e_2d51, 2000, 3000));
/// assert!(index.candidates(0x1b87_3593_cc9e_2d51).contains(&3000));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartialKeyCuckoo {
    tags: Tags,
    numbers: Vec<[u32; LANES]>,
}

impl PartialKeyCuckoo {
    /// An empty table.
    ///
    /// # Panics
    ///
    /// If `buckets` is 0, or more than [`MOST_BUCKETS_BY_TAG`] in the form that has the bucket for a tag.
    pub fn new(form: Form, buckets: u32) -> Self {
        PartialKeyCuckoo { tags: Tags::new(form, buckets), numbers: vec![[0; LANES]; buckets as usize] }
    }

    /// Adds an entry for the key with this hash, of which all 64 bits should be well mixed. A key may have
    /// several.
    ///
    /// # Errors
    ///
    /// [`Full`] if no room was found; nothing has changed then.
    #[inline]
    pub fn insert(&mut self, hash: u64, number: u32) -> Result<(), Full> {
        let seats = self.tags.seats(hash);
        for seat in seats {
            if let Some(lane) = self.tags.room(seat.bucket) {
                self.put(seat.bucket, lane, seat.tag, number);
                return Ok(());
            }
        }
        // Nearly all searches end soon, and a large array takes longer to clear than those take.
        self.insert_by_moving::<SHORT_SEARCH>(hash, number)
            .or_else(|Full| self.insert_by_moving::<LONG_SEARCH>(hash, number))
    }

    #[inline(never)]
    fn insert_by_moving<const N: usize>(&mut self, hash: u64, number: u32) -> Result<(), Full> {
        let seats = self.tags.seats(hash);
        let tags = &self.tags;
        let others = |bucket: u32| [0, 1, 2, 3].map(|lane| tags.other_seat(bucket, lane).bucket);
        let chain =
            Chain::<N>::find(seats.map(|seat| seat.bucket), others, |bucket| tags.room(bucket).is_some());
        let mut hole = None;
        for Move { from, lane, to } in chain.ok_or(Full)? {
            let seat = self.tags.other_seat(from, lane);
            let number = self.number(from, lane);
            // The lane that the move before left; the first one goes where there is room.
            let into = hole.map_or_else(|| self.tags.room(to), |(_, lane)| Some(lane));
            self.put(to, into.unwrap_or(0), seat.tag, number);
            hole = Some((from, lane));
        }
        let (bucket, lane) = hole.ok_or(Full)?;
        let tag = seats.iter().find(|seat| seat.bucket == bucket).map_or(0, |seat| seat.tag);
        self.put(bucket, lane, tag, number);
        Ok(())
    }

    fn number(&self, bucket: u32, lane: u8) -> u32 {
        self.numbers.get(bucket as usize).and_then(|lanes| lanes.get(usize::from(lane))).copied().unwrap_or(0)
    }

    #[inline]
    fn put(&mut self, bucket: u32, lane: u8, tag: u16, number: u32) {
        self.tags.set(bucket, lane, tag);
        let place = self.numbers.get_mut(bucket as usize).and_then(|lanes| lanes.get_mut(usize::from(lane)));
        if let Some(place) = place {
            *place = number;
        }
    }

    /// The numbers of all entries whose tags agree with the key's: those that it has, and seldom others.
    #[inline]
    pub fn candidates(&self, hash: u64) -> Candidates {
        let mut candidates = Candidates::default();
        self.tags.visit(hash, |bucket, lane| candidates.push(self.number(bucket, lane)));
        candidates
    }

    /// Puts [`PartialKeyCuckoo::candidates`] of each key into the same place of `found`. The cache lines of
    /// many keys are fetched side by side.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    pub fn candidates_many(&self, hashes: &[u64], found: &mut [Candidates]) {
        assert_eq!(hashes.len(), found.len(), "candidates_many: one answer per hash");
        for (hashes, found) in hashes.chunks(BATCH).zip(found.chunks_mut(BATCH)) {
            self.tags.prefetch(hashes);
            for (hash, found) in hashes.iter().zip(found) {
                *found = self.candidates(*hash);
            }
        }
    }

    /// Changes the number of an entry of this key from `old` to `new`. False if it has none with `old`.
    pub fn replace(&mut self, hash: u64, old: u32, new: u32) -> bool {
        let Some((bucket, lane)) = self.find(hash, old) else { return false };
        let place = self.numbers.get_mut(bucket as usize).and_then(|lanes| lanes.get_mut(usize::from(lane)));
        place.map(|place| *place = new).is_some()
    }

    /// Takes out an entry of this key with `number`. False if it has none.
    pub fn remove(&mut self, hash: u64, number: u32) -> bool {
        let Some((bucket, lane)) = self.find(hash, number) else { return false };
        self.tags.clear(bucket, lane);
        // Equal tables are to have equal bytes.
        let place = self.numbers.get_mut(bucket as usize).and_then(|lanes| lanes.get_mut(usize::from(lane)));
        place.map(|place| *place = 0).is_some()
    }

    /// Where an entry whose tag agrees with the key's stands with `number`.
    fn find(&self, hash: u64, number: u32) -> Option<(u32, u8)> {
        let mut found = None;
        self.tags.visit(hash, |bucket, lane| {
            if self.number(bucket, lane) == number {
                found = Some((bucket, lane));
            }
        });
        found
    }

    /// The number in every lane, bucket by bucket; `None` in empty ones.
    pub fn lanes(&self) -> impl Iterator<Item = Option<u32>> {
        let lanes =
            (0..self.tags.buckets()).flat_map(|bucket| (0..LANES as u8).map(move |lane| (bucket, lane)));
        lanes.map(|(bucket, lane)| self.tags.is_taken(bucket, lane).then(|| self.number(bucket, lane)))
    }

    /// The two buckets in which an entry of a key may stand, in a table of this form with so many buckets.
    pub fn buckets_of(form: Form, buckets: u32, hash: u64) -> [u32; 2] {
        tags::seats(form, buckets, hash).map(|seat| seat.bucket)
    }

    /// The filter with the same tags in the same lanes.
    pub fn filter(&self) -> HashFilter {
        HashFilter::of(self.tags.clone())
    }

    /// Entries held.
    pub fn len(&self) -> usize {
        self.tags.entries() as usize
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.tags.entries() == 0
    }

    /// Entries and empty lanes.
    pub fn capacity(&self) -> usize {
        self.numbers.len() * LANES
    }

    /// Bytes of memory held, this value's own included: six per lane.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.tags.memory_bytes() + size_of_val(&*self.numbers)
    }
}
