//! The merge operators that come with the engine.
//!
//! All of them join operands, but for the one that stands for those that are not known. So a key's merges
//! take one entry in each run, however many there were.
//!
//! ```text
//! set        member, again and again, in byte order, none twice
//! member     length varint · bytes; in sets of ids of one size the bytes alone
//! ```

use super::{MergeOperator, UNKNOWN};
use crate::codec::{Decoder, put_bytes};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Most bytes of an id in a set of ids.
const MAX_ID_BYTES: usize = 255;

/// Returns the operator `name`, if it is the engine's own.
pub(super) fn named(name: &str) -> Option<Arc<dyn MergeOperator>> {
    let (family, argument) = name.split_once(':').map_or((name, None), |(family, rest)| (family, Some(rest)));
    Some(match (family, argument) {
        ("add", None) => Arc::new(Add { saturates: false }),
        ("add-saturating", None) => Arc::new(Add { saturates: true }),
        ("append", None) => Arc::new(Append { delimiter: Vec::new() }),
        ("append", Some(delimiter)) => Arc::new(Append { delimiter: bytes_of_hex(delimiter)? }),
        ("set-union", None) => Arc::new(SetUnion { id_bytes: None }),
        ("set-union", Some(bytes)) => {
            let id_bytes = bytes.parse().ok().filter(|bytes| (1..=MAX_ID_BYTES).contains(bytes))?;
            // One spelling for each, since names are compared.
            (id_bytes.to_string() == bytes).then(|| Arc::new(SetUnion { id_bytes: Some(id_bytes) }))?
        }
        ("max", None) => Arc::new(Extreme { is_largest: true, is_number: false }),
        ("min", None) => Arc::new(Extreme { is_largest: false, is_number: false }),
        ("max-u64", None) => Arc::new(Extreme { is_largest: true, is_number: true }),
        ("min-u64", None) => Arc::new(Extreme { is_largest: false, is_number: true }),
        (UNKNOWN, None) => Arc::new(Unknown),
        _ => return None,
    })
}

/// Keeps operands as they are, until somebody knows what made them.
struct Unknown;

impl MergeOperator for Unknown {
    fn apply(&self, _: Option<&[u8]>, _: &[u8]) -> Result<Vec<u8>, String> {
        Err("which operator made these merges was lost with the manifest; repair the damaged store again with the operator's \
             name (`siltstone repair DIR NEW --merge-operator NAME`), or open this one with MergeOperators::with_unknown"
            .to_owned())
    }
}

/// The bytes that at least one pair of lower-case hexadecimal digits spells.
fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

fn number(bytes: &[u8], what: &str) -> Result<u64, String> {
    let bytes = bytes.try_into();
    bytes.map(u64::from_le_bytes).map_err(|_| format!("the {what} is no number of 8 bytes, little-endian"))
}

/// Adds numbers. Wrapping sums are the same for signed and unsigned ones; saturating ones are not, and of
/// signed ones it would matter in which order they are added.
struct Add {
    saturates: bool,
}

impl Add {
    fn sum(&self, a: u64, b: u64) -> Vec<u8> {
        let sum = if self.saturates { a.saturating_add(b) } else { a.wrapping_add(b) };
        sum.to_le_bytes().to_vec()
    }
}

impl MergeOperator for Add {
    fn apply(&self, value: Option<&[u8]>, operand: &[u8]) -> Result<Vec<u8>, String> {
        let value = value.map_or(Ok(0), |value| number(value, "value"))?;
        Ok(self.sum(value, number(operand, "operand")?))
    }

    fn join(&self, older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(self.sum(number(older, "").ok()?, number(newer, "").ok()?))
    }

    fn check(&self, operand: &[u8]) -> Result<(), String> {
        number(operand, "operand").map(|_| ())
    }
}

/// Puts operands one behind the other.
struct Append {
    delimiter: Vec<u8>,
}

impl MergeOperator for Append {
    fn apply(&self, value: Option<&[u8]>, operand: &[u8]) -> Result<Vec<u8>, String> {
        Ok(value.map_or_else(|| operand.to_vec(), |value| [value, &self.delimiter, operand].concat()))
    }

    fn join(&self, older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some([older, &self.delimiter, newer].concat())
    }
}

/// Keeps the members of all operands, each once.
struct SetUnion {
    /// Bytes of each member; `None` where each says its own length.
    id_bytes: Option<usize>,
}

impl SetUnion {
    fn members<'a>(&self, set: &'a [u8], what: &str) -> Result<BTreeSet<&'a [u8]>, String> {
        match self.id_bytes {
            Some(bytes) if set.len().is_multiple_of(bytes) => Ok(set.chunks_exact(bytes).collect()),
            Some(bytes) => {
                Err(format!("the {what} has {} bytes; sets of ids have a multiple of {bytes}", set.len()))
            }
            None => members(set).ok_or_else(|| format!("the {what} is no set")),
        }
    }

    fn encode(&self, members: &BTreeSet<&[u8]>) -> Vec<u8> {
        let mut out = Vec::new();
        for member in members {
            match self.id_bytes {
                Some(_) => out.extend_from_slice(member),
                None => put_bytes(&mut out, member),
            }
        }
        out
    }
}

impl MergeOperator for SetUnion {
    fn apply(&self, value: Option<&[u8]>, operand: &[u8]) -> Result<Vec<u8>, String> {
        let mut members = self.members(value.unwrap_or(&[]), "value")?;
        members.extend(self.members(operand, "operand")?);
        Ok(self.encode(&members))
    }

    fn join(&self, older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.apply(Some(older), newer).ok()
    }

    fn check(&self, operand: &[u8]) -> Result<(), String> {
        self.members(operand, "operand").map(|_| ())
    }
}

fn members(set: &[u8]) -> Option<BTreeSet<&[u8]>> {
    let mut from = Decoder::new(set);
    let mut members = BTreeSet::new();
    while !from.is_empty() {
        members.insert(from.bytes()?);
    }
    Some(members)
}

/// Writes a set of byte strings as `set-union` takes it: each member's length as a varint and its bytes, in
/// byte order, none twice.
///
/// ```
/// use siltstone::{decode_set, encode_set};
///
/// let set = encode_set(["b", "a", "b"]);
/// assert_eq!(decode_set(&set), Some(vec![b"a".to_vec(), b"b".to_vec()]));
/// assert_eq!(set, b"\x01a\x01b");
/// ```
pub fn encode_set<M: AsRef<[u8]>>(members: impl IntoIterator<Item = M>) -> Vec<u8> {
    let members: Vec<M> = members.into_iter().collect();
    SetUnion { id_bytes: None }.encode(&members.iter().map(AsRef::as_ref).collect())
}

/// Returns the members of a set that `set-union` or [`encode_set`] wrote, ascending; `None` where the bytes
/// are none.
///
/// ```
/// use siltstone::{decode_set, encode_set};
///
/// let set = encode_set(["b", "a", "b"]);
/// assert_eq!(decode_set(&set).unwrap(), [b"a", b"b"]);
/// ```
pub fn decode_set(set: &[u8]) -> Option<Vec<Vec<u8>>> {
    Some(members(set)?.into_iter().map(<[u8]>::to_vec).collect())
}

/// Keeps the largest or the smallest operand.
struct Extreme {
    is_largest: bool,
    is_number: bool,
}

impl Extreme {
    fn pick<'a>(&self, older: &'a [u8], newer: &'a [u8]) -> Result<&'a [u8], String> {
        let order = if self.is_number {
            number(newer, "operand")?.cmp(&number(older, "value")?)
        } else {
            newer.cmp(older)
        };
        Ok(if order.is_gt() == self.is_largest { newer } else { older })
    }
}

impl MergeOperator for Extreme {
    fn apply(&self, value: Option<&[u8]>, operand: &[u8]) -> Result<Vec<u8>, String> {
        self.check(operand)?;
        Ok(value.map_or(Ok(operand), |value| self.pick(value, operand))?.to_vec())
    }

    fn join(&self, older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.pick(older, newer).ok().map(<[u8]>::to_vec)
    }

    fn check(&self, operand: &[u8]) -> Result<(), String> {
        if self.is_number { number(operand, "operand").map(|_| ()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn apply(name: &str, value: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
        named(name).unwrap().apply(value, operand).unwrap()
    }

    #[test]
    fn operators_do_what_their_names_say() {
        let n = u64::to_le_bytes;
        assert_eq!(apply("add", None, &n(5)), n(5));
        assert_eq!(apply("add", Some(&n(u64::MAX)), &n(2)), n(1));
        assert_eq!(apply("add", Some(&n(3)), &(-5i64).to_le_bytes()), (-2i64).to_le_bytes());
        assert_eq!(apply("add-saturating", Some(&n(u64::MAX)), &n(2)), n(u64::MAX));
        assert_eq!(apply("append", Some(b"a"), b"b"), b"ab");
        assert_eq!(apply("append:2c0a", Some(b"a"), b"b"), b"a,\nb");
        assert_eq!(apply("append:2c", None, b"b"), b"b");
        assert_eq!(apply("append:2c", Some(b""), b"b"), b",b");
        assert_eq!(apply("set-union:2", Some(b"bbdd"), b"ccaabb"), b"aabbccdd");
        assert_eq!(
            apply("set-union", Some(&encode_set(["x"])), &encode_set(["y", ""])),
            encode_set(["", "x", "y"])
        );
        assert_eq!(apply("max", Some(b"b"), b"aa"), b"b");
        assert_eq!(apply("min", Some(b"b"), b"aa"), b"aa");
        assert_eq!(apply("max-u64", Some(&n(256)), &n(255)), n(256));
        assert_eq!(apply("min-u64", Some(&n(256)), &n(255)), n(255));
    }

    #[test]
    fn what_names_no_operator_or_fits_none_is_refused() {
        for name in [
            "",
            "sum",
            "add:1",
            "append:",
            "append:2",
            "append:2C",
            "set-union:0",
            "set-union:08",
            "set-union:256",
        ] {
            assert!(named(name).is_none(), "{name}");
        }
        for (name, operand) in
            [("add", &b"seven"[..]), ("set-union:2", b"abc"), ("set-union", b"\x05abc"), ("max-u64", b"")]
        {
            assert!(named(name).unwrap().check(operand).is_err(), "{name}");
            assert!(named(name).unwrap().apply(None, operand).is_err(), "{name}");
        }
        assert!(named("add").unwrap().apply(Some(b"text"), &[0; 8]).unwrap_err().contains("the value"));
    }

    proptest! {
        /// Joining first and applying then is applying one by one.
        #[test]
        fn joined_operands_do_what_they_did_apart(
            which in 0usize..9, value in proptest::option::of(any::<[u8; 8]>()), operands in proptest::collection::vec(any::<[u8; 8]>(), 2..6),
            limit in any::<bool>(),
        ) {
            let names = ["add", "add-saturating", "append", "append:2c", "set-union:4", "max", "min", "max-u64", "min-u64"];
            let operator = named(names[which]).unwrap();
            // Small numbers repeat members and stay below the limit, large ones do not.
            let clip = |mut bytes: [u8; 8]| { if limit { bytes[1..].fill(0); bytes[0] &= 3; } bytes };
            let value = value.map(clip);
            let operands: Vec<_> = operands.into_iter().map(clip).collect();
            let mut expected = value.map(|value| value.to_vec());
            // Sets are canonical once they have been merged.
            if which == 4 { expected = expected.map(|set| operator.apply(Some(&set), b"").unwrap()); }
            for operand in &operands {
                expected = Some(operator.apply(expected.as_deref(), operand).unwrap());
            }
            let joined = operands[1..].iter().fold(operands[0].to_vec(), |all, next| operator.join(&all, next).unwrap());
            prop_assert_eq!(Some(operator.apply(value.as_ref().map(|v| &v[..]), &joined).unwrap()), expected);
        }
    }
}
