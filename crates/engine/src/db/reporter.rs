//! The reporter: numbers jobs, times them, and tells listeners of them. Where nobody listens, nothing is
//! described.

use crate::error::Error;
use crate::event_log::EventLog;
use crate::events::{Dropped, Event, EventListener, JobEnd, JobInfo, LargeGroup, Part, Stall, StallCause};
use crate::io::Disk;
use crate::options::Options;
use crate::stats::Stopwatch;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// Tells the listeners of a store what it does.
pub(crate) struct Reporter {
    listeners: Vec<Heard>,
    next_job: AtomicU64,
}

/// A listener, and whether it is still called.
struct Heard {
    listener: Arc<dyn EventListener>,
    has_panicked: AtomicBool,
}

/// A job under way that listeners know of.
pub(crate) struct Reported {
    info: JobInfo,
    clock: Stopwatch,
}

/// What became of a job that went well.
#[derive(Default)]
pub(crate) struct Outcome {
    pub outputs: Vec<Part>,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub dropped: Dropped,
    pub filtered_runs: u64,
    /// What is wrong with what it found, if anything is.
    pub problem: Option<String>,
}

impl Reporter {
    /// Makes the reporter of a store in `dir`; one that is read-only does no jobs and keeps no log of them.
    pub fn new(options: &Options, disk: &Arc<dyn Disk>, dir: &Path, is_read_only: bool) -> Self {
        let mut listeners: Vec<Arc<dyn EventListener>> = options.listeners.iter().cloned().collect();
        if !is_read_only && options.event_log_bytes > 0 {
            listeners.push(Arc::new(EventLog::new(Arc::clone(disk), dir, options.event_log_bytes)));
        }
        #[cfg(feature = "tracing")]
        listeners.push(Arc::new(crate::events::TracingListener::default()));
        let heard = |listener| Heard { listener, has_panicked: AtomicBool::new(false) };
        Self { listeners: listeners.into_iter().map(heard).collect(), next_job: AtomicU64::new(1) }
    }

    fn is_heard(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Says that the job that `describe` describes begins. The caller holds no lock that readers or writers
    /// need.
    fn begin(&self, describe: impl FnOnce() -> JobInfo) -> Option<Reported> {
        if !self.is_heard() {
            return None;
        }
        let info = JobInfo { job: self.next_job.fetch_add(1, Ordering::Relaxed), ..describe() };
        self.tell(&Event::JobBegan(info.clone()));
        Some(Reported { info, clock: Stopwatch::start() })
    }

    /// Says how a job ended. The caller holds no lock that readers or writers need.
    fn end(&self, job: Option<Reported>, ended: Result<Outcome, &Error>) {
        let Some(Reported { info, clock }) = job else { return };
        let duration_us = clock.elapsed_us();
        let (outcome, failure) = match ended {
            Ok(outcome) => (outcome, None),
            Err(error) => (Outcome::default(), Some(error.to_string())),
        };
        let Outcome { outputs, bytes_read, bytes_written, dropped, filtered_runs, problem } = outcome;
        self.tell(&Event::JobEnded(JobEnd {
            info,
            outputs,
            bytes_read,
            bytes_written,
            duration_us,
            dropped,
            filtered_runs,
            error: failure.or(problem),
        }));
    }

    /// Runs `work` as a job that `describe` describes, and lets `explain` say of its result what became of
    /// it.
    pub fn job<T>(
        &self,
        describe: impl FnOnce() -> JobInfo,
        work: impl FnOnce() -> Result<T, Error>,
        explain: impl FnOnce(&mut T) -> Outcome,
    ) -> Result<T, Error> {
        let job = self.begin(describe);
        let mut result = work();
        if job.is_some() {
            self.end(job, result.as_mut().map(explain).map_err(|error| &*error));
        }
        result
    }

    /// Says that writers were stopped for so many microseconds. The caller leads no writers.
    pub fn stalled(&self, duration_us: u64, cause: StallCause) {
        if self.is_heard() {
            self.tell(&Event::WritersStalled(Stall::new(duration_us, cause)));
        }
    }

    /// Says that a group holds most of a keyspace.
    pub fn group_holds_most(&self, group: impl FnOnce() -> Option<LargeGroup>) {
        if self.is_heard()
            && let Some(group) = group()
        {
            self.tell(&Event::GroupHoldsMost(group));
        }
    }

    /// Says what becomes of a keyspace's design.
    pub fn design(&self, event: impl FnOnce() -> Event) {
        if self.is_heard() {
            self.tell(&event());
        }
    }

    fn tell(&self, event: &Event) {
        for heard in &self.listeners {
            if heard.has_panicked.load(Ordering::Relaxed) {
                continue;
            }
            // Whatever state a panic leaves the listener in, it is not asked again.
            if catch_unwind(AssertUnwindSafe(|| heard.listener.on_event(event))).is_err() {
                heard.has_panicked.store(true, Ordering::Relaxed);
            }
        }
    }
}
