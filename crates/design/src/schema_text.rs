//! Schemas as people write them: `point`, `delim:/`, `suffix:12`.

use crate::prefix::{PrefixRule, RuleName};
use crate::schema::{Schema, SuffixOrder};
use std::fmt;
use std::str::FromStr;

/// How a schema is written; [`Schema::from_str`](std::str::FromStr) says so where it is not.
const HOW: &str = "write point, fixed:N, delim:C[:COUNT], last-delim:C, suffix:N, length:WIDTH, routed:BITS:WIDTH, named:RULE or whole, \
                   and :hashed behind it where suffixes are to be hashed";

/// Reads a schema as people write it, and as it is displayed.
///
/// | text | schema |
/// |---|---|
/// | `point` | keys by themselves |
/// | `fixed:8` | the first 8 bytes are the prefix |
/// | `delim:/`, `delim:/:2` | up to and including the first, or second, `/` |
/// | `last-delim:/` | up to and including the last `/`: the directory of an absolute path |
/// | `suffix:12` | all but the last 12 bytes |
/// | `length:4` | a big-endian length of 4 bytes, and what it counts |
/// | `routed:14:2` | a route of 14 bits, which keys lie by, in 2 bytes; then as `length:2` |
/// | `named:tenant` | by the program's own rule of that name |
/// | `whole` | the whole key |
///
/// A delimiter is one byte, or `\t`, `\n`, `\0`, `\\` or `\xHH`. Suffixes are kept in order, or hashed where
/// `:hashed` follows.
///
/// ```
/// use siltstone_design::Schema;
///
/// let schema: Schema = "last-delim:/".parse().unwrap();
/// assert_eq!(schema.prefix_len(b"/usr/bin/env"), Ok(9));
/// assert_eq!(schema.hashed().to_string(), "last-delim:/:hashed");
/// ```
impl FromStr for Schema {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "point" {
            return Ok(Self::Point);
        }
        let (rule, suffix) = match text.rsplit_once(':') {
            // Else it is the delimiter's, or no schema.
            Some((rule, order)) if rule != "delim" && rule != "last-delim" => {
                order.parse().map_or((text, SuffixOrder::Ordered), |suffix| (rule, suffix))
            }
            _ => (text, SuffixOrder::Ordered),
        };
        Ok(Self::SemiSorted { prefix: rule.parse()?, suffix })
    }
}

/// Reads a rule as [schemas](Schema) name it.
impl FromStr for PrefixRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rule = parse_rule(text)?;
        rule.check().map_err(|why| format!("{text}: {why}; {HOW}"))?;
        Ok(rule)
    }
}

/// Reads `ordered` or `hashed`.
impl FromStr for SuffixOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ordered" => Ok(Self::Ordered),
            "hashed" => Ok(Self::Hashed),
            _ => Err(format!("{text:?} is no order of suffixes; write ordered or hashed")),
        }
    }
}

fn parse_rule(text: &str) -> Result<PrefixRule, String> {
    if text == "whole" {
        return Ok(PrefixRule::WholeKey);
    }
    let how = || format!("{text:?} is no schema; {HOW}");
    let (kind, argument) = text.split_once(':').ok_or_else(how)?;
    let number = || argument.parse::<u16>().map_err(|_| how());
    Ok(match kind {
        "fixed" => PrefixRule::Fixed { bytes: number()? },
        "suffix" => PrefixRule::AllButLast { bytes: number()? },
        "length" => PrefixRule::LengthPrefixed { width: u8::try_from(number()?).map_err(|_| how())? },
        "routed" => {
            let (bits, width) = argument.split_once(':').ok_or_else(how)?;
            let number = |text: &str| text.parse::<u8>().map_err(|_| how());
            PrefixRule::Routed { bits: number(bits)?, width: number(width)? }
        }
        "named" => PrefixRule::Named(RuleName::new(argument)?),
        "last-delim" => match parse_byte(argument) {
            Some((byte, "")) => PrefixRule::LastDelimiter { byte },
            _ => return Err(one_byte()),
        },
        "delim" => match parse_byte(argument) {
            Some((byte, "")) => PrefixRule::Delimiter { byte, count: 1 },
            Some((byte, rest)) => {
                let count = rest.strip_prefix(':').ok_or_else(one_byte)?;
                PrefixRule::Delimiter { byte, count: count.parse().map_err(|_| how())? }
            }
            None => return Err(one_byte()),
        },
        _ => return Err(how()),
    })
}

fn one_byte() -> String {
    "the delimiter is one byte, for example delim:/ or delim:\\t".to_owned()
}

/// Reads one byte, which may be written as an escape, and returns what follows it.
fn parse_byte(text: &str) -> Option<(u8, &str)> {
    let mut rest = text.chars();
    match rest.next()? {
        '\\' => {}
        plain => return Some((u8::try_from(u32::from(plain)).ok().filter(u8::is_ascii)?, rest.as_str())),
    }
    match rest.next()? {
        't' => Some((b'\t', rest.as_str())),
        'n' => Some((b'\n', rest.as_str())),
        'r' => Some((b'\r', rest.as_str())),
        '0' => Some((0, rest.as_str())),
        '\\' => Some((b'\\', rest.as_str())),
        'x' => {
            let (digits, rest) = rest.as_str().split_at_checked(2)?;
            Some((u8::from_str_radix(digits, 16).ok()?, rest))
        }
        _ => None,
    }
}

/// Writes the schema as it is read.
impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Point => f.write_str("point"),
            Self::SemiSorted { prefix, suffix: SuffixOrder::Ordered } => prefix.fmt(f),
            Self::SemiSorted { prefix, suffix } => write!(f, "{prefix}:{suffix}"),
        }
    }
}

/// Writes the order as it is read.
impl fmt::Display for SuffixOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ordered => "ordered",
            Self::Hashed => "hashed",
        })
    }
}

/// Writes the rule as it is read.
impl fmt::Display for PrefixRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let byte_name = |byte: u8| match byte {
            b'\t' => "\\t".to_owned(),
            b'\n' => "\\n".to_owned(),
            b'\\' => "\\\\".to_owned(),
            0x20..=0x7e => char::from(byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        };
        match *self {
            Self::Fixed { bytes } => write!(f, "fixed:{bytes}"),
            Self::Delimiter { byte, count: 1 } => write!(f, "delim:{}", byte_name(byte)),
            Self::Delimiter { byte, count } => write!(f, "delim:{}:{count}", byte_name(byte)),
            Self::LastDelimiter { byte } => write!(f, "last-delim:{}", byte_name(byte)),
            Self::AllButLast { bytes } => write!(f, "suffix:{bytes}"),
            Self::LengthPrefixed { width } => write!(f, "length:{width}"),
            Self::Routed { bits, width } => write!(f, "routed:{bits}:{width}"),
            Self::Named(name) => write!(f, "named:{}", name.as_str()),
            Self::WholeKey => f.write_str("whole"),
        }
    }
}

impl Schema {
    /// Writes the schema as [`Schema::from_str`](std::str::FromStr) reads it, as [`Display`](fmt::Display)
    /// does.
    ///
    /// ```
    /// assert_eq!(siltstone_design::Schema::fixed(8).name(), "fixed:8");
    /// ```
    pub fn name(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_read_as_they_are_written() {
        let schema = |prefix, suffix| Schema::SemiSorted { prefix, suffix };
        let (ordered, hashed) = (SuffixOrder::Ordered, SuffixOrder::Hashed);
        let cases = [
            ("point", Schema::Point),
            ("fixed:8", schema(PrefixRule::Fixed { bytes: 8 }, ordered)),
            ("delim:/", schema(PrefixRule::Delimiter { byte: b'/', count: 1 }, ordered)),
            ("delim:/:2:hashed", schema(PrefixRule::Delimiter { byte: b'/', count: 2 }, hashed)),
            ("delim::", schema(PrefixRule::Delimiter { byte: b':', count: 1 }, ordered)),
            ("delim:::3", schema(PrefixRule::Delimiter { byte: b':', count: 3 }, ordered)),
            ("delim:\\x00", schema(PrefixRule::Delimiter { byte: 0, count: 1 }, ordered)),
            ("last-delim:\\t", schema(PrefixRule::LastDelimiter { byte: b'\t' }, ordered)),
            ("suffix:12", schema(PrefixRule::AllButLast { bytes: 12 }, ordered)),
            ("routed:14:2", schema(PrefixRule::Routed { bits: 14, width: 2 }, SuffixOrder::Ordered)),
            ("length:4:hashed", schema(PrefixRule::LengthPrefixed { width: 4 }, hashed)),
            ("named:tenant", schema(PrefixRule::Named(RuleName::new("tenant").unwrap()), ordered)),
            ("whole", schema(PrefixRule::WholeKey, ordered)),
        ];
        for (text, schema) in cases {
            assert_eq!(text.parse(), Ok(schema), "{text}");
            assert_eq!(schema.name(), text);
            if let Schema::SemiSorted { prefix, suffix } = schema {
                assert_eq!(
                    (prefix.to_string().parse(), suffix.to_string().parse()),
                    (Ok(prefix), Ok(suffix))
                );
            }
        }
        for wrong in
            ["", "points", "fixed:0", "fixed:x", "delim:", "delim://", "delim:/:0", "length:3", "suffix:0"]
        {
            assert!(wrong.parse::<Schema>().is_err(), "{wrong}");
        }
    }
}
