//! How Redis' databases and types lie in a store, and how commands work on them.
//!
//! `encoding.rs` says what is stored; `packed.rs` and `collection.rs` are hashes and sets, `state.rs` a key,
//! in memory; `recent.rs` items that were used last; `store.rs` the databases, `tally.rs` their sizes;
//! `unit.rs` a unit of work: commands that happen together, with their locks (`locks.rs`) and their one
//! commit; `watch.rs` who is told of it.
//! `apply.rs` carries out on a replica what its primary has committed, `items.rs` moves items in bulk,
//! `convert.rs` makes a store that was none of a cluster's one of them.

mod apply;
mod collection;
mod convert;
pub mod encoding;
mod items;
mod locks;
mod packed;
mod recent;
mod state;
mod store;
mod tally;
#[cfg(test)]
mod tests;
mod unit;
mod watch;

pub use apply::Position;
pub use collection::{Body, Collection, Entry, Group, Kind, OwnedElement};
pub use convert::convert;
pub use encoding::{Element, Layout};
pub use items::{Arrived, ItemChange};
pub use locks::{Held, Locks};
pub use state::{KeyState, PackLimits, Value};
pub use store::{Database, Durability, Store};
pub use tally::Tally;
pub use unit::{Cached, MOST_CACHED_BYTES, Unit};
pub use watch::Watchers;
