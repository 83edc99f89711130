//! How long the code of a subtree is likely to be, and the field in which the largest nodes say how long it
//! is.
//!
//! A node whose left subtree takes many bits has, behind its split, a field with the length of that subtree's
//! code: relative to what is expected and in just enough bits for nearly all lengths. Lookups that go right
//! skip the subtree in one step. Source: ours; SILT (SOSP 2011, §3.3) reads and discards the left subtree.
//!
//! ```text
//! field, w bits    length - expected + 2^(w - 1)    or all ones if that is not from 0 to 2^w - 2: read and discard
//! ```
//!
//! Invariant: widths and expectations are integers that follow from the spec and the number of keys on the
//! left alone.

use super::{Code, Spec};

/// Nodes have the field if their code, with all below, is expected to take so many bits.
const FROM_BITS: u32 = 228;

/// Bits per key, in 1/256 bits, of the code of a subtree in blocks of 1, 2, 4, ..., 128 keys. Measured.
const PAPER: [u32; 8] = [742, 599, 456, 328, 223, 146, 92, 55];
const STRONG: [u32; 8] = [723, 582, 439, 310, 207, 133, 81, 48];
const WEAK: [u32; 8] = [611, 516, 404, 293, 200, 128, 79, 48];

/// What is expected of subtrees under one spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lengths {
    /// Nodes of so many keys and more have the field.
    pub(super) from_keys: u32,
    /// Expected bits per key, in 1/256 bits, without fields.
    slope: u32,
    /// The same of fields alone, for keys beyond `field_base`.
    field_slope: u32,
    field_base: u32,
    /// 32 times the variance of a length divided by the length.
    spread: u32,
}

impl Lengths {
    pub(super) fn new(spec: &Spec) -> Self {
        let slopes = match spec.code {
            Code::Paper => &PAPER,
            Code::Strong => &STRONG,
            Code::Weak => &WEAK,
        };
        let log = spec.block_keys.max(1).ilog2();
        let slope = match slopes.get(log as usize..) {
            // Between two powers of two on a straight line.
            Some([slope, next, ..]) => slope - (slope - next) * (spec.block_keys - (1 << log)) / (1 << log),
            // Few keys of a bucket are in nodes that straddle such blocks.
            _ => (slopes.last().copied().unwrap_or(0) >> (log - 7)).max(1),
        };
        let spread = if spec.code == Code::Weak && spec.block_keys == 1 { 20 } else { 54 };
        let from_keys = (FROM_BITS << 8) / slope;
        let mut lengths = Lengths { from_keys, slope, field_slope: 0, field_base: from_keys * 2 / 3, spread };
        // Nodes come in sizes of a power of two times something; on average the smallest that have fields are
        // halfway between `from_keys` and twice as much, and their left sides have `field_base` keys.
        lengths.field_slope = (lengths.width(lengths.field_base) << 8) / lengths.field_base;
        lengths
    }

    /// Expected bits of a subtree of `keys` keys, its fields included.
    #[inline]
    fn expected(&self, keys: u32) -> u32 {
        let fields = (u64::from(keys.saturating_sub(self.field_base)) * u64::from(self.field_slope)) >> 8;
        self.bare(keys) + fields as u32
    }

    /// The same without fields.
    #[inline]
    fn bare(&self, keys: u32) -> u32 {
        ((u64::from(keys) * u64::from(self.slope)) >> 8) as u32
    }

    /// Width of the field that tells the length of a subtree of `keys` keys: room for 2.8 standard
    /// deviations.
    #[inline]
    pub(super) fn width(&self, keys: u32) -> u32 {
        ((self.bare(keys) * self.spread) | 1).ilog2() / 2 + 1
    }

    /// What a field of `width` bits says of a subtree of `keys` keys that takes `bits` bits.
    #[inline]
    pub(super) fn field(&self, keys: u32, width: u32, bits: u64) -> u64 {
        let unknown = (1u64 << width) - 1;
        let field = (bits + (1 << (width - 1))).wrapping_sub(self.expected(keys).into());
        field.min(unknown)
    }

    /// The bits that a subtree of `keys` keys takes, from a field of `width` bits; `None` if the field
    /// doesn't tell.
    #[inline]
    pub(super) fn bits(&self, keys: u32, width: u32, field: u64) -> Option<u64> {
        let bits = (u64::from(self.expected(keys)) + field).checked_sub(1 << (width - 1));
        if field == (1 << width) - 1 { None } else { bits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_tell_lengths_or_nothing() {
        for code in [Code::Paper, Code::Strong, Code::Weak] {
            for block_keys in [1, 2, 3, 4, 16, 40, 64, 127, 128, 129, 1000, u32::MAX] {
                let lengths = Lengths::new(&Spec { code, block_keys, bucket_keys: 512 });
                assert!(lengths.from_keys > 16);
                for keys in (0..5000).step_by(7).chain([1 << 16]) {
                    let width = lengths.width(keys);
                    assert!((1..=14).contains(&width));
                    let expected = u64::from(lengths.expected(keys));
                    let mut told = 0;
                    for bits in (0..40).chain(expected.saturating_sub(300)..expected + 300) {
                        let field = lengths.field(keys, width, bits);
                        assert!(field < 1 << width);
                        let read = lengths.bits(keys, width, field);
                        assert!(read.is_none_or(|read| read == bits));
                        told += u64::from(read.is_some());
                    }
                    // All of the width's lengths, unless some would be negative or are not among those tried.
                    let span = (1u64 << (width - 1)).min(300).min(expected);
                    assert!(told >= span, "{code:?} {block_keys} {keys}: {told} of {span}");
                }
            }
        }
    }
}
