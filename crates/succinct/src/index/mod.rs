//! Indexes: from a key to the one page of a table that may hold it.

pub mod cells;
pub mod entropy_trie;
pub mod leveldb;
pub mod partial_key_cuckoo;
pub mod separators;
pub mod three_level;
