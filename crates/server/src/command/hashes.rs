//! Hashes, a field or some at a time.

use super::arguments::integer;
use super::spec::{Keys, Spec, flags::*};
use super::{Context, wrong_arity};
use crate::failure::{Failure, Outcome};
use crate::keyspace::{Collection, Element, Kind};
use crate::number;
use crate::resp::{Output, Request};

const RF: u32 = READONLY | FAST;
const WDF: u32 = WRITE | DENYOOM | FAST;
const HASH: Kind = Kind::Hash;

pub const TABLE: &[Spec] = &[
    Spec::on("hset", -4, WDF, Keys::FIRST, hset).elements(2, 2).about(
        "hash",
        "2.0.0",
        "Sets fields of a hash.",
    ),
    Spec::on("hmset", -4, WDF, Keys::FIRST, hset).elements(2, 2).about(
        "hash",
        "2.0.0",
        "Sets fields of a hash; HSET by its old name.",
    ),
    Spec::on("hsetnx", 4, WDF, Keys::FIRST, hsetnx).elements(2, 2).about(
        "hash",
        "2.0.0",
        "Sets a field that is not there.",
    ),
    Spec::on("hget", 3, RF, Keys::FIRST, hget).elements(2, 1).about(
        "hash",
        "2.0.0",
        "Returns a field's value.",
    ),
    Spec::on("hmget", -3, RF, Keys::FIRST, hmget).elements(2, 1).about(
        "hash",
        "2.0.0",
        "Returns the values of fields.",
    ),
    Spec::on("hdel", -3, WRITE | FAST, Keys::FIRST, hdel).elements(2, 1).about(
        "hash",
        "2.0.0",
        "Deletes fields.",
    ),
    Spec::on("hexists", 3, RF, Keys::FIRST, hexists).elements(2, 1).about(
        "hash",
        "2.0.0",
        "Says whether there is a field.",
    ),
    Spec::on("hlen", 2, RF, Keys::FIRST, hlen).about("hash", "2.0.0", "Counts the fields of a hash."),
    Spec::on("hstrlen", 3, RF, Keys::FIRST, hstrlen).elements(2, 1).about(
        "hash",
        "3.2.0",
        "Returns the length of a field's value.",
    ),
    Spec::on("hincrby", 4, WDF, Keys::FIRST, hincrby).elements(2, 2).about(
        "hash",
        "2.0.0",
        "Adds to an integer in a field.",
    ),
    Spec::on("hincrbyfloat", 4, WDF, Keys::FIRST, hincrbyfloat).elements(2, 2).about(
        "hash",
        "2.6.0",
        "Adds to a number in a field.",
    ),
];

fn hset(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let name = context.spec.name;
    if !request.len().is_multiple_of(2) {
        return Err(wrong_arity(name));
    }
    let count = context.change(request.get(1), HASH, |hash| {
        let mut count = 0;
        for place in (2..request.len()).step_by(2) {
            let element = Element { value: request.get(place + 1), expires_at: 0 };
            count += usize::from(hash.put(request.get(place), element)?);
        }
        Ok(count)
    })?;
    if name == "hmset" {
        out.ok()
    } else {
        out.count(count)
    }
    Ok(())
}

fn hsetnx(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let (key, field) = (request.get(1), request.get(2));
    let is_there = match context.key(key)?.collection(HASH)? {
        Some(hash) => hash.contains(field)?,
        None => false,
    };
    if !is_there {
        let element = Element { value: request.get(3), expires_at: 0 };
        context.change(key, HASH, |hash| hash.put(field, element))?;
    }
    out.integer(i64::from(!is_there));
    Ok(())
}

fn hget(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let element = match context.collection(request.get(1), HASH)? {
        Some(hash) => hash.get(request.get(2))?,
        None => None,
    };
    out.bulk_or_null(element.map(|element| element.value));
    Ok(())
}

fn hmget(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let hash = context.collection(request.get(1), HASH)?;
    out.array(request.len() - 2);
    let Some(hash) = hash else {
        request.from(2).for_each(|_| out.null());
        return Ok(());
    };
    let fields: Vec<&[u8]> = request.from(2).collect();
    hash.prefetch(&fields)?;
    for field in fields {
        out.bulk_or_null(hash.get(field)?.map(|element| element.value));
    }
    Ok(())
}

fn hdel(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let key = request.get(1);
    if context.key(key)?.collection(HASH)?.is_none() {
        out.integer(0);
        return Ok(());
    }
    let fields: Vec<&[u8]> = request.from(2).collect();
    out.count(context.change_each(key, HASH, &fields, Collection::remove)?);
    Ok(())
}

fn hexists(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let is_there = match context.collection(request.get(1), HASH)? {
        Some(hash) => hash.contains(request.get(2))?,
        None => false,
    };
    out.integer(i64::from(is_there));
    Ok(())
}

fn hlen(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let length = context.collection(request.get(1), HASH)?.map_or(0, |hash| hash.len());
    out.integer(i64::try_from(length).unwrap_or(i64::MAX));
    Ok(())
}

fn hstrlen(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let element = match context.collection(request.get(1), HASH)? {
        Some(hash) => hash.get(request.get(2))?,
        None => None,
    };
    out.count(element.map_or(0, |element| element.value.len()));
    Ok(())
}

/// Replaces a field's value by what `next` makes of it; a field that expires goes on to.
fn update(
    context: &mut Context,
    key: &[u8],
    field: &[u8],
    next: impl FnOnce(Option<&[u8]>) -> Outcome<String>,
) -> Outcome<String> {
    context.change(key, HASH, |hash| {
        let old = hash.get(field)?;
        let expires_at = old.map_or(0, |element| element.expires_at);
        let new = next(old.map(|element| element.value))?;
        hash.put(field, Element { value: new.as_bytes(), expires_at })?;
        Ok(new)
    })
}

fn hincrby(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let by = integer(request.get(3))?;
    let new = update(context, request.get(1), request.get(2), |old| {
        let bad = Failure::coded("ERR hash value is not an integer");
        let old = old.map_or(Ok(0), |bytes| number::integer(bytes).ok_or(bad))?;
        let sum = old.checked_add(by);
        Ok(sum.ok_or(Failure::coded("ERR increment or decrement would overflow"))?.to_string())
    })?;
    out.integer(integer(new.as_bytes())?);
    Ok(())
}

fn hincrbyfloat(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let by = request.get(3);
    match number::float(by) {
        None => return Err(Failure::coded("ERR value is not a valid float")),
        Some(by) if by.is_infinite() => return Err(Failure::coded("ERR value is NaN or Infinity")),
        Some(_) => {}
    }
    let new = update(context, request.get(1), request.get(2), |old| {
        let old = old.unwrap_or(b"0");
        if number::float(old).is_none() {
            return Err(Failure::coded("ERR hash value is not a float"));
        }
        number::add_floats(old, by).ok_or(Failure::coded("ERR increment would produce NaN or Infinity"))
    })?;
    out.text(&new);
    Ok(())
}
