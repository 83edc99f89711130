//! The commands as the user sees them, and what becomes of a failure.

use crate::commands::{
    advise, backup, bench, checkpoint, clear, compact, count, del, demo, export, get, inspect, keyspaces,
    load, merge, model, probe, put, redesign, repair, scan, serve, stats, tail, tune, verify,
};
use crate::failure::exit_code;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Siltstone: an embedded key-value store for billions of small items with little memory.
#[derive(Parser)]
#[command(
    name = "siltstone",
    version,
    disable_help_subcommand = true,
    after_help = "Sizes accept 64M, 1.5G or plain bytes (binary units); counts accept 10M or 1e8 (decimal units).\n\
        Keys and values are text; \\t \\n \\r \\\\ and \\xNN stand for bytes that cannot be typed or printed.\n\
        Exit codes: 0 success, 1 a failed operation, 2 a usage error.\n\n\
        Examples:\n  \
        siltstone demo                        see it work on this machine's own files\n  \
        siltstone put ./store city:7 Uppsala  create a store and write one item\n  \
        siltstone get ./store city:7          read it back\n  \
        siltstone stats ./store               what the store holds, level by level"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    Put(put::Args),
    Merge(merge::Args),
    Get(get::Args),
    Del(del::Args),
    Scan(scan::Args),
    Count(count::Args),
    Clear(clear::Args),
    Load(load::Args),
    Export(export::Args),
    Keyspaces(keyspaces::Args),
    Stats(stats::Args),
    Compact(compact::CompactArgs),
    Drain(compact::DrainArgs),
    Verify(verify::Args),
    Checkpoint(checkpoint::Args),
    Backup(backup::Args),
    Tail(tail::Args),
    Inspect(inspect::Args),
    Redesign(redesign::Args),
    Repair(repair::Args),
    Bench(bench::Args),
    Advise(Box<advise::Args>),
    Probe(probe::Args),
    Model(model::Args),
    Tune(tune::Args),
    Serve(serve::Args),
}

/// Runs the command the process was started with and turns its outcome into an exit code.
pub fn run() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Put(args) => put::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Del(args) => del::run(&args),
        Command::Scan(args) => scan::run(&args),
        Command::Count(args) => count::run(&args),
        Command::Clear(args) => clear::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Keyspaces(args) => keyspaces::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Compact(args) => compact::compact(&args),
        Command::Drain(args) => compact::drain(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Checkpoint(args) => checkpoint::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Tail(args) => tail::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Redesign(args) => redesign::run(&args),
        Command::Repair(args) => repair::run(&args),
        Command::Bench(args) => bench::run(args),
        Command::Advise(args) => advise::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Model(args) => model::run(args),
        Command::Tune(args) => tune::run(&args),
        Command::Serve(args) => serve::run(&args),
    };
    exit_code(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples() {
        for command in Cli::command().get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Examples:"), "{} has no examples", command.get_name());
        }
    }
}
