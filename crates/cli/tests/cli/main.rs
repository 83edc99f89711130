//! The command line as a user meets it: every test runs the real binary.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests may panic like tests")]

mod advise;
mod bench;
mod care;
mod demo;
mod inspect;
mod items;
mod laboratory;
mod model;
mod page;
mod rows;
mod simulate;
mod tune;
mod upkeep;
mod usage;
mod watch;

use siltstone_lab::program::testing::{self, Ran};
use std::ffi::OsStr;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_siltstone");

/// A command to be run with these arguments.
fn command<S: AsRef<OsStr>>(args: &[S]) -> std::process::Command {
    testing::command(PROGRAM, args)
}

fn run<S: AsRef<OsStr>>(args: &[S]) -> Ran {
    run_with_input(args, b"")
}

fn run_with_input<S: AsRef<OsStr>>(args: &[S], input: &[u8]) -> Ran {
    testing::run(PROGRAM, args, input)
}

/// A directory for one test, and the path of a store in it.
fn scratch() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = path(dir.path(), "store");
    (dir, store)
}

/// The same in memory, where the system has such a place: for stores of very many small files, whose syncs
/// are not what is tested.
fn scratch_in_memory() -> (tempfile::TempDir, String) {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return scratch() };
    let store = path(dir.path(), "store");
    (dir, store)
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().expect("the path is UTF-8").to_owned()
}
