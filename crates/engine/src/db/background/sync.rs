//! The syncer: makes buffered writes survive a power cut, every so often.

use super::{IDLE, Scheduler};
use crate::stats::Stopwatch;
use std::time::Duration;

impl Scheduler {
    /// Syncs the log every `sync_interval_ms`, and leaves word of it in the log when nothing else follows.
    pub(super) fn sync_regularly(&self) {
        let interval = Duration::from_millis(self.env.options.sync_interval_ms);
        let health = &self.env.health;
        while !health.is_over() {
            // Being woken for other work does no harm: syncing early is no mistake, but don't spin.
            let slept = Stopwatch::start();
            while slept.elapsed() < interval && !health.is_closed() {
                let left = interval.saturating_sub(slept.elapsed());
                self.env.signals.wait_for_work(left.min(IDLE));
            }
            let log = &self.catalog.log;
            if log.is_synced() {
                continue;
            }
            let result = log.sync().map(|()| false);
            log.mark_synced();
            if health.space_is_low() {
                self.env.check_space();
            }
            self.note_outcome(&result);
        }
    }
}
