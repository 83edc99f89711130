//! Options for other engines: what a RocksDB or LevelDB writes as it is set up, and with which settings it
//! would write less.
//!
//! | module | holds |
//! |---|---|
//! | [`ini`] | RocksDB's OPTIONS file, read and changed in place |
//! | [`settings`] | what it says about writing, and remarks on what the model leaves out |
//! | [`log`] | RocksDB's LOG: what was really written |
//! | [`leveldb`] | the same for LevelDB, which has no OPTIONS file |
//! | [`course`] | whether a store is loaded or updated |
//! | [`workload`] | how popular keys are, from a person, a trace or the LOG |
//! | [`predict`] | write amplification, reads and space for given settings |
//! | [`suggest`] | settings that write less |
//!
//! ```
//! use siltstone_model::tune::{ini::OptionsFile, settings::Settings, suggest::advise, workload::{Given, Workload}};
//!
//! let text = "[CFOptions \"default\"]\n  max_bytes_for_level_base=10485760\n  write_buffer_size=4194304\n";
//! let settings = Settings::read(&OptionsFile::parse(text)?, "default")?;
//! let given = Given { keys: Some(1e6), item_bytes: Some(984.0), skew: Some(0.0), ..Given::default() };
//! let advice = advise(&settings, &Workload::new(&given, &settings, None)?)?;
//! assert!(advice.after.write_amplification < 0.9 * advice.now.write_amplification);
//! assert_eq!(advice.changes.len(), 2);
//! # Ok::<(), siltstone_model::ModelError>(())
//! ```

pub mod course;
mod events;
pub mod ini;
pub mod leveldb;
pub mod log;
pub mod predict;
pub mod settings;
pub mod suggest;
pub mod workload;
