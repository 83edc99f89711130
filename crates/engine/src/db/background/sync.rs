//! The syncer: makes buffered writes survive a power cut, every so often.

use super::{IDLE, Scheduler};
use crate::db::health::Chore;
use crate::db::reporter::Outcome;
use crate::error::Result;
use crate::events::{JobInfo, Reason, Work};
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
            let signals = &self.env.signals;
            let mut seen = signals.seen();
            while slept.elapsed() < interval && !health.is_closed() {
                let left = interval.saturating_sub(slept.elapsed());
                signals.wait_for_work(seen, left.min(IDLE));
                seen = signals.seen();
            }
            self.env.now_ms();
            self.sync_if_due();
        }
    }

    /// Syncs the log if any of it is not.
    pub(super) fn sync_if_due(&self) {
        let log = &self.catalog.log;
        if log.is_synced() {
            return;
        }
        let result = self.sync_log().map(|()| false);
        log.mark_synced();
        self.catalog.note_synced_segment();
        if self.env.health.space_is_low() {
            self.catalog.check_space();
        }
        self.note_outcome(Chore::Sync, &result);
    }

    fn sync_log(&self) -> Result<()> {
        let log = &self.catalog.log;
        let reason = Reason::Interval { ms: self.env.options.sync_interval_ms };
        let describe = || JobInfo::new(Work::SyncLog).because(reason);
        let before = log.synced_lsn();
        let explain = |(): &mut ()| {
            let bytes_written = log.synced_lsn().saturating_sub(before);
            Outcome { bytes_written, ..Outcome::default() }
        };
        self.reporter.job(describe, || log.sync(), explain)
    }
}
