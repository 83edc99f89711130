//! How often what is read is in the cache already.
//!
//! The cache keeps answers for single keys and pages of tables, and learns how to divide its memory between
//! them. Source: Che, Tung and Wang, "Hierarchical Web Caching Systems" (JSAC 2002), written in FAST'16's
//! primitives: a cache of `C` items holds those of the last `Unique⁻¹(C)` requests, and its miss ratio is the
//! slope of `Unique` there. A page of `k` items is absent where none of its items was asked for, so that
//! `1 − (1 − Unique(t)/N)^k` of all pages are among the last `t` requests.
//!
//! *Limits*: what is read after the cache of answers has had its share is taken to ask for pages alike, and
//! the cache to be divided as well as can be, which a store that was just opened has yet to find out.

use super::workload::Workload;
use crate::{Direct, ModelError, Popularity, Primitives};
use std::sync::Arc;

/// Bytes of an answer beside its key and value, and what the memory that it lies in takes beside it.
const ANSWER_BYTES: f64 = 24.0;
const ANSWER_SPACE: f64 = 4608.0 / 4096.0;
/// Bytes of a cached page.
const CACHED_PAGE_BYTES: f64 = 4096.0 + 96.0;
/// Parts that the cache is divided into.
const PARTS: u32 = 16;
/// Steps of bisection.
const STEPS: usize = 40;

/// Which items are read.
#[derive(Clone, Debug)]
pub(super) struct Reads {
    items: f64,
    answer_bytes: f64,
    /// `None` where all items are asked for alike.
    popularity: Option<Arc<Direct>>,
}

/// The shares of reads that go to the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missed {
    /// Of the reads that gets need, for items or absent keys.
    pub of_gets: f64,
    /// Of reads of pages that all are asked for alike.
    pub of_pages: f64,
}

impl Reads {
    pub fn of(workload: &Workload) -> Result<Self, ModelError> {
        let skew = workload.read_skew.unwrap_or(workload.skew);
        let popularity = if skew > 0.0 {
            let popularity = Popularity::zipf(workload.items.ceil() as u64, skew)?;
            Some(Arc::new(Direct::new(&popularity)))
        } else {
            None
        };
        let answer_bytes = (ANSWER_BYTES + workload.item_bytes()) * ANSWER_SPACE;
        Ok(Self { items: workload.items, answer_bytes, popularity })
    }

    /// What is missed with a cache of so many bytes before so many bytes of pages, where answers are kept by
    /// themselves or are not.
    pub fn missed(&self, cache_bytes: f64, page_bytes: f64, keeps_answers: bool) -> Missed {
        let pages = (page_bytes / 4096.0).max(1.0);
        let held = |bytes: f64| (bytes / CACHED_PAGE_BYTES / pages).clamp(0.0, 1.0);
        let Some(popularity) = &self.popularity else {
            let missed = 1.0 - held(cache_bytes);
            return Missed { of_gets: missed, of_pages: missed };
        };
        let pages_only = self.missed_pages(popularity, held(cache_bytes), pages);
        let mut best = Missed { of_gets: pages_only, of_pages: 1.0 - held(cache_bytes) };
        for part in 1..=if keeps_answers { PARTS } else { 0 } {
            let of_answers = f64::from(part) / f64::from(PARTS);
            let answers = cache_bytes * of_answers / self.answer_bytes;
            let of_pages = 1.0 - held(cache_bytes * (1.0 - of_answers));
            let of_gets = missed_answers(popularity, answers) * of_pages;
            if of_gets < best.of_gets {
                best = Missed { of_gets, of_pages };
            }
        }
        best
    }

    /// The share of requests whose page is none of the share `held` of pages asked for last.
    fn missed_pages(&self, popularity: &Direct, held: f64, pages: f64) -> f64 {
        if held >= 1.0 {
            return 0.0;
        }
        let per_page = self.items / pages;
        let absent = |requests: f64| 1.0 - popularity.unique(requests) / self.items;
        // The requests after which the cache is full, by their logarithm.
        let (mut low, mut high) = (0.0f64, (self.items * 1e3).ln());
        for _ in 0..STEPS {
            let middle = f64::midpoint(low, high);
            let seen = 1.0 - absent(middle.exp()).powf(per_page);
            if seen < held { low = middle } else { high = middle }
        }
        let requests = f64::midpoint(low, high).exp();
        // The item's own requests, and those for the others of its page.
        missed_after(popularity, requests) * absent(requests).powf(per_page - 1.0)
    }
}

/// The share of requests for items that are none of those asked for last, of which a cache has so many.
fn missed_answers(popularity: &Direct, answers: f64) -> f64 {
    if answers >= popularity.total() {
        return 0.0;
    }
    missed_after(popularity, popularity.unique_inverse(answers))
}

/// The share of requests for items that were not asked for in the last so many.
fn missed_after(popularity: &Direct, requests: f64) -> f64 {
    if requests < 1.0 { 1.0 } else { popularity.unique_and_slope(requests).1.clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(skew: f64) -> Reads {
        Reads::of(&Workload { read_skew: Some(skew), ..Workload::default() }).unwrap()
    }

    #[test]
    fn more_cache_misses_less_and_skew_helps() {
        let page_bytes = 1.2e8;
        for skew in [0.0, 0.5, 0.99, 1.2] {
            let mut last = 1.0;
            for share in [0.0, 0.01, 0.1, 0.3, 0.6, 1.1] {
                let missed = reads(skew).missed(share * page_bytes, page_bytes, true).of_gets;
                assert!(missed <= last + 1e-9, "{skew} {share}: {missed} after {last}");
                last = missed;
            }
            assert!(last < 0.02, "{skew}: {last}");
        }
        let at = |skew| reads(skew).missed(0.1 * page_bytes, page_bytes, true).of_gets;
        assert!(at(0.99) < 0.5 && at(0.5) < at(0.0) && at(0.99) < at(0.5), "{} {}", at(0.99), at(0.5));
    }

    #[test]
    fn a_cache_of_answers_misses_what_a_simulated_one_does() {
        use rand::RngExt;
        use rand::SeedableRng;
        // A thousand items, the least recently used of a hundred is let go.
        let popularity = Popularity::zipf_grouped(1000, 0.99, crate::Grouping::Exact).unwrap();
        let chances: Vec<f64> = popularity.groups().iter().map(|group| group.probability).collect();
        let mut random = rand::rngs::SmallRng::seed_from_u64(7);
        let (mut cache, mut missed) = (std::collections::VecDeque::new(), 0);
        for request in 0..60_000 {
            let mut at = random.random::<f64>();
            let item = chances.iter().position(|chance| {
                at -= chance;
                at < 0.0
            });
            let place = cache.iter().position(|held| *held == item);
            missed += i32::from(request >= 10_000 && place.is_none());
            place.map(|place| cache.remove(place));
            cache.push_front(item);
            cache.truncate(100);
        }
        let direct = Direct::new(&Popularity::zipf(1000, 0.99).unwrap());
        let (simulated, ours) = (f64::from(missed) / 50_000.0, missed_answers(&direct, 100.0));
        assert!((simulated - ours).abs() < 0.01, "{simulated} {ours}");
    }
}
