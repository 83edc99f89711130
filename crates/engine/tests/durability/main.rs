//! What survives: crashes, failures of the device, damage, repair and copies.

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
