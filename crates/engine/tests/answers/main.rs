//! That answers are right, whatever is done in whichever order, and what the interface promises beside them.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

#[path = "../common/mod.rs"]
mod common;

mod basics;
mod bulk;
mod bulk_atomic;
mod cells;
mod compression;
mod concurrency;
mod conditional;
mod contents;
mod direct;
mod events;
mod examples;
mod format;
mod golden;
mod inspect;
mod merge_operators;
mod metamorphic;
mod model;
mod routes;
