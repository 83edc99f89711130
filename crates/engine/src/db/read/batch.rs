//! Many lookups at once: each goes as far as memory takes it, and while its page is fetched others are begun.

use super::lookup::{Lookup, Pinned, Supply};
use crate::cache::{Step, run_all};
use crate::error::Result;
use crate::stats::KeyspaceCounters;
use siltstone_design::EncodedKey;

/// Keys whose filters are prefetched together: as many as the processor has misses under way.
const PREFETCHED_TOGETHER: usize = 16;

/// Returns the values of `keys`, in their order.
pub(super) fn get_many(
    pinned: &Pinned<'_>,
    keys: &[EncodedKey<'_>],
    counters: &KeyspaceCounters,
) -> Result<Vec<Option<Vec<u8>>>> {
    let mut values = vec![None; keys.len()];
    let mut lookups: Vec<_> = keys.iter().map(|key| Lookup::new(pinned, key)).collect();
    let mut prefetched = 0;
    run_all(pinned.reader, keys.len(), |number, reads, arrived| {
        let (Some(lookup), Some(value)) = (lookups.get_mut(number), values.get_mut(number)) else {
            unreachable!("there are as many lookups as keys");
        };
        if number == prefetched {
            prefetched = keys.len().min(number + PREFETCHED_TOGETHER);
            pinned.version.prefetch(keys.get(number..prefetched).unwrap_or_default());
        }
        lookup.trace.device_reads += reads;
        Ok(match lookup.advance(Supply::Arrived(arrived))? {
            Step::Done(found) => {
                *value = found.unwrap_or_default().value;
                counters.note_get(value.is_some(), &lookup.trace);
                Step::Done(())
            }
            Step::Needs(page) => Step::Needs(page),
        })
    })?;
    Ok(values)
}
