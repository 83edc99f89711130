//! DEBUG: the few subcommands that test suites and clients' tests use.

use super::{Context, unknown_subcommand};
use crate::failure::{Failure, Outcome};
use crate::number;
use crate::resp::{Output, Request};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// DEBUG.
pub fn debug(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    if context.server.config.text("enable-debug-command") == "no" {
        return Err(Failure::coded(
            "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from \
             a local connection, otherwise you need to set this option in the configuration file, and then restart the \
             server.",
        ));
    }
    match (request.get(1).to_ascii_uppercase().as_slice(), request.len()) {
        (b"SLEEP", 3) => {
            let seconds = number::float(request.get(2)).filter(|seconds| (0.0..600.0).contains(seconds));
            std::thread::sleep(Duration::from_secs_f64(seconds.unwrap_or(0.0)));
            out.ok();
        }
        (b"SET-ACTIVE-EXPIRE", 3) => {
            context.server.expires_actively.store(request.get(2) != b"0", Ordering::Relaxed);
            out.ok();
        }
        (b"JMAP" | b"RELOAD" | b"LOADAOF", _) => {
            context.server.store().db.flush()?;
            out.ok();
        }
        (b"QUICKLIST-PACKED-THRESHOLD" | b"STRINGMATCH-LEN" | b"CHANGE-REPL-ID", _) => out.ok(),
        _ => return Err(unknown_subcommand(request)),
    }
    Ok(())
}
