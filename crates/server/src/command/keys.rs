//! Keys of any type.

use super::Context;
use super::arguments::{Options, integer, is};
use super::spec::{Keys, Spec, flags::*};
use super::{help, unknown_subcommand};
use crate::failure::{Failure, NO_SUCH_KEY, Outcome, SYNTAX};
use crate::resp::{Output, Request};

const WF: u32 = WRITE | FAST;
const RF: u32 = READONLY | FAST;

pub const TABLE: &[Spec] = &[
    Spec::on("del", -2, WRITE, Keys::ALL, del).about("generic", "1.0.0", "Deletes keys."),
    Spec::on("unlink", -2, WF, Keys::ALL, del).about(
        "generic",
        "4.0.0",
        "Deletes keys; the same as DEL here.",
    ),
    Spec::on("exists", -2, RF, Keys::ALL, exists).about("generic", "1.0.0", "Counts keys that are there."),
    Spec::on("touch", -2, RF, Keys::ALL, exists).about("generic", "3.2.1", "Counts keys that are there."),
    Spec::on("type", 2, RF, Keys::FIRST, type_of).about("generic", "1.0.0", "Returns a key's type."),
    Spec::on("rename", 3, WRITE, Keys::TWO, rename).about("generic", "1.0.0", "Renames a key."),
    Spec::on("renamenx", 3, WF, Keys::TWO, renamenx).about(
        "generic",
        "1.0.0",
        "Renames a key if there is none of that name.",
    ),
    Spec::on("copy", -3, WRITE | DENYOOM | ALL_KEYS, Keys::TWO, copy).about(
        "generic",
        "6.2.0",
        "Copies a key.",
    ),
    Spec::on("move", 3, WF | ALL_KEYS, Keys::FIRST, move_key).about(
        "generic",
        "1.0.0",
        "Moves a key to another database.",
    ),
    Spec::on("object", -2, READONLY, Keys::Range { first: 2, last: 2, step: 1 }, object).about(
        "generic",
        "2.2.3",
        "Says how a key is kept.",
    ),
];

fn del(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let mut count = 0;
    for key in request.from(1) {
        let state = context.key(key)?;
        count += usize::from(state.is_live());
        state.remove();
    }
    out.count(count);
    Ok(())
}

fn exists(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let mut count = 0;
    for key in request.from(1) {
        count += usize::from(context.lookup(key)?.is_live());
    }
    out.count(count);
    Ok(())
}

fn type_of(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    out.simple(context.lookup(request.get(1))?.type_name());
    Ok(())
}

/// Gives `to`, a key of database `number`, what the key `from` of the client's database holds.
fn copy_to(context: &mut Context, from: &[u8], number: usize, to: &[u8]) -> Outcome {
    let source = context.key(from)?.clone();
    let database = context.unit.database_or_new(number)?;
    context.unit.key(number, to)?.copy_from(&source, &database, to)
}

fn rename(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let (from, to) = (request.get(1), request.get(2));
    if !context.key(from)?.is_live() {
        return Err(NO_SUCH_KEY);
    }
    if from != to {
        copy_to(context, from, context.session.database, to)?;
        context.key(from)?.remove();
    }
    out.ok();
    Ok(())
}

fn renamenx(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let (from, to) = (request.get(1), request.get(2));
    if !context.key(from)?.is_live() {
        return Err(NO_SUCH_KEY);
    }
    let is_free = !context.key(to)?.is_live();
    if is_free {
        copy_to(context, from, context.session.database, to)?;
        context.key(from)?.remove();
    }
    out.integer(i64::from(is_free));
    Ok(())
}

/// The number of a database.
pub fn database(context: &Context, bytes: &[u8]) -> Outcome<usize> {
    let number = usize::try_from(integer(bytes)?).ok();
    let count = if context.server.cluster.is_some() { 1 } else { context.unit.store.count() };
    number.filter(|number| *number < count).ok_or(Failure::coded("ERR DB index is out of range"))
}

fn copy(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let (mut number, mut replaces) = (context.session.database, false);
    let mut options = Options::new(request.from(3));
    while let Some(option) = options.next() {
        match option.as_str() {
            "REPLACE" => replaces = true,
            "DB" => number = database(context, options.value()?)?,
            _ => return Err(SYNTAX),
        }
    }
    let (from, to) = (request.get(1), request.get(2));
    if number == context.session.database && from == to {
        return Err(Failure::coded("ERR source and destination objects are the same"));
    }
    let is_possible =
        context.lookup(from)?.is_live() && (replaces || !context.unit.key(number, to)?.is_live());
    if is_possible {
        copy_to(context, from, number, to)?;
    }
    out.integer(i64::from(is_possible));
    Ok(())
}

fn move_key(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let (key, number) = (request.get(1), database(context, request.get(2))?);
    if number == context.session.database {
        return Err(Failure::coded("ERR source and destination objects are the same"));
    }
    let is_possible = context.key(key)?.is_live() && !context.unit.key(number, key)?.is_live();
    if is_possible {
        copy_to(context, key, number, key)?;
        context.key(key)?.remove();
    }
    out.integer(i64::from(is_possible));
    Ok(())
}

fn object(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let subcommand = request.get(1);
    if is(subcommand, "HELP") {
        help(out, "OBJECT", &["ENCODING <key>", "    Return the kind of internal representation."]);
        return Ok(());
    }
    let is_known = ["ENCODING", "REFCOUNT", "IDLETIME", "FREQ"].iter().any(|word| is(subcommand, word));
    if !is_known || request.len() != 3 {
        return Err(unknown_subcommand(request));
    }
    let policy = context.server.config.text("maxmemory-policy");
    let state = context.lookup(request.get(2))?;
    if !state.is_live() {
        out.null();
        return Ok(());
    }
    if is(subcommand, "ENCODING") {
        out.text(state.encoding());
    } else if is(subcommand, "REFCOUNT") {
        out.integer(1);
    } else if is(subcommand, "FREQ") {
        if !policy.contains("lfu") {
            return Err(Failure::coded(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
                 switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
        out.integer(0);
    } else {
        out.integer(0);
    }
    Ok(())
}
