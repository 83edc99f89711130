//! Hash tables of buckets that are pages: which bucket a key has, and what becomes of what its bucket can't
//! hold.

pub mod greedy;
pub mod hash_marks;
pub mod migration;
pub mod spread;
