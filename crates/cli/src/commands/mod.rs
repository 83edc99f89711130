//! One file per command: its arguments with their help, and what it does.

pub mod advise;
pub mod backup;
pub mod bench;
pub mod checkpoint;
pub mod clear;
pub mod compact;
pub mod count;
pub mod del;
pub mod demo;
pub mod export;
pub mod get;
pub mod inspect;
pub mod keyspaces;
pub mod load;
mod load_bulk;
pub mod merge;
pub mod model;
pub mod probe;
pub mod put;
pub mod redesign;
pub mod repair;
pub mod scan;
pub mod serve;
pub mod stats;
pub mod tail;
pub mod tune;
pub mod verify;
