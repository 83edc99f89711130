//! Intersections, unions and differences of sets.

use super::Context;
use super::arguments::{Options, integer};
use super::spec::{Keys, Spec, flags::*};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::keyspace::{Collection, Element, Kind};
use crate::resp::{Output, Request};
use std::collections::HashSet;

pub const TABLE: &[Spec] = &[
    Spec::on("sinter", -2, READONLY, Keys::ALL, sinter).about("set", "1.0.0", "Returns what all sets share."),
    Spec::on("sinterstore", -3, WRITE | DENYOOM, Keys::ALL, sinterstore).about(
        "set",
        "1.0.0",
        "Stores what all sets share.",
    ),
    Spec::on("sintercard", -3, READONLY, Keys::Counted, sintercard).about(
        "set",
        "7.0.0",
        "Counts what all sets share.",
    ),
    Spec::on("sunion", -2, READONLY, Keys::ALL, sunion).about("set", "1.0.0", "Returns what any set has."),
    Spec::on("sunionstore", -3, WRITE | DENYOOM, Keys::ALL, sunionstore).about(
        "set",
        "1.0.0",
        "Stores what any set has.",
    ),
    Spec::on("sdiff", -2, READONLY, Keys::ALL, sdiff).about(
        "set",
        "1.0.0",
        "Returns what the first set has and no other.",
    ),
    Spec::on("sdiffstore", -3, WRITE | DENYOOM, Keys::ALL, sdiffstore).about(
        "set",
        "1.0.0",
        "Stores what the first set has and no other.",
    ),
];

/// Members asked for at once of a set that is only searched.
const CHUNK: usize = 512;

/// Checks that all `keys` are sets; their sizes.
fn sizes<'k>(context: &mut Context, keys: impl Iterator<Item = &'k [u8]>) -> Outcome<Vec<u64>> {
    keys.map(|key| Ok(context.collection(key, Kind::Set)?.map_or(0, |set| set.len()))).collect()
}

/// Those of `names` that are in the set `key`, or that are not.
fn filter(context: &mut Context, key: &[u8], names: Vec<Vec<u8>>, keeps: bool) -> Outcome<Vec<Vec<u8>>> {
    let Some(set) = context.key(key)?.collection(Kind::Set)? else {
        return Ok(if keeps { Vec::new() } else { names });
    };
    let mut left = Vec::with_capacity(names.len());
    let mut names = names.into_iter();
    loop {
        let chunk: Vec<Vec<u8>> = names.by_ref().take(CHUNK).collect();
        if chunk.is_empty() {
            return Ok(left);
        }
        set.prefetch(&chunk.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        for name in chunk {
            if set.contains(&name)? == keeps {
                left.push(name);
            }
        }
    }
}

fn names(context: &mut Context, key: &[u8]) -> Outcome<Vec<Vec<u8>>> {
    context.key(key)?.collection(Kind::Set)?.map_or(Ok(Vec::new()), |set| set.names())
}

/// The smallest set's members, looked for in the others.
fn intersection(context: &mut Context, keys: &[&[u8]]) -> Outcome<Vec<Vec<u8>>> {
    let sizes = sizes(context, keys.iter().copied())?;
    let mut by_size: Vec<_> = sizes.into_iter().zip(keys).collect();
    by_size.sort_by_key(|(size, _)| *size);
    let mut by_size = by_size.into_iter();
    let Some((1.., smallest)) = by_size.next() else { return Ok(Vec::new()) };
    let mut left = names(context, smallest)?;
    for (_, key) in by_size {
        left = filter(context, key, left, true)?;
    }
    Ok(left)
}

fn union(context: &mut Context, keys: &[&[u8]]) -> Outcome<Vec<Vec<u8>>> {
    sizes(context, keys.iter().copied())?;
    let (mut seen, mut all) = (HashSet::new(), Vec::new());
    for key in keys {
        for name in names(context, key)? {
            if seen.insert(name.clone()) {
                all.push(name);
            }
        }
    }
    Ok(all)
}

fn difference(context: &mut Context, keys: &[&[u8]]) -> Outcome<Vec<Vec<u8>>> {
    sizes(context, keys.iter().copied())?;
    let Some((first, others)) = keys.split_first() else { return Ok(Vec::new()) };
    let mut left = names(context, first)?;
    for key in others {
        left = filter(context, key, left, false)?;
    }
    Ok(left)
}

type Operation = fn(&mut Context, &[&[u8]]) -> Outcome<Vec<Vec<u8>>>;

fn show(context: &mut Context, request: &Request, out: &mut Output, operation: Operation) -> Outcome {
    let keys: Vec<&[u8]> = request.from(1).collect();
    let names = operation(context, &keys)?;
    out.set(names.len());
    names.iter().for_each(|name| out.bulk(name));
    Ok(())
}

fn store(context: &mut Context, request: &Request, out: &mut Output, operation: Operation) -> Outcome {
    let keys: Vec<&[u8]> = request.from(2).collect();
    let names = operation(context, &keys)?;
    let mut set = Collection::new(Kind::Set);
    if names.len() > context.unit.limits.packed_elements {
        let database = context.unit.database_or_new(context.session.database)?;
        set.unpack(&database, request.get(1));
        set.is_table = true;
    }
    for name in &names {
        set.put(name, Element::default())?;
    }
    let (database, target) = (context.session.database, request.get(1));
    let state = context.key(target)?;
    if names.is_empty() {
        state.remove();
    } else {
        state.set_collection(set);
        context.unit.settle(database, target)?;
    }
    out.count(names.len());
    Ok(())
}

fn sinter(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    show(context, request, out, intersection)
}

fn sinterstore(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    store(context, request, out, intersection)
}

fn sunion(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    show(context, request, out, union)
}

fn sunionstore(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    store(context, request, out, union)
}

fn sdiff(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    show(context, request, out, difference)
}

fn sdiffstore(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    store(context, request, out, difference)
}

fn sintercard(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let bad = Failure::coded("ERR numkeys should be greater than 0");
    let count = integer(request.get(1)).ok().and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or(bad)?;
    if count > request.len() - 2 {
        return Err(Failure::coded("ERR Number of keys can't be greater than number of args"));
    }
    let mut limit = 0;
    let mut options = Options::new(request.from(2 + count));
    while let Some(option) = options.next() {
        if option != "LIMIT" {
            return Err(SYNTAX);
        }
        let value = integer(options.value()?).ok().and_then(|limit| usize::try_from(limit).ok());
        limit = value.ok_or(Failure::coded("ERR LIMIT can't be negative"))?;
    }
    let keys: Vec<&[u8]> = request.from(2).take(count).collect();
    let shared = intersection(context, &keys)?.len();
    out.count(if limit > 0 { shared.min(limit) } else { shared });
    Ok(())
}
