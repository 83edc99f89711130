//! The HTable: an immutable hash table whose buckets are pages. A lookup computes its key's page and needs no
//! index.
//!
//! Source: LSM-trie (Wu et al., ATC'15), "HTable" and "HashMarks". Where we differ, and why:
//!
//! * There a table has 8191 buckets and is built in memory. Here it is a row of *segments* of about a
//!   mebibyte, each a hash table of its own over a stretch of digests. So building takes little memory, the
//!   number of buckets follows from the bytes there are, and pages are full whatever a merge leaves of its
//!   inputs.
//! * A segment's buckets rise with the digest (`Spread`), so that a table is written and read in the store's
//!   order.
//! * What overflows is planned (`Migration`), not spread greedily: what was taken is never given on, so one
//!   step leads to every item, and nothing but the overflow moves.
//! * Where digests are so skewed that no number of buckets will do (semi-sorted keys, whose groups share
//!   their upper half), a segment is *packed* like a block table's pages and searched by halves. Every input
//!   has a table.
//!
//! ```text
//! bucket page     header · entry, entry, ... · note, note, ... · notes u8         entries as in a block table, none shared
//! note            ┌──────────┬────────────┐
//!                 │ mark u16 │ target u16 │    entries of an order from `mark` on, up to the next note's mark, are in
//!                 └──────────┴────────────┘    bucket `target` of the same segment; notes ascend by mark
//! index section   segments varint, then for each:
//!                 ┌───────────────┬──────────────┬───────────────┬──────────────┬─────────────┬───────────┐
//!                 │ packed u8 0/1 │ page varint  │ pages varint  │ digest 16 B  │ last hi u64 │ key       │
//!                 │               │ its first    │ = its buckets │ of the first entry         │ with length;
//!                 └───────────────┴──────────────┴───────────────┴──────────────┴─────────────┴───────────┘ empty unless the
//!                                                                                  segment before ends with this digest
//! filter section  for Bloom filters one per bucket (`BucketBlooms`), a packed segment being one; others as in block tables
//! page map        the HashMarks of the largest givers (`HashMarks`), counted like the filters
//! ```
//!
//! An entry's order is 16 bits of a hash of its fingerprint, so that whether it moves has nothing to do with
//! its place. Entries too large to share a page keep their values, and keys if need be, in overflow pages,
//! which stand between segments.
//!
//! Invariants: segments ascend and do not overlap; an entry is in its home page or where the one note that
//! covers it says; pages of packed segments hold entries in the store's order.

pub(crate) mod build;
pub(crate) mod cursor;
pub(crate) mod read;
mod segment;
#[cfg(test)]
mod tests;

#[cfg(feature = "sim")]
pub(crate) use segment::check;

/// Bytes of a note in a page.
const NOTE_BYTES: usize = 4;

/// The order of an entry within its bucket.
#[inline]
fn order(fingerprint: u64) -> u16 {
    // Filters and samples mix the fingerprint with other constants.
    ((fingerprint ^ fingerprint >> 29).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 48) as u16
}
