//! What each design promises, counted, and designs that change.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

#[path = "../common/mod.rs"]
mod common;

mod crowding;
mod lean;
mod log_store;
mod log_store_direct;
mod lsm_trie;
mod redesign;
mod schema_redesigns;
mod schema_swaps;
mod schemas;
mod short_memory;
mod silt;
mod siltstone;
mod slimdb;
mod space;
mod space_written;
mod used;
mod workload;
