//! Standard output, where a reader that went away is not an error.

use crate::program::failure::{Failure, Result};
use serde::Serialize;
use std::io::{BufWriter, IsTerminal, StdoutLock, Write};

/// Standard output, locked and buffered; call [`Output::finish`] so that no write error is lost.
pub struct Output(BufWriter<StdoutLock<'static>>);

impl Output {
    /// Locks standard output.
    pub fn lock() -> Self {
        Self(BufWriter::with_capacity(1 << 16, std::io::stdout().lock()))
    }

    /// Whether a person is looking.
    pub fn is_terminal() -> bool {
        std::io::stdout().is_terminal()
    }

    /// Writes `bytes`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes).map_err(|e| Failure::output(&e))
    }

    /// Hands everything to the operating system.
    pub fn finish(mut self) -> Result<()> {
        self.0.flush().map_err(|e| Failure::output(&e))
    }
}

/// Prints `text` as it is.
pub fn print(text: &str) -> Result<()> {
    let mut out = Output::lock();
    out.write(text.as_bytes())?;
    out.finish()
}

/// Prints one JSON object and a line feed.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value)
        .map_err(|e| Failure::Failed(format!("cannot express the result as JSON: {e}")))?;
    text.push('\n');
    print(&text)
}

/// Says something on standard error; lost if nobody listens.
#[macro_export]
macro_rules! note {
    ($($message:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($message)*);
    }};
}

pub use note;
