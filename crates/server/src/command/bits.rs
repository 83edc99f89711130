//! Strings as arrays of bits, the most significant bit of a byte first.

use super::Context;
use super::arguments::{integer, is, range};
use super::spec::{Keys, Spec, flags::*};
use super::strings::check_length;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::number;
use crate::resp::{Output, Request};

pub const TABLE: &[Spec] = &[
    Spec::on("setbit", 4, WRITE | DENYOOM, Keys::FIRST, setbit).about(
        "bitmap",
        "2.2.0",
        "Sets or clears a bit.",
    ),
    Spec::on("getbit", 3, READONLY | FAST, Keys::FIRST, getbit).about("bitmap", "2.2.0", "Returns a bit."),
    Spec::on("bitcount", -2, READONLY, Keys::FIRST, bitcount).about(
        "bitmap",
        "2.6.0",
        "Counts bits that are set.",
    ),
    Spec::on("bitpos", -3, READONLY, Keys::FIRST, bitpos).about(
        "bitmap",
        "2.8.7",
        "Finds the first bit that is set or clear.",
    ),
    Spec::on("bitop", -4, WRITE | DENYOOM, Keys::Range { first: 2, last: -1, step: 1 }, bitop).about(
        "bitmap",
        "2.6.0",
        "Combines strings bit by bit.",
    ),
];

/// Reads the number of a bit.
pub fn offset(bytes: &[u8], context: &Context) -> Outcome<usize> {
    let bad = Failure::coded("ERR bit offset is not an integer or out of range");
    let offset = number::integer(bytes).and_then(|offset| usize::try_from(offset).ok());
    match offset {
        Some(offset) if offset >> 3 < context.server.config.max_argument_bytes() => Ok(offset),
        _ => Err(bad),
    }
}

/// A bit of a string; bits behind its end are clear.
pub fn bit(bytes: &[u8], offset: usize) -> bool {
    bytes.get(offset >> 3).is_some_and(|byte| byte >> (7 - (offset & 7)) & 1 == 1)
}

fn setbit(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let offset = offset(request.get(2), context)?;
    let is_set = match request.get(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err(Failure::coded("ERR bit is not an integer or out of range")),
    };
    check_length(context, (offset >> 3) + 1)?;
    let state = context.key(request.get(1))?;
    let bytes = state.string()?.unwrap_or_default();
    let before = bit(bytes, offset);
    if before == is_set && offset >> 3 < bytes.len() {
        // Nothing changes, and nobody need hear of it.
        out.integer(i64::from(before));
        return Ok(());
    }
    let bytes = state.string_mut()?;
    if bytes.len() <= offset >> 3 {
        bytes.resize((offset >> 3) + 1, 0);
    }
    if let Some(byte) = bytes.get_mut(offset >> 3) {
        let mask = 0x80 >> (offset & 7);
        *byte = if is_set { *byte | mask } else { *byte & !mask };
    }
    out.integer(i64::from(before));
    Ok(())
}

fn getbit(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let offset = offset(request.get(2), context)?;
    let bytes = context.lookup(request.get(1))?.string()?.unwrap_or_default();
    out.integer(i64::from(bit(bytes, offset)));
    Ok(())
}

/// Whether indexes count bits, by the argument `BYTE` or `BIT` at `place`.
fn counts_bits(request: &Request, place: usize) -> Outcome<bool> {
    match request.get(place) {
        _ if request.len() <= place => Ok(false),
        word if is(word, "BIT") => Ok(true),
        word if is(word, "BYTE") => Ok(false),
        _ => Err(SYNTAX),
    }
}

fn bitcount(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let bounds = match request.len() {
        2 => None,
        4 | 5 => Some((integer(request.get(2))?, integer(request.get(3))?, counts_bits(request, 4)?)),
        _ => return Err(SYNTAX),
    };
    let bytes = context.lookup(request.get(1))?.string()?.unwrap_or_default();
    let bits = match bounds {
        None => 0..bytes.len() * 8,
        Some((start, end, true)) => range(start, end, bytes.len() * 8),
        Some((start, end, false)) => {
            let bytes = range(start, end, bytes.len());
            bytes.start * 8..bytes.end * 8
        }
    };
    // Whole bytes by their population, the ragged ends bit by bit.
    let (first, last) = (bits.start.div_ceil(8), bits.end / 8);
    let count = if first <= last {
        let whole = bytes.get(first..last).unwrap_or_default();
        let whole: usize = whole.iter().map(|byte| byte.count_ones() as usize).sum();
        let ends = (bits.start..first * 8).chain(last * 8..bits.end);
        whole + ends.filter(|at| bit(bytes, *at)).count()
    } else {
        bits.filter(|at| bit(bytes, *at)).count()
    };
    out.count(count);
    Ok(())
}

fn bitpos(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let wanted = match request.get(2) {
        b"0" => false,
        b"1" => true,
        other => {
            integer(other)?;
            return Err(Failure::coded("ERR The bit argument must be 1 or 0."));
        }
    };
    let start = if request.len() > 3 { integer(request.get(3))? } else { 0 };
    let end = if request.len() > 4 { Some(integer(request.get(4))?) } else { None };
    let by_bits = counts_bits(request, 5)?;
    if request.len() > 6 {
        return Err(SYNTAX);
    }
    let Some(bytes) = context.lookup(request.get(1))?.string()? else {
        out.integer(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let bits = if by_bits {
        range(start, end.unwrap_or(-1), bytes.len() * 8)
    } else {
        let bytes = range(start, end.unwrap_or(-1), bytes.len());
        bytes.start * 8..bytes.end * 8
    };
    let skipped = if wanted { 0 } else { 0xff };
    let is_empty = bits.is_empty();
    let (mut at, to) = (bits.start, bits.end);
    while at < to {
        if at % 8 == 0 && at + 8 <= to && bytes.get(at / 8) == Some(&skipped) {
            at += 8;
        } else if bit(bytes, at) == wanted {
            out.count(at);
            return Ok(());
        } else {
            at += 1;
        }
    }
    // A string is followed by clear bits, unless the client said where to stop.
    let is_open = !wanted && end.is_none() && !is_empty;
    out.integer(if is_open { i64::try_from(bytes.len() * 8).unwrap_or(-1) } else { -1 });
    Ok(())
}

fn bitop(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let combine: fn(u8, u8) -> u8 = match request.get(1).to_ascii_uppercase().as_slice() {
        b"AND" => |one, other| one & other,
        b"OR" => |one, other| one | other,
        b"XOR" => |one, other| one ^ other,
        b"NOT" if request.len() != 4 => {
            return Err(Failure::coded("ERR BITOP NOT must be called with a single source key."));
        }
        b"NOT" => |one, _| !one,
        _ => return Err(SYNTAX),
    };
    let mut sources = Vec::new();
    for key in request.from(3) {
        sources.push(context.lookup(key)?.string()?.unwrap_or_default().to_vec());
    }
    let length = sources.iter().map(Vec::len).max().unwrap_or(0);
    let is_not = is(request.get(1), "NOT");
    let mut sources = sources.into_iter();
    let mut result = sources.next().unwrap_or_default();
    result.resize(length, 0);
    if is_not {
        result.iter_mut().for_each(|byte| *byte = combine(*byte, 0));
    }
    for source in sources {
        let padded = source.into_iter().chain(std::iter::repeat(0));
        result.iter_mut().zip(padded).for_each(|(byte, other)| *byte = combine(*byte, other));
    }
    let state = context.key(request.get(2))?;
    if result.is_empty() {
        state.remove();
    } else {
        state.set_string(result);
        state.expires_at = 0;
    }
    out.count(length);
    Ok(())
}
