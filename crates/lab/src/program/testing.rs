//! How tests run a program as a user does: its arguments in, its exit code, output and messages out.

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Stdio};

/// What a run of a program left behind.
pub struct Ran {
    /// The exit code; none where a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to standard output.
    pub out: Vec<u8>,
    /// What it wrote to standard error.
    pub err: String,
}

impl Ran {
    /// Returns its standard output as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.out).expect("standard output is UTF-8")
    }

    /// Returns its standard output as the JSON it must be.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.out)
            .unwrap_or_else(|e| panic!("{e} in {:?} (stderr: {})", self.text(), self.err))
    }

    /// Asserts success.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "stdout: {}\nstderr: {}", self.text(), self.err);
        self
    }

    /// Asserts a failed operation whose message holds `words`, without a backtrace.
    #[track_caller]
    pub fn fails(self, words: &[&str]) -> Self {
        self.exits(1, words)
    }

    /// Asserts exit code `code` and a message that holds `words`.
    #[track_caller]
    pub fn exits(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.text(), self.err);
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in {:?}", self.err);
        }
        assert!(!self.err.contains("panicked") && !self.err.contains("backtrace"), "{}", self.err);
        self
    }
}

/// Returns a command that runs `program` with these arguments, nothing to read and its output kept.
pub fn command<S: AsRef<OsStr>>(program: &str, args: &[S]) -> Command {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs `program` with these arguments and this to read.
pub fn run<S: AsRef<OsStr>>(program: &str, args: &[S], input: &[u8]) -> Ran {
    let mut child = command(program, args).stdin(Stdio::piped()).spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("standard input is piped");
    let input = input.to_vec();
    // A command that fails early does not read its input.
    let feeder = std::thread::spawn(move || _ = stdin.write_all(&input));
    let output = child.wait_with_output().expect("the program ends");
    feeder.join().expect("the input is written");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    Ran { code: output.status.code(), out: output.stdout, err }
}
