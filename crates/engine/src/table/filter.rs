//! Filters of single tables: which one a table has, how it is built, and how it is asked.
//!
//! A filter that spans the runs of a region is a guide (`version/guide.rs`), not a table's business.

use siltstone_design::FilterSpec;
use siltstone_succinct::error::DecodeError;
use siltstone_succinct::filter::bloom::{Bloom, BloomBuilder};
use siltstone_succinct::filter::cuckoo::{CuckooFilter, CuckooFilterBuilder};

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
}

impl TableFilterBuilder {
    pub fn new(spec: FilterSpec) -> Self {
        match spec {
            FilterSpec::None | FilterSpec::MultiLevelCuckoo { .. } | FilterSpec::BloomCluster { .. } => {
                Self::None
            }
            FilterSpec::Bloom { bits_per_key } => Self::Bloom(BloomBuilder::new(f64::from(bits_per_key))),
            FilterSpec::Cuckoo { fingerprint_bits } => {
                Self::Cuckoo(CuckooFilterBuilder::new(fingerprint_bits))
            }
        }
    }

    #[inline]
    pub fn insert(&mut self, fingerprint: u64) {
        match self {
            Self::None => {}
            Self::Bloom(builder) => builder.insert(fingerprint),
            Self::Cuckoo(builder) => builder.insert(fingerprint),
        }
    }

    /// Appends the filter's bytes; none where the table has no filter of its own.
    pub fn finish(self, out: &mut Vec<u8>) {
        match self {
            Self::None => {}
            Self::Bloom(builder) => builder.finish().to_bytes(out),
            Self::Cuckoo(builder) => builder.finish().to_bytes(out),
        }
    }
}
