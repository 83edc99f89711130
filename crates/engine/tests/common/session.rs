//! A store driven beside its model: each operation runs on the store, and on the model where the store took
//! it.

use super::bulk::{BulkLoad, rebuild};
use super::operations::{KEYSPACES, Op};
use super::schemas::{Asked, is_prefix, redesign, schema_to_come};
use super::*;
use siltstone::io::sim::CrashMode;
use siltstone::{Batch, Durability, ErrorKind, Resources, Snapshot, WriteOptions};
use std::time::Duration;

/// A store and what it should hold.
pub struct Session {
    pub disk: SimDisk,
    pub db: Option<Db>,
    pub model: Model,
    /// With what was there, and when.
    pub snapshots: Vec<(Snapshot, Model, u64)>,
    designs: Vec<Design>,
    /// What the store is opened with.
    options: Options,
    /// The order of all items at every check: the same whatever the design.
    pub orders: Vec<u64>,
    /// How often keyspaces have got other schemas.
    pub schema_changes: u64,
    asked_schemas: Asked,
}

impl Session {
    /// A store whose keyspaces take `designs` in turn.
    pub fn new(designs: &[Design]) -> Self {
        Self::sharing(designs, None)
    }

    /// The same of a store that shares `resources` with others.
    pub fn sharing(designs: &[Design], resources: Option<Resources>) -> Self {
        Self::with(designs, Options { resources, ..options() })
    }

    /// The same of a store that is opened with `options`.
    pub fn with(designs: &[Design], options: Options) -> Self {
        let disk = SimDisk::new();
        let mut session = Self {
            disk,
            db: None,
            model: Model::default(),
            snapshots: Vec::new(),
            designs: designs.to_vec(),
            options,
            orders: Vec::new(),
            schema_changes: 0,
            asked_schemas: Asked::default(),
        };
        session.db = Some(session.open(&session.disk).unwrap());
        for (i, (name, schema)) in KEYSPACES.into_iter().enumerate() {
            let design = session.designs[i % session.designs.len()].clone();
            let merge_operator = merge_operator_of(name);
            let options = KeyspaceOptions { merge_operator, ..keyspace_options(schema, design) };
            session.db().keyspace(name, options).unwrap();
            session.model.apply(&Effect::Create { keyspace: name.into(), schema });
        }
        session
    }

    /// Opens the store as it lies on `disk`.
    pub fn open(&self, disk: &SimDisk) -> siltstone::Result<Db> {
        Db::open_on(Arc::new(disk.clone()), DIR, self.options.clone())
    }

    pub fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    pub fn keyspace(&self, name: &str) -> Keyspace {
        self.db().get_keyspace(name).unwrap()
    }

    /// Lets go of the store and of everything that keeps it open.
    pub fn shut(&mut self) {
        self.snapshots.clear();
        self.db = None;
    }

    /// The time by the store's clock.
    pub fn now_ms(&self) -> u64 {
        self.db().clock_ms()
    }

    /// What an operation writes, where it succeeds.
    pub fn effects(&self, op: &Op) -> Vec<Effect> {
        let now_ms = self.now_ms();
        match op {
            Op::Write { effects, .. } => {
                let mut absolute = effects.clone();
                absolute.retain(|effect| self.is_possible(effect));
                for effect in &mut absolute {
                    if let Effect::Put { expires_at_ms, .. } = effect
                        && *expires_at_ms != 0
                    {
                        *expires_at_ms += now_ms;
                    }
                }
                absolute
            }
            Op::Update { keyspace, key, byte } => {
                let model = &self.model.keyspaces[*keyspace];
                let (old, keyspace, key) = (model.get(key, now_ms), (*keyspace).to_owned(), key.clone());
                // What was to expire still does.
                let expires_at_ms = if old.is_some() { model.items[&key].1 } else { 0 };
                match updated(old.as_deref(), *byte) {
                    Some(value) => vec![Effect::Put { keyspace, key, value, expires_at_ms }],
                    None if old.is_some() => vec![Effect::Delete { keyspace, key }],
                    None => Vec::new(),
                }
            }
            Op::Conditional { keyspace, write } => {
                let merges = merge_operator_of(keyspace).is_some();
                write.effects(keyspace, merges, &self.model.keyspaces[*keyspace], now_ms)
            }
            Op::Ingest(load) => load.effects(now_ms),
            Op::Clear { keyspace } => {
                let keyspace = (*keyspace).to_owned();
                let schema = self.model.keyspaces[&keyspace].schema;
                vec![Effect::Drop { keyspace: keyspace.clone() }, Effect::Create { keyspace, schema }]
            }
            Op::Rebuild { keyspace } => {
                let (name, model) = ((*keyspace).to_owned(), &self.model.keyspaces[*keyspace]);
                let create = Effect::Create { keyspace: name.clone(), schema: model.schema };
                let drop = Effect::Drop { keyspace: name.clone() };
                let items = model.live(now_ms).into_iter().map(|(key, value)| Effect::Put {
                    keyspace: name.clone(),
                    key,
                    value,
                    expires_at_ms: 0,
                });
                [drop, create].into_iter().chain(items).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether the present schema has groups as the one that the effect would delete.
    fn is_possible(&self, effect: &Effect) -> bool {
        match effect {
            Effect::DeletePrefix { keyspace, prefix } => {
                is_prefix(self.model.keyspaces[keyspace].schema, prefix)
            }
            _ => true,
        }
    }

    /// Writes a batch to the store, and to the model if the store took it.
    pub fn write(&mut self, effects: &[Effect], synced: bool) -> siltstone::Result<()> {
        self.run(&Op::Write { effects: effects.to_vec(), synced })
    }

    fn put(&self, effects: &[Effect], synced: bool) -> siltstone::Result<()> {
        let mut batch = Batch::new();
        for effect in effects {
            match effect {
                Effect::Put { keyspace, key, value, expires_at_ms } => {
                    let keyspace = self.keyspace(keyspace);
                    if *expires_at_ms == 0 {
                        batch.put(&keyspace, key, value)?;
                    } else {
                        let ttl = Duration::from_millis(*expires_at_ms);
                        batch.put_with_ttl(&keyspace, key, value, ttl)?;
                    }
                }
                Effect::Merge { keyspace, key, operand } => {
                    batch.merge(&self.keyspace(keyspace), key, operand)?;
                }
                Effect::Delete { keyspace, key } => batch.delete(&self.keyspace(keyspace), key)?,
                Effect::DeletePrefix { keyspace, prefix } => {
                    let deleted = batch.delete_prefix(&self.keyspace(keyspace), prefix);
                    if self.is_possible(effect) {
                        deleted?;
                    } else {
                        let kind = deleted.unwrap_err().kind();
                        assert!([ErrorKind::InvalidInput, ErrorKind::BadKey].contains(&kind), "{kind:?}");
                    }
                }
                Effect::Create { .. } | Effect::Schema { .. } | Effect::Drop { .. } => {
                    unreachable!("no write")
                }
            }
        }
        if batch.is_empty() && synced {
            // A batch of nothing syncs nothing.
            return self.db().sync();
        }
        let durability = Some(if synced { Durability::Synced } else { Durability::Buffered });
        self.db().write(&batch, &WriteOptions { durability })
    }

    fn ingest(&self, load: &BulkLoad) -> siltstone::Result<()> {
        load.run(&self.keyspace(load.keyspace), self.now_ms(), || {
            if load.besides.is_empty() {
                return Ok(());
            }
            // The model takes the items first: what is written meanwhile is newer.
            let mut batch = Batch::new();
            for effect in &load.besides {
                let Effect::Put { keyspace, key, value, .. } = effect else { unreachable!("only puts") };
                batch.put(&self.keyspace(keyspace), key, value)?;
            }
            self.db().write(&batch, &WriteOptions::default())?;
            match load.meanwhile {
                0 => self.db().flush(),
                1 => self.db().step().map(drop),
                _ => Ok(()),
            }
        })
        .map(drop)
    }

    /// Compacts a keyspace, which then holds an entry for each of its items and nothing else.
    fn compact(&self, name: &str) -> siltstone::Result<()> {
        let keyspace = self.keyspace(name);
        assert!(keyspace.compact()?.is_complete);
        let stats = keyspace.stats();
        let live = self.model.keyspaces[name].live(self.now_ms()).len() as u64;
        let found =
            (stats.write_buffer_entries, stats.table_entries, stats.tombstones, stats.expired_estimate);
        assert_eq!(found, (0, live, 0, 0), "{name} after a compaction");
        assert_eq!(stats.items_estimate, live, "{name} after a compaction");
        Ok(())
    }

    /// Runs an operation on the store, and on the model if the store took it.
    pub fn run(&mut self, op: &Op) -> siltstone::Result<()> {
        let effects = self.effects(op);
        let done = self.run_on_store(op);
        if done.is_ok() {
            effects.iter().for_each(|effect| self.model.apply(effect));
        }
        self.note_schemas();
        done
    }

    /// Notes in the model which keyspaces have got another schema meanwhile; says whether any has.
    pub fn note_schemas(&mut self) -> bool {
        let Some(db) = &self.db else { return false };
        let changed = self.asked_schemas.changed(db, &self.model);
        changed.iter().for_each(|effect| self.model.apply(effect));
        self.schema_changes += changed.len() as u64;
        !changed.is_empty()
    }

    fn run_on_store(&mut self, op: &Op) -> siltstone::Result<()> {
        match op {
            Op::Write { effects, synced } => self.put(effects, *synced)?,
            Op::Update { keyspace, key, byte } => {
                let expected = self.model.keyspaces[*keyspace].get(key, self.now_ms());
                let mut seen = None;
                let new = self.keyspace(keyspace).update(key, |old| {
                    seen = old.map(<[u8]>::to_vec);
                    updated(old, *byte)
                })?;
                assert_eq!(seen, expected, "update of {keyspace} sees another value");
                assert_eq!(new, updated(expected.as_deref(), *byte));
            }
            Op::Conditional { keyspace, write } => {
                let model = &self.model.keyspaces[*keyspace];
                write.run(self.db(), &self.keyspace(keyspace), model, self.now_ms())?;
            }
            Op::Ingest(load) => self.ingest(load)?,
            Op::Rebuild { keyspace } => rebuild(self, keyspace)?,
            Op::Clear { keyspace } => self.keyspace(keyspace).clear()?,
            Op::Redesign { keyspace, design } => drop(redesign(&self.keyspace(keyspace), design)?),
            Op::ChangeSchema { keyspace, schema, waits } => {
                let keyspace = self.keyspace(keyspace);
                if self.asked_schemas.change_schema(&keyspace, *schema)? && *waits {
                    keyspace.wait_for_schema()?;
                    assert_eq!(keyspace.schema(), *schema);
                }
            }
            Op::Step => {
                self.db().step()?;
            }
            Op::StepAll => {
                self.db().wait_until_idle()?;
                let changes =
                    KEYSPACES.iter().filter(|(name, _)| schema_to_come(&self.keyspace(name)).is_some());
                assert_eq!(changes.count(), 0, "changes of schemas that do not end");
            }
            Op::Flush => self.db().flush()?,
            Op::Compact { keyspace } => self.compact(keyspace)?,
            Op::Drain => self.db().drain()?,
            Op::Sync => self.db().sync()?,
            Op::Reopen => {
                self.snapshots.clear();
                self.db.take().unwrap().close()?;
                self.db = Some(self.open(&self.disk)?);
            }
            Op::Kill => {
                self.snapshots.clear();
                // The manifest need not know how late it was.
                self.disk.set_now_ms(self.now_ms());
                let disk = self.disk.crash(CrashMode::Kill, 0);
                self.db = Some(self.open(&disk)?);
                self.disk = disk;
            }
            Op::TakeSnapshot => {
                if self.snapshots.len() < 4 {
                    self.snapshots.push((self.db().snapshot(), self.model.clone(), self.now_ms()));
                }
            }
            Op::DropSnapshot => {
                if !self.snapshots.is_empty() {
                    self.snapshots.remove(0);
                }
            }
            Op::Wait { ms } => {
                self.disk.advance_ms(*ms);
                // Where the system's clock is behind, how far the store's goes on depends on when it is asked.
                self.now_ms();
            }
            Op::SetBack { ms } => {
                let before = self.now_ms();
                let system_ms = siltstone::io::Disk::now_ms(&self.disk);
                self.disk.set_now_ms(system_ms.saturating_sub(*ms));
                assert_eq!(self.now_ms(), before, "the store's clock never goes back");
            }
            Op::Check { seed } => self.check(*seed),
        }
        Ok(())
    }
}

/// What an update with `byte` makes of a value.
fn updated(old: Option<&[u8]>, byte: u8) -> Option<Vec<u8>> {
    (byte > 60).then(|| [old.unwrap_or(b""), &[byte]].concat())
}
