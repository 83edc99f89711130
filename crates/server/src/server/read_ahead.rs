//! What requests will ask for, found out before they are carried out: their keys, and the elements that they
//! name of large collections, so that a unit of work reads them together.

use super::Server;
use super::pipeline::{Checked, Stop};
use crate::command::{Spec, flags};
use crate::failure::Outcome;
use crate::keyspace::{Cached, MOST_CACHED_BYTES, Store, Unit};
use crate::resp::Request;
use std::sync::atomic::Ordering;

/// Keys of a request, with whether it may change them.
pub(super) fn keys<'r>(
    database: usize,
    request: &'r Request,
    spec: &'static Spec,
) -> impl Iterator<Item = (usize, &'r [u8], bool)> + Clone {
    spec.keys.places(request).map(move |place| (database, request.get(place), spec.writes()))
}

/// Keys of some requests.
pub(super) fn named<'r>(
    database: usize,
    requests: &'r [Request],
    specs: &'r [Checked],
) -> impl Iterator<Item = (usize, &'r [u8], bool)> + Clone {
    requests.iter().zip(specs).flat_map(move |(request, (_, spec))| keys(database, request, spec))
}

/// Reads what the requests will ask for.
pub(super) fn read_ahead(
    unit: &mut Unit,
    database: usize,
    requests: &[Request],
    specs: &[Checked],
) -> Outcome {
    unit.load(database, named(database, requests, specs).map(|(_, key, _)| key))?;
    if unit.has_large(database) {
        for (key, names) in elements(database, requests, specs) {
            unit.load_elements(database, key, &names)?;
        }
    }
    Ok(())
}

/// The elements that a request names of the collection under its first key; none where it names none.
fn element_names<'r>(request: &'r Request, spec: &Spec) -> Vec<&'r [u8]> {
    match spec.elements {
        (0, _) => Vec::new(),
        (first, step) => request.from(first).step_by(step).collect(),
    }
}

/// Names of elements by collection; those that requests behind one another name of one collection stand
/// together. None are named of a collection of which a request may ask for any.
fn elements<'r>(
    database: usize,
    requests: &'r [Request],
    specs: &'r [Checked],
) -> Vec<(&'r [u8], Vec<&'r [u8]>)> {
    let mut found: Vec<(&[u8], Vec<&[u8]>)> = Vec::new();
    for (request, (_, spec)) in requests.iter().zip(specs) {
        for (place, (_, key, _)) in keys(database, request, spec).enumerate() {
            let names = if place == 0 { element_names(request, spec) } else { Vec::new() };
            match found.last_mut() {
                Some((last, known)) if *last == key && !names.is_empty() && !known.is_empty() => {
                    known.extend(names);
                }
                _ => found.push((key, names)),
            }
        }
    }
    found
}

/// Reads the elements of large collections that `requests` name; false where memory does not hold them, or
/// where a request may ask for others.
fn elements_are_cached(
    unit: &mut Unit,
    database: usize,
    requests: &[Request],
    specs: &[Checked],
) -> Outcome<bool> {
    if !unit.has_large(database) {
        return Ok(true);
    }
    for (key, names) in elements(database, requests, specs) {
        if !unit.load_elements_cached(database, key, &names)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether carrying out `requests` takes neither long nor a sync, as far as can be told before anything is
/// read.
pub(super) fn are_short(store: &Store, writes: bool, requests: &[Request], specs: &[Checked]) -> bool {
    let bytes: usize = requests.iter().map(Request::bytes).sum();
    let syncs = || store.write_options().durability == Some(siltstone::Durability::Synced);
    let is_long = bytes > MOST_CACHED_BYTES || specs.iter().any(|(_, spec)| spec.is(flags::LONG));
    !is_long && !(writes && (syncs() || store.db.is_slowed()))
}

/// Reads what `requests` will ask for where that takes no waiting.
pub(super) fn read_cached(
    server: &Server,
    unit: &mut Unit,
    database: usize,
    requests: &[Request],
    specs: &[Checked],
) -> Result<(), Stop> {
    let keys = named(database, requests, specs).map(|(_, key, _)| key);
    // What is wrong shows again where the thread may wait.
    match unit.load_cached(database, keys) {
        Ok(Cached::All) => {}
        Ok(Cached::No) => return Err(Stop::Device),
        Ok(Cached::Much) | Err(_) => return Err(Stop::Passing),
    }
    match elements_are_cached(unit, database, requests, specs) {
        Ok(true) => {}
        Ok(false) => return Err(Stop::Device),
        Err(_) => return Err(Stop::Passing),
    }
    server.counters.at_once.fetch_add(1, Ordering::Relaxed);
    Ok(())
}
