//! Which size of slot suits a table: SILT's trade-off between space and reads (SOSP 2011, §4 and figure 7).
//!
//! Small slots waste little on small items, but what does not fit costs another read and whole pages
//! elsewhere. Of the sizes that a sample shows, the one is taken for which bytes per item times reads per
//! lookup is least: a scale-free balance of both, which for items of one size is that size.

use super::record::SPILL_HEADER_BYTES;
use super::{MAX_SLOT_BYTES, MIN_SLOT_BYTES, SlotLayout};
use crate::cache::PAGE_BYTES;
use crate::table::envelope::PAYLOAD_BYTES;

/// Sizes tried at most.
const MOST_CANDIDATES: usize = 64;

/// What slots of one size cost items of given sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Price {
    /// Bytes on the device per item.
    pub bytes: f64,
    /// Reads per lookup that hits.
    pub reads: f64,
}

/// What records of these sizes cost in slots of `layout`.
pub(crate) fn price(layout: SlotLayout, sizes: &[usize]) -> Price {
    let slot = layout.bytes();
    let per_slot =
        layout.per_page().map_or(slot as f64 * PAGE_BYTES as f64 / PAYLOAD_BYTES as f64, |count| {
            PAGE_BYTES as f64 / count as f64
        });
    let spilled = sizes.iter().filter(|size| **size > slot);
    let (count, pages) = spilled.fold((0u64, 0u64), |(count, pages), size| {
        let tail = size - (slot - SPILL_HEADER_BYTES);
        (count + 1, pages + tail.div_ceil(PAYLOAD_BYTES) as u64)
    });
    let items = sizes.len().max(1) as f64;
    Price { bytes: per_slot + pages as f64 * PAGE_BYTES as f64 / items, reads: 1.0 + count as f64 / items }
}

/// The slots for records of these sizes, whose keys have `key_bytes` bytes if they all have as many.
pub(crate) fn choose(mut sizes: Vec<usize>, key_bytes: u32) -> SlotLayout {
    sizes.sort_unstable();
    let of = |size: usize| {
        let slot_bytes = (size as u32).clamp(MIN_SLOT_BYTES, MAX_SLOT_BYTES);
        let layout = SlotLayout { slot_bytes, key_bytes };
        // Where slots begin afresh in every page, they may as well share all of it.
        let roomy = layout.per_page().map(|count| (PAYLOAD_BYTES / count) as u32);
        SlotLayout { slot_bytes: roomy.unwrap_or(slot_bytes), key_bytes }
    };
    let step = sizes.len().div_ceil(MOST_CANDIDATES).max(1);
    let candidates = sizes.iter().rev().step_by(step).map(|size| of(*size));
    let cost = |layout: &SlotLayout| {
        let Price { bytes, reads } = price(*layout, &sizes);
        bytes * reads
    };
    candidates
        .min_by(|a, b| cost(a).total_cmp(&cost(b)))
        .unwrap_or(SlotLayout { key_bytes, ..SlotLayout::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(sizes: &[usize]) -> u32 {
        choose(sizes.to_vec(), 0).slot_bytes
    }

    #[test]
    fn items_of_one_size_get_slots_of_that_size() {
        assert_eq!(slot(&[1022; 100]), 1022);
        // Forty bytes are left over in a page of 66: they are shared out.
        assert_eq!(slot(&[61; 100]), 61);
        assert_eq!(slot(&[700; 100]), 700);
        assert_eq!(slot(&[1; 100]), MIN_SLOT_BYTES);
        assert_eq!(slot(&[]), MIN_SLOT_BYTES);
        assert_eq!(slot(&[100_000; 10]), MAX_SLOT_BYTES);
    }

    #[test]
    fn few_large_items_do_not_make_all_slots_large() {
        let mut sizes = vec![100; 990];
        sizes.extend([3000; 10]);
        assert!((100..=105).contains(&slot(&sizes)), "{}", slot(&sizes));
        // And few small ones do not make all others spill.
        let mut sizes = vec![1000; 990];
        sizes.extend([20; 10]);
        assert!((1000..=1022).contains(&slot(&sizes)), "{}", slot(&sizes));
    }

    #[test]
    fn larger_slots_cost_space_and_save_reads() {
        let sizes: Vec<usize> = (0..1000).map(|n| 30 + n * n / 300).collect();
        let prices: Vec<Price> =
            (1..40).map(|n| price(SlotLayout { slot_bytes: n * 100, key_bytes: 0 }, &sizes)).collect();
        assert!(prices.is_sorted_by(|a, b| a.reads >= b.reads));
        let best = price(choose(sizes.clone(), 0), &sizes);
        assert!(
            prices.iter().all(|p| best.bytes * best.reads <= p.bytes * p.reads * 1.05),
            "{best:?} {prices:?}"
        );
    }
}
