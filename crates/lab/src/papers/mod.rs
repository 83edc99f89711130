//! The papers' evaluations, redone: one folder each, with the paper's figures beside ours.

mod compression;
mod evaluation;
mod expiry;
mod figures;
mod lsm_trie;
mod reopen;
mod silt;
mod slimdb;
mod store;
mod upkeep;

use crate::advice;
use crate::program::failure::Result;

/// What the laboratory does.
#[expect(
    missing_docs,
    reason = "the description of a variant would stand in for that of its options in the help"
)]
#[derive(clap::Subcommand, Debug)]
pub enum Task {
    #[command(flatten)]
    Evaluation(Evaluation),
    Figures(Figures),
    Compression(Compression),
    Expiry(Expiry),
    Phases(Phases),
    Predictions(Predictions),
    Reopen(Reopen),
    Redesigns(Redesigns),
    Regret(Regret),
    ShortMemory(ShortMemory),
    TradeOffs(TradeOffs),
    Upkeep(Upkeep),
}

/// An evaluation that is redone by measuring.
#[expect(
    missing_docs,
    reason = "the description of a variant would stand in for that of its options in the help"
)]
#[derive(clap::Subcommand, Debug)]
pub enum Evaluation {
    LsmTrie(LsmTrie),
    Silt(Silt),
    Slimdb(SlimDb),
}

pub use advice::{Phases, Predictions, Redesigns, Regret, ShortMemory, TradeOffs};
pub use compression::Args as Compression;
pub use expiry::Args as Expiry;
pub use figures::Args as Figures;
pub use lsm_trie::Args as LsmTrie;
pub use reopen::Args as Reopen;
pub use silt::Args as Silt;
pub use slimdb::Args as SlimDb;
pub use upkeep::Args as Upkeep;

impl Task {
    /// Returns the name by which `siltstone-lab` knows the task.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Evaluation(Evaluation::LsmTrie(_)) => "lsm-trie",
            Self::Evaluation(Evaluation::Silt(_)) => "silt",
            Self::Evaluation(Evaluation::Slimdb(_)) => "slimdb",
            Self::Figures(_) => "figures",
            Self::Compression(_) => "compression",
            Self::Expiry(_) => "expiry",
            Self::Phases(_) => "phases",
            Self::Predictions(_) => "predictions",
            Self::Reopen(_) => "reopen",
            Self::Redesigns(_) => "redesigns",
            Self::Regret(_) => "regret",
            Self::ShortMemory(_) => "short-memory",
            Self::TradeOffs(_) => "trade-offs",
            Self::Upkeep(_) => "upkeep",
        }
    }
}

/// Carries out a task: prints its results, and writes its plots where its options say.
pub fn run(task: &Task) -> Result<()> {
    match task {
        Task::Evaluation(Evaluation::LsmTrie(args)) => lsm_trie::run(args),
        Task::Evaluation(Evaluation::Silt(args)) => silt::run(args),
        Task::Evaluation(Evaluation::Slimdb(args)) => slimdb::run(args),
        Task::Figures(args) => figures::run(args),
        Task::Compression(args) => compression::run(args),
        Task::Expiry(args) => expiry::run(args),
        Task::Phases(args) => advice::phases(args),
        Task::Predictions(args) => advice::predictions(args),
        Task::Reopen(args) => reopen::run(args),
        Task::Redesigns(args) => advice::redesigns(args),
        Task::Regret(args) => advice::regret(args),
        Task::ShortMemory(args) => advice::short_memory(args),
        Task::TradeOffs(args) => advice::trade_offs(args),
        Task::Upkeep(args) => upkeep::run(args),
    }
}
