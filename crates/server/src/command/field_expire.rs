//! Fields of hashes that expire by themselves.

use super::Context;
use super::arguments::{Options, TimeUnit, integer, is, moment};
use super::spec::{Keys, Spec, flags::*};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::keyspace::{Element, Kind, OwnedElement};
use crate::resp::{Output, Request};

const WF: u32 = WRITE | FAST;
const RF: u32 = READONLY | FAST;
const HASH: Kind = Kind::Hash;

pub const TABLE: &[Spec] = &[
    Spec::on("hexpire", -6, WF, Keys::FIRST, hexpire).about(
        "hash",
        "7.4.0",
        "Lets fields expire after so many seconds.",
    ),
    Spec::on("hpexpire", -6, WF, Keys::FIRST, hpexpire).about(
        "hash",
        "7.4.0",
        "Lets fields expire after so many milliseconds.",
    ),
    Spec::on("hexpireat", -6, WF, Keys::FIRST, hexpireat).about(
        "hash",
        "7.4.0",
        "Lets fields expire at a time in seconds.",
    ),
    Spec::on("hpexpireat", -6, WF, Keys::FIRST, hpexpireat).about(
        "hash",
        "7.4.0",
        "Lets fields expire at a time in milliseconds.",
    ),
    Spec::on("httl", -5, RF, Keys::FIRST, httl).about(
        "hash",
        "7.4.0",
        "Returns the seconds fields have left.",
    ),
    Spec::on("hpttl", -5, RF, Keys::FIRST, hpttl).about(
        "hash",
        "7.4.0",
        "Returns the milliseconds fields have left.",
    ),
    Spec::on("hexpiretime", -5, RF, Keys::FIRST, hexpiretime).about(
        "hash",
        "7.4.0",
        "Returns the second at which fields expire.",
    ),
    Spec::on("hpexpiretime", -5, RF, Keys::FIRST, hpexpiretime).about(
        "hash",
        "7.4.0",
        "Returns the millisecond at which fields expire.",
    ),
    Spec::on("hpersist", -5, WF, Keys::FIRST, hpersist).about("hash", "7.4.0", "Lets fields stay for good."),
    Spec::on("hgetdel", -5, WF, Keys::FIRST, hgetdel).about(
        "hash",
        "8.0.0",
        "Returns fields and deletes them.",
    ),
    Spec::on("hgetex", -5, WF, Keys::FIRST, hgetex).about(
        "hash",
        "8.0.0",
        "Returns fields and sets their expiry.",
    ),
    Spec::on("hsetex", -6, WF | DENYOOM, Keys::FIRST, hsetex).about(
        "hash",
        "8.0.0",
        "Sets fields and their expiry.",
    ),
];

/// What the commands answer for a field.
const NO_FIELD: i64 = -2;
const NO_EXPIRY: i64 = -1;
const REFUSED: i64 = 0;
const SET: i64 = 1;
const DELETED: i64 = 2;

/// Reads `FIELDS count name …` from argument `place` on, to the end; each field has `width` arguments.
fn fields(request: &Request, place: usize, width: usize) -> Outcome<Vec<&[u8]>> {
    if !is(request.get(place), "FIELDS") {
        return Err(Failure::coded("ERR Mandatory argument FIELDS is missing or not at the right position"));
    }
    let bad = Failure::coded("ERR Parameter `numFields` should be greater than 0");
    let count = integer(request.get(place + 1)).ok().and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or(bad)?;
    if count.checked_mul(width) != Some(request.len().saturating_sub(place + 2)) {
        return Err(Failure::coded("ERR The `numfields` parameter must match the number of arguments"));
    }
    Ok(request.from(place + 2).collect())
}

/// Which expiries may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Only {
    Any,
    Without,
    With,
    Later,
    Sooner,
}

impl Only {
    fn allows(self, current: u64, wanted: u64) -> bool {
        match self {
            Self::Any => true,
            Self::Without => current == 0,
            Self::With => current > 0,
            Self::Later => current > 0 && wanted > current,
            Self::Sooner => current == 0 || wanted < current,
        }
    }
}

fn set(context: &mut Context, request: &Request, out: &mut Output, unit: TimeUnit, base: u64) -> Outcome {
    let name = context.spec.name;
    let amount = integer(request.get(2))?;
    if amount < 0 {
        return Err(Failure::coded("ERR invalid expire time, must be >= 0"));
    }
    let at = u64::try_from(moment(amount, unit, base, name)?).unwrap_or(0);
    let (only, place) = match request.get(3).to_ascii_uppercase().as_slice() {
        b"NX" => (Only::Without, 4),
        b"XX" => (Only::With, 4),
        b"GT" => (Only::Later, 4),
        b"LT" => (Only::Sooner, 4),
        _ => (Only::Any, 3),
    };
    let fields = fields(request, place, 1)?;
    let now = context.unit.now;
    let key = request.get(1);
    out.array(fields.len());
    if context.key(key)?.collection(HASH)?.is_none() {
        fields.iter().for_each(|_| out.integer(NO_FIELD));
        return Ok(());
    }
    context.change(key, HASH, |hash| {
        hash.prefetch(&fields)?;
        for field in &fields {
            let Some(element) = hash.get(field)?.map(OwnedElement::from) else {
                out.integer(NO_FIELD);
                continue;
            };
            if !only.allows(element.expires_at, at) {
                out.integer(REFUSED);
            } else if at <= now {
                hash.remove(field)?;
                out.integer(DELETED);
            } else {
                hash.put(field, Element { value: &element.value, expires_at: at })?;
                out.integer(SET);
            }
        }
        Ok(())
    })
}

fn hexpire(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    set(context, request, out, TimeUnit::Seconds, context.unit.now)
}

fn hpexpire(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    set(context, request, out, TimeUnit::Milliseconds, context.unit.now)
}

fn hexpireat(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    set(context, request, out, TimeUnit::Seconds, 0)
}

fn hpexpireat(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    set(context, request, out, TimeUnit::Milliseconds, 0)
}

fn tell(context: &mut Context, request: &Request, out: &mut Output, of: fn(u64, u64) -> u64) -> Outcome {
    let fields = fields(request, 2, 1)?;
    let now = context.unit.now;
    let mut hash = context.collection(request.get(1), HASH)?;
    out.array(fields.len());
    for field in fields {
        let element = match &mut hash {
            Some(hash) => hash.get(field)?,
            None => None,
        };
        out.integer(match element.map(|element| element.expires_at) {
            None => NO_FIELD,
            Some(0) => NO_EXPIRY,
            Some(at) => i64::try_from(of(at, now)).unwrap_or(i64::MAX),
        });
    }
    Ok(())
}

fn httl(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    tell(context, request, out, |at, now| (at - now).div_ceil(1000))
}

fn hpttl(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    tell(context, request, out, |at, now| at - now)
}

fn hexpiretime(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    tell(context, request, out, |at, _| at.div_ceil(1000))
}

fn hpexpiretime(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    tell(context, request, out, |at, _| at)
}

fn hpersist(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let fields = fields(request, 2, 1)?;
    let key = request.get(1);
    out.array(fields.len());
    if context.key(key)?.collection(HASH)?.is_none() {
        fields.iter().for_each(|_| out.integer(NO_FIELD));
        return Ok(());
    }
    context.change(key, HASH, |hash| {
        for field in fields {
            match hash.get(field)?.map(OwnedElement::from) {
                None => out.integer(NO_FIELD),
                Some(OwnedElement { expires_at: 0, .. }) => out.integer(NO_EXPIRY),
                Some(element) => {
                    hash.put(field, Element { value: &element.value, expires_at: 0 })?;
                    out.integer(SET);
                }
            }
        }
        Ok(())
    })
}

fn show(out: &mut Output, element: Option<&OwnedElement>) {
    out.bulk_or_null(element.map(|element| element.value.as_slice()));
}

fn hgetdel(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let fields = fields(request, 2, 1)?;
    let key = request.get(1);
    out.array(fields.len());
    if context.key(key)?.collection(HASH)?.is_none() {
        fields.iter().for_each(|_| out.null());
        return Ok(());
    }
    context.change(key, HASH, |hash| {
        for field in fields {
            let element = hash.get(field)?.map(OwnedElement::from);
            show(out, element.as_ref());
            hash.remove(field)?;
        }
        Ok(())
    })
}

/// What becomes of a field's expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expiry {
    Unsaid,
    Keep,
    Never,
    At(u64),
}

/// Reads `EX PX EXAT PXAT`.
fn expiry<'a>(
    option: &str,
    options: &mut Options<'a, impl Iterator<Item = &'a [u8]>>,
    now: u64,
    name: &str,
) -> Outcome<Expiry> {
    let (unit, base) = match option {
        "EX" => (TimeUnit::Seconds, now),
        "PX" => (TimeUnit::Milliseconds, now),
        "EXAT" => (TimeUnit::Seconds, 0),
        "PXAT" => (TimeUnit::Milliseconds, 0),
        _ => return Err(SYNTAX),
    };
    let amount = options.integer()?;
    if amount <= 0 {
        return Err(Failure::new(format!("invalid expire time in '{name}' command")));
    }
    Ok(Expiry::At(u64::try_from(moment(amount, unit, base, name)?).unwrap_or(1)))
}

fn hgetex(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let (mut when, mut place) = (Expiry::Unsaid, 2);
    while !is(request.get(place), "FIELDS") && place < request.len() {
        let mut options = Options::new(request.from(place));
        let option = options.next().unwrap_or_default();
        if when != Expiry::Unsaid {
            return Err(SYNTAX);
        }
        (when, place) = match option.as_str() {
            "PERSIST" => (Expiry::Never, place + 1),
            option => (expiry(option, &mut options, context.unit.now, "hgetex")?, place + 2),
        };
    }
    let fields = fields(request, place, 1)?;
    let (key, now) = (request.get(1), context.unit.now);
    out.array(fields.len());
    if context.key(key)?.collection(HASH)?.is_none() {
        fields.iter().for_each(|_| out.null());
        return Ok(());
    }
    context.change(key, HASH, |hash| {
        for field in fields {
            let element = hash.get(field)?.map(OwnedElement::from);
            show(out, element.as_ref());
            let Some(element) = element else { continue };
            match when {
                Expiry::At(at) if at <= now => {
                    hash.remove(field)?;
                }
                Expiry::At(expires_at) => {
                    hash.put(field, Element { value: &element.value, expires_at })?;
                }
                Expiry::Never => {
                    hash.put(field, Element { value: &element.value, expires_at: 0 })?;
                }
                Expiry::Unsaid | Expiry::Keep => {}
            }
        }
        Ok(())
    })
}

fn hsetex(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let (mut when, mut only, mut place) = (Expiry::Unsaid, Only::Any, 2);
    while !is(request.get(place), "FIELDS") && place < request.len() {
        let mut options = Options::new(request.from(place));
        let option = options.next().unwrap_or_default();
        place += 1;
        match option.as_str() {
            "FNX" if only == Only::Any => only = Only::Without,
            "FXX" if only == Only::Any => only = Only::With,
            "KEEPTTL" if when == Expiry::Unsaid => when = Expiry::Keep,
            option if when == Expiry::Unsaid => {
                when = expiry(option, &mut options, context.unit.now, "hsetex")?;
                place += 1;
            }
            _ => return Err(SYNTAX),
        }
    }
    let pairs = fields(request, place, 2)?;
    let (key, now) = (request.get(1), context.unit.now);
    let names = || pairs.iter().step_by(2);
    if only != Only::Any {
        let mut hash = context.key(key)?.collection(HASH)?;
        for name in names() {
            let is_there = match &mut hash {
                Some(hash) => hash.contains(name)?,
                None => false,
            };
            if is_there != (only == Only::With) {
                out.integer(0);
                return Ok(());
            }
        }
    }
    context.change(key, HASH, |hash| {
        for (name, value) in names().zip(pairs.iter().skip(1).step_by(2)) {
            let expires_at = match when {
                Expiry::At(at) => at,
                Expiry::Keep => hash.get(name)?.map_or(0, |element| element.expires_at),
                Expiry::Unsaid | Expiry::Never => 0,
            };
            if expires_at > 0 && expires_at <= now {
                hash.remove(name)?;
            } else {
                hash.put(name, Element { value, expires_at })?;
            }
        }
        Ok(())
    })?;
    out.integer(1);
    Ok(())
}
