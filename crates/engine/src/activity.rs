//! Activity: what is done with a keyspace, in numbers that last beyond the process.
//!
//! The idea: a design is chosen for a workload, and nobody knows that better than the store that serves it.
//! So each keyspace counts operations, sizes, and what its flushes and merges find. The counts go into the
//! manifest with each flush and at the end. Those of all time apart, they fade: once they are many, they are
//! halved, so that what was done lately has the say. `db/workload.rs` makes a workload of them.

use std::ops::RangeInclusive;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Count {
    /// Gets that found an item, and the reads of the device that they took,
    Hits,
    ReadsByHits,
    /// and the same of those that found none.
    Misses,
    ReadsByMisses,
    /// Scans of one group.
    Scans,
    /// Puts and merges, their keys' and values' bytes, and deletes.
    Puts,
    KeyBytes,
    ValueBytes,
    Deletes,
    /// Batches that these came in.
    Batches,
    /// Puts that expire, and the seconds until they do.
    ExpiringPuts,
    SecondsToLive,
    /// Flushes, the puts and deletes that they took, and the entries that these came to.
    Flushes,
    FlushedPuts,
    FlushedEntries,
    /// Groups among the entries of flushes.
    FlushedGroups,
    /// Writes of one flush for keys that were there, the same squared, and the entries that they came to.
    FlushedAgain,
    FlushedAgainSquared,
    FlushedOnce,
    /// The same of what a push of level 0 merged with nothing below, as if its region had all digests.
    PushedAgain,
    PushedAgainSquared,
    PushedOnce,
    /// Entries written to the bottom of the trie, the groups among them, and the share of all digests that
    /// their runs span, in parts of [`WHOLE`].
    BottomEntries,
    BottomGroups,
    BottomShare,
    /// Entries that met the oldest ones there are of their regions, and those that so turned out to be dead.
    Arrived,
    Replaced,
    /// Milliseconds in which all this was done.
    Milliseconds,
    /// Puts and deletes since the keyspace was created, and bytes of what was put: these never fade.
    AllPuts,
    AllDeletes,
    AllBytes,
    /// Of all flushes: how many there were, and what those of late have as well.
    AllFlushes,
    AllFlushedAgain,
    AllFlushedAgainSquared,
    AllFlushedOnce,
    /// Reads of the device that scans of one group took; fades.
    ReadsByScans,
    /// Gets and scans that came before the last redesign was over; fades.
    ReadsBefore = VALUES_END,
    /// Puts whose items were copied when the keyspace got its schema; lasts.
    CopiedPuts,
}

/// Counts after those of [`Count`]: values that were flushed, by how large they are, and their bytes.
const VALUES: usize = Count::ReadsByScans as usize + 1;
const SIZES: usize = 8;
const VALUES_END: usize = VALUES + 2 * SIZES;
pub(crate) const COUNTS: usize = Count::CopiedPuts as usize + 1;
/// What stands for all digests where shares of them are counted.
pub(crate) const WHOLE: u64 = 1 << 32;
/// All counts fade but these, and `CopiedPuts`.
const LASTING: RangeInclusive<usize> = Count::AllPuts as usize..=Count::AllFlushedOnce as usize;
/// Operations from which on counts fade: so many, and so many for each item.
const LEAST_OPERATIONS: u64 = 1 << 16;
const OPERATIONS_PER_ITEM: u64 = 2;
/// Entries that merges have to have found at the bottom before these fade.
const LEAST_ARRIVED: u64 = 1 << 10;

/// Where it is counted how often keys come again among some writes: how many there were, squared, and how
/// many keys.
pub(crate) type Repeats = [Count; 3];
pub(crate) const FLUSHED: Repeats = [Count::FlushedAgain, Count::FlushedAgainSquared, Count::FlushedOnce];
pub(crate) const PUSHED: Repeats = [Count::PushedAgain, Count::PushedAgainSquared, Count::PushedOnce];
pub(crate) const ALL_FLUSHED: Repeats =
    [Count::AllFlushedAgain, Count::AllFlushedAgainSquared, Count::AllFlushedOnce];
/// Squares are counted in units of so many.
pub(crate) const SQUARE: u64 = 1 << 12;

/// Returns what to count, as [`Repeats`], of `requests` writes that came to `distinct` entries, of which a
/// share `overwrites`: nothing where that is not known.
pub(crate) fn repeats(requests: u64, distinct: u64, overwrites: Option<f64>) -> [u64; 3] {
    let new = overwrites.map_or(requests, |share| (distinct as f64 * (1.0 - share)) as u64);
    let (again, once) = (requests.saturating_sub(new), distinct.saturating_sub(new));
    let squared = u64::try_from(u128::from(again).pow(2) / u128::from(SQUARE)).unwrap_or(u64::MAX);
    [again, squared, once]
}

/// Values by how large they are: the first are below 16 bytes, the next below 64, and so on by fours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ValueSizes {
    counts: [u64; SIZES],
    bytes: [u64; SIZES],
}

impl ValueSizes {
    /// Counts a value of so many bytes.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "there is no larger size than the last")]
    pub fn add(&mut self, bytes: usize) {
        let above_first = usize::BITS - (bytes >> 4).leading_zeros();
        let size = (above_first.div_ceil(2) as usize).min(SIZES - 1);
        self.counts[size] += 1;
        self.bytes[size] += bytes as u64;
    }

    /// These and `other` together.
    pub fn and(mut self, other: &Self) -> Self {
        self.counts.iter_mut().zip(other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.bytes.iter_mut().zip(other.bytes).for_each(|(mine, theirs)| *mine += theirs);
        self
    }

    /// How many there are of each size, and the bytes of these, the small ones first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts.into_iter().zip(self.bytes).filter(|(count, _)| *count > 0)
    }
}

/// Counts of what is done with a keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Activity {
    counts: [u64; COUNTS],
}

impl Default for Activity {
    fn default() -> Self {
        Self { counts: [0; COUNTS] }
    }
}

impl Activity {
    #[expect(clippy::indexing_slicing, reason = "there are as many counts")]
    pub fn of(&self, count: Count) -> u64 {
        self.counts[count as usize]
    }

    #[expect(clippy::indexing_slicing, reason = "there are as many counts")]
    pub fn add(&mut self, count: Count, number: u64) {
        self.counts[count as usize] += number;
    }

    /// Counts values that were flushed.
    pub fn add_values(&mut self, values: &ValueSizes) {
        let added = values.counts.into_iter().chain(values.bytes);
        self.counts.iter_mut().skip(VALUES).zip(added).for_each(|(mine, more)| *mine += more);
    }

    /// The values that were flushed.
    pub fn values(&self) -> ValueSizes {
        let mut values = ValueSizes::default();
        let all = values.counts.iter_mut().chain(&mut values.bytes);
        all.zip(self.counts.iter().skip(VALUES)).for_each(|(value, count)| *value = *count);
        values
    }

    fn sum(&self, counts: &[Count]) -> u64 {
        counts.iter().map(|count| self.of(*count)).sum()
    }

    /// Gets, scans, puts and deletes.
    pub fn operations(&self) -> u64 {
        self.reads() + self.sum(&[Count::Puts, Count::Deletes])
    }

    /// Gets and scans.
    pub fn reads(&self) -> u64 {
        self.sum(&[Count::Hits, Count::Misses, Count::Scans])
    }

    /// Notes that all items have been copied, as when a keyspace gets another schema.
    pub fn note_copied(&mut self) {
        self.add(Count::CopiedPuts, self.of(Count::AllPuts).saturating_sub(self.of(Count::CopiedPuts)));
    }

    /// The share of `part` in `whole`; `None` where that is nothing.
    pub fn ratio(&self, part: Count, whole: Count) -> Option<f64> {
        let whole = self.of(whole);
        (whole > 0).then(|| self.of(part) as f64 / whole as f64)
    }

    fn zip(&self, other: &Self, with: impl Fn(u64, u64) -> u64) -> Self {
        let mut counts = self.counts;
        counts.iter_mut().zip(other.counts).for_each(|(mine, theirs)| *mine = with(*mine, theirs));
        Self { counts }
    }

    /// These counts and those of `other`.
    pub fn and(&self, other: &Self) -> Self {
        self.zip(other, u64::saturating_add)
    }

    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        self.zip(earlier, u64::saturating_sub)
    }

    /// The counts after they have faded as much as is due in a keyspace of so many items.
    pub fn faded(mut self, items: u64) -> Self {
        // What was overwritten long ago says nothing of what has come since.
        while self.of(Count::Arrived) > (items / 2).max(LEAST_ARRIVED) {
            [Count::Arrived, Count::Replaced].into_iter().for_each(|count| self.halve(count));
        }
        while self.operations() > LEAST_OPERATIONS.max(items.saturating_mul(OPERATIONS_PER_ITEM)) {
            let all = self.counts.iter_mut().enumerate();
            let fades = |at: usize| !LASTING.contains(&at) && at != Count::CopiedPuts as usize;
            all.filter(|(at, _)| fades(*at)).for_each(|(_, count)| *count /= 2);
        }
        self
    }

    #[expect(clippy::indexing_slicing, reason = "there are as many counts")]
    fn halve(&mut self, count: Count) {
        self.counts[count as usize] /= 2;
    }

    /// The counts as numbers, but for zeros at their end.
    pub fn numbers(&self) -> &[u64] {
        let last = self.counts.iter().rposition(|count| *count > 0).map_or(0, |at| at + 1);
        self.counts.get(..last).unwrap_or_default()
    }

    /// Takes counts from numbers; a later program may have more of them.
    pub fn of_numbers(numbers: &[u64]) -> Self {
        let mut activity = Self::default();
        activity.counts.iter_mut().zip(numbers).for_each(|(count, number)| *count = *number);
        activity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_fade_but_for_those_of_all_time() {
        let mut activity = Activity::default();
        for (count, number) in [(Count::Hits, 300_000), (Count::Puts, 100_000), (Count::AllPuts, 7_000_000)] {
            activity.add(count, number);
        }
        assert_eq!(activity.faded(200_000), activity);
        let faded = activity.faded(1000);
        assert!(faded.operations() <= LEAST_OPERATIONS && faded.operations() * 2 > LEAST_OPERATIONS);
        assert_eq!(faded.of(Count::Hits), 3 * faded.of(Count::Puts));
        assert_eq!(faded.of(Count::AllPuts), 7_000_000);
        activity.add(Count::ReadsByScans, 1 << 20);
        assert!(activity.faded(1000).of(Count::ReadsByScans) <= 1 << 18);
    }

    #[test]
    fn values_are_told_apart_by_fours() {
        let mut values = ValueSizes::default();
        for bytes in [0, 15, 16, 63, 64, 255, 256, 1 << 16, (1 << 18) - 1, 1 << 30] {
            values.add(bytes);
        }
        let counts: Vec<u64> = values.iter().map(|(count, _)| count).collect();
        assert_eq!(counts, [2, 2, 2, 1, 3]);
        let twice = values.and(&values);
        assert_eq!(twice.iter().nth(1), Some((4, 2 * (16 + 63))));
        let mut activity = Activity::default();
        activity.add_values(&values);
        activity.add_values(&values);
        assert_eq!(activity.values(), twice);
        assert_eq!(Activity::of_numbers(activity.numbers()).values(), twice);
    }

    #[test]
    fn counts_come_back_as_they_were_written() {
        let mut activity = Activity::default();
        activity.add(Count::Scans, 3);
        assert_eq!(activity.numbers().len(), Count::Scans as usize + 1);
        activity.add(Count::AllDeletes, 1 << 40);
        assert_eq!(Activity::of_numbers(activity.numbers()), activity);
        // A later program has more of them, and an earlier one fewer.
        assert_eq!(Activity::of_numbers(&[9]).of(Count::Hits), 9);
        assert_eq!(Activity::of_numbers(&[1; COUNTS + 2]).of(Count::AllFlushedOnce), 1);
        let known = repeats(100_000, 50_000, Some(0.5));
        assert_eq!(known, [75_000, 75_000 * 75_000 / SQUARE, 25_000]);
        assert_eq!(repeats(100_000, 50_000, None), [0; 3]);
        let both = activity.and(&activity);
        assert_eq!((both.of(Count::Scans), both.since(&activity)), (6, activity));
    }
}
