//! That answers are right, whatever is done in whichever order, and what the interface promises beside them.

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
