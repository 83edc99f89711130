//! What survives: crashes, failures of the device, damage, repair and copies.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

#[path = "../common/mod.rs"]
mod common;

mod backups;
mod crash;
mod damage;
mod faults;
mod full_disk;
mod log_end;
mod manifest_end;
mod manifests;
mod repair;
mod repair_merges;
mod sidecars;
mod tail;
mod unreadable;
