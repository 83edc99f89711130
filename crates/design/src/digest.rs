//! The keyed digest that orders every store, and the arithmetic of paths in the trie over its bits.
//!
//! Keys come from clients, so the hash is SipHash-1-3 (Aumasson and Bernstein, 2012) under a secret drawn per
//! store: nobody outside can aim keys at one region. A region is a bit prefix of the digest's upper half, as
//! in LSM-trie (Wu et al., ATC'15), which splits by 3 bits a level; here the fan-out is a parameter of the
//! design.

use siphasher::sip::SipHasher13;
use siphasher::sip128::SipHasher13 as SipHasher13x128;
use std::fmt;

/// The 128-bit secret under which a store's digests are computed; drawn once when the store is created.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashSecret(pub [u8; 16]);

impl fmt::Debug for HashSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashSecret(..)")
    }
}

impl HashSecret {
    /// 64-bit keyed hash of `bytes`.
    #[inline]
    pub fn hash64(&self, bytes: &[u8]) -> u64 {
        SipHasher13::new_with_key(&self.0).hash(bytes)
    }

    /// 128-bit keyed hash of `bytes`.
    #[inline]
    pub(crate) fn hash128(&self, bytes: &[u8]) -> Digest {
        let hash = SipHasher13x128::new_with_key(&self.0).hash(bytes);
        Digest { hi: hash.h1, lo: hash.h2 }
    }
}

/// A key's place in the store's order: 128 bits, compared as one number.
///
/// `hi` carries the trie path in its top bits. Equal digests of different keys are legal: the full key
/// decides.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest {
    /// Hash of the whole key (point schema) or of its prefix (semi-sorted); its top bits are the trie path.
    pub hi: u64,
    /// The other half of the key's hash, the hash of its suffix, or the suffix's first eight bytes.
    pub lo: u64,
}

impl Digest {
    /// Both halves as one number, which orders like the digest.
    #[inline]
    pub fn as_number(self) -> u128 {
        u128::from(self.hi) << 64 | u128::from(self.lo)
    }

    /// The digest whose halves make `number`.
    #[inline]
    pub fn of_number(number: u128) -> Self {
        Self { hi: (number >> 64) as u64, lo: number as u64 }
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}.{:016x}", self.hi, self.lo)
    }
}

/// Finaliser of MurmurHash3: a bijection that spreads every input bit over the output.
#[inline]
pub fn mix64(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// A node of the trie: all digests whose top `depth` bits equal those of `prefix`.
///
/// Ordered by place, then by depth, so that an ancestor sorts just before its first descendant.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TriePath {
    prefix: u64,
    depth: u8,
}

/// The deepest a trie can be; deeper nodes would hold less than a page at any store size there is.
pub const MAX_DEPTH: u8 = 48;

impl TriePath {
    /// The whole digest space.
    pub const ROOT: Self = Self { prefix: 0, depth: 0 };

    /// The node at `depth` on the path of a digest whose upper half is `hi`; `depth` is capped at
    /// [`MAX_DEPTH`].
    #[inline]
    pub fn of(hi: u64, depth: u8) -> Self {
        let depth = depth.min(MAX_DEPTH);
        let prefix = if depth == 0 { 0 } else { hi & (u64::MAX << (64 - depth)) };
        Self { prefix, depth }
    }

    /// Number of leading digest bits this node fixes.
    #[inline]
    pub fn depth(self) -> u8 {
        self.depth
    }

    /// Smallest upper digest half in the node.
    #[inline]
    pub fn first(self) -> u64 {
        self.prefix
    }

    /// Largest upper digest half in the node.
    #[inline]
    pub fn last(self) -> u64 {
        if self.depth == 0 { u64::MAX } else { self.prefix | (u64::MAX >> self.depth) }
    }

    /// Whether a digest with upper half `hi` lies in this node.
    #[inline]
    pub fn contains(self, hi: u64) -> bool {
        self.first() <= hi && hi <= self.last()
    }

    /// Whether `other` is this node or lies below it.
    pub fn covers(self, other: Self) -> bool {
        other.depth >= self.depth && self.contains(other.prefix)
    }

    /// This node's number among the `2^bits` children of its ancestor `bits` above it.
    pub(crate) fn sibling_index(self, bits: u8) -> u64 {
        let bits = bits.min(self.depth);
        if bits == 0 { 0 } else { (self.prefix >> (64 - self.depth)) & ((1 << bits) - 1) }
    }
}

impl fmt::Display for TriePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.depth == 0 {
            return f.write_str("root");
        }
        let width = usize::from(self.depth);
        write!(f, "{:0width$b}", self.prefix >> (64 - self.depth))
    }
}

impl fmt::Debug for TriePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodes_children_tile_it() {
        let node = TriePath::of(0x9ABC_DEF0_1234_5678, 7);
        let mut next = node.first();
        for child in 0..8u64 {
            let path = TriePath::of(node.first() | (child << (64 - 10)), node.depth() + 3);
            assert_eq!(path.first(), next);
            assert_eq!(path.sibling_index(3), child);
            assert!(node.covers(path) && !path.covers(node));
            next = path.last().wrapping_add(1);
        }
        assert_eq!(next, node.last().wrapping_add(1));
    }

    #[test]
    fn the_root_holds_everything() {
        assert!(TriePath::ROOT.contains(0) && TriePath::ROOT.contains(u64::MAX));
        assert_eq!(TriePath::ROOT.to_string(), "root");
        assert_eq!(TriePath::of(u64::MAX, 4).to_string(), "1111");
        assert_eq!(TriePath::of(u64::MAX, 200).depth(), MAX_DEPTH);
    }

    #[test]
    fn the_digest_depends_on_the_secret() {
        let (a, b) = (HashSecret([1; 16]), HashSecret([2; 16]));
        assert_ne!(a.hash128(b"key"), b.hash128(b"key"));
        assert_ne!(a.hash64(b"key"), b.hash64(b"key"));
        assert_eq!(format!("{a:?}"), "HashSecret(..)");
    }
}
