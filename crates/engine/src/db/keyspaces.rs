//! Keyspaces of a store: made, found and dropped.

use super::catalog::keyspace::{KeyspaceParts, OpenKeyspace};
use super::store::Store;
use super::{Db, Keyspace};
use crate::error::{Error, Result};
use crate::options::KeyspaceOptions;
use crate::version::Version;
use siltstone_design::Encoder;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest keyspace name in bytes.
const MAX_NAME_BYTES: usize = 255;

/// What becomes of a request for a keyspace that is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IfThere {
    Take,
    Refuse,
}

impl Db {
    /// Returns the keyspace `name`, and creates it with `options` where there is none. One that exists keeps
    /// its design.
    ///
    /// A design that is not given is [`Options::default_design`](crate::Options::default_design), with
    /// smaller write buffers and tables where the memory budget is too small for it.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, ErrorKind, KeyspaceOptions, Options, Schema};
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let by_path = KeyspaceOptions { schema: Schema::delimited(b'/'), ..KeyspaceOptions::default() };
    /// db.keyspace("files", by_path.clone())?.put("etc/hosts", "127.0.0.1 localhost")?;
    /// assert!(db.keyspace("files", by_path)?.contains("etc/hosts")?);
    /// // Another schema has to be asked for by itself: `Keyspace::change_schema`.
    /// let error = db.keyspace("files", KeyspaceOptions::default()).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::InvalidInput);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` if it exists with another schema or another merge operator than is asked for, or if the
    /// name, the design or the merge operator can't be used.
    pub fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.only(self.make_keyspaces([(name, options)], IfThere::Take)?)
    }

    /// Creates the keyspace `name` with `options`; as [`Db::keyspace`] where nobody else may have created it.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, ErrorKind, KeyspaceOptions, Options};
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// db.create_keyspace("users", KeyspaceOptions::default())?.put("u1", "Ada")?;
    /// let error = db.create_keyspace("users", KeyspaceOptions::default()).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::KeyspaceExists);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `KeyspaceExists` if there is one of this name, `InvalidInput` if the name, the design or the merge
    /// operator can't be used.
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.only(self.make_keyspaces([(name, options)], IfThere::Refuse)?)
    }

    fn only(&self, made: Vec<Keyspace>) -> Result<Keyspace> {
        made.into_iter().next().ok_or_else(|| Error::invalid("a keyspace was not made"))
    }

    /// As [`Db::keyspace`] for many keyspaces, with one sync for all that are created: thousands take about
    /// as long as one. They are in the order given.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, KeyspaceOptions, Options};
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let names: Vec<String> = (0..100).map(|tenant| format!("tenant {tenant}")).collect();
    /// let with_options = || names.iter().map(|name| (name, KeyspaceOptions::default()));
    /// db.open_keyspaces(with_options().take(50))?;
    /// let tenants = db.open_keyspaces(with_options())?;
    /// tenants[41].put(b"key", b"value")?;
    /// assert_eq!(db.keyspaces().len(), 100);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Db::keyspace`]; none is created then. A crash may leave the first of them.
    pub fn open_keyspaces<N: AsRef<str>>(
        &self,
        keyspaces: impl IntoIterator<Item = (N, KeyspaceOptions)>,
    ) -> Result<Vec<Keyspace>> {
        self.make_keyspaces(keyspaces, IfThere::Take)
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
        self.make_keyspaces(keyspaces, IfThere::Refuse)
    }

    fn make_keyspaces<N: AsRef<str>>(
        &self,
        keyspaces: impl IntoIterator<Item = (N, KeyspaceOptions)>,
        if_there: IfThere,
    ) -> Result<Vec<Keyspace>> {
        let Store { env, catalog, committer, .. } = &*self.store;
        env.health.check_open()?;
        // Held throughout, so that two creators of one name don't meet.
        let _commit = committer.lock();
        let (mut all, mut fresh) = (Vec::new(), BTreeMap::new());
        for (name, options) in keyspaces {
            let name = name.as_ref();
            check_name(name)?;
            let known = catalog.get(name).or_else(|| fresh.get(name).cloned());
            let keyspace = match known {
                Some(_) if if_there == IfThere::Refuse => return Err(Error::keyspace_exists(name)),
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
        let design = env.options.design_for(options);
        let of_keyspace = |error: Error| error.of(format_args!("keyspace {name:?}"));
        let folder = env.options.folder(options.merge_operator.as_deref(), name).map_err(of_keyspace)?;
        let usable = env.options.usable_design(design, &options.schema, folder.is_some());
        let design = usable.map_err(of_keyspace)?;
        let encoder = Encoder::new(options.schema, env.secret).with_rules(&env.options.prefix_rules);
        let parts = KeyspaceParts {
            id: catalog.next_id(),
            name: name.to_owned(),
            encoder: encoder.map_err(|error| of_keyspace(error.into()))?,
            folder,
            version: Version::new(Arc::new(design)),
            flushed: catalog.log.segment(),
            schema_change: None,
            earlier_schemas: Vec::new(),
        };
        Ok(OpenKeyspace::new(parts, catalog.visible(), env.memory()))
    }

    /// The keyspace `name`, if it exists.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// db.create_keyspace("users", siltstone::KeyspaceOptions::default())?;
    /// assert!(db.get_keyspace("users").is_some() && db.get_keyspace("user").is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_keyspace(&self, name: &str) -> Option<Keyspace> {
        Some(self.handle(self.store.catalog.get(name)?))
    }

    /// Names of the keyspaces, sorted.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// db.create_keyspaces(["b", "a"].map(|name| (name, siltstone::KeyspaceOptions::default())))?;
    /// assert_eq!(db.keyspaces(), ["a", "b"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn keyspaces(&self) -> Vec<String> {
        self.store.catalog.names()
    }

    /// Removes a keyspace with everything in it. Handles to it read what they pinned, and refuse writes with
    /// `NoKeyspace`. [`Keyspace::clear`] removes what is in it alone.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let users = db.create_keyspace("users", siltstone::KeyspaceOptions::default())?;
    /// db.drop_keyspace("users")?;
    /// assert_eq!(users.put("u1", "Ada").unwrap_err().kind(), siltstone::ErrorKind::NoKeyspace);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NoKeyspace` where there is no such keyspace.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let Store { env, catalog, committer, .. } = &*self.store;
        env.check_writable()?;
        let _commit = committer.lock();
        let there_is_none = || Error::unknown_keyspace(name, &catalog.names());
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
        let to_come = existing.open_schema_change();
        let is_to_come = to_come.is_some_and(|change| *change.encoder.schema() == wanted.schema);
        let advice = if is_to_come {
            "it is getting that one; take it with the one that it has, and wait (Keyspace::wait_for_schema)"
        } else {
            "use another name, or change it (Keyspace::change_schema)"
        };
        return Err(Error::invalid(format_args!(
            "keyspace {name:?} exists with another schema ({schema}, not {}); {advice}",
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
