//! The laboratory's program as a user meets it: every test runs the real binary.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

mod evaluations;
mod figures;

use siltstone_lab::program::testing::{self, Ran};
use std::ffi::OsStr;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_siltstone-lab");

fn command<S: AsRef<OsStr>>(args: &[S]) -> std::process::Command {
    testing::command(PROGRAM, args)
}

fn run<S: AsRef<OsStr>>(args: &[S]) -> Ran {
    testing::run(PROGRAM, args, b"")
}

/// Returns a directory for one test, and the path of an empty one in it where stores go.
fn scratch() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let place = path(dir.path(), "stores");
    std::fs::create_dir(&place).expect("an empty directory");
    (dir, place)
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().expect("the path is UTF-8").to_owned()
}
