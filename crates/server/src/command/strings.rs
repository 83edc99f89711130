//! Strings.

use super::arguments::{Options, TimeUnit, integer, moment, range};
use super::spec::{Keys, Spec, flags::*};
use super::{Context, wrong_arity};
use crate::failure::{Failure, NOT_FLOAT, NOT_INTEGER, Outcome, SYNTAX, TOO_LONG};
use crate::number;
use crate::resp::{Output, Request};

const RF: u32 = READONLY | FAST;
const WD: u32 = WRITE | DENYOOM;
const WDF: u32 = WD | FAST;

pub const TABLE: &[Spec] = &[
    Spec::on("get", 2, RF, Keys::FIRST, get).about("string", "1.0.0", "Returns a string."),
    Spec::on("set", -3, WD, Keys::FIRST, set).about("string", "1.0.0", "Sets a key to a string."),
    Spec::on("setnx", 3, WDF, Keys::FIRST, setnx).about("string", "1.0.0", "Sets a key that is not there."),
    Spec::on("setex", 4, WD, Keys::FIRST, setex).about("string", "2.0.0", "Sets a key for so many seconds."),
    Spec::on("psetex", 4, WD, Keys::FIRST, psetex).about(
        "string",
        "2.6.0",
        "Sets a key for so many milliseconds.",
    ),
    Spec::on("getset", 3, WDF, Keys::FIRST, getset).about(
        "string",
        "1.0.0",
        "Sets a key and returns what it held.",
    ),
    Spec::on("getdel", 2, WRITE | FAST, Keys::FIRST, getdel).about(
        "string",
        "6.2.0",
        "Returns a string and deletes it.",
    ),
    Spec::on("getex", -2, WRITE | FAST, Keys::FIRST, getex).about(
        "string",
        "6.2.0",
        "Returns a string and sets its expiry.",
    ),
    Spec::on("mget", -2, RF, Keys::ALL, mget).about("string", "1.0.0", "Returns several strings."),
    Spec::on("mset", -3, WD, Keys::Range { first: 1, last: -1, step: 2 }, mset).about(
        "string",
        "1.0.1",
        "Sets several keys.",
    ),
    Spec::on("msetnx", -3, WD, Keys::Range { first: 1, last: -1, step: 2 }, msetnx).about(
        "string",
        "1.0.1",
        "Sets several keys if none of them is there.",
    ),
    Spec::on("incr", 2, WDF, Keys::FIRST, incr).about("string", "1.0.0", "Adds one to an integer."),
    Spec::on("decr", 2, WDF, Keys::FIRST, decr).about("string", "1.0.0", "Takes one from an integer."),
    Spec::on("incrby", 3, WDF, Keys::FIRST, incrby).about("string", "1.0.0", "Adds to an integer."),
    Spec::on("decrby", 3, WDF, Keys::FIRST, decrby).about("string", "1.0.0", "Takes from an integer."),
    Spec::on("incrbyfloat", 3, WDF, Keys::FIRST, incrbyfloat).about(
        "string",
        "2.6.0",
        "Adds to a number with a fraction.",
    ),
    Spec::on("append", 3, WDF, Keys::FIRST, append).about("string", "2.0.0", "Appends to a string."),
    Spec::on("strlen", 2, RF, Keys::FIRST, strlen).about("string", "2.2.0", "Returns a string's length."),
    Spec::on("setrange", 4, WD, Keys::FIRST, setrange).about(
        "string",
        "2.2.0",
        "Overwrites a part of a string.",
    ),
    Spec::on("getrange", 4, READONLY, Keys::FIRST, getrange).about(
        "string",
        "2.4.0",
        "Returns a part of a string.",
    ),
    Spec::on("substr", 4, READONLY, Keys::FIRST, getrange).about(
        "string",
        "1.0.0",
        "Returns a part of a string; GETRANGE by its old name.",
    ),
];

fn get(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    out.bulk_or_null(context.lookup(request.get(1))?.string()?);
    Ok(())
}

/// When the key is to be gone, as an option says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expiry {
    Unsaid,
    Keep,
    Never,
    At(i64),
}

/// Reads the options `EX PX EXAT PXAT` that SET and GETEX share.
fn expiry<'a>(
    option: &str,
    options: &mut Options<'a, impl Iterator<Item = &'a [u8]>>,
    now: u64,
    command: &str,
) -> Outcome<Option<Expiry>> {
    let (unit, base) = match option {
        "EX" => (TimeUnit::Seconds, now),
        "PX" => (TimeUnit::Milliseconds, now),
        "EXAT" => (TimeUnit::Seconds, 0),
        "PXAT" => (TimeUnit::Milliseconds, 0),
        _ => return Ok(None),
    };
    let amount = options.integer()?;
    if amount <= 0 {
        return Err(Failure::new(format!("invalid expire time in '{command}' command")));
    }
    Ok(Some(Expiry::At(moment(amount, unit, base, command)?)))
}

fn at(expiry: Expiry, before: u64) -> u64 {
    match expiry {
        Expiry::Keep => before,
        Expiry::Unsaid | Expiry::Never => 0,
        Expiry::At(at) => u64::try_from(at).unwrap_or(1).max(1),
    }
}

fn set(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let (mut only_new, mut only_old, mut returns, mut when) = (false, false, false, Expiry::Unsaid);
    let mut options = Options::new(request.from(3));
    while let Some(option) = options.next() {
        match option.as_str() {
            "NX" if !only_old => only_new = true,
            "XX" if !only_new => only_old = true,
            "GET" => returns = true,
            "KEEPTTL" if when == Expiry::Unsaid => when = Expiry::Keep,
            option if when == Expiry::Unsaid => {
                when = expiry(option, &mut options, context.unit.now, "set")?.ok_or(SYNTAX)?;
            }
            _ => return Err(SYNTAX),
        }
    }
    let state = if returns { context.lookup(request.get(1))? } else { context.key(request.get(1))? };
    let mark = out.len();
    if returns {
        out.bulk_or_null(state.string()?);
    }
    if (only_new && state.is_live()) || (only_old && !state.is_live()) {
        if !returns {
            out.null();
        }
        return Ok(());
    }
    let expires_at = at(when, state.expires_at);
    state.set_string(request.get(2).to_vec());
    state.expires_at = expires_at;
    drop_if_past(context, request.get(1))?;
    if out.len() == mark {
        out.ok();
    }
    Ok(())
}

/// Deletes a key whose expiry has been set to the past.
fn drop_if_past(context: &mut Context, key: &[u8]) -> Outcome {
    let now = context.unit.now;
    let state = context.key(key)?;
    if state.expires_at > 0 && state.expires_at <= now {
        state.remove();
    }
    Ok(())
}

fn setnx(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let state = context.key(request.get(1))?;
    let is_new = !state.is_live();
    if is_new {
        state.set_string(request.get(2).to_vec());
        state.expires_at = 0;
    }
    out.integer(i64::from(is_new));
    Ok(())
}

fn set_for(context: &mut Context, request: &Request, out: &mut Output, unit: TimeUnit) -> Outcome {
    let name = context.spec.name;
    let amount = integer(request.get(2))?;
    if amount <= 0 {
        return Err(Failure::new(format!("invalid expire time in '{name}' command")));
    }
    let until = moment(amount, unit, context.unit.now, name)?;
    let state = context.key(request.get(1))?;
    state.set_string(request.get(3).to_vec());
    state.expires_at = at(Expiry::At(until), 0);
    out.ok();
    Ok(())
}

fn setex(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    set_for(context, request, out, TimeUnit::Seconds)
}

fn psetex(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    set_for(context, request, out, TimeUnit::Milliseconds)
}

fn getset(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let state = context.lookup(request.get(1))?;
    out.bulk_or_null(state.string()?);
    state.set_string(request.get(2).to_vec());
    state.expires_at = 0;
    Ok(())
}

fn getdel(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let state = context.lookup(request.get(1))?;
    out.bulk_or_null(state.string()?);
    state.remove();
    Ok(())
}

fn getex(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let mut when = Expiry::Unsaid;
    let mut options = Options::new(request.from(2));
    while let Some(option) = options.next() {
        if when != Expiry::Unsaid {
            return Err(SYNTAX);
        }
        when = match option.as_str() {
            "PERSIST" => Expiry::Never,
            option => expiry(option, &mut options, context.unit.now, "getex")?.ok_or(SYNTAX)?,
        };
    }
    let state = context.lookup(request.get(1))?;
    let is_live = state.is_live();
    out.bulk_or_null(state.string()?);
    let wanted = at(when, state.expires_at);
    if is_live && when != Expiry::Unsaid && wanted != state.expires_at {
        state.expires_at = wanted;
        state.is_changed = true;
        drop_if_past(context, request.get(1))?;
    }
    Ok(())
}

fn mget(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    out.array(request.len() - 1);
    for key in request.from(1) {
        out.bulk_or_null(context.lookup(key)?.string().unwrap_or_default());
    }
    Ok(())
}

fn set_pairs(context: &mut Context, request: &Request) -> Outcome {
    for place in (1..request.len()).step_by(2) {
        let state = context.key(request.get(place))?;
        state.set_string(request.get(place + 1).to_vec());
        state.expires_at = 0;
    }
    Ok(())
}

fn check_pairs(request: &Request, name: &str) -> Outcome {
    if request.len().is_multiple_of(2) { Err(wrong_arity(name)) } else { Ok(()) }
}

fn mset(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    check_pairs(request, "mset")?;
    for place in (1..request.len()).step_by(2) {
        context.key(request.get(place))?;
    }
    set_pairs(context, request)?;
    out.ok();
    Ok(())
}

fn msetnx(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    check_pairs(request, "msetnx")?;
    let mut is_free = true;
    for place in (1..request.len()).step_by(2) {
        is_free &= !context.key(request.get(place))?.is_live();
    }
    if is_free {
        set_pairs(context, request)?;
    }
    out.integer(i64::from(is_free));
    Ok(())
}

fn add(context: &mut Context, key: &[u8], by: i64, out: &mut Output) -> Outcome {
    let state = context.key(key)?;
    let old = state.string()?.map_or(Ok(0), |bytes| number::integer(bytes).ok_or(NOT_INTEGER))?;
    let new = old.checked_add(by).ok_or(Failure::coded("ERR increment or decrement would overflow"))?;
    state.set_string(new.to_string().into_bytes());
    out.integer(new);
    Ok(())
}

fn incr(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    add(context, request.get(1), 1, out)
}

fn decr(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    add(context, request.get(1), -1, out)
}

fn incrby(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    add(context, request.get(1), integer(request.get(2))?, out)
}

fn decrby(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let by = integer(request.get(2))?.checked_neg();
    add(context, request.get(1), by.ok_or(Failure::coded("ERR decrement would overflow"))?, out)
}

fn incrbyfloat(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let state = context.key(request.get(1))?;
    let old = state.string()?.unwrap_or(b"0");
    if number::float(old).is_none() || number::float(request.get(2)).is_none() {
        return Err(NOT_FLOAT);
    }
    let sum = number::add_floats(old, request.get(2));
    let sum = sum.ok_or(Failure::coded("ERR increment would produce NaN or Infinity"))?;
    out.text(&sum);
    state.set_string(sum.into_bytes());
    Ok(())
}

/// Checks that a string of `bytes` is not too long.
pub fn check_length(context: &Context, bytes: usize) -> Outcome {
    if bytes > context.server.config.max_argument_bytes() { Err(TOO_LONG) } else { Ok(()) }
}

fn append(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let length = context.key(request.get(1))?.string()?.map_or(0, <[u8]>::len) + request.get(2).len();
    check_length(context, length)?;
    context.key(request.get(1))?.string_mut()?.extend_from_slice(request.get(2));
    out.count(length);
    Ok(())
}

fn strlen(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    out.count(context.lookup(request.get(1))?.string()?.map_or(0, <[u8]>::len));
    Ok(())
}

fn setrange(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let offset = usize::try_from(integer(request.get(2))?);
    let offset = offset.map_err(|_| Failure::coded("ERR offset is out of range"))?;
    let value = request.get(3);
    let length = context.key(request.get(1))?.string()?.map_or(0, <[u8]>::len);
    if value.is_empty() {
        out.count(length);
        return Ok(());
    }
    let end = offset.saturating_add(value.len());
    check_length(context, end)?;
    let bytes = context.key(request.get(1))?.string_mut()?;
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    if let Some(place) = bytes.get_mut(offset..end) {
        place.copy_from_slice(value);
    }
    out.count(bytes.len());
    Ok(())
}

fn getrange(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let (start, end) = (integer(request.get(2))?, integer(request.get(3))?);
    let bytes = context.lookup(request.get(1))?.string()?.unwrap_or_default();
    out.bulk(bytes.get(range(start, end, bytes.len())).unwrap_or_default());
    Ok(())
}
