//! Siltstone: an embedded key-value storage engine for billions of small items on one machine with little
//! memory.
//!
//! ```
//! # fn main() -> siltstone::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("store");
//! use siltstone::{Db, KeyspaceOptions, Options, Schema};
//!
//! let db = Db::open(path, Options::default())?;
//! // Keys are paths, and what lies in one directory is listed together.
//! let schema = Schema::delimited(b'/');
//! let files = db.keyspace("files", KeyspaceOptions { schema, ..KeyspaceOptions::default() })?;
//! files.put("home/notes.txt", "42 bytes")?;
//! files.put("home/todo.txt", "7 bytes")?;
//! assert_eq!(files.get("home/notes.txt")?.as_deref(), Some(&b"42 bytes"[..]));
//! for item in files.prefix("home/")? {
//!     let (key, value) = item?;
//!     println!("{} = {}", key.escape_ascii(), value.escape_ascii());
//! }
//! db.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! | to | see |
//! |---|---|
//! | open a store, and give it memory | [`Db`], [`Options`]; several that share it: [`Resources`] |
//! | choose how keys are grouped and laid out | [`KeyspaceOptions`], [`Schema`], [`Design`], [`presets`] |
//! | read and write | [`Keyspace`]; as one: [`Batch`], [`Transaction`]; as it was: [`Snapshot`] |
//! | write without reading | [`Keyspace::merge`], [`MergeOperators`] |
//! | fill it at once | [`Keyspace::ingest`], [`Db::replace`] |
//! | back it up, follow it, mend it | [`Db::backup`], [`Backups`], [`Db::tail`], [`Db::repair`] |
//!
//! The guide in the repository's docs/guide answers more. What follows is for those who change the engine;
//! ARCHITECTURE.md says how it is built, and docs/format.md has every byte on disk.
//!
//! | floor | modules | holds |
//! |---|---|---|
//! | 8 | this one | the public face |
//! | 7 | `db` | [`Db`], [`Keyspace`], [`Snapshot`]; the read path, the write path, background work, recovery |
//! | 6 | `compaction` | tasks run: merge, retain, partition |
//! | 5 | `version`, `region_filter` | Level › Region › Run; edits and the manifest; filters over a region's runs |
//! | 4 | `table`, `wal`, `memtable`, `log_store`, `options`, `design_text`, `resources` | files and write buffers; what stores share |
//! | 3 | `cache`, `memory`, `record`, `segment`, `operation`, `entry`, `value`, `merge_operator`, `compression`, `codec`, `event_log` | bytes, budget |
//! | 2 | [`io`] | the disk, real or simulated |
//! | 1 | `error`, `activity`, `stats`, `filename`, `ids`, [`events`] | what goes wrong, what is counted, names and numbers of files, what happens |
//! | 0 | `sync` | locks, atomics, threads and time, the system's or those of a scheduler of tests |
//!
//! Each floor uses only those below it; a test reads the imports and holds them to it.

#[cfg(not(unix))]
compile_error!(
    "Siltstone runs on Unix alone (Linux is what it is tested on): it relies on locks of directories, on reads at a place of \
     a file, and on syncs of directories as Unix has them"
);

mod activity;
mod cache;
mod codec;
mod compaction;
mod compression;
mod db;
mod design_text;
mod entry;
mod error;
mod event_log;
pub mod events;
mod filename;
#[cfg(feature = "sim")]
#[doc(hidden)]
pub mod fuzzing;
mod ids;
pub mod inspect;
pub mod io;
mod log_store;
mod memory;
mod memtable;
mod merge_operator;
mod operation;
mod options;
mod record;
mod region_filter;
mod resources;
mod segment;
mod stats;
mod sync;
mod table;
mod value;
mod version;
mod wal;

pub use db::{
    BackupInfo, BackupOptions, BackupProgress, BackupReport, Backups, Batch, Change, CompactProgress,
    CompactReport, CompareAndSet, Db, DrainProgress, Ingest, IngestOptions, IngestProgress, IngestReport,
    Iter, Keys, Keyspace, Loss, MAX_VALUE_BYTES, Old, RepairProgress, RepairReport, Snapshot, SuffixBounds,
    SuffixRange, Tail, TailBatch, TailOperation, Transaction, Update, VerifyProgress, VerifyReport,
};
pub use design_text::parse_design;
pub use error::{Error, ErrorKind, Result};
pub use merge_operator::{MergeOperator, MergeOperators, decode_set, encode_set};
pub use options::{
    AutoDesign, Durability, IndexLoading, KeyspaceOptions, Options, ParallelSearch, WalRecovery, WriteOptions,
};
pub use resources::{ResourceOptions, ResourceStats, Resources};
pub use siltstone_design::schema::MAX_KEY_BYTES;
pub use siltstone_design::{
    Compression, Design, DesignError, Format, IndexSpec, KeyError, LevelSpec, PrefixFn, PrefixRule,
    PrefixRules, RegionFilterSpec, RuleName, Schema, SuffixOrder, TableFilterSpec, ThirdLevel,
    WriteBufferSpec, presets,
};
pub use siltstone_model::price::{Device, Mix, Sizes, ValueSize, Workload};
pub use stats::{
    DesignChange, Drift, DriftCause, Figures, KeyspaceStats, LevelStats, MemoryStats, ProposedDesign,
    RedesignReason, RedesignStats, SchemaChangeStats, StallStats, Stats,
};
