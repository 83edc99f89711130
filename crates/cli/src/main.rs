//! The command line of Siltstone: one file per command in `commands`.
//!
//! Results go to standard output, progress and errors to standard error. Exit codes: 0 success, 1 a failed
//! operation, 2 a usage error.

mod cli;
mod commands;
mod laboratory;
mod rows;
mod store;
mod text;

use siltstone_lab::kit::{device, generate, plot, sizes, table};
use siltstone_lab::program::{failure, interrupt, output, progress};
use siltstone_lab::{clients, measure};

fn main() -> std::process::ExitCode {
    cli::run()
}
