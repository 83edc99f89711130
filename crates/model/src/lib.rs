//! What log-structured layouts cost: pure arithmetic, no I/O, no clock, no randomness but what a caller
//! seeds.
//!
//! The models follow Lim, Andersen and Kaminsky, "Towards Accurate and Fast Evaluation of Multi-Stage
//! Log-Structured Designs" (FAST 2016). A table holds a key once however often it was written, so what a
//! merge writes depends on how popular each key is. Everything starts from a [`Popularity`]; two functions of
//! it, the expected number of distinct keys in so many requests and the inverse, turn requests into table
//! sizes and back.
//!
//! | module | holds |
//! |---|---|
//! | [`popularity`] | [`Popularity`]: uniform, Zipf, measured; grouped so that 10^8 keys take some 100 pairs of numbers |
//! | [`primitives`] | [`Primitives`]: `unique`, `unique_inverse`, `merge`, `dinterval`; direct and tabulated |
//! | [`engines`] | write amplification of LevelDB, RocksDB (leveled, universal), COLA, SAMT |
//! | [`read`] | read amplification |
//! | [`optimize`] | level sizes, growth factor, level count and write buffer that write least |
//! | [`simulate`] | item-level and table-level simulators |
//! | [`price`] | what any design that the engine runs writes, reads, holds in memory and takes in space and time |
//! | [`advise`](mod@advise) | the design that suits a workload and limits, by search; why, in words |
//! | [`cost`] | SILT's and SlimDB's own cost models |
//! | [`tune`] | options for other engines, from their workload |
//!
//! Conventions: sizes are **items**, as `f64`, wherever a name does not end in `_bytes`; requests are
//! inserts; amplification is bytes written (or reads done) per byte (or query) asked for, the log included.
//!
//! ```
//! use siltstone_model::engines::leveldb::LevelDb;
//! use siltstone_model::{Direct, Popularity};
//!
//! // 100 million keys, uniform, 1,000-byte items, LevelDB as it comes: Table 1 of the paper.
//! let keys = Direct::new(&Popularity::uniform(100_000_000)?);
//! let leveldb = LevelDb::with_defaults(1e8, 1000.0)?;
//! let cost = leveldb.write_amplification(&keys)?;
//! assert_eq!(format!("{:.2}", cost.write_amplification), "25.83");
//! # Ok::<(), siltstone_model::ModelError>(())
//! ```

#![deny(missing_docs)]

pub mod advise;
pub mod cost;
pub mod engines;
mod error;
pub mod optimize;
pub mod popularity;
pub mod price;
pub mod primitives;
pub mod read;
pub mod simulate;
pub mod tune;

pub use error::ModelError;
pub use popularity::{Grouping, Popularity};
pub use primitives::{Direct, Primitives, Tabulated};
