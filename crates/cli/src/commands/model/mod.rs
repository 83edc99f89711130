//! `siltstone model`: what log-structured layouts cost, by arithmetic alone; no store is opened.

mod optimize;
mod parameters;
mod ra;
mod silt;
mod simulate;
mod slimdb;
mod sweep;
mod wa;

use crate::failure::Result;
use crate::laboratory;
use clap::Subcommand;
use siltstone_lab::papers::{Figures, Task};

/// Estimate what log-structured engines write and read, and the parameters at which they write least
///
/// The models are those of Lim, Andersen and Kaminsky (FAST 2016) and refinements of them; docs/models.md
/// explains formulas, assumptions and measured accuracy. Nothing is stored and no store is opened.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone model wa --engine leveldb --keys 100M --item-bytes 1000 --skew 0.99\n  \
    siltstone model optimize --engine leveldb --keys 100M --item-bytes 1000 --json\n  \
    siltstone model sweep --engine leveldb --keys 100M --item-bytes 1000 --vary skew=0,0.5,0.99,1.2")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Wa(wa::Args),
    Ra(ra::Args),
    Sweep(sweep::Args),
    Optimize(optimize::Args),
    Simulate(simulate::Args),
    Silt(silt::Args),
    Slimdb(slimdb::Args),
    Figures(Figures),
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Wa(args) => wa::run(&args),
        Command::Ra(args) => ra::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Optimize(args) => optimize::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Silt(args) => silt::run(&args),
        Command::Slimdb(args) => slimdb::run(&args),
        Command::Figures(args) => laboratory::hand_over(&Task::Figures(args)),
    }
}
