//! RocksDB's leveled compaction: LevelDB's layout, but a choice of which table to compact next.
//!
//! Source: Lim et al., FAST 2016, §7 and §4.3.2. Going round the key space leaves the part that waits longest
//! the densest, so a table picked there covers few keys and meets little of the next level. Picking the
//! largest table gives that away: tables of a level are all cut to one size, so the largest lies anywhere.
//! *Ours* (the paper only measures this): the level is then equally dense everywhere, and the same key is
//! compacted once per `Unique⁻¹(Size)` requests instead of `DInterval(Size)`, which is "the interval without
//! non-uniformity" of §4.3.2.

use super::leveldb::{DEFAULT_LEVEL0_TABLES, LevelDb, Pick};

/// The model of a RocksDB with these sizes: RocksDB writes a key once per flush whatever the pick.
///
/// ```
/// use siltstone_model::engines::leveldb::Pick;
/// use siltstone_model::engines::rocksdb_leveled::rocksdb;
/// use siltstone_model::engines::sizes::geometric;
/// use siltstone_model::{Direct, Popularity};
///
/// // §7: round-robin reduces what RocksDB writes by up to 32.0 %.
/// let keys = Direct::new(&Popularity::uniform(10_000_000)?);
/// let sizes = geometric(10_485.76, 10.0, 1e7)?;
/// let cost = |pick| rocksdb(4194.304, sizes.clone(), pick).write_amplification(&keys);
/// let saved = 1.0 - cost(Pick::RoundRobin)?.write_amplification / cost(Pick::Largest)?.write_amplification;
/// assert!((0.2..0.4).contains(&saved), "{saved}");
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
pub fn rocksdb(write_buffer: f64, level_sizes: Vec<f64>, pick: Pick) -> LevelDb {
    LevelDb { pick, ..LevelDb::new(write_buffer, DEFAULT_LEVEL0_TABLES, level_sizes) }
}
