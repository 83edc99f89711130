//! MEMORY: what a key takes, and who holds how much of the budget.

use super::arguments::{Options, is};
use super::{Context, help, unknown_subcommand};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::keyspace::{Body, Value};
use crate::resp::{Output, Request};

/// Bytes that a key takes in the store, of which memory holds what is cached: those of its items, and what
/// filters and indexes take.
fn usage(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    const PER_ITEM: usize = 2;
    let mut options = Options::new(request.from(3));
    while let Some(option) = options.next() {
        match option.as_str() {
            "SAMPLES" if options.integer()? >= 0 => {}
            _ => return Err(SYNTAX),
        }
    }
    let key = request.get(2);
    let state = context.lookup(key)?;
    let bytes = match state.value() {
        Value::Absent => {
            out.null();
            return Ok(());
        }
        Value::String(text) => text.as_bytes().len(),
        Value::Collection(collection) => match &collection.body {
            Body::Packed(packed) => packed.bytes(),
            Body::Group(_) => {
                let mut bytes = 0;
                collection.each(|name, element| {
                    bytes += key.len() + name.len() + element.value.len() + 8 + PER_ITEM
                })?;
                bytes
            }
        },
    };
    out.count(bytes + key.len() + 3 + PER_ITEM);
    Ok(())
}

/// MEMORY.
pub fn memory(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    match (request.get(1).to_ascii_uppercase().as_slice(), request.len()) {
        (b"USAGE", 3..) => return usage(context, request, out),
        (b"STATS", 2) => {
            let stats = context.server.store().db.stats().memory;
            let rows = [
                ("total.allocated", stats.total),
                ("store.budget", stats.budget),
                ("store.write-buffers", stats.memtable),
                ("store.filters", stats.filter),
                ("store.indexes", stats.index),
                ("store.cache", stats.cache),
                ("store.compaction", stats.compaction),
            ];
            out.map(rows.len());
            for (name, bytes) in rows {
                out.text(name);
                out.integer(i64::try_from(bytes).unwrap_or(i64::MAX));
            }
        }
        (b"DOCTOR", 2) => out.verbatim("Memory is kept to the budget of the store: see MEMORY STATS.\n"),
        (b"MALLOC-STATS", 2) => out.verbatim("Statistics of the allocator are not kept.\n"),
        (b"PURGE", 2) => out.ok(),
        (b"HELP", 2) => {
            help(out, "MEMORY", &["USAGE <key> [SAMPLES <count>]", "    Return the bytes that a key takes."])
        }
        _ if is(request.get(1), "USAGE") => {
            return Err(Failure::coded("ERR wrong number of arguments for 'memory|usage' command"));
        }
        _ => return Err(unknown_subcommand(request)),
    }
    Ok(())
}
