//! Many lookups at once: each goes as far as memory takes it, and while its page is fetched others are begun.

use super::lookup::{Found, Lookup, Pinned, Supply};
use crate::cache::{Step, run_all};
use crate::error::Result;
use crate::memory::Holder;
use crate::stats::KeyspaceCounters;
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
    // Those that wait for a page, by number. Where all is in memory there are none.
    let mut waiting: Vec<Option<Lookup<'_>>> = Vec::new();
    let are_far = pinned.reader.memory().held_bytes(Holder::Filter) > NEAR_BYTES;
    let mut prefetched = if are_far { 0 } else { keys.len() };
    run_all(pinned.reader, keys.len(), |number, reads, arrived| {
        let Some(key) = keys.get(number) else { unreachable!("there are as many lookups as keys") };
        if number == prefetched {
            prefetched = keys.len().min(number + PREFETCHED_TOGETHER);
            pinned.version.prefetch(keys.get(number..prefetched).unwrap_or_default());
        }
        let begun = waiting.get_mut(number).and_then(Option::take);
        let mut lookup = begun.unwrap_or_else(|| Lookup::new(pinned, key));
        lookup.trace.device_reads += reads;
        Ok(match lookup.advance(Supply::Arrived(arrived))? {
            Step::Done(found) => {
                let found = found.unwrap_or_default();
                counters.note_get(found.value.is_some(), &lookup.trace);
                take(number, found);
                Step::Done(())
            }
            Step::Needs(page) => {
                if waiting.is_empty() {
                    waiting.resize_with(keys.len(), || None);
                }
                if let Some(place) = waiting.get_mut(number) {
                    *place = Some(lookup);
                }
                Step::Needs(page)
            }
        })
    })
}
