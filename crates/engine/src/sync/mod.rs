//! Locks, atomics, threads and time: the one place that the engine has them from.
//!
//! Ordinarily this module only hands on what `parking_lot`, `arc-swap` and the standard library have
//! ([`system`]). Built with `RUSTFLAGS="--cfg siltstone_shuttle"`, it has the same names from the crate
//! `shuttle` (`explored/`), under whose schedulers one seed decides which thread runs when: tests go through
//! as many interleavings of threads as they like, and any that fails can be repeated. See "Threads" in
//! docs/testing.md.
//!
//! What decides no order stays what it is in both: counters, and locks that are held for a few instructions
//! within which nothing is waited for ([`leaf`]). A scheduler has nothing to choose there; each would be a
//! step more for it.
//!
//! Invariants: nothing else in the engine names these crates or the standard library's locks, atomics and
//! threads, which a test holds it to; no [`leaf`] lock is held where another lock is waited for.

#[cfg(not(siltstone_shuttle))]
mod system;
#[cfg(not(siltstone_shuttle))]
pub(crate) use system::*;

#[cfg(siltstone_shuttle)]
mod explored;
#[cfg(siltstone_shuttle)]
pub(crate) use explored::*;

pub(crate) mod leaf;
