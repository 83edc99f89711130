//! When keys expire.

use super::arguments::{TimeUnit, integer, moment};
use super::spec::{Keys, Spec, flags::*};
use super::{Context, text};
use crate::failure::{Failure, Outcome};
use crate::resp::{Output, Request};

const WF: u32 = WRITE | FAST;
const RF: u32 = READONLY | FAST;

pub const TABLE: &[Spec] = &[
    Spec::on("expire", -3, WF, Keys::FIRST, expire).about(
        "generic",
        "1.0.0",
        "Lets a key expire after so many seconds.",
    ),
    Spec::on("pexpire", -3, WF, Keys::FIRST, pexpire).about(
        "generic",
        "2.6.0",
        "Lets a key expire after so many milliseconds.",
    ),
    Spec::on("expireat", -3, WF, Keys::FIRST, expireat).about(
        "generic",
        "1.2.0",
        "Lets a key expire at a time in seconds.",
    ),
    Spec::on("pexpireat", -3, WF, Keys::FIRST, pexpireat).about(
        "generic",
        "2.6.0",
        "Lets a key expire at a time in milliseconds.",
    ),
    Spec::on("ttl", 2, RF, Keys::FIRST, ttl).about("generic", "1.0.0", "Returns the seconds a key has left."),
    Spec::on("pttl", 2, RF, Keys::FIRST, pttl).about(
        "generic",
        "2.6.0",
        "Returns the milliseconds a key has left.",
    ),
    Spec::on("expiretime", 2, RF, Keys::FIRST, expiretime).about(
        "generic",
        "7.0.0",
        "Returns the second at which a key expires.",
    ),
    Spec::on("pexpiretime", 2, RF, Keys::FIRST, pexpiretime).about(
        "generic",
        "7.0.0",
        "Returns the millisecond at which a key expires.",
    ),
    Spec::on("persist", 2, WF, Keys::FIRST, persist).about("generic", "2.2.0", "Lets a key stay for good."),
];

fn set(context: &mut Context, request: &Request, out: &mut Output, unit: TimeUnit, base: u64) -> Outcome {
    let amount = integer(request.get(2))?;
    let (mut nx, mut xx, mut gt, mut lt) = (false, false, false, false);
    for option in request.from(3) {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" => nx = true,
            b"XX" => xx = true,
            b"GT" => gt = true,
            b"LT" => lt = true,
            _ => return Err(Failure::new(format!("Unsupported option {}", text(option)))),
        }
    }
    if nx && (xx || gt || lt) {
        let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
        return Err(Failure::coded(text));
    }
    if gt && lt {
        return Err(Failure::coded("ERR GT and LT options at the same time are not compatible"));
    }
    let wanted = moment(amount, unit, base, context.spec.name)?;
    let now = i64::try_from(context.unit.now).unwrap_or(i64::MAX);
    let state = context.key(request.get(1))?;
    // A key that stays for good has a longer life than any other.
    let current = match state.expires_at {
        0 => None,
        at => Some(i64::try_from(at).unwrap_or(i64::MAX)),
    };
    let is_refused = !state.is_live()
        || (nx && current.is_some())
        || (xx && current.is_none())
        || (gt && current.is_none_or(|current| wanted <= current))
        || (lt && current.is_some_and(|current| wanted >= current));
    if is_refused {
        out.integer(0);
        return Ok(());
    }
    if wanted <= now {
        state.remove();
    } else {
        state.expires_at = wanted.unsigned_abs();
        state.is_changed = true;
    }
    out.integer(1);
    Ok(())
}

fn expire(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    set(context, request, out, TimeUnit::Seconds, context.unit.now)
}

fn pexpire(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    set(context, request, out, TimeUnit::Milliseconds, context.unit.now)
}

fn expireat(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    set(context, request, out, TimeUnit::Seconds, 0)
}

fn pexpireat(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    set(context, request, out, TimeUnit::Milliseconds, 0)
}

/// Tells when a key expires: -2 where there is none, -1 where it stays.
fn tell(context: &mut Context, request: &Request, out: &mut Output, of: impl Fn(u64, u64) -> u64) -> Outcome {
    let now = context.unit.now;
    let state = context.lookup(request.get(1))?;
    out.integer(match (state.is_live(), state.expires_at) {
        (false, _) => -2,
        (true, 0) => -1,
        (true, at) => i64::try_from(of(at, now)).unwrap_or(i64::MAX),
    });
    Ok(())
}

fn ttl(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    tell(context, request, out, |at, now| (at - now + 500) / 1000)
}

fn pttl(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    tell(context, request, out, |at, now| at - now)
}

fn expiretime(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    tell(context, request, out, |at, _| (at + 500) / 1000)
}

fn pexpiretime(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    tell(context, request, out, |at, _| at)
}

fn persist(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let state = context.key(request.get(1))?;
    let expires = state.expires_at > 0;
    if expires {
        state.expires_at = 0;
        state.is_changed = true;
    }
    out.integer(i64::from(expires));
    Ok(())
}
