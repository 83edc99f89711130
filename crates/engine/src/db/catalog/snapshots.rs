//! The sequence numbers at which somebody reads: what they see stays readable while they are held.

use crate::entry::Sequence;
use crate::stats::Stopwatch;
use crate::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The registry of held sequence numbers, with since when each is held.
#[derive(Default)]
pub(crate) struct Snapshots {
    held: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    next: u64,
    by_number: BTreeMap<u64, (Sequence, Stopwatch)>,
}

impl Snapshots {
    /// Returns the age of the oldest.
    pub fn oldest_age(&self) -> Option<Duration> {
        self.held.lock().by_number.values().map(|(_, since)| since.elapsed()).max()
    }

    /// Calls `work` with a function that says whether anybody sees the first of two sequence numbers and not
    /// the second. Nobody begins to read meanwhile.
    pub fn while_still<T>(&self, work: impl FnOnce(&dyn Fn(Sequence, Sequence) -> bool) -> T) -> T {
        let held = self.held.lock();
        work(&|old, new| held.by_number.values().any(|(at, _)| (old..new).contains(at)))
    }

    /// Holds the sequence number that `sequence` returns, and the time. Whoever takes old versions out does
    /// so with the registry locked, once the newer ones are visible; so `sequence` is asked with it locked
    /// too.
    pub fn hold(self: &Arc<Self>, now_ms: u64, sequence: impl FnOnce() -> Sequence) -> ReadPoint {
        let mut held = self.held.lock();
        let (sequence, number) = (sequence(), held.next);
        held.next += 1;
        held.by_number.insert(number, (sequence, Stopwatch::start()));
        drop(held);
        ReadPoint { snapshots: Arc::clone(self), number, sequence, now_ms }
    }
}

/// A sequence number at which somebody reads: what it sees stays readable until this is dropped.
pub(crate) struct ReadPoint {
    snapshots: Arc<Snapshots>,
    number: u64,
    pub sequence: Sequence,
    /// The wall clock's milliseconds then: what was live stays so for this reader.
    pub now_ms: u64,
}

impl ReadPoint {
    /// Holds the same moment once more.
    pub fn again(&self) -> Self {
        self.snapshots.hold(self.now_ms, || self.sequence)
    }
}

impl Drop for ReadPoint {
    fn drop(&mut self) {
        self.snapshots.held.lock().by_number.remove(&self.number);
    }
}
