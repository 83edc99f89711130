//! Limits on background work: how fast it writes, how long it keeps a processor to itself, and how many
//! compactions of a keyspace are under way at once.
//!
//! Source: Lim et al., "SILT" (SOSP 2011), §6.1, which converts at most 10 K and merges at most 20 K entries
//! a second so that lookups keep the device, and §3.3, which merges one partition at a time so that little is
//! there twice. Where we differ, and why: limits are in bytes, and each is lifted while writers would be
//! slowed because of it, so that a burst of inserts costs lookups, as without a limit, but no insert waits
//! for a limit.

use crate::stats::Stopwatch;
use crate::sync::Mutex;
use std::time::Duration;

/// How long a pause is at most before it is looked whether the limit still holds.
const LOOK: Duration = Duration::from_millis(20);

/// One kind of work's limit.
pub(crate) struct RateLimit {
    bytes_per_second: u64,
    clock: Stopwatch,
    /// When what was written so far would be written at the limit.
    due: Mutex<Duration>,
}

impl RateLimit {
    /// A limit of so many bytes per second; 0 is none.
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, clock: Stopwatch::start(), due: Mutex::default() }
    }

    /// Notes `bytes` as written and pauses until as many may have been, or until `is_lifted`; `wait` waits
    /// for as long as it is told, or until that may have changed. First it lets a writer or reader run that
    /// waits for this processor, instead of keeping it for a time slice.
    pub fn hold_back(&self, bytes: u64, is_lifted: impl Fn() -> bool, wait: impl Fn(Duration)) {
        crate::sync::thread::yield_now();
        if self.bytes_per_second == 0 {
            return;
        }
        let cost = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        let due = {
            let mut due = self.due.lock();
            *due = (*due).max(self.clock.elapsed()) + cost;
            *due
        };
        loop {
            let left = due.saturating_sub(self.clock.elapsed());
            if left.is_zero() {
                return;
            }
            if is_lifted() {
                // What is written in haste is not owed later.
                let mut due = self.due.lock();
                *due = (*due).min(self.clock.elapsed());
                return;
            }
            wait(left.min(LOOK));
        }
    }
}
