//! What each design promises, counted, and designs that change.

#[path = "../common/mod.rs"]
mod common;

mod crowding;
mod lean;
mod log_store;
mod log_store_direct;
mod lsm_trie;
mod redesign;
mod short_memory;
mod silt;
mod siltstone;
mod slimdb;
mod space;
mod space_written;
mod workload;
