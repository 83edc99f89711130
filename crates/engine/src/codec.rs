//! Writing and reading the small variable-length records of manifest, log and table properties.

use siltstone_design::{Digest, TriePath};
use siltstone_succinct::code::varint;

/// Appends a length and the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a digest, 16 bytes big-endian, so that encoded digests order like digests.
pub(crate) fn put_digest(out: &mut Vec<u8>, digest: Digest) {
    out.extend_from_slice(&digest.hi.to_be_bytes());
    out.extend_from_slice(&digest.lo.to_be_bytes());
}

/// Returns a place in the store's order as bytes that compare like it.
pub(crate) fn sort_key(digest: Digest, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + key.len());
    put_digest(&mut out, digest);
    out.extend_from_slice(key);
    out
}

/// Appends a trie path: depth, then the prefix's eight bytes.
pub(crate) fn put_path(out: &mut Vec<u8>, path: TriePath) {
    out.push(path.depth());
    out.extend_from_slice(&path.first().to_be_bytes());
}

/// Reads what the functions above wrote; `None` once the bytes run out or make no sense.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.take(4)?.first_chunk()?))
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(*self.take(8)?.first_chunk()?))
    }

    pub fn varint(&mut self) -> Option<u64> {
        let (value, length) = varint::get_u64(self.bytes)?;
        self.take(length)?;
        Some(value)
    }

    pub fn length(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    pub fn string(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    pub fn digest(&mut self) -> Option<Digest> {
        let (hi, lo) = (self.take(8)?, self.take(8)?);
        Some(Digest {
            hi: u64::from_be_bytes(*hi.first_chunk()?),
            lo: u64::from_be_bytes(*lo.first_chunk()?),
        })
    }

    pub fn path(&mut self) -> Option<TriePath> {
        let depth = self.u8()?;
        let prefix = u64::from_be_bytes(*self.take(8)?.first_chunk()?);
        let path = TriePath::of(prefix, depth);
        (path.depth() == depth && path.first() == prefix).then_some(path)
    }
}
