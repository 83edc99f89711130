//! What slots of one size cost items of many: SILT's indirection with inlining.
//!
//! The idea: an item that fits its slot stands there whole and takes one read; of a larger one the slot holds
//! the start and where the rest is, which takes a second read. Large slots waste space on small items, small
//! ones cost reads.
//!
//! Source: Lim et al., "SILT" (SOSP 2011), section 4 and Figure 7: sizes from 4 bytes to 1 MiB that follow a
//! Zipf distribution, a header and a pointer of 4 bytes each, every item read as often. The paper prints the
//! figure's curves, and none of their numbers.

use crate::ModelError;
use serde::Serialize;

const LEAST_BYTES: usize = 4;
const MOST_BYTES: usize = 1 << 20;
/// Lengths of key and value, before every item.
const HEADER_BYTES: usize = 4;
/// Where the rest of an item is, if it does not fit.
const POINTER_BYTES: usize = 4;

/// Sizes of items: a size is as likely as its inverse to the power of an exponent.
///
/// ```
/// use siltstone_model::cost::inlining::Sizes;
///
/// let sizes = Sizes::zipf(1.2)?;
/// let (small, large) = (sizes.slots(64)?, sizes.slots(4096)?);
/// assert!(small.space_amplification < large.space_amplification);
/// assert!(small.reads_per_get > large.reads_per_get);
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Share of the items larger than `LEAST_BYTES + i - 1`, and their bytes per item of all.
    tails: Vec<(f64, f64)>,
}

/// What slots cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Inlining {
    /// Bytes on the device per byte of items.
    pub space_amplification: f64,
    /// Reads of a lookup that hits.
    pub reads_per_get: f64,
}

impl Sizes {
    /// Sizes with this exponent.
    ///
    /// # Errors
    /// An exponent that is not above 0.
    pub fn zipf(exponent: f64) -> Result<Self, ModelError> {
        ModelError::positive("exponent", exponent)?;
        let mut tails: Vec<(f64, f64)> = (LEAST_BYTES..=MOST_BYTES)
            .map(|size| {
                let share = (size as f64).powf(-exponent);
                (share, share * size as f64)
            })
            .collect();
        let total: f64 = tails.iter().map(|(share, _)| share).sum();
        let (mut shares, mut bytes) = (0.0, 0.0);
        for (share, of) in tails.iter_mut().rev() {
            shares += *share / total;
            bytes += *of / total;
            (*share, *of) = (shares, bytes);
        }
        Ok(Self { tails })
    }

    /// Bytes of an item, on average.
    pub fn mean_bytes(&self) -> f64 {
        self.tails.first().map_or(0.0, |(_, bytes)| *bytes)
    }

    /// What slots of so many bytes cost.
    ///
    /// # Errors
    /// Slots that do not hold a header and a pointer.
    pub fn slots(&self, slot_bytes: usize) -> Result<Inlining, ModelError> {
        if slot_bytes < HEADER_BYTES + POINTER_BYTES {
            let least = HEADER_BYTES + POINTER_BYTES;
            return Err(ModelError::new(
                "slot_bytes",
                format!("{slot_bytes} given; at least {least} are needed"),
            ));
        }
        // Items of at most so many bytes stand in their slots whole.
        let fits = slot_bytes - HEADER_BYTES;
        let first_spilled = (fits + 1).saturating_sub(LEAST_BYTES);
        let (spilled, bytes) = self.tails.get(first_spilled).copied().unwrap_or((0.0, 0.0));
        let inline = (slot_bytes - HEADER_BYTES - POINTER_BYTES) as f64;
        let elsewhere = bytes - spilled * inline;
        Ok(Inlining {
            space_amplification: (slot_bytes as f64 + elsewhere) / self.mean_bytes(),
            reads_per_get: 1.0 + spilled,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_counting_item_by_item() {
        for exponent in [0.8, 1.0, 1.5] {
            let sizes = Sizes::zipf(exponent).unwrap();
            for slot in [8, 9, 100, 5000, MOST_BYTES + HEADER_BYTES, 2 * MOST_BYTES] {
                let (mut weight, mut raw, mut space, mut reads) = (0.0, 0.0, 0.0, 0.0);
                for size in LEAST_BYTES..=MOST_BYTES {
                    let share = (size as f64).powf(-exponent);
                    let is_spilled = size + HEADER_BYTES > slot;
                    let rest = if is_spilled { size - (slot - HEADER_BYTES - POINTER_BYTES) } else { 0 };
                    weight += share;
                    raw += share * size as f64;
                    space += share * (slot + rest) as f64;
                    reads += share * if is_spilled { 2.0 } else { 1.0 };
                }
                let found = sizes.slots(slot).unwrap();
                assert!((found.space_amplification / (space / raw) - 1.0).abs() < 1e-6, "{exponent} {slot}");
                assert!((found.reads_per_get / (reads / weight) - 1.0).abs() < 1e-6, "{exponent} {slot}");
            }
        }
        assert!(Sizes::zipf(0.0).is_err() && Sizes::zipf(1.0).unwrap().slots(7).is_err());
    }
}
