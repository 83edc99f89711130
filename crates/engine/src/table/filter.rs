//! Filters of single tables: which one a table has, how it is built, and how it is asked.
//!
//! A filter that spans the runs of a region is a guide (`version/guide.rs`), not a table's business. But where that is a maplet,
//! each table keeps the fingerprints of its keys in order, so that a lost maplet is merged from them without reading a key.

use siltstone_design::FilterSpec;
use siltstone_succinct::error::DecodeError;
use siltstone_succinct::filter::bloom::{Bloom, BloomBuilder};
use siltstone_succinct::filter::cuckoo::{CuckooFilter, CuckooFilterBuilder};
use siltstone_succinct::filter::maplet::{MAX_FINGERPRINT_BITS, Maplet};

/// A table's filter in memory.
pub(crate) enum TableFilter {
    Bloom(Bloom),
    Cuckoo(CuckooFilter),
}

impl TableFilter {
    /// Decodes the filter of a table laid out as `spec` says.
    pub fn from_bytes(spec: FilterSpec, bytes: &[u8]) -> Result<Self, DecodeError> {
        Ok(match spec {
            FilterSpec::Cuckoo { .. } => Self::Cuckoo(CuckooFilter::from_bytes(bytes)?),
            _ => Self::Bloom(Bloom::from_bytes(bytes)?),
        })
    }

    /// Whether the key with this fingerprint may be in the table.
    #[inline]
    pub fn may_contain(&self, fingerprint: u64) -> bool {
        match self {
            Self::Bloom(bloom) => bloom.may_contain(fingerprint),
            Self::Cuckoo(cuckoo) => cuckoo.may_contain(fingerprint),
        }
    }
}

/// Gathers the keys of a table for its filter.
pub(crate) enum TableFilterBuilder {
    None,
    Bloom(BloomBuilder),
    Cuckoo(CuckooFilterBuilder),
    Fingerprints { hashes: Vec<u64>, remainder_bits: u8 },
}

/// Bits by which `entries` keys of `bytes` bytes in all are told apart in a maplet of a pile of `pile_bytes`, or of the
/// entries themselves if they are more.
pub(crate) fn maplet_fingerprint_bits(remainder_bits: u8, pile_bytes: u64, entries: u64, bytes: u64) -> u8 {
    let each = bytes as f64 / entries.max(1) as f64;
    let keys = (pile_bytes as f64 / each.max(1.0)).max(entries as f64).max(1.0);
    (keys.log2().round() as u8).saturating_add(remainder_bits).clamp(1, MAX_FINGERPRINT_BITS)
}

/// Bits that the fingerprints of a table have beyond what the maplet of a full pile needs: it may be in a region above others,
/// and piles grow higher than they should.
const SPARE_BITS: u8 = 4;

impl TableFilterBuilder {
    pub fn new(spec: FilterSpec) -> Self {
        match spec {
            // Guides and clusters belong to regions; a sorted store keeps fragments itself.
            FilterSpec::None
            | FilterSpec::MultiLevelCuckoo { .. }
            | FilterSpec::BloomCluster { .. }
            | FilterSpec::Fragments { .. } => Self::None,
            FilterSpec::Bloom { bits_per_key } => Self::Bloom(BloomBuilder::new(f64::from(bits_per_key))),
            FilterSpec::Cuckoo { fingerprint_bits } => {
                Self::Cuckoo(CuckooFilterBuilder::new(fingerprint_bits))
            }
            FilterSpec::Maplet { remainder_bits } => {
                Self::Fingerprints { hashes: Vec::new(), remainder_bits }
            }
        }
    }

    #[inline]
    pub fn insert(&mut self, fingerprint: u64) {
        match self {
            Self::None => {}
            Self::Bloom(builder) => builder.insert(fingerprint),
            Self::Cuckoo(builder) => builder.insert(fingerprint),
            Self::Fingerprints { hashes, .. } => hashes.push(fingerprint),
        }
    }

    /// Appends the filter's bytes; none where the table has no filter of its own. The table's keys and values have `bytes`
    /// bytes, a full pile of its runs `pile_bytes`. Where the filter is made of the keys' fingerprints in order, these come back.
    pub fn finish(self, bytes: u64, pile_bytes: u64, out: &mut Vec<u8>) -> Vec<u64> {
        match self {
            Self::None => {}
            Self::Bloom(builder) => builder.finish().to_bytes(out),
            Self::Cuckoo(builder) => builder.finish().to_bytes(out),
            Self::Fingerprints { hashes, .. } if hashes.is_empty() => {}
            Self::Fingerprints { mut hashes, remainder_bits } => {
                hashes.sort_unstable();
                let bits = remainder_bits + SPARE_BITS;
                let bits = maplet_fingerprint_bits(bits, pile_bytes, hashes.len() as u64, bytes);
                Maplet::new(bits, 0).with_run(0, bits, &hashes).to_bytes(out);
                return hashes;
            }
        }
        Vec::new()
    }
}
