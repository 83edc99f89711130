//! Walks over keys: KEYS, SCAN, RANDOMKEY, and what concerns whole databases.
//!
//! SCAN goes along the store's own order, which is that of a keyed hash of the key. Its cursor is the upper
//! 48 bits of that hash: a position that means the same tomorrow, after a restart and beside writes. So a
//! scan holds nothing on the server. Source: ours; Redis' cursor is a place in its hash table.

use super::Context;
use super::arguments::{Options, is};
use super::keys::database;
use super::spec::{Spec, flags::*};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::glob;
use crate::keyspace::encoding::{Head, HeadKind, Reader};
use crate::keyspace::{Body, Database, Kind, Layout};
use crate::number;
use crate::resp::{Output, Request};
use rand::RngExt as _;
use std::sync::Arc;

const RA: u32 = READONLY | ALONE;

pub const TABLE: &[Spec] = &[
    Spec::new("keys", 2, RA | DANGEROUS, keys).about(
        "generic",
        "1.0.0",
        "Returns all keys that match a pattern.",
    ),
    Spec::new("scan", -2, RA, scan).about("generic", "2.8.0", "Walks over the keys, some at a time."),
    Spec::new("randomkey", 1, RA, random_key).about("generic", "1.0.0", "Returns any key."),
    Spec::new("dbsize", 1, RA | FAST, dbsize).about("server", "1.0.0", "Returns the number of keys."),
    Spec::new("flushdb", -1, WRITE | DANGEROUS | ALL_KEYS, flushdb).about(
        "server",
        "1.0.0",
        "Empties the database.",
    ),
    Spec::new("flushall", -1, WRITE | DANGEROUS | ALL_KEYS, flushall).about(
        "server",
        "1.0.0",
        "Empties all databases.",
    ),
    Spec::new("swapdb", 3, WRITE | FAST | DANGEROUS | ALL_KEYS, swapdb).about(
        "server",
        "4.0.0",
        "Swaps two databases.",
    ),
];

/// Positions that share a cursor.
const CURSOR_SHIFT: u32 = 16;
/// Items of a group that a walk steps over before it seeks behind the group.
const MOST_STEPS: usize = 32;

/// Shows every key from `position` on, with its head's item, until `take` says that it is enough; returns the
/// position to go on at, 0 at the end.
fn walk(
    database: &Arc<Database>,
    mut position: u64,
    now: u64,
    mut take: impl FnMut(u64, &[u8], Head) -> bool,
) -> Outcome<u64> {
    let mut is_of_group = 0;
    'seek: loop {
        for item in database.items.iter_from(position)? {
            let (item, value) = item?;
            let Some((key, is_head)) = database.layout.key_of(&item) else { continue };
            if !is_head {
                is_of_group += 1;
                if is_of_group > MOST_STEPS {
                    is_of_group = 0;
                    let here = database.items.position(&item)?;
                    let Some(next) = here.checked_add(1) else { return Ok(0) };
                    position = next;
                    continue 'seek;
                }
                continue;
            }
            is_of_group = 0;
            let Some((head, from)) = Head::read(&value) else { continue };
            if head.expires_at > 0 && head.expires_at <= now {
                continue;
            }
            if !has_elements(database, key, head, value.get(from..).unwrap_or_default(), now)? {
                continue;
            }
            let here = database.items.position(&item)?;
            if !take(here, key, head) {
                return Ok(here);
            }
        }
        return Ok(0);
    }
}

/// Whether not all elements of a hash have expired.
fn has_elements(database: &Arc<Database>, key: &[u8], head: Head, rest: &[u8], now: u64) -> Outcome<bool> {
    let soonest = match head.kind {
        HeadKind::PackedHash => 1,
        HeadKind::Hash => {
            let mut reader = Reader { bytes: rest };
            reader.u64().and_then(|_| reader.u64()).unwrap_or(0)
        }
        _ => 0,
    };
    if soonest == 0 || soonest > now {
        return Ok(true);
    }
    let mut item = Vec::new();
    head.write(&mut item);
    item.extend_from_slice(rest);
    Ok(database.state_of(key, Some(item), now)?.is_live())
}

fn open(context: &mut Context) -> Outcome<Option<Arc<Database>>> {
    // Within a transaction there may be changes that are not written yet.
    context.unit.commit()?;
    Ok(context.unit.store.database(context.session.database))
}

/// Shows the keys of a slot, from `position` on where one is given, until `take` says that it is enough;
/// returns the position to go on at, none at the end.
///
/// # Errors
/// Those of reading.
pub fn keys_of_slot(
    context: &Context,
    slot: u16,
    position: Option<u64>,
    mut take: impl FnMut(u64, &[u8]) -> bool,
) -> Outcome<Option<u64>> {
    let store = context.server.store();
    // Against FLUSHALL, which drops the keyspace.
    let _held = store.locks.keys(std::iter::empty());
    let Some(database) = store.database(0) else { return Ok(None) };
    let from = position.unwrap_or(Layout::place_of_slot(slot));
    let end = slot.checked_add(1).map_or(0, Layout::place_of_slot);
    let mut next = None;
    walk(&database, from, context.unit.now, |here, key, _| {
        if end > 0 && here >= end {
            return false;
        }
        let goes_on = take(here, key);
        next = (!goes_on).then_some(here);
        goes_on
    })?;
    Ok(next)
}

fn keys(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let mut found = Vec::new();
    if let Some(database) = open(context)? {
        walk(&database, 0, context.unit.now, |_, key, _| {
            if glob::matches(request.get(1), key) {
                found.push(key.to_vec());
            }
            true
        })?;
    }
    out.array(found.len());
    found.iter().for_each(|key| out.bulk(key));
    Ok(())
}

/// Options of the SCAN family.
pub struct ScanOptions {
    /// Where to go on.
    pub cursor: u64,
    /// How many elements to look at.
    pub count: usize,
    /// Which names are wanted.
    pub pattern: Option<Vec<u8>>,
    /// Which type is wanted.
    pub type_name: Option<Vec<u8>>,
    /// Whether values are left out.
    pub without_values: bool,
}

/// Reads the cursor, argument `place`, and the options that follow it.
pub fn scan_options(request: &Request, place: usize) -> Outcome<ScanOptions> {
    let cursor = std::str::from_utf8(request.get(place)).ok().and_then(|text| text.parse().ok());
    let cursor = cursor.ok_or(Failure::coded("ERR invalid cursor"))?;
    let mut scan = ScanOptions { cursor, count: 10, pattern: None, type_name: None, without_values: false };
    let mut options = Options::new(request.from(place + 1));
    while let Some(option) = options.next() {
        match option.as_str() {
            "COUNT" => {
                let count = options.integer()?;
                scan.count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
            }
            "MATCH" => scan.pattern = Some(options.value()?.to_vec()),
            "TYPE" if place == 1 => scan.type_name = Some(options.value()?.to_vec()),
            "NOVALUES" if is(request.get(0), "HSCAN") => scan.without_values = true,
            _ => return Err(SYNTAX),
        }
    }
    Ok(scan)
}

/// The name of a head's type.
fn type_name(kind: HeadKind) -> &'static str {
    match kind {
        HeadKind::String => "string",
        HeadKind::PackedHash | HeadKind::Hash => "hash",
        HeadKind::PackedSet | HeadKind::Set => "set",
    }
}

fn scan(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let options = scan_options(request, 1)?;
    let (mut found, mut next) = (Vec::new(), 0);
    if let Some(database) = open(context)? {
        let (mut seen, mut last) = (0, 0);
        let position = options.cursor.min(u64::MAX >> CURSOR_SHIFT) << CURSOR_SHIFT;
        next = walk(&database, position, context.unit.now, |here, key, head| {
            let cursor = here >> CURSOR_SHIFT;
            // Keys that share a cursor come together.
            if seen >= options.count && cursor != last {
                return false;
            }
            (seen, last) = (seen + 1, cursor);
            let is_wanted = options.pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, key))
                && options.type_name.as_ref().is_none_or(|name| is(name, type_name(head.kind)));
            if is_wanted {
                found.push(key.to_vec());
            }
            true
        })? >> CURSOR_SHIFT;
    }
    out.array(2);
    out.text(&next.to_string());
    out.array(found.len());
    found.iter().for_each(|key| out.bulk(key));
    Ok(())
}

fn random_key(context: &mut Context, _request: &Request, out: &mut Output) -> Outcome {
    const CANDIDATES: usize = 16;
    let mut found = Vec::new();
    if let Some(database) = open(context)? {
        for from in [rand::rng().random(), 0] {
            walk(&database, from, context.unit.now, |_, key, _| {
                found.push(key.to_vec());
                found.len() < CANDIDATES
            })?;
            if found.len() >= CANDIDATES {
                break;
            }
        }
    }
    let chosen = if found.is_empty() { 0 } else { rand::rng().random_range(0..found.len()) };
    out.bulk_or_null(found.get(chosen).map(Vec::as_slice));
    Ok(())
}

fn dbsize(context: &mut Context, _request: &Request, out: &mut Output) -> Outcome {
    context.unit.commit()?;
    let keys = context.unit.store.keys(context.session.database, context.unit.now);
    out.integer(i64::try_from(keys).unwrap_or(i64::MAX));
    Ok(())
}

/// Checks the argument of the FLUSH commands.
fn flush_mode(request: &Request) -> Outcome {
    match request.len() {
        1 => Ok(()),
        2 if is(request.get(1), "SYNC") || is(request.get(1), "ASYNC") => Ok(()),
        _ => Err(SYNTAX),
    }
}

fn flushdb(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    flush_mode(request)?;
    context.unit.commit()?;
    let number = context.session.database;
    context.unit.store.flush(number..number + 1)?;
    out.ok();
    Ok(())
}

fn flushall(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    flush_mode(request)?;
    context.unit.commit()?;
    let store = context.unit.store;
    store.flush(0..store.count())?;
    out.ok();
    Ok(())
}

fn swapdb(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let check = |bytes: &[u8], which: &str| match number::integer(bytes) {
        Some(_) => database(context, bytes),
        None => Err(Failure::new(format!("invalid {which} DB index"))),
    };
    let (one, other) = (check(request.get(1), "first")?, check(request.get(2), "second")?);
    context.unit.commit()?;
    context.unit.store.swap(one, other)?;
    out.ok();
    Ok(())
}

/// HSCAN and SSCAN: elements of the collection under argument 1.
pub fn scan_collection(context: &mut Context, request: &Request, out: &mut Output, kind: Kind) -> Outcome {
    let options = scan_options(request, 2)?;
    let (next, found) = match context.collection(request.get(1), kind)? {
        None => (0, Vec::new()),
        Some(collection) if options.cursor > 0 && matches!(collection.body, Body::Packed(_)) => {
            (0, Vec::new())
        }
        Some(collection) => collection.scan(options.cursor, options.count)?,
    };
    let is_wanted = |name: &[u8]| options.pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, name));
    let shown: Vec<_> = found.iter().filter(|(name, _)| is_wanted(name)).collect();
    let with_values = kind == Kind::Hash && !options.without_values;
    out.array(2);
    out.text(&next.to_string());
    out.array(shown.len() * if with_values { 2 } else { 1 });
    for (name, element) in shown {
        out.bulk(name);
        if with_values {
            out.bulk(&element.value);
        }
    }
    Ok(())
}
