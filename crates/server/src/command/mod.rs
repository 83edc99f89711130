//! Commands: a table of what there is, and a file for each family of what they do.
//!
//! A command is a [`Spec`]: name, arity, flags, where its keys are, what it is for, and the function that
//! carries it out on a [`Context`]. `COMMAND`, ACL categories, locks and reading ahead all follow from the
//! table; nothing else lists commands.

mod acl;
mod arguments;
mod bit_field;
mod bits;
mod client;
mod cluster;
mod cluster_view;
mod clusterx;
mod config;
mod connection;
mod debug;
mod dump;
mod expire;
mod field_expire;
mod hash_scan;
mod hashes;
mod info;
mod introspect;
mod keys;
mod lcs;
mod memory;
mod migrate;
mod operations;
mod permissions;
mod replication;
mod scan;
mod set_operations;
mod sets;
mod slowlog;
mod spec;
mod strings;
mod transactions;

pub use acl::{Acl, User};
pub use info::{info, resident_bytes};
pub use permissions::Denied;
pub use slowlog::SlowLog;
pub use spec::{Access, Flags, Keys, Spec, flags, lookup, table};
pub use transactions::is_broken;

use crate::failure::{Failure, Outcome, WRONG_TYPE};
use crate::keyspace::{Collection, KeyState, Kind, Unit};
use crate::resp::{Output, Request};
use crate::server::{Server, Session};
use std::sync::atomic::Ordering;

/// What a command works on.
pub struct Context<'c, 'u> {
    /// The server.
    pub server: &'c Server,
    /// The client's connection.
    pub session: &'c mut Session,
    /// Keys, with their locks.
    pub unit: &'c mut Unit<'u>,
    /// Place of the command's spec in the table.
    pub spec: &'static Spec,
}

impl Context<'_, '_> {
    /// The key `key` of the client's database.
    ///
    /// # Errors
    /// Those of reading.
    pub fn key(&mut self, key: &[u8]) -> Outcome<&mut KeyState> {
        let database = self.session.database;
        self.unit.key(database, key)
    }

    /// As [`Context::key`], for a command that answers from it: counts whether it was there.
    ///
    /// # Errors
    /// Those of reading.
    pub fn lookup(&mut self, key: &[u8]) -> Outcome<&mut KeyState> {
        let (database, counters) = (self.session.database, &self.server.counters);
        let state = self.unit.key(database, key)?;
        let counter = if state.is_live() { &counters.hits } else { &counters.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(state)
    }

    /// The collection under `key`, to be read.
    ///
    /// # Errors
    /// `WRONGTYPE` where it is another type.
    pub fn collection(&mut self, key: &[u8], kind: Kind) -> Outcome<Option<&mut Collection>> {
        self.lookup(key)?.collection(kind)
    }

    /// Changes the collection under `key`, which is there afterwards if it is not empty.
    ///
    /// # Errors
    /// `WRONGTYPE` where it is another type; those of `change`.
    pub fn change<T>(
        &mut self,
        key: &[u8],
        kind: Kind,
        change: impl FnOnce(&mut Collection) -> Outcome<T>,
    ) -> Outcome<T> {
        let database = self.session.database;
        let state = self.unit.key(database, key)?;
        if state.is_live() && state.collection(kind)?.is_none() {
            return Err(WRONG_TYPE);
        }
        let result = change(state.collection_mut(kind)?);
        // Also where the change failed: an empty collection must not stay.
        state.is_changed |= result.is_ok();
        self.unit.settle(database, key)?;
        result
    }

    /// Changes elements of the collection under `key` one by one; how many `change` said it changed. Where
    /// none was, the key counts as unchanged.
    ///
    /// # Errors
    /// As for [`Context::change`].
    pub fn change_each(
        &mut self,
        key: &[u8],
        kind: Kind,
        names: &[&[u8]],
        mut change: impl FnMut(&mut Collection, &[u8]) -> Outcome<bool>,
    ) -> Outcome<usize> {
        let changed_before = self.key(key)?.is_changed;
        let count = self.change(key, kind, |collection| {
            collection.prefetch(names)?;
            let mut count = 0;
            for name in names {
                count += usize::from(change(collection, name)?);
            }
            Ok(count)
        })?;
        if count == 0 {
            self.key(key)?.is_changed = changed_before;
        }
        Ok(count)
    }
}

/// What a client gets for a command with too few or too many arguments.
pub fn wrong_arity(name: &str) -> Failure {
    Failure::new(format!("wrong number of arguments for '{}' command", name.to_lowercase()))
}

/// What a client gets for a subcommand that is not there.
pub fn unknown_subcommand(request: &Request) -> Failure {
    let (command, subcommand) = (text(request.get(0)).to_uppercase(), text(request.get(1)));
    Failure::new(format!("unknown subcommand '{subcommand}'. Try {command} HELP."))
}

/// Writes the lines of a `HELP` subcommand.
pub fn help(out: &mut Output, command: &str, lines: &[&str]) {
    out.array(lines.len() + 3);
    out.simple(&format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().for_each(|line| out.simple(line));
    out.simple("HELP");
    out.simple("    Prints this help.");
}

/// Bytes as text, for messages.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
