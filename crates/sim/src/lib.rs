//! Whole stores on a simulated disk, beside a model: operations of every kind, and everything that goes
//! wrong, from one seed.
//!
//! [`hunt`] runs worlds and makes those that fail smaller; [`world`] says what happens in one, [`run`]
//! carries it out, and [`damage`] changes bytes at rest. [`stress`] is the same idea with threads, real
//! files and
//! `kill -9`. Operations and model are those of the engine's own suites.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::should_implement_trait,
    missing_docs,
    reason = "what is found wrong ends a world with a panic, and nobody else uses this"
)]

pub mod damage;
#[path = "../../engine/tests/common/mod.rs"]
pub mod harness;
pub mod hunt;
pub mod run;
pub mod stress;
#[cfg(siltstone_shuttle)]
pub mod threads;
pub mod world;
