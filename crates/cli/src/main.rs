//! The command line of Siltstone: one file per command in `commands`.
//!
//! Results go to standard output, progress and errors to standard error. Exit codes: 0 success, 1 a failed
//! operation, 2 a usage error.

mod cli;
mod commands;
mod failure;
mod interrupt;
mod measure;
mod output;
mod progress;
mod rows;
mod store;
mod text;

use siltstone_bench_kit::{device, generate, plot, sizes, table};

fn main() -> std::process::ExitCode {
    cli::run()
}
