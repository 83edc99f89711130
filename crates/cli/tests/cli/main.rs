//! The command line as a user meets it: every test runs the real binary.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

mod bench;
mod demo;
mod items;
mod model;
mod rows;
mod simulate;
mod tune;
mod usage;
mod watch;

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a run of the binary left behind.
struct Ran {
    code: Option<i32>,
    out: Vec<u8>,
    err: String,
}

impl Ran {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.out).expect("standard output is UTF-8")
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.out)
            .unwrap_or_else(|e| panic!("{e} in {:?} (stderr: {})", self.text(), self.err))
    }

    /// Asserts success.
    #[track_caller]
    fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "stdout: {}\nstderr: {}", self.text(), self.err);
        self
    }

    /// Asserts a failed operation whose message holds `words`, in at most three lines and without a backtrace.
    #[track_caller]
    fn fails(self, words: &[&str]) -> Self {
        self.exits(1, words)
    }

    /// Asserts exit code `code` and a message that holds `words`.
    #[track_caller]
    fn exits(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.text(), self.err);
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in {:?}", self.err);
        }
        assert!(!self.err.contains("panicked") && !self.err.contains("backtrace"), "{}", self.err);
        self
    }
}

/// A command to be run with these arguments.
fn command<S: AsRef<OsStr>>(args: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_siltstone"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run<S: AsRef<OsStr>>(args: &[S]) -> Ran {
    run_with_input(args, b"")
}

fn run_with_input<S: AsRef<OsStr>>(args: &[S], input: &[u8]) -> Ran {
    let mut child = command(args).stdin(Stdio::piped()).spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("standard input is piped");
    let input = input.to_vec();
    // A command that fails early does not read its input.
    let feeder = std::thread::spawn(move || _ = stdin.write_all(&input));
    let output = child.wait_with_output().expect("the binary ends");
    feeder.join().expect("the input is written");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    Ran { code: output.status.code(), out: output.stdout, err }
}

/// A directory for one test, and the path of a store in it.
fn scratch() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = path(dir.path(), "store");
    (dir, store)
}

/// The same in memory, where the system has such a place: for stores of very many small files, whose syncs are not what is tested.
fn scratch_in_memory() -> (tempfile::TempDir, String) {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return scratch() };
    let store = path(dir.path(), "store");
    (dir, store)
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().expect("the path is UTF-8").to_owned()
}
