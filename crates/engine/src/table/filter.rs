//! What a table keeps of its keys beside its entries: a filter of its own, or fingerprints for the filter of
//! its region.
//!
//! A filter that spans the runs of a region (`region_filter/`) is not a table's business. But where that
//! filter is made of fingerprints, each table keeps those of its keys in order, so that a lost filter is
//! merged from them without reading a key. Both stand in the same section of the file, so that a table has
//! one of them at most.

use siltstone_design::{LevelSpec, TableFilterSpec};
use siltstone_succinct::error::DecodeError;
use siltstone_succinct::filter::bloom::{Bloom, BloomBuilder};
use siltstone_succinct::filter::cuckoo::{CuckooFilter, CuckooFilterBuilder};
use siltstone_succinct::filter::maplet::{MAX_FINGERPRINT_BITS, Maplet};

/// What the filter section of a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptKeys {
    /// The table's own filter, if it has one.
    Filter(TableFilterSpec),
    /// The fingerprints of its keys in order, of which the filter of its region is made.
    Fingerprints {
        /// Bits of a fingerprint beyond those that tell the keys of a full region apart.
        remainder_bits: u8,
    },
    /// Nothing. Earlier programs noted here which filter the table's region had.
    Noted(NotedRegionFilter),
}

/// What earlier programs noted of a region's filter in the properties of its tables; it says nothing of the
/// table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotedRegionFilter {
    MultiLevelCuckoo { fingerprint_bits: u8 },
    BloomCluster { bits_per_key: u8 },
}

impl KeptKeys {
    /// Returns what tables of `level` keep.
    pub fn of(level: &LevelSpec) -> Self {
        match level.region_filter.kept_remainder_bits() {
            Some(remainder_bits) => Self::Fingerprints { remainder_bits },
            None => Self::Filter(level.table_filter),
        }
    }

    /// Returns the table's own filter.
    #[inline]
    pub fn own_filter(self) -> TableFilterSpec {
        match self {
            Self::Filter(filter) => filter,
            Self::Fingerprints { .. } | Self::Noted(_) => TableFilterSpec::None,
        }
    }

    /// Whether the table keeps its keys' fingerprints.
    pub fn are_fingerprints(self) -> bool {
        match self {
            Self::Fingerprints { .. } => true,
            Self::Filter(_) | Self::Noted(_) => false,
        }
    }
}

/// Decodes a filter from its section.
type DecodeFilter = fn(&[u8]) -> Result<TableFilter, DecodeError>;

/// A table's filter in memory.
pub(crate) enum TableFilter {
    Bloom(Bloom),
    Cuckoo(CuckooFilter),
}

impl TableFilter {
    /// Returns what decodes a filter as `spec` says; `None` where there is none, or one that the table's
    /// format asks itself.
    #[inline]
    pub fn decoder(spec: TableFilterSpec) -> Option<DecodeFilter> {
        match spec {
            TableFilterSpec::Bloom { .. } => Some(|bytes| Ok(Self::Bloom(Bloom::from_bytes(bytes)?))),
            TableFilterSpec::Cuckoo { .. } => {
                Some(|bytes| Ok(Self::Cuckoo(CuckooFilter::from_bytes(bytes)?)))
            }
            TableFilterSpec::None | TableFilterSpec::Fragments { .. } => None,
        }
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

/// Bits by which `entries` keys of `bytes` bytes in all are told apart in a maplet of a region of
/// `region_bytes`, or of the entries themselves if they are more.
pub(crate) fn maplet_fingerprint_bits(remainder_bits: u8, region_bytes: u64, entries: u64, bytes: u64) -> u8 {
    let each = bytes as f64 / entries.max(1) as f64;
    let keys = (region_bytes as f64 / each.max(1.0)).max(entries as f64).max(1.0);
    (keys.log2().round() as u8).saturating_add(remainder_bits).clamp(1, MAX_FINGERPRINT_BITS)
}

/// Bits that the fingerprints of a table have beyond what the maplet of a full region needs: it may be in a
/// region above others, and regions grow higher than they should.
const SPARE_BITS: u8 = 4;

impl TableFilterBuilder {
    pub fn new(kept: KeptKeys) -> Self {
        match kept {
            KeptKeys::Filter(TableFilterSpec::Bloom { bits_per_key }) => {
                Self::Bloom(BloomBuilder::new(f64::from(bits_per_key)))
            }
            KeptKeys::Filter(TableFilterSpec::Cuckoo { fingerprint_bits }) => {
                Self::Cuckoo(CuckooFilterBuilder::new(fingerprint_bits))
            }
            KeptKeys::Fingerprints { remainder_bits } => {
                Self::Fingerprints { hashes: Vec::new(), remainder_bits }
            }
            // A sorted store makes its fragments itself.
            KeptKeys::Filter(TableFilterSpec::None | TableFilterSpec::Fragments { .. })
            | KeptKeys::Noted(_) => Self::None,
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

    /// Appends the filter's bytes; none where the table has no filter of its own. The table's keys and values
    /// have `bytes` bytes, a full region of its runs `region_bytes`. Where the filter is made of the keys'
    /// fingerprints in order, these come back.
    pub fn finish(self, bytes: u64, region_bytes: u64, out: &mut Vec<u8>) -> Vec<u64> {
        match self {
            Self::None => {}
            Self::Bloom(builder) => builder.finish().to_bytes(out),
            Self::Cuckoo(builder) => builder.finish().to_bytes(out),
            Self::Fingerprints { hashes, .. } if hashes.is_empty() => {}
            Self::Fingerprints { mut hashes, remainder_bits } => {
                hashes.sort_unstable();
                let bits = remainder_bits + SPARE_BITS;
                let bits = maplet_fingerprint_bits(bits, region_bytes, hashes.len() as u64, bytes);
                Maplet::new(bits, 0).with_run(0, bits, &hashes).to_bytes(out);
                return hashes;
            }
        }
        Vec::new()
    }
}
