//! Many lookups at once: each goes as far as memory takes it, and while its page is fetched others are begun;
//! or all are given up where memory does not take them to their ends.

use super::lookup::{Found, Lookup, Pinned, Supply};
use crate::cache::{Arrived, Step, run_all, run_all_cached};
use crate::error::Result;
use crate::memory::Holder;
use crate::stats::{KeyspaceCounters, ReadTrace};
use crate::version::Version;
use siltstone_design::EncodedKey;

/// Keys whose filters are prefetched together: as many as the processor has misses under way.
const PREFETCHED_TOGETHER: usize = 16;
/// Filters of so many bytes are in the processor's cache, and finding out what to prefetch of them would cost
/// more than it saves.
const NEAR_BYTES: u64 = 4 << 20;

/// Looks `keys` up, and hands what is found of each to `take` with the key's number.
pub(super) fn find_many(
    pinned: &Pinned<'_>,
    keys: &[EncodedKey<'_>],
    counters: &KeyspaceCounters,
    mut take: impl FnMut(usize, Found),
) -> Result<()> {
    let mut lookups = Lookups::new(pinned, keys, |number, found: Found, trace: &ReadTrace| {
        counters.note_get(found.value.is_some(), trace);
        take(number, found);
    });
    run_all(pinned.reader, keys.len(), |number, reads, arrived| lookups.advance(number, reads, arrived))
}

/// Looks `keys` up where memory, the operating system's included, holds all that is needed for it, and
/// returns what is found, in their order; `None`, with no lookup counted, where a thread would have to wait.
pub(super) fn find_cached(
    pinned: &Pinned<'_>,
    keys: &[EncodedKey<'_>],
    counters: &KeyspaceCounters,
) -> Result<Option<Vec<Found>>> {
    let mut done = vec![(Found::default(), ReadTrace::default()); keys.len()];
    let mut lookups = Lookups::new(pinned, keys, |number, found, trace: &ReadTrace| {
        if let Some(done) = done.get_mut(number) {
            *done = (found, *trace);
        }
    });
    let advance = |number, reads, arrived: &Arrived| lookups.advance(number, reads, arrived);
    if !run_all_cached(pinned.reader, keys.len(), advance)? {
        return Ok(None);
    }
    let count = |(found, trace): (Found, ReadTrace)| {
        counters.note_get(found.value.is_some(), &trace);
        found
    };
    Ok(Some(done.into_iter().map(count).collect()))
}

/// Lookups, as far as they have come.
struct Lookups<'a, F> {
    pinned: &'a Pinned<'a>,
    keys: &'a [EncodedKey<'a>],
    prefetching: Prefetching<'a>,
    /// Those that wait for a page, by number. Where all is in memory there are none.
    waiting: Vec<Option<Lookup<'a>>>,
    /// Gets what each has found, and what it cost.
    take: F,
}

impl<'a, F: FnMut(usize, Found, &ReadTrace)> Lookups<'a, F> {
    fn new(pinned: &'a Pinned<'a>, keys: &'a [EncodedKey<'a>], take: F) -> Self {
        Self { pinned, keys, prefetching: Prefetching::new(pinned, keys), waiting: Vec::new(), take }
    }

    /// Begins lookup `number`, or goes on with it.
    fn advance(&mut self, number: usize, reads: u64, arrived: &Arrived) -> Result<Step<()>> {
        let Some(key) = self.keys.get(number) else { unreachable!("there are as many lookups as keys") };
        self.prefetching.reach(number);
        let begun = self.waiting.get_mut(number).and_then(Option::take);
        let mut lookup = begun.unwrap_or_else(|| Lookup::new(self.pinned, key));
        lookup.trace.device_reads += reads;
        Ok(match lookup.advance(Supply::Arrived(arrived))? {
            Step::Done(found) => {
                (self.take)(number, found.unwrap_or_default(), &lookup.trace);
                Step::Done(())
            }
            Step::Needs(page) => {
                if self.waiting.is_empty() {
                    self.waiting.resize_with(self.keys.len(), || None);
                }
                if let Some(place) = self.waiting.get_mut(number) {
                    *place = Some(lookup);
                }
                Step::Needs(page)
            }
        })
    }
}

/// Has the filters of some lookups come to the processor before each is begun.
struct Prefetching<'a> {
    version: &'a Version,
    keys: &'a [EncodedKey<'a>],
    /// How many keys' filters are on their way.
    prefetched: usize,
}

impl<'a> Prefetching<'a> {
    fn new(pinned: &Pinned<'a>, keys: &'a [EncodedKey<'a>]) -> Self {
        let are_far = pinned.reader.memory().held_bytes(Holder::Filter) > NEAR_BYTES;
        Self { version: pinned.version, keys, prefetched: if are_far { 0 } else { keys.len() } }
    }

    /// The lookup of key `number` is about to begin.
    fn reach(&mut self, number: usize) {
        if number == self.prefetched {
            self.prefetched = self.keys.len().min(number + PREFETCHED_TOGETHER);
            self.version.prefetch(self.keys.get(number..self.prefetched).unwrap_or_default());
        }
    }
}
