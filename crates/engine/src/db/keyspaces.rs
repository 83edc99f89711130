//! Keyspaces of a store: made, found and dropped.

use super::catalog::keyspace::{KeyspaceParts, OpenKeyspace};
use super::store::Store;
use super::write_buffer::WriteBuffer;
use super::{Db, Keyspace};
use crate::error::{Error, Result};
use crate::options::KeyspaceOptions;
use crate::version::Version;
use siltstone_design::{Encoder, WriteBufferSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest keyspace name in bytes.
const MAX_NAME_BYTES: usize = 255;

impl Db {
    /// The keyspace `name`, created with `options` where there is none. One that exists keeps its design.
    ///
    /// A design that is not given is [`Options::default_design`](crate::Options::default_design), with
    /// smaller write buffers and tables where the memory budget is too small for it.
    ///
    /// # Errors
    /// `InvalidInput` if it exists with another schema or another merge operator than is asked for, or if the
    /// name, the design or the merge operator can't be used.
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let mut created = self.create_keyspaces([(name, options)])?;
        created.pop().ok_or_else(|| Error::invalid("a keyspace was not created"))
    }

    /// As [`Db::create_keyspace`] for many keyspaces, with one sync for all: thousands take about as long as
    /// one. They are in the order given.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, KeyspaceOptions, Options};
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let names: Vec<String> = (0..100).map(|tenant| format!("tenant {tenant}")).collect();
    /// let tenants = db.create_keyspaces(names.iter().map(|name| (name, KeyspaceOptions::default())))?;
    /// tenants[41].put(b"key", b"value")?;
    /// assert_eq!(db.keyspaces().len(), 100);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Db::create_keyspace`]; none is created then. A crash may leave the first of them.
    pub fn create_keyspaces<N: AsRef<str>>(
        &self,
        keyspaces: impl IntoIterator<Item = (N, KeyspaceOptions)>,
    ) -> Result<Vec<Keyspace>> {
        let Store { env, catalog, committer, .. } = &*self.store;
        // Held throughout, so that two creators of one name don't meet.
        let _commit = committer.lock();
        let (mut all, mut fresh) = (Vec::new(), BTreeMap::new());
        for (name, options) in keyspaces {
            let name = name.as_ref();
            check_name(name)?;
            let known = catalog.get(name).or_else(|| fresh.get(name).cloned());
            let keyspace = match known {
                Some(existing) => existing,
                None => self.new_keyspace(name, &options)?,
            };
            check_same(&keyspace, &options)?;
            if catalog.by_number(keyspace.id).is_none() {
                fresh.insert(name.to_owned(), Arc::clone(&keyspace));
            }
            all.push(keyspace);
        }
        if !fresh.is_empty() {
            env.check_writable()?;
            let mut fresh: Vec<_> = fresh.into_values().collect();
            fresh.sort_by_key(|keyspace| keyspace.id);
            catalog.create(&fresh)?;
        }
        Ok(all.into_iter().map(|keyspace| self.handle(keyspace)).collect())
    }

    /// Makes a keyspace in memory. The caller holds the commit lock.
    fn new_keyspace(&self, name: &str, options: &KeyspaceOptions) -> Result<Arc<OpenKeyspace>> {
        let Store { env, catalog, .. } = &*self.store;
        env.check_writable()?;
        let mut design = env.options.design_for(options);
        let checked = env.options.check_design(&design, &options.schema);
        let of_keyspace = |error: Error| error.of(format_args!("keyspace {name:?}"));
        checked.map_err(of_keyspace)?;
        let folder = env.options.folder(options.merge_operator.as_deref(), name).map_err(of_keyspace)?;
        if folder.is_some() && WriteBuffer::reads_from_log(&design) {
            // A log store has a few places for each key, and operands stand in the log one by one.
            design.write_buffer =
                WriteBufferSpec::MemTable { bytes: design.write_buffer_bytes().max(4 << 10) };
            design.check_for(&options.schema).map_err(Error::from).map_err(of_keyspace)?;
        }
        let parts = KeyspaceParts {
            id: catalog.next_id(),
            name: name.to_owned(),
            encoder: Encoder::new(options.schema, env.secret).with_rules(&env.options.prefix_rules)?,
            design,
            folder,
            version: Version::default(),
            flushed: catalog.log.segment(),
        };
        Ok(OpenKeyspace::new(parts, catalog.visible(), env.memory()))
    }

    /// The keyspace `name`, if it exists.
    pub fn keyspace(&self, name: &str) -> Option<Keyspace> {
        Some(self.handle(self.store.catalog.get(name)?))
    }

    /// Names of the keyspaces, sorted.
    pub fn keyspaces(&self) -> Vec<String> {
        self.store.catalog.names()
    }

    /// Removes a keyspace with everything in it. Handles to it read what they pinned, and refuse writes with
    /// `NoKeyspace`.
    ///
    /// # Errors
    /// `NoKeyspace` where there is no such keyspace.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let Store { env, catalog, committer, .. } = &*self.store;
        env.check_writable()?;
        let _commit = committer.lock();
        let there_is_none = || Error::no_keyspace(format_args!("there is no keyspace {name:?}"));
        catalog.remove(&*catalog.get(name).ok_or_else(there_is_none)?)
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        return Err(Error::invalid(format_args!(
            "{name:?} can't name a keyspace; names have 1 to {MAX_NAME_BYTES} bytes and no control characters"
        )));
    }
    Ok(())
}

/// Refuses a keyspace that exists as another one than `wanted`.
fn check_same(existing: &OpenKeyspace, wanted: &KeyspaceOptions) -> Result<()> {
    let (name, schema) = (&existing.name, *existing.encoder.schema());
    if schema != wanted.schema {
        return Err(Error::invalid(format_args!(
            "keyspace {name:?} exists with another schema ({schema}, not {}); a schema can't be changed, use another name",
            wanted.schema
        )));
    }
    let operator = existing.folder.as_ref().map(|folder| &folder.name);
    if let Some(wanted) = &wanted.merge_operator
        && operator != Some(wanted)
    {
        let has = operator.map_or("none".to_owned(), |name| format!("{name:?}"));
        return Err(Error::invalid(format_args!(
            "keyspace {name:?} exists with another merge operator ({has}, not {wanted:?}); it can't be changed, use \
             another name"
        )));
    }
    Ok(())
}
