//! The hash store: slots in the order of a partial-key cuckoo table, so that the table's tags are filter and
//! index.
//!
//! Source: Lim et al., "SILT" (SOSP 2011), §3.2 and figure 4. Where we differ, and why: SILT makes one cuckoo
//! table of 2^17 lanes per store and sorts it when it is merged. Here a store is a row of small cuckoo
//! tables, one after another in the store's order: each holds the entries up to the one that finds no room in
//! it, as SILT's log store freezes. So a store of any size is built from sorted entries in one pass, and
//! merged from in one pass, both in the memory of one such table; memory and false positives per key are the
//! same.
//!
//! ```text
//! pages    the slots of table 0, bucket by bucket, four to a bucket; those of table 1 from the next page on; ...
//! index    per cuckoo table: digest of its first entry (2 × u64) · buckets varint
//! filter   per cuckoo table: length varint · its tags (siltstone_succinct::index::partial_key_cuckoo)
//! ```
//!
//! Invariants: every entry of a cuckoo table is before every entry of the next in the store's order.

pub(crate) mod build;
pub(crate) mod read;

use siltstone_succinct::index::partial_key_cuckoo::Form;

/// How tags lead to buckets; part of the format.
const FORM: Form = Form::Mixed;
