//! The store's clock: the system's, but for two things.
//!
//! *It never goes back.* What has expired stays expired: where the system's clock is set back, this one goes
//! on from where it was, at half the speed, until the other has caught up. So a time to live lasts at most
//! twice as long as asked for, and an error of years, set right, does not stop expiry for years. How far it
//! came is noted in the manifest, before anything that has expired is dropped from tables; see
//! [`Catalog`](super::catalog::Catalog).
//!
//! *It is seldom read.* Where threads work for the store they read it every second or so, and so does every
//! group of writes; what it said last is kept. A value whose time comes much later is live without another
//! look, and one whose time had come by then is gone. Only in between the system is asked, so that answers
//! are the same as if it always were.

use crate::io::Disk;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// For how long what it said last may be old, where threads read it every second.
const FRESH_MS: u64 = 5_000;

/// The clock of an open store.
pub(crate) struct StoreClock {
    disk: Arc<dyn Disk>,
    /// What it said last.
    latest_ms: AtomicU64,
    /// The system's clock when that was last found to be behind; `None` while it is not.
    behind_at_ms: Mutex<Option<u64>>,
    is_ahead: AtomicBool,
    /// Whether threads read it every second.
    is_ticking: bool,
    /// Whether anything in the store expires, as far as is known.
    is_used: AtomicBool,
    /// What the manifest says.
    noted_ms: AtomicU64,
}

impl StoreClock {
    /// The clock of a store whose manifest says that it came to `noted_ms`.
    pub fn new(disk: Arc<dyn Disk>, noted_ms: u64, is_ticking: bool) -> Self {
        let (behind_at_ms, is_ahead) = Default::default();
        let (latest_ms, noted) = (AtomicU64::new(noted_ms), AtomicU64::new(noted_ms));
        let is_used = AtomicBool::new(noted_ms > 0);
        let clock = Self { disk, latest_ms, behind_at_ms, is_ahead, is_ticking, is_used, noted_ms: noted };
        clock.now_ms();
        clock
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        let system_ms = self.disk.now_ms();
        let latest_ms = self.latest_ms.load(Ordering::Relaxed);
        if system_ms < latest_ms {
            return self.creep(system_ms);
        }
        if self.is_ahead.swap(false, Ordering::Relaxed) {
            *self.behind_at_ms.lock() = None;
        }
        self.latest_ms.fetch_max(system_ms, Ordering::Relaxed).max(system_ms)
    }

    /// Goes on while the system's clock, which says `system_ms`, is behind.
    #[cold]
    fn creep(&self, system_ms: u64) -> u64 {
        let mut behind_at_ms = self.behind_at_ms.lock();
        self.is_ahead.store(true, Ordering::Relaxed);
        let before = behind_at_ms.unwrap_or(system_ms);
        let passed = system_ms.saturating_sub(before);
        // A millisecond that is left over counts the next time, and one that was set back further does not.
        *behind_at_ms = Some(if system_ms < before { system_ms } else { system_ms - passed % 2 });
        self.latest_ms.fetch_add(passed / 2, Ordering::Relaxed) + passed / 2
    }

    /// Whether what expires at `at_ms` is gone.
    #[inline]
    pub fn has_passed(&self, at_ms: u64) -> bool {
        self.note_use();
        let latest_ms = self.latest_ms.load(Ordering::Relaxed);
        if at_ms <= latest_ms {
            return true;
        }
        if self.is_ticking && at_ms - latest_ms > FRESH_MS {
            return false;
        }
        at_ms <= self.now_ms()
    }

    /// Notes that something in the store expires.
    pub fn note_use(&self) {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// What the manifest should say by now; `None` where it does, or nothing expires.
    pub fn to_note(&self) -> Option<u64> {
        let is_used = self.is_used.load(Ordering::Relaxed);
        let now_ms = if is_used { self.now_ms() } else { 0 };
        (now_ms > self.noted_ms.load(Ordering::Relaxed)).then_some(now_ms)
    }

    /// Whether the manifest is more than `ms` behind.
    pub fn is_late(&self, ms: u64) -> bool {
        let noted_ms = self.noted_ms.load(Ordering::Relaxed);
        self.to_note().is_some_and(|now_ms| now_ms - noted_ms > ms)
    }

    /// Notes that the manifest says `noted_ms`.
    pub fn noted(&self, noted_ms: u64) {
        self.noted_ms.fetch_max(noted_ms, Ordering::Relaxed);
    }

    /// What the manifest says, for one that is written afresh.
    pub fn noted_or_now(&self) -> u64 {
        self.to_note().unwrap_or_else(|| self.noted_ms.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::sim::SimDisk;

    fn clock(noted_ms: u64, is_ticking: bool) -> (SimDisk, StoreClock) {
        let disk = SimDisk::new();
        disk.set_now_ms(1_000_000);
        let clock = StoreClock::new(Arc::new(disk.clone()), noted_ms, is_ticking);
        (disk, clock)
    }

    #[test]
    fn it_never_goes_back_and_is_caught_up_with() {
        let (disk, clock) = clock(0, false);
        assert_eq!(clock.now_ms(), 1_000_000);
        disk.set_now_ms(990_000);
        assert_eq!(clock.now_ms(), 1_000_000, "what has expired stays so");
        for (passed, now) in
            [(1, 1_000_000), (1, 1_000_001), (3, 1_000_002), (1, 1_000_003), (4_000, 1_002_003)]
        {
            disk.advance_ms(passed);
            assert_eq!(clock.now_ms(), now, "half as fast");
        }
        disk.set_now_ms(900_000);
        assert_eq!(clock.now_ms(), 1_002_003, "back once more");
        disk.advance_ms(1_000);
        assert_eq!(clock.now_ms(), 1_002_503);
        disk.set_now_ms(1_500_000);
        assert_eq!(clock.now_ms(), 1_500_000);
        // What was behind before has no say when it is behind again.
        disk.set_now_ms(1_400_000);
        assert_eq!(clock.now_ms(), 1_500_000);
    }

    #[test]
    fn it_goes_on_from_what_was_noted() {
        let (disk, clock) = clock(1_060_000, false);
        assert_eq!(clock.now_ms(), 1_060_000);
        disk.advance_ms(20_000);
        assert_eq!(clock.now_ms(), 1_070_000);
        disk.advance_ms(60_000);
        assert_eq!(clock.now_ms(), 1_080_000, "the two have met");
        disk.advance_ms(10);
        assert_eq!(clock.now_ms(), 1_080_010);
    }

    #[test]
    fn what_expires_much_later_is_told_without_asking_the_system() {
        let (disk, clock) = clock(0, true);
        disk.set_now_ms(1_100_000);
        assert!(!clock.has_passed(1_050_000), "nobody has read it for minutes");
        assert!(!clock.has_passed(1_200_000));
        assert!(clock.has_passed(1_000_000 + FRESH_MS), "soon enough to be asked");
        assert!(clock.has_passed(1_050_000), "now it knows");
    }

    #[test]
    fn the_manifest_is_told_where_something_expires() {
        let (disk, clock) = clock(0, false);
        assert_eq!(clock.to_note(), None);
        clock.note_use();
        assert_eq!(clock.to_note(), Some(1_000_000));
        clock.noted(1_000_000);
        assert_eq!((clock.to_note(), clock.noted_or_now()), (None, 1_000_000));
        disk.advance_ms(60_000);
        assert!(clock.is_late(59_000) && !clock.is_late(60_000));
    }
}
