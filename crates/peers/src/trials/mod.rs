//! Measurements of what only some engines have: bulk builds, merges, many stores in one process, and their
//! caches beside those of libraries.
//!
//! A trial has contestants. Each runs in a process and a memory group of its own ([`contest`]), one after
//! the other, and answers with named figures, of which a table is made. Nothing is kept: a trial is run
//! again as a whole.

mod bulk;
mod caches;
mod contest;
mod merges;
mod stores;

use crate::failure::Result;
use clap::Subcommand;
pub use contest::{CHILD_ARGUMENT, serve};
use serde::{Deserialize, Serialize};
use siltstone_lab::kit::sizes;
use std::path::PathBuf;

/// What to measure.
#[derive(Subcommand, Clone, Debug, Serialize, Deserialize)]
pub enum Trial {
    /// Items in no order and in the engine's own by a bulk build, by batches, and by RocksDB's table files
    Bulk(bulk::Bulk),
    /// A store's caches on skewed, scanned and shifting traces, beside libraries that cache rows or pages
    Caches(caches::Caches),
    /// Increments of counters by merges, which read nothing, and by reading and writing
    Merges(merges::Merges),
    /// Many stores in one process that share their memory
    Stores(stores::Stores),
}

/// What all trials are told.
#[derive(clap::Args, Clone, Debug, Serialize, Deserialize)]
pub struct Common {
    /// Directory for stores, on the device to be measured; removed at the end
    #[arg(long, default_value = "peers-trial")]
    dir: PathBuf,
    /// Memory of each contestant, page cache included
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse_size, default_value = "512M")]
    memory_cap: u64,
    /// Contestants, separated by commas; a name ending in * takes all that begin so [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// A figure by its name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    name: String,
    value: f64,
    /// As people read it.
    text: String,
}

/// Figures in the order of the table's columns.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Figures(Vec<Figure>);

impl Figures {
    fn add(&mut self, name: &str, value: f64, text: String) {
        self.0.push(Figure { name: name.to_owned(), value, text });
    }

    /// All of them in one line.
    fn line(&self) -> String {
        let figures = self.0.iter().map(|Figure { name, text, .. }| format!("{name} {text}"));
        figures.collect::<Vec<_>>().join(", ")
    }

    fn rate(&mut self, name: &str, per_second: f64) {
        self.add(name, per_second, sizes::rate(per_second));
    }

    fn bytes(&mut self, name: &str, bytes: u64) {
        self.add(name, bytes as f64, sizes::bytes(bytes));
    }

    fn seconds(&mut self, name: &str, seconds: f64) {
        self.add(name, seconds, sizes::seconds(seconds));
    }

    fn ratio(&mut self, name: &str, ratio: f64) {
        self.add(name, ratio, format!("{ratio:.2}"));
    }

    fn count(&mut self, name: &str, count: u64) {
        self.add(name, count as f64, count.to_string());
    }
}

impl Trial {
    fn common(&self) -> &Common {
        match self {
            Self::Bulk(bulk) => &bulk.common,
            Self::Caches(caches) => &caches.common,
            Self::Merges(merges) => &merges.common,
            Self::Stores(stores) => &stores.common,
        }
    }

    /// The names of all contestants, in the order of the table.
    fn contestants(&self) -> Vec<String> {
        match self {
            Self::Bulk(_) => bulk::CONTESTANTS.map(str::to_owned).to_vec(),
            Self::Caches(caches) => caches.contestants(),
            Self::Merges(merges) => merges.contestants(),
            Self::Stores(_) => stores::CONTESTANTS.map(str::to_owned).to_vec(),
        }
    }

    /// Makes what all contestants find.
    fn prepare(&self) -> Result<()> {
        match self {
            Self::Bulk(bulk) => bulk.prepare(),
            Self::Caches(_) | Self::Merges(_) | Self::Stores(_) => Ok(()),
        }
    }

    /// Whether what contestants find is to stay for the next run.
    fn keeps(&self) -> bool {
        matches!(self, Self::Bulk(bulk) if bulk.keeps())
    }

    /// Runs one contestant, in its own process.
    fn contest(&self, contest: &contest::Contest<'_>) -> Result<Figures> {
        match self {
            Self::Bulk(bulk) => bulk.run(contest),
            Self::Caches(caches) => caches.run(contest),
            Self::Merges(merges) => merges.run(contest),
            Self::Stores(stores) => stores.run(contest),
        }
    }

    /// Runs all contestants and prints what they answered.
    ///
    /// # Errors
    /// A name that no contestant has; files that can't be written. A contestant that fails is a line of the
    /// table.
    pub fn run(&self) -> Result<()> {
        contest::run(self)
    }
}
