//! Options of a store and of its keyspaces: plain data, checked at open.

use crate::error::{Error, Result};
use crate::events::Listeners;
use crate::merge_operator::{Folder, MergeOperators};
use crate::resources::{self, Resources};
use siltstone_design::{Design, PrefixRules, Schema, WriteBufferSpec, presets};
use siltstone_model::advise::{Request, advise};
use siltstone_model::price::{Device, Workload};
use std::path::PathBuf;
use std::sync::Arc;

/// What a write survives once it has returned.
///
/// | | killed process | power cut or kernel crash |
/// |---|---|---|
/// | `Buffered` | survives | survives once the background sync has run (`sync_interval_ms`) |
/// | `Synced` | survives | survives |
///
/// Whatever is lost is lost from the end: the recovered store is always a prefix of what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Handed to the operating system; synced in the background.
    #[default]
    Buffered,
    /// On the device before the write returns; concurrent writers share one sync.
    Synced,
}

/// What to do at open when the write-ahead log holds damage that no power cut explains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WalRecovery {
    /// Refuse to open, naming the file and the byte.
    #[default]
    Strict,
    /// Open with what precedes the damage and drop the rest.
    StopAtDamage,
}

/// Whether a get asks the last level, where its Bloom clusters lie on the device, while the levels above are
/// still being searched.
///
/// Answers are the same; reads and waiting differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParallelSearch {
    /// Never: level after level.
    Serial,
    /// Together with a page of an upper level, while most such pages turn out to be wasted and the device is
    /// not busy.
    #[default]
    Learned,
    /// Together with the first page of an upper level, always.
    Always,
    /// By a second thread from the start, as in the paper.
    TwoThreads,
}

/// Whether keyspaces look for better designs by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AutoDesign {
    /// They keep the designs that they are given.
    #[default]
    Off,
    /// They say so ([`KeyspaceStats::proposed`](crate::KeyspaceStats::proposed) and an event) where their
    /// workload would be served better by another design, and the change would pay.
    Propose,
    /// They change to it.
    Apply,
}

/// Reads `off`, `propose` or `apply`.
///
/// ```
/// use siltstone::AutoDesign;
/// assert_eq!("propose".parse(), Ok(AutoDesign::Propose));
/// assert!("often".parse::<AutoDesign>().is_err());
/// ```
impl std::str::FromStr for AutoDesign {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "propose" => Ok(Self::Propose),
            "apply" => Ok(Self::Apply),
            other => Err(format!("{other:?} is not off, propose or apply")),
        }
    }
}

/// When filters and indexes of tables come into memory. Answers are the same; reads differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexLoading {
    /// When a lookup first asks for them, which waits for them.
    #[default]
    OnDemand,
    /// By background work, the upper levels' first. Until then lookups search the tables themselves, at a few
    /// reads more: a store with much of them answers as soon as it is open (SILT §4, fail-graceful indexing).
    InBackground,
}

/// Write buffers that a budget has room for which is too small for the default design.
const BUFFERS_PER_SMALL_BUDGET: u64 = 8;
/// Write buffers that the budget has to have room for at least, where nobody chose the design: two are
/// written to and flushed at a time, and filters are to have the rest.
const LEAST_BUFFERS_PER_BUDGET: u64 = 4;

/// Options of a store. Build them from the default: `Options { memory_budget_bytes: 1 << 30,
/// ..Options::default() }`.
#[derive(Clone, Debug)]
pub struct Options {
    /// Create the store where there is none.
    pub create_if_missing: bool,
    /// Memory in bytes for memtables, indexes of log stores, filters, indexes, page cache and compaction
    /// together; at least [`LEAST_BUDGET_BYTES`](Self::LEAST_BUDGET_BYTES), and at most 64 TiB. A keyspace
    /// that is created without a design gets the default one with write buffers and tables as small as the
    /// budget asks for.
    pub memory_budget_bytes: u64,
    /// Durability of writes that do not choose for themselves.
    pub durability: Durability,
    /// Milliseconds between background syncs of buffered writes; 0 = none.
    pub sync_interval_ms: u64,
    /// Compaction threads beside the flush thread. 0 = no threads at all: work runs inside writes once they
    /// would have to wait, and in [`Db::step`](crate::Db::step), which makes every run with the same calls
    /// the same.
    pub background_threads: usize,
    /// Design of keyspaces created without one.
    pub default_design: Design,
    /// Free bytes of the disk below which writes other than deletes are refused, so that compaction keeps
    /// room to free space, and a full store comes back once enough is deleted. What the largest merge
    /// needs that the store may have to make is kept free in any case: the bytes of its largest region,
    /// with the runs below that take part, three write buffers, and a 32nd part of all tables for
    /// tombstones.
    pub reserve_bytes: u64,
    /// Sealed memtables of one keyspace that may wait for their flush before its writers do.
    pub max_sealed_memtables: usize,
    /// Bytes of write-ahead log above which the keyspace that holds the oldest part is flushed. A quarter of
    /// the memory budget, or two memtables, bounds what memtables hold of it as well: that part is replayed
    /// into memory.
    pub max_wal_bytes: u64,
    /// Bytes of write-ahead log that are kept, beyond what the store itself needs, for those who follow its
    /// changes: a [`tail`](crate::Db::tail) can begin so far back, also after the store was closed. An open
    /// tail keeps what it has still to read in any case, up to this or `max_wal_bytes`, whichever is more.
    pub tail_retention_bytes: u64,
    /// Open files kept for reading tables.
    pub max_open_files: usize,
    /// Read and write tables around the system's page cache, which no budget counts, and read what log stores
    /// have synced so as well: the store then caches as much as its budget allows and no more, and compaction
    /// leaves nothing in memory to be written back. Where it does not, spare memory of the machine serves as
    /// a second cache. File systems that know no direct access are used as ever, and a store opened on a disk
    /// of its own reads and writes as that disk does.
    pub direct_reads: bool,
    /// When filters and indexes come into memory.
    pub index_loading: IndexLoading,
    /// Bytes per second of keys and values that flushes write: SILT's limit on conversion. 0 = no limit. A
    /// limit holds while writers can go on; where they would be slowed because of it, it is lifted.
    pub flush_bytes_per_second: u64,
    /// The same of compactions: SILT's limit on merging.
    pub compaction_bytes_per_second: u64,
    /// Compactions of one keyspace that may be under way at once; 0 = as many as there are threads. With 1,
    /// as SILT has it, no more than one region, and the part of the next level that it is merged with, is
    /// there twice.
    pub compactions_at_once: usize,
    /// How gets search the last level.
    pub parallel_search: ParallelSearch,
    /// Where sidecars, which hold filters of regions, are kept instead of the store's own directory, such as
    /// a small fast device beside a large one. They can always be made anew. Several stores may share it:
    /// each has a directory of its own there, which its file SIDECARS names. One that was copied or moved
    /// takes another; what no store names can be removed.
    pub metadata_dir: Option<PathBuf>,
    /// Prefix rules of the program's own, for keyspaces whose schema names one. Whoever opens the store gives
    /// them again.
    pub prefix_rules: PrefixRules,
    /// Merge operators of the program's own, for keyspaces that name one. Whoever opens the store gives them
    /// again.
    pub merge_operators: MergeOperators,
    /// Memory, threads and limits that this store shares with others. They take the place of
    /// `memory_budget_bytes`, `max_open_files`, `flush_bytes_per_second` and `compaction_bytes_per_second`
    /// here, and of the threads that `background_threads` asks for; 0 still means that no thread works for
    /// the store. Stores opened for reading only keep their own open files beside those that are shared.
    pub resources: Option<Resources>,
    /// Who is told what the store does in the background: see [`events`](crate::events).
    pub listeners: Listeners,
    /// Bytes of the event log, which the files EVENTS and EVENTS.old in the store's directory hold between
    /// them: what was flushed and compacted lately, and why, for people and for `siltstone stats --watch`. 0
    /// = none.
    pub event_log_bytes: u64,
    /// Whether keyspaces look for a better design by what they have counted of their workload
    /// ([`Keyspace::workload`](crate::Keyspace::workload)), of late above all. Where that has changed, a
    /// background thread searches for some tenths of a second. A change is due once staying has cost more
    /// than changing does; the more changes there were of late, the longer the next one waits.
    pub auto_design: AutoDesign,
    /// What the device's reads and writes and the steps of the processor take: predictions and designs that
    /// are chosen go by it. [`Device::from_json`] reads what `siltstone probe --json` measures.
    pub device: Device,
    /// Operations within which a change of design has to have paid for itself twice; 0 = 64 for each item.
    pub design_horizon_operations: u64,
    /// What to do about a damaged write-ahead log.
    pub wal_recovery: WalRecovery,
    /// The secret of a store that is created, instead of a random one: for tests and benchmarks that must
    /// repeat exactly.
    pub hash_secret: Option<[u8; 16]>,
}

/// Refuses a device whose numbers make no sense.
fn check_device(device: &Device) -> Result<()> {
    device.check().map_err(|error| Error::invalid(format_args!("device.{error}")))
}

impl Default for Options {
    fn default() -> Self {
        Self {
            create_if_missing: true,
            memory_budget_bytes: 256 << 20,
            durability: Durability::Buffered,
            sync_interval_ms: 1000,
            background_threads: 1,
            default_design: Design::default(),
            reserve_bytes: 64 << 20,
            max_sealed_memtables: 3,
            max_wal_bytes: 256 << 20,
            tail_retention_bytes: 0,
            max_open_files: 512,
            direct_reads: false,
            index_loading: IndexLoading::OnDemand,
            flush_bytes_per_second: 0,
            compaction_bytes_per_second: 0,
            compactions_at_once: 0,
            parallel_search: ParallelSearch::Learned,
            metadata_dir: None,
            prefix_rules: PrefixRules::default(),
            merge_operators: MergeOperators::default(),
            resources: None,
            listeners: Listeners::default(),
            event_log_bytes: 0,
            auto_design: AutoDesign::Off,
            device: Device::default(),
            design_horizon_operations: 0,
            wal_recovery: WalRecovery::Strict,
            hash_secret: None,
        }
    }
}

impl Options {
    /// The least [memory budget](Self::memory_budget_bytes), of a store or of several that share theirs. A
    /// design that is named for a keyspace needs room for two of its write buffers as well; one that is not
    /// named is made to fit.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, KeyspaceOptions, Options};
    ///
    /// let options = Options { memory_budget_bytes: Options::LEAST_BUDGET_BYTES, ..Options::default() };
    /// let db = Db::open(dir.path().join("db"), options)?;
    /// db.keyspace("items", KeyspaceOptions::default())?.put("a", "1")?;
    /// # Ok(())
    /// # }
    /// ```
    pub const LEAST_BUDGET_BYTES: u64 = resources::LEAST_BUDGET_BYTES;

    /// Returns options for a memory budget, with nothing else to be chosen: keyspaces without a design get
    /// the one that suits items of 100 bytes best, sixteen times as many bytes of them as there is memory,
    /// which are read as often as they are written, and whose gets mostly find something.
    /// [`auto_for`](Self::auto_for) asks what the store will really hold.
    ///
    /// [`auto_design`](Self::auto_design) is [`AutoDesign::Propose`]: once a keyspace has served a while, it
    /// says which other design would suit what it really does. With [`AutoDesign::Apply`] it changes to it.
    ///
    /// The design is searched among the presets at several sizes, by what the model says that they cost
    /// (`siltstone_model::advise`); that takes from some
    /// hundredths of a second to two seconds for very large budgets.
    ///
    /// ```
    /// use siltstone::{Db, KeyspaceOptions, Options};
    /// # let dir = tempfile::tempdir()?;
    /// let db = Db::open(dir.path(), Options::auto(32 << 20))?;
    /// let keyspace = db.create_keyspace("sessions", KeyspaceOptions::default())?;
    /// keyspace.put(b"key", b"value")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn auto(memory_budget_bytes: u64) -> Self {
        Self::auto_of_usual(memory_budget_bytes, Device::default())
    }

    /// The same on a device.
    fn auto_of_usual(memory_budget_bytes: u64, device: Device) -> Self {
        let auto_design = AutoDesign::Propose;
        let usual = Self { memory_budget_bytes, auto_design, device, ..Self::default() };
        let workload = Workload::of_memory(memory_budget_bytes);
        let request =
            Request { for_any_schema: true, device, ..Request::quick(workload, memory_budget_bytes) };
        match advise(&request) {
            Ok(advice) => Self { default_design: advice.best.design, ..usual },
            // What is too small for any design is refused when the store is opened.
            Err(_) => usual,
        }
    }

    /// Returns options for a memory budget and a workload: keyspaces without a design get the one whose
    /// operations cost least by the model, and propose another where what they really do calls for it. Give
    /// of the workload what is known. The search takes up to two seconds.
    ///
    /// The design is for keys as the workload has them: point keys where its groups have one item, for which
    /// designs may be chosen that can't keep groups together.
    ///
    /// ```
    /// use siltstone::{Mix, Options, Workload};
    ///
    /// // Items that share prefixes, and of which most that are asked for are not there.
    /// let mix = Mix { hits: 0.1, misses: 0.6, scans: 0.0, puts: 0.3 };
    /// let workload = Workload { items: 2e6, group_items: 64.0, mix, ..Workload::default() };
    /// let options = Options::auto_for(64 << 20, &workload)?;
    /// assert!(options.default_design.check().is_ok());
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` where a number of the workload makes no sense, or the budget is too small for any
    /// design.
    pub fn auto_for(memory_budget_bytes: u64, workload: &Workload) -> Result<Self> {
        Self::auto_on(memory_budget_bytes, workload, Device::default())
    }

    /// As [`auto_for`](Self::auto_for), on a device that is known.
    ///
    /// ```
    /// use siltstone::{Device, Options, Workload};
    ///
    /// // A disk that turns: 8 ms for each random read.
    /// let device = Device { random_reads_per_second: 125.0, ..Device::default() };
    /// let options = Options::auto_on(64 << 20, &Workload { items: 2e6, ..Workload::default() }, device)?;
    /// assert_eq!(options.device, device);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`auto_for`](Self::auto_for), and where a number of the device makes no sense.
    pub fn auto_on(memory_budget_bytes: u64, workload: &Workload, device: Device) -> Result<Self> {
        check_device(&device)?;
        let request = Request { device, ..Request::new(*workload, memory_budget_bytes) };
        let advice = advise(&request).map_err(|error| Error::invalid(format_args!("workload.{error}")))?;
        let (default_design, auto_design) = (advice.best.design, AutoDesign::Propose);
        Ok(Self { memory_budget_bytes, default_design, auto_design, device, ..Self::default() })
    }

    /// Returns the same options with the preset `name` for keyspaces that are created without a design, or,
    /// where it is `auto`, with what [`auto`](Self::auto) picks for the memory budget and the device.
    ///
    /// ```
    /// use siltstone::{AutoDesign, Options, presets};
    ///
    /// let options = Options { memory_budget_bytes: 64 << 20, ..Options::default() };
    /// assert_eq!(options.clone().with_preset("lean")?.default_design, presets::lean());
    /// assert_eq!(options.clone().with_preset("auto")?.auto_design, AutoDesign::Propose);
    /// assert!(options.with_preset("lien").unwrap_err().to_string().contains("lean"));
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` where there is no such preset; it names those there are.
    pub fn with_preset(self, name: &str) -> Result<Self> {
        if name == "auto" {
            let memory = self.clone().with_shared().memory_budget_bytes;
            let Self { default_design, auto_design, .. } = Self::auto_of_usual(memory, self.device);
            return Ok(Self { default_design, auto_design, ..self });
        }
        let default_design = Design::preset(name).ok_or_else(|| {
            let known = presets::names();
            Error::invalid(format_args!("there is no preset {name:?}; there are auto, {known}"))
        })?;
        Ok(Self { default_design, ..self })
    }

    /// Returns the same options with the numbers of the resources that are shared.
    pub(crate) fn with_shared(mut self) -> Self {
        if let Some(shared) = self.resources.as_ref().map(Resources::options) {
            self.memory_budget_bytes = shared.memory_budget_bytes;
            self.max_open_files = shared.max_open_files;
            self.flush_bytes_per_second = shared.flush_bytes_per_second;
            self.compaction_bytes_per_second = shared.compaction_bytes_per_second;
        }
        self
    }

    /// Checks that the options can work together.
    pub(crate) fn check(&self) -> Result<()> {
        self.default_design.check()?;
        check_device(&self.device)?;
        resources::check_budget(self.memory_budget_bytes).map_err(|error| error.of("options"))?;
        if self.max_sealed_memtables == 0 {
            return Err(Error::invalid("options.max_sealed_memtables: use at least 1"));
        }
        if self.background_threads > 64 {
            return Err(Error::invalid("options.background_threads: use at most 64"));
        }
        if self.max_open_files < 8 {
            return Err(Error::invalid("options.max_open_files: use at least 8"));
        }
        Ok(())
    }

    /// Checks that a store with these options could create a keyspace with `keyspace`, without touching
    /// anything.
    ///
    /// ```
    /// use siltstone::{KeyspaceOptions, Options, presets};
    ///
    /// let small = Options { memory_budget_bytes: 8 << 20, ..Options::default() };
    /// let keyspace = KeyspaceOptions { design: Some(presets::lsm_trie()), ..KeyspaceOptions::default() };
    /// assert!(small.check_keyspace(&keyspace).unwrap_err().to_string().contains("memory_budget_bytes"));
    /// let scaled = presets::lsm_trie().scaled_to(256 << 10);
    /// assert!(small.check_keyspace(&KeyspaceOptions { design: Some(scaled), ..keyspace }).is_ok());
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` as from [`Db::create_keyspace`](crate::Db::create_keyspace).
    pub fn check_keyspace(&self, keyspace: &KeyspaceOptions) -> Result<()> {
        let options = self.clone().with_shared();
        options.check()?;
        options.folder(keyspace.merge_operator.as_deref(), "")?;
        options.check_design(&options.design_for(keyspace), &keyspace.schema)
    }

    /// Returns the design of a keyspace that is created with `keyspace`: the one that it names, or else the
    /// default one, [scaled](Design::scaled_to) down where two of its write buffers would take more than half
    /// of the budget.
    pub(crate) fn design_for(&self, keyspace: &KeyspaceOptions) -> Design {
        if let Some(design) = &keyspace.design {
            return design.clone();
        }
        let design = &self.default_design;
        let affordable = self.memory_budget_bytes / BUFFERS_PER_SMALL_BUDGET;
        let needed = design.write_buffer_bytes().max(1);
        if needed <= self.memory_budget_bytes / LEAST_BUFFERS_PER_BUDGET {
            return design.clone();
        }
        // Halved until it fits, so that tables have a round size and the design a name.
        let halvings = needed.div_ceil(affordable.max(1)).next_power_of_two();
        let table_bytes = design.levels.first().map_or(0, |level| level.table_bytes);
        let scaled = design.scaled_to(table_bytes / halvings);
        if scaled.check().is_ok() { scaled } else { design.clone() }
    }

    /// Returns what carries out the merges of a keyspace with the merge operator `name`.
    ///
    /// # Errors
    /// `InvalidInput` where no such operator is known.
    pub(crate) fn folder(&self, name: Option<&str>, keyspace: &str) -> Result<Option<Arc<Folder>>> {
        let Some(name) = name else { return Ok(None) };
        let operator = self.merge_operators.get(name).ok_or_else(|| {
            Error::invalid(format_args!(
                "the merge operator {name:?} is unknown; name one of the engine's own, such as \"add\" or \"append\". One of a \
                 program's own is known to that program alone, which gives it when it opens the store"
            ))
        })?;
        Ok(Some(Arc::new(Folder::new(operator, name, keyspace))))
    }

    /// Returns `design` as a keyspace can have it that takes merges or not.
    ///
    /// # Errors
    /// `InvalidInput` where it does not suit its keys or does not fit the budget.
    pub(crate) fn usable_design(
        &self,
        mut design: Design,
        schema: &Schema,
        takes_merges: bool,
    ) -> Result<Design> {
        self.check_design(&design, schema)?;
        if takes_merges && matches!(design.write_buffer, WriteBufferSpec::LogStore { .. }) {
            // A log store has a few places for each key, and operands stand in the log one by one.
            let bytes = design.write_buffer_bytes().max(4 << 10);
            design.write_buffer = WriteBufferSpec::MemTable { bytes };
            design.check_for(schema)?;
        }
        Ok(design)
    }

    /// Checks that a keyspace of `design` suits its keys and fits the budget.
    pub(crate) fn check_design(&self, design: &Design, schema: &Schema) -> Result<()> {
        design.check_for(schema)?;
        if let Some(rule) = schema.prefix_rule() {
            rule.check().map_err(|why| Error::invalid(format_args!("schema.prefix: {why}")))?;
        }
        let needed = design.write_buffer_bytes().saturating_mul(2);
        if needed > self.memory_budget_bytes {
            let (field, what) = match design.write_buffer {
                WriteBufferSpec::MemTable { .. } => ("bytes", "memtables"),
                WriteBufferSpec::LogStore { .. } => ("entries", "log stores' indexes"),
            };
            return Err(Error::invalid(format_args!(
                "design.write_buffer.{field}: two {what} of {} bytes do not fit options.memory_budget_bytes ({}); raise the budget, make \
                 the write buffer and the tables smaller, or name no design, so that one is made that fits",
                design.write_buffer_bytes(),
                self.memory_budget_bytes
            )));
        }
        Ok(())
    }
}

/// Options of one keyspace. The merge operator is fixed when it is created;
/// [`Keyspace::change_schema`](crate::Keyspace::change_schema) changes the schema, and
/// [`Keyspace::redesign`](crate::Keyspace::redesign) the design.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyspaceOptions {
    /// How keys are ordered and which share a prefix.
    pub schema: Schema,
    /// The layout; `None` takes [`Options::default_design`].
    pub design: Option<Design>,
    /// Name of the operator that carries out merges, fixed when the keyspace is created: one of the engine's
    /// own or of [`Options::merge_operators`]; see [`MergeOperators`]. `None` takes no merges. Items of a
    /// keyspace with an operator can't expire, and its write buffer is a memtable: where the design has a log
    /// store, a memtable takes the memory of its index.
    pub merge_operator: Option<String>,
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        Self { schema: Schema::Point, design: None, merge_operator: None }
    }
}

/// Options of one write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// What the write survives; `None` takes [`Options::durability`].
    pub durability: Option<Durability>,
}
