//! The hash filter: the tags of a partial-key cuckoo table without its numbers.
//!
//! What it filters lies in the order of its lanes, so that it is the index as well (SILT §3.2 and figure 4):
//! 16 bits per lane, 15 of them the tag, where the paper counts the 15.
//!
//! ```text
//!  0          1
//! +----------+--------+--------+-----+
//! | form: u8 | word 0 | word 1 | ... |    a bucket a word, as drawn in tags.rs, little-endian
//! +----------+--------+--------+-----+
//! form     0 other bucket, 1 mixed
//! ```
//!
//! Invariants checked: at least one bucket; empty lanes are zero; tags that name buckets name some that
//! exist.

use super::tags::{Form, Tags};
use super::{BATCH, Candidates, LANES};
use crate::code::words::{get_words, put_words};
use crate::error::DecodeError;

/// In which lanes of a hash store a key may be.
///
/// ```
/// use siltstone_succinct::index::partial_key_cuckoo::{Form, HashFilter, PartialKeyCuckoo};
///
/// let mut table = PartialKeyCuckoo::new(Form::Mixed, 8);
/// table.insert(0x5bd1_e995_9d6b_7f03, 7).expect("room");
/// let filter = table.filter();
/// let lane = table.lanes().position(|number| number == Some(7)).unwrap();
/// assert!(filter.candidates(0x5bd1_e995_9d6b_7f03).contains(&(lane as u32)));
///
/// let mut bytes = Vec::new();
/// filter.to_bytes(&mut bytes);
/// assert_eq!(HashFilter::from_bytes(&bytes)?, filter);
/// # Ok::<(), siltstone_succinct::error::DecodeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashFilter {
    tags: Tags,
}

impl HashFilter {
    pub(super) fn of(tags: Tags) -> Self {
        HashFilter { tags }
    }

    /// The lanes whose tags agree with the key's: bucket times four plus lane.
    #[inline]
    pub fn candidates(&self, hash: u64) -> Candidates {
        let mut candidates = Candidates::default();
        self.tags.visit(hash, |bucket, lane| candidates.push(bucket * LANES as u32 + u32::from(lane)));
        candidates
    }

    /// False if no entry of the key was inserted.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.tags.may_contain(hash)
    }

    /// Answers [`HashFilter::may_contain`] for each of `hashes` into the same place of `found`. The cache
    /// lines of many keys are fetched side by side.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    pub fn may_contain_many(&self, hashes: &[u64], found: &mut [bool]) {
        assert_eq!(hashes.len(), found.len(), "may_contain_many: one answer per hash");
        for (hashes, found) in hashes.chunks(BATCH).zip(found.chunks_mut(BATCH)) {
            self.tags.prefetch(hashes);
            for (hash, found) in hashes.iter().zip(found) {
                *found = self.tags.may_contain(*hash);
            }
        }
    }

    /// Entries held.
    pub fn len(&self) -> usize {
        self.tags.entries() as usize
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.tags.entries() == 0
    }

    /// Buckets of four lanes each.
    pub fn buckets(&self) -> u32 {
        self.tags.buckets()
    }

    /// Bytes of memory held, this value's own included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.tags.memory_bytes()
    }

    /// Appends the encoding drawn at the top of this file.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        out.push(match self.tags.form() {
            Form::OtherBucket => 0,
            Form::Mixed => 1,
        });
        put_words(out, self.tags.words());
    }

    /// Decodes what [`HashFilter::to_bytes`] wrote; `bytes` must hold that and nothing else.
    ///
    /// # Errors
    ///
    /// If the form is unknown, if there is not a whole number of buckets, or if a lane is none that could
    /// have been written.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (form, words) = match bytes.split_first() {
            Some((0, words)) => (Form::OtherBucket, words),
            Some((1, words)) => (Form::Mixed, words),
            Some((form, _)) => return Err(DecodeError::new("hash filter, form", "0 or 1", form)),
            None => return Err(DecodeError::new("hash filter, form", "0 or 1", "no bytes")),
        };
        let length = words.len();
        let tags = Some(words).and_then(get_words).and_then(|words| Tags::from_words(form, words));
        let tags = tags.ok_or_else(|| {
            DecodeError::new("hash filter, buckets", "one or more sound ones", format_args!("{length} bytes"))
        })?;
        Ok(HashFilter { tags })
    }
}
