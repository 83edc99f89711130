//! Hashes as a whole: all fields, some at a time, or any of them.

use super::Context;
use super::arguments::{integer, is};
use super::scan::scan_collection;
use super::spec::{Keys, Spec, flags::*};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::keyspace::{Element, Kind};
use crate::resp::{Output, Request};
use rand::seq::{IndexedRandom as _, SliceRandom as _};

pub const TABLE: &[Spec] = &[
    Spec::on("hgetall", 2, READONLY, Keys::FIRST, hgetall).about(
        "hash",
        "2.0.0",
        "Returns all fields and values.",
    ),
    Spec::on("hkeys", 2, READONLY, Keys::FIRST, hkeys).about("hash", "2.0.0", "Returns all fields."),
    Spec::on("hvals", 2, READONLY, Keys::FIRST, hvals).about("hash", "2.0.0", "Returns all values."),
    Spec::on("hscan", -3, READONLY, Keys::FIRST, hscan).about(
        "hash",
        "2.8.0",
        "Walks over the fields, some at a time.",
    ),
    Spec::on("hrandfield", -2, READONLY, Keys::FIRST, hrandfield).about(
        "hash",
        "6.2.0",
        "Returns any fields.",
    ),
];

/// Writes what `show` makes of every field behind a head that says how many there are.
fn all(
    context: &mut Context,
    request: &Request,
    out: &mut Output,
    head: fn(&mut Output, usize),
    show: impl Fn(&mut Output, &[u8], Element<'_>),
) -> Outcome {
    let Some(hash) = context.collection(request.get(1), Kind::Hash)? else {
        head(out, 0);
        return Ok(());
    };
    // Counted rather than asked for: the head of a reply has to agree with what follows.
    let mut body = Output::new(out.resp3);
    let mut count = 0;
    hash.each(|name, element| {
        count += 1;
        show(&mut body, name, element);
    })?;
    head(out, count);
    out.raw(body.as_bytes());
    Ok(())
}

fn hgetall(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    all(context, request, out, Output::map, |out, name, element| {
        out.bulk(name);
        out.bulk(element.value);
    })
}

fn hkeys(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    all(context, request, out, Output::array, |out, name, _| out.bulk(name))
}

fn hvals(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    all(context, request, out, Output::array, |out, _, element| out.bulk(element.value))
}

fn hscan(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    scan_collection(context, request, out, Kind::Hash)
}

fn hrandfield(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let hash = request.get(1);
    if request.len() == 2 {
        let found = context.collection(hash, Kind::Hash)?.map(|hash| hash.random()).transpose()?.flatten();
        out.bulk_or_null(found.as_ref().map(|(name, _)| name.as_slice()));
        return Ok(());
    }
    let count = integer(request.get(2))?;
    let with_values = match request.len() {
        3 => false,
        4 if is(request.get(3), "WITHVALUES") => true,
        _ => return Err(SYNTAX),
    };
    check_count(count, with_values)?;
    let entries = match context.collection(hash, Kind::Hash)? {
        Some(hash) if count != 0 => hash.all()?,
        _ => Vec::new(),
    };
    let chosen = choose(entries, count);
    let pairs = with_values && out.resp3;
    out.array(chosen.len() * if with_values && !pairs { 2 } else { 1 });
    for (name, element) in &chosen {
        if pairs {
            out.array(2);
        }
        out.bulk(name);
        if with_values {
            out.bulk(&element.value);
        }
    }
    Ok(())
}

/// Refuses counts that no reply could hold.
pub fn check_count(count: i64, is_doubled: bool) -> Outcome {
    let most = if is_doubled { i64::MAX / 2 } else { i64::MAX };
    if count < -most || count > most {
        return Err(Failure::coded("ERR value is out of range"));
    }
    Ok(())
}

/// Any `count` of `entries`, each once; where `count` is negative, as many as that without a sign, again and
/// again.
pub fn choose<T: Clone>(mut entries: Vec<T>, count: i64) -> Vec<T> {
    // What a reply may take at most, since a client can ask for any number of the same element.
    const MOST: u64 = 10_000_000;
    let mut random = rand::rng();
    let wanted = usize::try_from(count.unsigned_abs().min(MOST)).unwrap_or(0);
    if count < 0 {
        return (0..wanted).filter_map(|_| entries.choose(&mut random).cloned()).collect();
    }
    if wanted < entries.len() {
        let _ = entries.partial_shuffle(&mut random, wanted);
        // The chosen ones stand at the end.
        entries.drain(..entries.len() - wanted);
    }
    entries
}
