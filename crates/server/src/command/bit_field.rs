//! BITFIELD: integers of any width up to 64 bits within a string.

use super::Context;
use super::arguments::Options;
use super::bits::bit;
use super::spec::{Keys, Spec, flags::*};
use super::strings::check_length;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::number;
use crate::resp::{Output, Request};

pub const TABLE: &[Spec] = &[
    Spec::on("bitfield", -2, WRITE | DENYOOM, Keys::FIRST, bitfield).about(
        "bitmap",
        "3.2.0",
        "Reads and changes integers within a string.",
    ),
    Spec::on("bitfield_ro", -2, READONLY | FAST, Keys::FIRST, bitfield_ro).about(
        "bitmap",
        "6.0.0",
        "Reads integers within a string.",
    ),
];

/// The type of an integer: `i5`, `u63`.
#[derive(Clone, Copy, Debug)]
struct Width {
    is_signed: bool,
    bits: u32,
}

/// What becomes of a result that does not fit.
#[derive(Clone, Copy, Debug)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Get,
    Set(i64),
    Add(i64),
}

struct Operation {
    width: Width,
    at: usize,
    change: Change,
    overflow: Overflow,
}

impl Width {
    fn read(bytes: &[u8]) -> Outcome<Self> {
        let bad = Failure::coded(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        );
        let (is_signed, digits) = match bytes.split_first() {
            Some((b'i', digits)) => (true, digits),
            Some((b'u', digits)) => (false, digits),
            _ => return Err(bad),
        };
        let bits = number::integer(digits).and_then(|bits| u32::try_from(bits).ok());
        match bits {
            Some(bits @ 1..=63) => Ok(Self { is_signed, bits }),
            Some(64) if is_signed => Ok(Self { is_signed, bits: 64 }),
            _ => Err(bad),
        }
    }

    fn bounds(self) -> (i128, i128) {
        if self.is_signed {
            (-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1)
        } else {
            (0, (1i128 << self.bits) - 1)
        }
    }

    fn get(self, bytes: &[u8], at: usize) -> i128 {
        let bits =
            (at..at + self.bits as usize).fold(0i128, |value, at| value << 1 | i128::from(bit(bytes, at)));
        if self.is_signed && bits > self.bounds().1 { bits - (1 << self.bits) } else { bits }
    }

    fn set(self, bytes: &mut [u8], at: usize, value: i128) {
        for number in 0..self.bits {
            let place = at + number as usize;
            let is_set = value >> (self.bits - 1 - number) & 1 == 1;
            if let Some(byte) = bytes.get_mut(place >> 3) {
                let mask = 0x80 >> (place & 7);
                *byte = if is_set { *byte | mask } else { *byte & !mask };
            }
        }
    }

    /// What is stored for `value`; `None` where it does not fit and that is a failure.
    fn fit(self, value: i128, overflow: Overflow) -> Option<i128> {
        let (least, most) = self.bounds();
        if (least..=most).contains(&value) {
            return Some(value);
        }
        match overflow {
            Overflow::Fail => None,
            Overflow::Saturate => Some(value.clamp(least, most)),
            Overflow::Wrap => {
                let wrapped = value.rem_euclid(1 << self.bits);
                Some(if wrapped > most { wrapped - (1 << self.bits) } else { wrapped })
            }
        }
    }
}

fn place(bytes: &[u8], width: Width, context: &Context) -> Outcome<usize> {
    let bad = Failure::coded("ERR bit offset is not an integer or out of range");
    let (digits, factor) = match bytes.split_first() {
        Some((b'#', digits)) => (digits, width.bits as usize),
        _ => (bytes, 1),
    };
    let at = number::integer(digits).and_then(|at| usize::try_from(at).ok());
    let at = at.and_then(|at| at.checked_mul(factor));
    match at {
        Some(at) if at >> 3 < context.server.config.max_argument_bytes() => Ok(at),
        _ => Err(bad),
    }
}

fn operations(context: &Context, request: &Request) -> Outcome<Vec<Operation>> {
    let (mut operations, mut overflow) = (Vec::new(), Overflow::Wrap);
    let mut options = Options::new(request.from(2));
    while let Some(option) = options.next() {
        if option == "OVERFLOW" {
            overflow = match options.next().as_deref() {
                Some("WRAP") => Overflow::Wrap,
                Some("SAT") => Overflow::Saturate,
                Some("FAIL") => Overflow::Fail,
                _ => return Err(Failure::coded("ERR Invalid OVERFLOW type specified")),
            };
            continue;
        }
        if !matches!(option.as_str(), "GET" | "SET" | "INCRBY") {
            return Err(SYNTAX);
        }
        let width = Width::read(options.value()?)?;
        let at = place(options.value()?, width, context)?;
        let change = match option.as_str() {
            "GET" => Change::Get,
            "SET" => Change::Set(options.integer()?),
            _ => Change::Add(options.integer()?),
        };
        operations.push(Operation { width, at, change, overflow });
    }
    Ok(operations)
}

fn bitfield(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let operations = operations(context, request)?;
    let writes = |operation: &&Operation| !matches!(operation.change, Change::Get);
    let needed = operations.iter().filter(writes).map(|o| (o.at + o.width.bits as usize).div_ceil(8)).max();
    let mut bytes = context.lookup(request.get(1))?.string()?.unwrap_or_default().to_vec();
    if let Some(needed) = needed {
        check_length(context, needed)?;
        if bytes.len() < needed {
            bytes.resize(needed, 0);
        }
    }
    out.array(operations.len());
    for Operation { width, at, change, overflow } in &operations {
        let old = width.get(&bytes, *at);
        let (new, shows_new) = match change {
            Change::Get => (Some(old), true),
            Change::Set(value) => (width.fit(i128::from(*value), *overflow), false),
            Change::Add(by) => (width.fit(old + i128::from(*by), *overflow), true),
        };
        match new {
            None => out.null(),
            Some(new) => {
                if !matches!(change, Change::Get) {
                    width.set(&mut bytes, *at, new);
                }
                out.integer(i64::try_from(if shows_new { new } else { old }).unwrap_or(i64::MAX));
            }
        }
    }
    if needed.is_some() && context.key(request.get(1))?.string()? != Some(&bytes) {
        *context.key(request.get(1))?.string_mut()? = bytes;
    }
    Ok(())
}

fn bitfield_ro(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    if operations(context, request)?.iter().any(|operation| !matches!(operation.change, Change::Get)) {
        return Err(Failure::coded("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    bitfield(context, request, out)
}
