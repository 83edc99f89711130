//! SLOWLOG: the commands that took longest lately. LATENCY: how long commands take.

use super::arguments::integer;
use super::{Context, help, text, unknown_subcommand};
use crate::failure::{Failure, Outcome};
use crate::resp::{Output, Request};
use crate::server::Client;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// One slow command.
#[derive(Clone, Debug)]
struct Entry {
    number: i64,
    at_s: i64,
    took_us: u64,
    arguments: Vec<Vec<u8>>,
    address: String,
    name: String,
}

/// Slow commands, the newest first.
#[derive(Debug, Default)]
pub struct SlowLog {
    entries: Mutex<(i64, VecDeque<Entry>)>,
}

/// Arguments that are kept of a command, and bytes of each.
const MOST_ARGUMENTS: usize = 32;
const MOST_BYTES: usize = 128;

fn shortened(request: &Request) -> Vec<Vec<u8>> {
    let count = request.len();
    let shown = if count > MOST_ARGUMENTS { MOST_ARGUMENTS - 1 } else { count };
    let short = |argument: &[u8]| match argument.split_at_checked(MOST_BYTES) {
        Some((start, rest)) if !rest.is_empty() => {
            [start, format!("... ({} more bytes)", rest.len()).as_bytes()].concat()
        }
        _ => argument.to_vec(),
    };
    let mut arguments: Vec<_> = request.from(0).take(shown).map(short).collect();
    if shown < count {
        arguments.push(format!("... ({} more arguments)", count - shown).into_bytes());
    }
    arguments
}

impl SlowLog {
    /// Keeps a command that took so long.
    pub fn note(&self, request: &Request, took_us: u64, client: &Client, most: usize) {
        let mut entries = self.entries.lock();
        let number = entries.0;
        entries.0 += 1;
        entries.1.push_front(Entry {
            number,
            at_s: i64::try_from(crate::now_ms() / 1000).unwrap_or(0),
            took_us,
            arguments: shortened(request),
            address: client.address.clone(),
            name: client.text.lock().name.clone(),
        });
        entries.1.truncate(most);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.lock().1.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// SLOWLOG.
pub fn slowlog(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let log = &context.server.slow_log;
    match (request.get(1).to_ascii_uppercase().as_slice(), request.len()) {
        (b"GET", 2 | 3) => {
            let count = if request.len() == 3 { integer(request.get(2))? } else { 10 };
            if count < -1 {
                return Err(Failure::coded("ERR count should be greater than or equal to -1"));
            }
            let entries = log.entries.lock();
            let shown = usize::try_from(count).unwrap_or(usize::MAX).min(entries.1.len());
            out.array(shown);
            for entry in entries.1.iter().take(shown) {
                out.array(6);
                out.integer(entry.number);
                out.integer(entry.at_s);
                out.integer(i64::try_from(entry.took_us).unwrap_or(i64::MAX));
                out.array(entry.arguments.len());
                entry.arguments.iter().for_each(|argument| out.bulk(argument));
                out.text(&entry.address);
                out.text(&entry.name);
            }
        }
        (b"LEN", 2) => out.count(log.len()),
        (b"RESET", 2) => {
            log.entries.lock().1.clear();
            out.ok();
        }
        (b"HELP", 2) => {
            help(out, "SLOWLOG", &["GET [<count>]", "    Return top <count> entries from the slowlog."])
        }
        _ => return Err(unknown_subcommand(request)),
    }
    Ok(())
}

/// LATENCY: no events are sampled, since nothing here stops all clients; histograms come from INFO.
pub fn latency(_context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    match (request.get(1).to_ascii_uppercase().as_slice(), request.len()) {
        (b"LATEST", 2) | (b"HISTORY", 3) => out.array(0),
        (b"HISTOGRAM", _) => out.map(0),
        (b"RESET", _) => out.integer(0),
        (b"DOCTOR", 2) => out.verbatim("No latency spike was observed during the lifetime of this server.\n"),
        (b"GRAPH", 3) => {
            return Err(Failure::new(format!("No samples available for event '{}'", text(request.get(2)))));
        }
        (b"HELP", 2) => {
            help(out, "LATENCY", &["LATEST", "    Return the latest latency samples for all events."])
        }
        _ => return Err(unknown_subcommand(request)),
    }
    Ok(())
}
