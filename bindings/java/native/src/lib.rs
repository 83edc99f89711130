//! The native half of `io.siltstone`: what `io.siltstone.Native` declares.
//!
//! The idea: Java holds numbers, never addresses. Each open thing is in a table (`handles.rs`), and a number that is
//! no longer in it becomes an `IllegalStateException`; so no order of calls, from however many threads, reaches
//! memory that was given back. No panic leaves a call (`guard.rs`), and every error of the engine becomes a
//! `SiltstoneException` with its facts (`error.rs`).
//!
//! Bytes cross in as few calls as possible: a batch is written from one direct buffer (`packed.rs`), an iterator
//! returns a block of items at a time.

mod answer;
mod error;
mod guard;
mod handles;
mod iter;
mod jobs;
mod keyspace;
mod packed;
mod store;
