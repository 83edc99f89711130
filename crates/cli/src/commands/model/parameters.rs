//! The parameters that `siltstone model` commands share, and what they mean for each engine.
//!
//! A parameter that an engine does not have is refused by name: an ignored one would make two runs look
//! different that are not.

use crate::failure::{Result, refused, usage};
use crate::sizes;
use clap::ValueEnum;
use siltstone_model::engines::cola::{self, Growing};
use siltstone_model::engines::leveldb::{self, Deletes, Form, LevelDb};
use siltstone_model::engines::rocksdb_universal::Universal;
use siltstone_model::engines::sizes as level_sizes;
use siltstone_model::engines::table_aware::DEFAULT_TABLE_BYTES;
use siltstone_model::engines::{Cost, samt};
use siltstone_model::{Direct, Popularity};

/// An engine there is a model of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Levels of tables, compacted round-robin
    Leveldb,
    /// The same, with a choice of which table goes next
    RocksdbLeveled,
    /// Runs merged by size and number
    RocksdbUniversal,
    /// Cache-oblivious lookahead array
    Cola,
    /// Sorted array merge tree
    Samt,
    /// Log, hash tables and a sorted store (wa and ra)
    Silt,
}

/// Which table is compacted next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pick {
    /// The one after the last, in key order
    RoundRobin,
    /// The largest
    Largest,
}

/// Which form of the leveled model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Model {
    /// As printed
    Paper,
    /// Better with large write buffers
    V2,
    /// Tables have a size: better with few tables a level and strong skew
    Tables,
}

/// Engine, workload and layout.
#[derive(clap::Args, Clone, Debug)]
pub struct Parameters {
    /// The engine
    #[arg(long, value_enum)]
    pub engine: Engine,
    /// Number of distinct keys
    #[arg(long, value_name = "COUNT", value_parser = sizes::parse_count)]
    pub keys: u64,
    /// Bytes of an item, key and value and overhead
    #[arg(long, value_name = "BYTES", value_parser = sizes::parse_size, default_value = "1000")]
    pub item_bytes: u64,
    /// Exponent of the Zipf distribution of the keys written; 0 is uniform, YCSB's is 0.99
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    pub skew: f64,
    /// Size of the memtable and its log [default: 4M]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse_size)]
    pub write_buffer: Option<u64>,
    /// Tables in level 0 that start a compaction; runs, for rocksdb-universal [default: 4; rocksdb-universal:
    /// 12]
    #[arg(long, value_name = "COUNT", value_parser = sizes::parse_count)]
    pub l0_files: Option<u64>,
    /// Size of level 1 [default: 10M]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse_size)]
    pub level1: Option<u64>,
    /// Growth from level to level [default: 10; cola: 2; samt: 4]
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true)]
    pub growth: Option<f64>,
    /// Sizes of levels 1, 2, …, ascending; the last level holds all keys whatever is given
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = sizes::parse_size, conflicts_with_all = ["level1", "growth", "levels"])]
    pub level_sizes: Option<Vec<u64>>,
    /// Number of levels, level 0 not counted; growth follows [default: as many as growth asks for]
    #[arg(long, value_name = "COUNT", value_parser = sizes::parse_count)]
    pub levels: Option<u64>,
    /// Which table of a level is compacted next [default: round-robin; rocksdb-leveled: largest]
    #[arg(long, value_enum)]
    pub pick: Option<Pick>,
    /// Whether a flush writes a key once (RocksDB) or in every version the memtable holds (LevelDB) [default:
    /// true]
    #[arg(long, value_name = "BOOL")]
    pub flush_dedup: Option<bool>,
    /// Which form of the model [default: paper]
    #[arg(long, value_enum)]
    pub model: Option<Model>,
    /// Tables are cut where the next level's begin, as RocksDB does from 7.8 on
    #[arg(long)]
    pub aligned_tables: bool,
    /// The store grows from nothing to as many requests as there are keys
    #[arg(long, conflicts_with = "steady")]
    pub grow: bool,
    /// The store holds all keys already and is updated [default]
    #[arg(long)]
    pub steady: bool,
    /// Share of requests that delete [default: 0]
    #[arg(long, value_name = "FRACTION", allow_negative_numbers = true)]
    pub delete_fraction: Option<f64>,
    /// Bytes of a tombstone [default: 20]
    #[arg(long, value_name = "BYTES", value_parser = sizes::parse_size, requires = "delete_fraction")]
    pub tombstone_bytes: Option<u64>,
}

/// An engine with its parameters.
pub enum Layout {
    Leveled(LevelDb),
    Universal(Universal),
    Cola(Growing),
    Samt(Growing),
}

impl Parameters {
    /// The keys' popularity.
    pub fn popularity(&self) -> Result<Popularity> {
        Popularity::zipf(self.keys, self.skew).map_err(refused)
    }

    /// Bytes in items.
    pub fn items(&self, bytes: u64) -> f64 {
        bytes as f64 / self.item_bytes as f64
    }

    /// The write buffer in items.
    fn write_buffer_items(&self) -> f64 {
        self.write_buffer
            .map_or(leveldb::DEFAULT_WRITE_BUFFER_BYTES / self.item_bytes as f64, |bytes| self.items(bytes))
    }

    /// The engine the parameters describe.
    pub fn layout(&self) -> Result<Layout> {
        if self.item_bytes == 0 {
            usage!("--item-bytes: 0 given; there must be at least 1");
        }
        if self.keys == 0 {
            usage!("--keys: 0 given; there must be at least 1");
        }
        self.refuse_foreign()?;
        match self.engine {
            Engine::Leveldb | Engine::RocksdbLeveled => self.leveled().map(Layout::Leveled),
            Engine::RocksdbUniversal => {
                let mut universal = Universal::new(self.write_buffer_items());
                if let Some(files) = self.l0_files {
                    universal.level0_file_num_compaction_trigger = files as usize;
                    universal.level0_stop_writes_trigger = files.saturating_add(2) as usize;
                }
                universal.flush_dedup = self.flush_dedup.unwrap_or(true);
                universal.check().map_err(refused)?;
                Ok(Layout::Universal(universal))
            }
            Engine::Cola => self.growing(2).map(Layout::Cola),
            Engine::Samt => self.growing(4).map(Layout::Samt),
            Engine::Silt => {
                usage!("--engine: silt has wa and ra only; see also siltstone model silt --help")
            }
        }
    }

    fn leveled(&self) -> Result<LevelDb> {
        let keys = self.keys as f64;
        let level1 =
            self.level1.map_or(leveldb::DEFAULT_LEVEL1_BYTES / self.item_bytes as f64, |b| self.items(b));
        let sizes = match (&self.level_sizes, self.levels) {
            (Some(bytes), _) => {
                let given: Vec<f64> = bytes.iter().map(|&bytes| self.items(bytes)).collect();
                level_sizes::custom(&given, keys)
            }
            (None, Some(_)) if self.growth.is_some() => {
                usage!("--growth: follows from --levels; give one of the two")
            }
            (None, Some(levels)) => level_sizes::with_level_count(level1, levels as usize, keys),
            (None, None) => {
                level_sizes::geometric(level1, self.growth.unwrap_or(leveldb::DEFAULT_GROWTH), keys)
            }
        };
        let files = self.l0_files.map_or(leveldb::DEFAULT_LEVEL0_TABLES, |files| files as f64);
        let pick = match (self.pick, self.engine) {
            (Some(Pick::Largest), _) | (None, Engine::RocksdbLeveled) => leveldb::Pick::Largest,
            _ => leveldb::Pick::RoundRobin,
        };
        let fraction = self.delete_fraction.unwrap_or(0.0);
        let tombstone_size = (self.tombstone_bytes.unwrap_or(20) as f64 / self.item_bytes as f64).min(1.0);
        let engine = LevelDb {
            flush_dedup: self.flush_dedup.unwrap_or(true),
            pick,
            form: if self.model == Some(Model::V2) { Form::V2 } else { Form::Paper },
            aligned_tables: self.aligned_tables,
            deletes: Deletes { fraction, tombstone_size },
            ..LevelDb::new(self.write_buffer_items(), files, sizes.map_err(refused)?)
        };
        engine.check().map_err(refused)?;
        Ok(engine)
    }

    fn growing(&self, default_growth: u32) -> Result<Growing> {
        let growth = match self.growth {
            None => default_growth,
            Some(r) if r.fract() == 0.0 && (2.0..=1024.0).contains(&r) => r as u32,
            Some(r) => usage!("--growth: {r} given; merges are counted, so it must be whole, from 2 to 1024"),
        };
        let write_buffer = self.write_buffer_items();
        let levels = match self.levels {
            Some(levels) => levels as usize,
            None => Growing::levels_for(self.keys as f64, write_buffer, growth),
        };
        Ok(Growing { write_buffer, growth, levels })
    }

    /// For an engine whose model knows keys and their sizes only.
    pub fn refuse_all_but_workload(&self) -> Result<()> {
        self.refuse_foreign()
    }

    /// Refuses what the engine does not have.
    fn refuse_foreign(&self) -> Result<()> {
        use Engine::{Cola, Leveldb, RocksdbLeveled, RocksdbUniversal, Samt};
        let leveled: &[Engine] = &[Leveldb, RocksdbLeveled];
        let given: [(&str, bool, &[Engine]); 14] = [
            (
                "write-buffer",
                self.write_buffer.is_some(),
                &[Leveldb, RocksdbLeveled, RocksdbUniversal, Cola, Samt],
            ),
            ("l0-files", self.l0_files.is_some(), &[Leveldb, RocksdbLeveled, RocksdbUniversal]),
            ("level1", self.level1.is_some(), leveled),
            ("growth", self.growth.is_some(), &[Leveldb, RocksdbLeveled, Cola, Samt]),
            ("level-sizes", self.level_sizes.is_some(), leveled),
            ("levels", self.levels.is_some(), &[Leveldb, RocksdbLeveled, Cola, Samt]),
            ("pick", self.pick.is_some(), leveled),
            ("flush-dedup", self.flush_dedup.is_some(), &[Leveldb, RocksdbLeveled, RocksdbUniversal]),
            ("model", self.model.is_some(), leveled),
            ("aligned-tables", self.aligned_tables, leveled),
            ("grow", self.grow, leveled),
            ("delete-fraction", self.delete_fraction.is_some(), leveled),
            ("tombstone-bytes", self.tombstone_bytes.is_some(), leveled),
            ("skew", self.skew != 0.0, &[Leveldb, RocksdbLeveled, RocksdbUniversal, Cola, Samt]),
        ];
        for (flag, is_given, engines) in given {
            if is_given && !engines.contains(&self.engine) {
                usage!("--{flag}: the model of {} has no such parameter", self.engine_name());
            }
        }
        Ok(())
    }

    /// The engine as it is named on the command line.
    pub fn engine_name(&self) -> String {
        self.engine.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// What the layout writes; `table_bytes` is for the form that counts tables.
    pub fn cost(&self, layout: &Layout, table_bytes: Option<u64>) -> Result<Cost> {
        let keys = Direct::new(&self.popularity()?);
        let by_tables = table_bytes.is_some() || self.model == Some(Model::Tables);
        let table = table_bytes.map_or(DEFAULT_TABLE_BYTES / self.item_bytes as f64, |b| self.items(b));
        let cost = match layout {
            Layout::Leveled(_) if self.grow && by_tables => {
                usage!("--grow: not modelled by tables; give another --model")
            }
            Layout::Leveled(engine) if by_tables => engine.write_amplification_by_tables(&keys, table),
            Layout::Leveled(engine) if self.grow => {
                engine.write_amplification_growing(&keys, self.keys as f64)
            }
            Layout::Leveled(engine) => engine.write_amplification(&keys),
            Layout::Universal(engine) => engine.write_amplification(&keys),
            Layout::Cola(engine) => cola::write_amplification(engine, &keys),
            Layout::Samt(engine) => samt::write_amplification(engine, &keys),
        };
        cost.map_err(refused)
    }
}
