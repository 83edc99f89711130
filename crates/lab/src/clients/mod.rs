//! Measured workloads: clients in closed loops on a store whose items can be told from their number.
//!
//! A workload named by [`workload`] is run by the clients of [`client`], which [`watch`] starts and ends.
//! [`bulk`] fills one by a bulk build.
//! What a store was filled with is said by [`filled`].

pub mod bulk;
mod calls;
pub mod client;
pub mod filled;
pub mod watch;
pub mod workload;

/// The keyspace that holds the items.
pub const KEYSPACE: &str = "bench";
