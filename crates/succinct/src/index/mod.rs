//! Indexes: from a key to the one page of a table that may hold it.

pub mod separators;
