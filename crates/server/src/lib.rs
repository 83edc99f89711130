//! A server for Redis clients that keeps its data in Siltstone.
//!
//! | module | holds |
//! |---|---|
//! | [`resp`] | the protocol: requests out of bytes, replies into bytes |
//! | [`command`] | the table of commands, and what they do |
//! | [`keyspace`] | how Redis' types lie in the store; units of work |
//! | [`replication`] | a server that follows another one |
//! | [`cluster`] | servers that share the keys |
//! | [`rdb`] | values and files as Redis writes them |
//! | [`import`] | a store out of such a file, or of a running Redis |
//! | [`server`] | connections, pipelines, background work |
//! | [`config`] | settings |
//!
//! `resp` knows nothing of the others; `keyspace` knows the engine and no connection; `command` works on a
//! unit of work and a session; `server` introduces them to each other.

pub mod cluster;
pub mod command;
pub mod config;
mod failure;
mod glob;
pub mod import;
pub mod keyspace;
mod number;
pub mod rdb;
pub mod replication;
pub mod resp;
pub mod server;
mod slots;

pub use failure::Failure;

/// The version of Redis whose replies these are.
pub const REDIS_VERSION: &str = "7.4.0";

/// Tells whoever runs the server. That nobody listens is no reason to fail.
pub fn say(what: impl std::fmt::Display) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "siltstone-server: {what}");
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
