//! DUMP and RESTORE: a value as Redis' database files hold it (`rdb/`).

use super::Context;
use super::arguments::{Options, integer};
use super::spec::{Keys, Spec, flags::*};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::rdb::{self, Restored, payload};
use crate::resp::{Output, Request};

pub const TABLE: &[Spec] = &[
    Spec::on("dump", 2, READONLY, Keys::FIRST, dump).about(
        "generic",
        "2.6.0",
        "Returns a key's value as bytes.",
    ),
    Spec::on("restore", -4, WRITE | DENYOOM | DANGEROUS, Keys::FIRST, restore).about(
        "generic",
        "2.6.0",
        "Makes a key of what DUMP returned.",
    ),
];

const BAD_FORMAT: Failure = Failure::coded("ERR Bad data format");

fn dump(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    match payload(context.lookup(request.get(1))?)? {
        Some(bytes) => out.bulk(&bytes),
        None => out.null(),
    }
    Ok(())
}

fn restore(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let (key, now) = (request.get(1), context.unit.now);
    let (mut replaces, mut is_absolute) = (false, false);
    let mut options = Options::new(request.from(4));
    while let Some(option) = options.next() {
        match option.as_str() {
            "REPLACE" => replaces = true,
            "ABSTTL" => is_absolute = true,
            "IDLETIME" if options.integer()? < 0 => {
                return Err(Failure::coded("ERR Invalid IDLETIME value, must be >= 0"));
            }
            "FREQ" if !(0..=255).contains(&options.integer()?) => {
                return Err(Failure::coded("ERR Invalid FREQ value, must be >= 0 and <= 255"));
            }
            "IDLETIME" | "FREQ" => {}
            _ => return Err(SYNTAX),
        }
    }
    if !replaces && context.key(key)?.is_live() {
        return Err(Failure::coded("BUSYKEY Target key name already exists."));
    }
    let ttl = u64::try_from(integer(request.get(2))?);
    let ttl = ttl.map_err(|_| Failure::coded("ERR Invalid TTL value, must be >= 0"))?;
    let value = rdb::checked(request.get(3))
        .ok_or(Failure::coded("ERR DUMP payload version or checksum are wrong"))?;
    let restored = rdb::read(value).ok_or(BAD_FORMAT)?;
    if matches!(restored, Restored::Other(_)) {
        return Err(BAD_FORMAT);
    }
    let expires_at = if ttl == 0 || is_absolute { ttl } else { now.saturating_add(ttl) };
    let database = context.session.database;
    context.key(key)?.remove();
    if expires_at == 0 || expires_at > now {
        match restored {
            Restored::Other(_) => {}
            Restored::String(bytes) => context.key(key)?.set_string(bytes),
            Restored::Collection(kind, entries) => context.unit.fill(database, key, kind, &entries)?,
        }
        context.key(key)?.expires_at = expires_at;
    }
    out.ok();
    Ok(())
}
