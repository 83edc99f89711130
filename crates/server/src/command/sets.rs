//! Sets, a member or some at a time.

use super::Context;
use super::arguments::integer;
use super::hash_scan::{check_count, choose};
use super::scan::scan_collection;
use super::spec::{Keys, Spec, flags::*};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::keyspace::{Collection, Element, Kind};
use crate::resp::{Output, Request};

const RF: u32 = READONLY | FAST;
const WF: u32 = WRITE | FAST;
const SET: Kind = Kind::Set;

pub const TABLE: &[Spec] = &[
    Spec::on("sadd", -3, WF | DENYOOM, Keys::FIRST, sadd).elements(2, 1).about(
        "set",
        "1.0.0",
        "Adds members.",
    ),
    Spec::on("srem", -3, WF, Keys::FIRST, srem).elements(2, 1).about("set", "1.0.0", "Removes members."),
    Spec::on("sismember", 3, RF, Keys::FIRST, sismember).elements(2, 1).about(
        "set",
        "1.0.0",
        "Says whether there is a member.",
    ),
    Spec::on("smismember", -3, RF, Keys::FIRST, smismember).elements(2, 1).about(
        "set",
        "6.2.0",
        "Says which members there are.",
    ),
    Spec::on("scard", 2, RF, Keys::FIRST, scard).about("set", "1.0.0", "Counts the members of a set."),
    Spec::on("smembers", 2, READONLY, Keys::FIRST, smembers).about("set", "1.0.0", "Returns all members."),
    Spec::on("spop", -2, WF, Keys::FIRST, spop).about(
        "set",
        "1.0.0",
        "Removes any members and returns them.",
    ),
    Spec::on("srandmember", -2, READONLY, Keys::FIRST, srandmember).about(
        "set",
        "1.0.0",
        "Returns any members.",
    ),
    Spec::on("smove", 4, WF, Keys::TWO, smove).about("set", "1.0.0", "Moves a member to another set."),
    Spec::on("sscan", -3, READONLY, Keys::FIRST, sscan).about(
        "set",
        "2.8.0",
        "Walks over the members, some at a time.",
    ),
];

fn sadd(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let members: Vec<&[u8]> = request.from(2).collect();
    let count = context.change_each(request.get(1), SET, &members, |set, member| {
        let is_new = !set.contains(member)?;
        if is_new {
            set.put(member, Element::default())?;
        }
        Ok(is_new)
    })?;
    out.count(count);
    Ok(())
}

fn srem(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let members: Vec<&[u8]> = request.from(2).collect();
    out.count(context.change_each(request.get(1), SET, &members, Collection::remove)?);
    Ok(())
}

fn sismember(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let is_member = match context.collection(request.get(1), SET)? {
        Some(set) => set.contains(request.get(2))?,
        None => false,
    };
    out.integer(i64::from(is_member));
    Ok(())
}

fn smismember(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let mut set = context.collection(request.get(1), SET)?;
    let members: Vec<&[u8]> = request.from(2).collect();
    if let Some(set) = &mut set {
        set.prefetch(&members)?;
    }
    out.array(members.len());
    for member in members {
        let is_member = match &mut set {
            Some(set) => set.contains(member)?,
            None => false,
        };
        out.integer(i64::from(is_member));
    }
    Ok(())
}

fn scard(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let length = context.collection(request.get(1), SET)?.map_or(0, |set| set.len());
    out.integer(i64::try_from(length).unwrap_or(i64::MAX));
    Ok(())
}

fn smembers(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let names = match context.collection(request.get(1), SET)? {
        Some(set) => set.names()?,
        None => Vec::new(),
    };
    out.set(names.len());
    names.iter().for_each(|name| out.bulk(name));
    Ok(())
}

fn spop(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let key = request.get(1);
    if request.len() > 3 {
        return Err(SYNTAX);
    }
    let count = if request.len() == 3 { Some(integer(request.get(2))?) } else { None };
    if count.is_some_and(|count| count < 0) {
        return Err(Failure::coded("ERR value is out of range, must be positive"));
    }
    let chosen = match (context.collection(key, SET)?, count) {
        (None, _) | (_, Some(0)) => Vec::new(),
        (Some(set), None) => set.random()?.into_iter().map(|(name, _)| name).collect(),
        (Some(set), Some(count)) => choose(set.names()?, count),
    };
    if !chosen.is_empty() {
        context.change(key, SET, |set| {
            for name in &chosen {
                set.remove(name)?;
            }
            Ok(())
        })?;
    }
    match count {
        None => out.bulk_or_null(chosen.first().map(Vec::as_slice)),
        Some(_) => {
            out.set(chosen.len());
            chosen.iter().for_each(|name| out.bulk(name));
        }
    }
    Ok(())
}

fn srandmember(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let key = request.get(1);
    if request.len() > 3 {
        return Err(SYNTAX);
    }
    if request.len() == 2 {
        let found = context.collection(key, SET)?.map(|set| set.random()).transpose()?.flatten();
        out.bulk_or_null(found.as_ref().map(|(name, _)| name.as_slice()));
        return Ok(());
    }
    let count = integer(request.get(2))?;
    check_count(count, false)?;
    let names = match context.collection(key, SET)? {
        Some(set) if count != 0 => set.names()?,
        _ => Vec::new(),
    };
    let chosen = choose(names, count);
    out.array(chosen.len());
    chosen.iter().for_each(|name| out.bulk(name));
    Ok(())
}

fn smove(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let (from, to, member) = (request.get(1), request.get(2), request.get(3));
    let is_member = match context.key(from)?.collection(SET)? {
        Some(set) => set.contains(member)?,
        None => {
            out.integer(0);
            return Ok(());
        }
    };
    context.key(to)?.collection(SET)?;
    if is_member && from != to {
        context.change(from, SET, |set| set.remove(member))?;
        let is_new = match context.key(to)?.collection(SET)? {
            Some(set) => !set.contains(member)?,
            None => true,
        };
        if is_new {
            context.change(to, SET, |set| set.put(member, Element::default()))?;
        }
    }
    out.integer(i64::from(is_member));
    Ok(())
}

fn sscan(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    scan_collection(context, request, out, SET)
}
