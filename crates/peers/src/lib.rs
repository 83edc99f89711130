//! The same workloads on Siltstone and on other storage engines, under one memory cap.
//!
//! One run is one workload on one engine in a process of its own, inside a memory cgroup of its own: what it
//! takes, and how it ends, concerns nobody else. [`supervise`] starts runs and keeps their [`record`]s;
//! [`run`] is what happens in the process; [`engine`] holds one file per engine, each with the settings it
//! gets; [`report`] makes tables and charts of the records. [`scale`] runs the same at several numbers of
//! items.
//! [`trials`] are measurements of single operations that only some engines have.
//!
//! The only crate that links other engines, and the only one with foreign code: RocksDB and LevelDB are
//! loaded from the system when the program runs (`dynamic.rs`), so that it builds where they are not, and
//! says which are missing.

pub mod cli;
pub mod confine;
mod dynamic;
pub mod engine;
pub mod failure;
pub mod kernel;
pub mod load;
pub mod record;
pub mod report;
pub mod run;
pub mod scale;
pub mod supervise;
pub mod trials;
pub mod workload;
