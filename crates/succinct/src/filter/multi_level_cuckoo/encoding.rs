//! The multi-level cuckoo filter as bytes, to be saved beside the tables that it guides to.
//!
//! The idea: the three parts as they lie in memory, behind a header that says how long each is. The index of
//! the secondary table and the number of entries are counted anew, so they can't be wrong.
//!
//! Source: ours; the paper rebuilds its filters when a store is opened.
//!
//! ```text
//!  0                  fingerprint bits: u8
//!  1                  slot bits: u8
//!  2                  growth bits: u8
//!  3                  floor bits: u8
//!  4                  secondary permille: u16
//!  6                  load permille: u16
//!  8                  blocks: u32
//!  12                 buckets per block: u32
//!  16                 bytes of the secondary: u64
//!  24                 entries of the stash: u32
//!  28                 buckets              (cuckoo/buckets.rs)
//!  28 + buckets       records              (secondary.rs)
//!   ... + secondary   stashed entries      (stash.rs)
//! ```
//!
//! Invariants: what decodes encodes to the same bytes, and every bucket of it is one that insertions can lead
//! to.

use super::secondary::Secondary;
use super::stash::{ENTRY_BYTES, Stash};
use super::{FIRST_PER_BLOCK_BITS, MultiLevelCuckooFilter, Parameters, geometry};
use crate::error::DecodeError;
use crate::filter::cuckoo::table::Table;

/// The numbers of the header.
struct Header {
    parameters: Parameters,
    blocks: u32,
    per_block: u32,
    secondary_bytes: u64,
    stashed: u32,
}

/// The next `N` bytes, which are taken off.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*head)
}

impl Header {
    /// The header, which is taken off `bytes`; `None` if they end in it.
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let [fingerprint_bits, slot_bits, growth_bits, floor_bits] = take(bytes)?;
        let secondary_permille = u16::from_le_bytes(take(bytes)?);
        let load_permille = u16::from_le_bytes(take(bytes)?);
        Some(Header {
            parameters: Parameters {
                fingerprint_bits,
                slot_bits,
                growth_bits,
                floor_bits,
                secondary_permille,
                load_permille,
            },
            blocks: u32::from_le_bytes(take(bytes)?),
            per_block: u32::from_le_bytes(take(bytes)?),
            secondary_bytes: u64::from_le_bytes(take(bytes)?),
            stashed: u32::from_le_bytes(take(bytes)?),
        })
    }

    /// Buckets, records and stash, if `body` is long enough for the last two.
    fn split<'a>(&self, body: &'a [u8]) -> Option<[&'a [u8]; 3]> {
        let stash_bytes = usize::try_from(self.stashed).ok()?.checked_mul(ENTRY_BYTES)?;
        let secondary_bytes = usize::try_from(self.secondary_bytes).ok()?;
        let (body, stash) = body.split_at_checked(body.len().checked_sub(stash_bytes)?)?;
        let (primary, secondary) = body.split_at_checked(body.len().checked_sub(secondary_bytes)?)?;
        Some([primary, secondary, stash])
    }
}

fn error(expected: &str, found: String) -> DecodeError {
    DecodeError::new("multi-level cuckoo filter, header", expected, found)
}

impl MultiLevelCuckooFilter {
    /// Appends the encoding drawn at the top of `encoding.rs`.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        let Parameters {
            fingerprint_bits,
            slot_bits,
            growth_bits,
            floor_bits,
            secondary_permille,
            load_permille,
        } = self.parameters;
        out.extend_from_slice(&[fingerprint_bits, slot_bits, growth_bits, floor_bits]);
        out.extend_from_slice(&secondary_permille.to_le_bytes());
        out.extend_from_slice(&load_permille.to_le_bytes());
        out.extend_from_slice(&self.primary.geometry.blocks().to_le_bytes());
        out.extend_from_slice(&self.primary.geometry.per_block().to_le_bytes());
        out.extend_from_slice(&(self.secondary.as_bytes().len() as u64).to_le_bytes());
        out.extend_from_slice(&(self.stash.len() as u32).to_le_bytes());
        out.extend_from_slice(self.primary.as_bytes());
        out.extend_from_slice(self.secondary.as_bytes());
        self.stash.to_bytes(out);
    }

    /// Decodes what [`MultiLevelCuckooFilter::to_bytes`] wrote; `bytes` must hold that and nothing else.
    ///
    /// # Errors
    ///
    /// If the header is out of range, lengths do not agree, or a bucket, a record or a stashed entry is none
    /// that could have been written.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut body = bytes;
        let header =
            Header::take(&mut body).ok_or_else(|| error("28 bytes", format!("{} bytes", bytes.len())))?;
        let Header { parameters, blocks, per_block, .. } = header;
        parameters.check().map_err(|unsound| error("parameters in range", unsound.to_string()))?;
        let geometry = geometry(&parameters, blocks, per_block)
            .filter(|_| (1 << FIRST_PER_BLOCK_BITS..=parameters.per_block_most()).contains(&per_block))
            .ok_or_else(|| error("buckets in range", format!("{blocks} blocks of {per_block} buckets")))?;
        let [primary, secondary, stash] = header
            .split(body)
            .ok_or_else(|| error("lengths that the bytes have", format!("{} bytes", bytes.len())))?;
        let slots = 1 << parameters.slot_bits;
        Ok(MultiLevelCuckooFilter {
            parameters,
            primary: Table::from_bytes(
                primary,
                geometry,
                u32::from(parameters.slot_bits),
                parameters.load(),
            )?,
            secondary: Secondary::from_bytes(secondary, slots)?,
            stash: Stash::from_bytes(stash, slots)?,
        })
    }
}
