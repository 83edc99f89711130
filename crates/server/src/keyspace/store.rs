//! The databases of a server: each is three keyspaces of one store.
//!
//! ```text
//! keyspace   "databases"        point        key: u32 number of a database, value: u64 generation
//!            "<generation>"     by group     its items (`encoding.rs`)
//!            "<generation>.due" by 8 bytes   key: u64 time slot, big-endian · Redis key; collections of many
//!                                            items that expire, or whose elements do
//!            "<generation>.n"   point, add   its counters (`tally.rs`)
//!            "replication"      point        a replica's position in its primary's log (`apply.rs`)
//! ```
//!
//! A database takes a generation with its first write. Those that lie by slot have the bit `BY_SLOT` in it,
//! so that a replica which makes one knows that too. To empty it is to forget its generation, to swap two
//! is to swap theirs, each one write; keyspaces that no database names are dropped. So both are atomic and
//! take no time, however large the databases are.

use super::encoding::{self, Layout};
use super::locks::Locks;
use super::recent::{Item, Owner, Recent, Ticket};
use super::state::KeyState;
use super::tally::{Change, Tally};
use super::watch::Watchers;
use crate::failure::{Failure, Outcome};
use parking_lot::{Mutex, RwLock};
use siltstone::{Batch, Db, Keyspace, KeyspaceOptions, PrefixRule, Schema, SuffixOrder, WriteOptions};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

pub(super) const DIRECTORY: &str = "databases";
/// Where a replica keeps its position.
pub(super) const REPLICATION: &str = "replication";
/// The database that a replica reads where its primary has none: nothing is ever in it.
const EMPTY: &str = "empty";
/// Milliseconds of a time slot: how late the space of an expired large collection may come back.
const SLOT_MS: u64 = 4_000;

/// The part of the memory that is for items which were used last, as a divisor.
const RECENT_SHARE: u64 = 16;

/// What generations have in common whose databases lie by slot.
const BY_SLOT: u64 = 1 << 62;

/// How the database of a generation lies.
pub(super) fn layout_of(generation: u64) -> Layout {
    if generation & BY_SLOT == 0 { Layout::Plain } else { Layout::BySlot }
}

/// When a write is on the device (`appendfsync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before it is acknowledged.
    Always,
    /// Within about a second.
    EverySecond,
    /// When the operating system sees fit.
    No,
}

/// One database.
pub struct Database {
    /// The name of its items; `empty` of the one that a replica has in the place of those that are not there.
    name: String,
    /// In which order its items lie.
    pub layout: Layout,
    /// Heads and elements.
    pub items: Keyspace,
    /// Collections to look at when their time has come.
    pub due: Keyspace,
    /// Counters.
    pub counts: Keyspace,
    /// Items that were used last, of all databases.
    pub(super) recent: Arc<Recent>,
    /// As whose its heads are among them.
    pub(super) owner: Owner,
    /// The counters in memory.
    pub tally: Mutex<Tally>,
    /// Time slots before this one have been looked at.
    pub looked_at: AtomicU64,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "database {}", self.name)
    }
}

fn schema(prefix: PrefixRule) -> KeyspaceOptions {
    let schema = Schema::SemiSorted { prefix, suffix: SuffixOrder::Ordered };
    KeyspaceOptions { schema, ..KeyspaceOptions::default() }
}

impl Database {
    fn open(db: &Db, base: &str, layout: Layout, recent: &Arc<Recent>) -> Outcome<Self> {
        let name = |suffix: &str| format!("{base}{suffix}");
        let wanted = [
            (
                name(".n"),
                KeyspaceOptions { merge_operator: Some("add".into()), ..KeyspaceOptions::default() },
            ),
            (name(".due"), schema(PrefixRule::Fixed { bytes: 8 })),
            (name(""), schema(layout.rule())),
        ];
        let missing: Vec<_> =
            wanted.iter().filter(|(name, _)| db.get_keyspace(name).is_none()).cloned().collect();
        if !missing.is_empty() {
            db.create_keyspaces(missing)?;
        }
        let get = |suffix: &str| {
            let name = name(suffix);
            db.get_keyspace(&name).ok_or_else(|| Failure::new(format!("keyspace {name} is missing")))
        };
        let counts = get(".n")?;
        let tally = Mutex::new(Tally::read(&counts)?);
        let looked_at = AtomicU64::new(0);
        let (items, due, name) = (get("")?, get(".due")?, base.to_owned());
        let (recent, owner) = (Arc::clone(recent), recent.new_owner());
        Ok(Self { name, layout, items, due, counts, recent, owner, tally, looked_at })
    }

    /// The head of `key` as it was used last, or a ticket to keep it once it has been read.
    pub(super) fn recall(&self, key: &[u8]) -> Result<Item, Ticket> {
        self.recent.get(self.owner, key)
    }

    /// Keeps the head of `key` as it was read after the ticket was got.
    pub(super) fn keep(&self, ticket: Ticket, key: &[u8], value: Option<Vec<u8>>) -> Item {
        let item = self.head(value);
        self.recent.add(ticket, self.owner, key, item.value.as_deref(), item.elements);
        item
    }

    /// A head of which nobody knows the elements yet.
    fn head(&self, value: Option<Vec<u8>>) -> Item {
        let head = value.as_deref().and_then(encoding::Head::read);
        let is_large = head.is_some_and(|(head, _)| head.kind.is_large());
        Item { value, elements: if is_large { self.recent.new_owner() } else { Owner::NOBODY } }
    }

    /// Forgets `key` and its elements, if they were used lately: somebody else has written them.
    pub(super) fn forget(&self, key: &[u8]) {
        self.recent.forget(self.owner, key);
    }

    /// The key `key`, of which the store holds `value` as its head.
    ///
    /// # Errors
    /// Where that is none that this server wrote.
    pub fn state_of(self: &Arc<Self>, key: &[u8], value: Option<Vec<u8>>, now: u64) -> Outcome<KeyState> {
        KeyState::read(self, key, self.head(value), now)
    }

    /// The key under which a collection is to be looked at once `at` has passed.
    pub fn due_key(at: u64, key: &[u8]) -> Vec<u8> {
        let mut bytes = (at / SLOT_MS + 1).to_be_bytes().to_vec();
        bytes.extend_from_slice(key);
        bytes
    }

    /// Keys in slots that have passed and have not been looked at, and the slot to go on with.
    ///
    /// # Errors
    /// Those of reading.
    pub fn due_keys(&self, now: u64) -> Outcome<(Vec<Vec<u8>>, Vec<u64>)> {
        const MOST_SLOTS: u64 = 10_000;
        let (from, to) = (self.looked_at.load(Ordering::Relaxed), now / SLOT_MS);
        let (mut keys, mut slots) = (Vec::new(), Vec::new());
        if from > 0 && to.saturating_sub(from) < MOST_SLOTS {
            for slot in from..=to {
                let before = keys.len();
                for item in self.due.prefix(slot.to_be_bytes())? {
                    keys.push(item?.0.get(8..).unwrap_or_default().to_vec());
                }
                if keys.len() > before {
                    slots.push(slot);
                }
            }
        } else {
            // After a start, or a long sleep: one walk over all of it.
            for item in self.due.iter()? {
                let (key, _) = item?;
                let Some((slot, key)) = key.split_first_chunk() else { continue };
                let slot = u64::from_be_bytes(*slot);
                if slot <= to {
                    keys.push(key.to_vec());
                    slots.push(slot);
                }
            }
            slots.sort_unstable();
            slots.dedup();
        }
        self.looked_at.store(to + 1, Ordering::Relaxed);
        Ok((keys, slots))
    }
}

/// A store, as a server uses it.
pub struct Store {
    /// The engine's handle.
    pub db: Db,
    pub(super) directory: Keyspace,
    pub(super) replication: Keyspace,
    databases: RwLock<Vec<Option<Arc<Database>>>>,
    /// Those that are open, by generation.
    open: Mutex<HashMap<u64, Arc<Database>>>,
    /// Whether another server decides what databases there are.
    is_replica: AtomicBool,
    /// How databases lie that are made here.
    layout: Layout,
    next_generation: AtomicU64,
    /// Items that were used last.
    pub recent: Arc<Recent>,
    /// Who may work on which keys.
    pub locks: Locks,
    /// Who wants to know of changes.
    pub watchers: Watchers,
    durability: AtomicU8,
    /// Writes since the server was started, one for each key that changed.
    pub changes: AtomicU64,
}

impl Store {
    /// The keyspace that says which databases there are.
    pub const DIRECTORY: &'static str = DIRECTORY;

    /// Opens the store in `path`, with `databases` databases; those that are made lie by `layout`. A part of
    /// the memory that the options allow is for items that were used last.
    ///
    /// # Errors
    /// Those of [`Db::open`]; where the directory holds a store of another program.
    pub fn open(path: &Path, options: siltstone::Options, databases: usize, layout: Layout) -> Outcome<Self> {
        let recent_bytes = options.memory_budget_bytes / RECENT_SHARE;
        let memory_budget_bytes = options.memory_budget_bytes - recent_bytes;
        let db = Db::open(path, siltstone::Options { memory_budget_bytes, ..options })?;
        let directory = match db.get_keyspace(DIRECTORY) {
            Some(directory) => directory,
            None if db.keyspaces().is_empty() => db.create_keyspace(DIRECTORY, KeyspaceOptions::default())?,
            None => {
                let path = path.display();
                return Err(Failure::new(format!("{path} holds a store that no siltstone-server made")));
            }
        };
        let replication = db.keyspace(REPLICATION, KeyspaceOptions::default())?;
        let store = Self {
            db,
            directory,
            replication,
            databases: RwLock::new((0..databases).map(|_| None).collect()),
            open: Mutex::default(),
            is_replica: AtomicBool::new(false),
            layout,
            next_generation: AtomicU64::new(0),
            recent: Arc::new(Recent::new(recent_bytes)),
            locks: Locks::default(),
            watchers: Watchers::default(),
            durability: AtomicU8::new(1),
            changes: AtomicU64::new(0),
        };
        store.refresh()?;
        Ok(store)
    }

    /// Reads which databases there are, and drops what none of them needs. The caller holds the lock of all.
    pub(super) fn refresh(&self) -> Outcome {
        let mut found: Vec<Option<Arc<Database>>> = (0..self.count()).map(|_| None).collect();
        let mut used = Vec::new();
        for item in self.directory.iter()? {
            let (number, generation) = item?;
            let number = number.try_into().map(u32::from_be_bytes).ok().and_then(|n| usize::try_from(n).ok());
            let generation = generation.try_into().map(u64::from_be_bytes).ok();
            let (Some(number), Some(generation)) = (number, generation) else { continue };
            used.push(generation);
            if let Some(place) = found.get_mut(number) {
                *place = Some(self.of_generation(generation)?);
            } else {
                let least = number + 1;
                return Err(Failure::new(format!("the store has {least} databases: set databases {least}")));
            }
        }
        *self.databases.write() = found;
        self.open.lock().retain(|generation, _| used.contains(generation));
        for name in self.db.keyspaces() {
            let generation = name.split('.').next().and_then(|generation| generation.parse::<u64>().ok());
            if generation.is_some_and(|generation| !used.contains(&generation)) {
                self.db.drop_keyspace(&name)?;
            }
        }
        let next = used.iter().map(|generation| generation & !BY_SLOT).max().map_or(0, |most| most + 1);
        self.next_generation.fetch_max(next, Ordering::Relaxed);
        Ok(())
    }

    /// The database that was made as number `generation`; it is made where it is not there.
    pub(super) fn of_generation(&self, generation: u64) -> Outcome<Arc<Database>> {
        let mut open = self.open.lock();
        if let Some(database) = open.get(&generation) {
            return Ok(Arc::clone(database));
        }
        let database = Arc::new(self.open_database(&generation.to_string(), layout_of(generation))?);
        open.insert(generation, Arc::clone(&database));
        Ok(database)
    }

    fn open_database(&self, name: &str, layout: Layout) -> Outcome<Database> {
        Database::open(&self.db, name, layout, &self.recent)
    }

    /// The numbers of databases, by generation.
    pub(super) fn numbers(&self) -> HashMap<u64, usize> {
        let databases = self.databases.read();
        let number = |(number, database): (usize, &Option<Arc<Database>>)| {
            Some((database.as_ref()?.name.parse().ok()?, number))
        };
        databases.iter().enumerate().filter_map(number).collect()
    }

    /// Says whether another server decides what databases there are.
    pub fn set_replica(&self, is_replica: bool) {
        self.is_replica.store(is_replica, Ordering::SeqCst);
    }

    /// Number of databases.
    pub fn count(&self) -> usize {
        self.databases.read().len()
    }

    /// Chooses when writes are on the device.
    pub fn set_durability(&self, durability: Durability) {
        self.durability.store(durability as u8, Ordering::Relaxed);
    }

    /// When writes are on the device.
    pub fn durability(&self) -> Durability {
        match self.durability.load(Ordering::Relaxed) {
            0 => Durability::Always,
            1 => Durability::EverySecond,
            _ => Durability::No,
        }
    }

    /// Options of a write.
    pub fn write_options(&self) -> WriteOptions {
        let synced = self.durability() == Durability::Always;
        let durability = if synced { siltstone::Durability::Synced } else { siltstone::Durability::Buffered };
        WriteOptions { durability: Some(durability) }
    }

    /// Database `number`, if anything was ever written to it.
    pub fn database(&self, number: usize) -> Option<Arc<Database>> {
        self.databases.read().get(number).cloned().flatten()
    }

    /// Database `number`, which is made where it is not there.
    ///
    /// # Errors
    /// Those of making keyspaces.
    pub fn database_or_new(&self, number: usize) -> Outcome<Arc<Database>> {
        if let Some(database) = self.database(number) {
            return Ok(database);
        }
        if self.is_replica.load(Ordering::SeqCst) {
            return Ok(Arc::new(self.open_database(EMPTY, Layout::Plain)?));
        }
        let mut databases = self.databases.write();
        let place = databases.get_mut(number).ok_or(Failure::coded("ERR DB index is out of range"))?;
        if let Some(database) = place {
            return Ok(Arc::clone(database));
        }
        let generation = self.new_generation(self.layout);
        let database = self.of_generation(generation)?;
        self.directory.put(directory_key(number), generation.to_be_bytes())?;
        *place = Some(Arc::clone(&database));
        Ok(database)
    }

    /// A generation that no database has had.
    pub(super) fn new_generation(&self, layout: Layout) -> u64 {
        // By the clock, so that none is taken twice: a replica that has not seen the first one dropped would
        // take the second one for it.
        self.next_generation.fetch_max(crate::now_ms(), Ordering::Relaxed);
        let generation = self.next_generation.fetch_add(1, Ordering::Relaxed);
        if layout == Layout::BySlot { generation | BY_SLOT } else { generation }
    }

    /// Number of keys of a database.
    pub fn keys(&self, number: usize, now: u64) -> u64 {
        self.database(number).map_or(0, |database| database.tally.lock().keys(now))
    }

    /// Raises the flags of those who watch a key of database `number` that is there now.
    fn tell_watchers(&self, number: usize) -> Outcome {
        let Some(database) = self.database(number) else { return Ok(()) };
        for key in self.watchers.of_database(number) {
            let head = database.items.get(database.layout.group(&key))?;
            let is_live = head
                .as_deref()
                .and_then(encoding::Head::read)
                .is_some_and(|(head, _)| head.expires_at == 0 || head.expires_at > crate::now_ms());
            if is_live {
                self.watchers.changed(number, &key);
            }
        }
        Ok(())
    }

    /// Empties databases. The caller holds the lock of all.
    ///
    /// # Errors
    /// Those of the write.
    pub fn flush(&self, numbers: std::ops::Range<usize>) -> Outcome {
        let mut batch = Batch::new();
        for number in numbers.clone() {
            self.tell_watchers(number)?;
            batch.delete(&self.directory, directory_key(number))?;
        }
        self.db.write(&batch, &self.write_options())?;
        let mut gone = 0;
        for place in self.databases.write().iter_mut().skip(numbers.start).take(numbers.len()) {
            gone += u64::from(place.take().is_some());
        }
        self.changes.fetch_add(gone, Ordering::Relaxed);
        self.refresh()?;
        Ok(())
    }

    /// Swaps two databases. The caller holds the lock of all.
    ///
    /// # Errors
    /// Those of the write.
    pub fn swap(&self, one: usize, other: usize) -> Outcome {
        if one == other {
            return Ok(());
        }
        let before = [(one, self.database(one)), (other, self.database(other))];
        for (number, _) in &before {
            self.tell_watchers(*number)?;
        }
        let mut batch = Batch::new();
        let mut databases = self.databases.write();
        for ((_, database), number) in before.iter().zip([other, one]) {
            match database {
                Some(database) => {
                    let generation = database.name.parse::<u64>().map_err(Failure::new)?;
                    batch.put(&self.directory, directory_key(number), generation.to_be_bytes())?;
                }
                None => batch.delete(&self.directory, directory_key(number))?,
            }
        }
        self.db.write(&batch, &self.write_options())?;
        databases.swap(one, other);
        drop(databases);
        for number in [one, other] {
            self.tell_watchers(number)?;
        }
        Ok(())
    }

    /// Takes what has passed out of the counters; how many keys expired.
    ///
    /// # Errors
    /// Those of the write.
    pub fn fold_tallies(&self, now: u64) -> Outcome<u64> {
        let mut gone = 0;
        for number in 0..self.count() {
            // Against FLUSHALL, which drops the keyspace; changes of keys may go on.
            let _held = self.locks.keys(std::iter::empty());
            let Some(database) = self.database(number) else { continue };
            let mut batch = Batch::new();
            let mut tally = database.tally.lock();
            gone += tally.fold(now, &mut batch, &database.counts)?;
            if !batch.is_empty() {
                self.db.write(&batch, &WriteOptions::default())?;
            }
        }
        Ok(gone)
    }

    /// Notes that `change` has been committed.
    pub(super) fn applied(&self, database: &Database, change: &Change) {
        database.tally.lock().apply(change);
    }
}

pub(super) fn directory_key(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes()
}
