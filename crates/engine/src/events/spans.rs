//! Events for the `tracing` crate: a span for every job, and an event with fields where one ends.

use super::{Event, EventListener, JobEnd, JobInfo, Part};
use crate::sync::Mutex;
use std::collections::HashMap;
use tracing::Span;

/// Passes events on to the `tracing` crate. With the feature `tracing` every store has one.
///
/// A job is a span `job` of target `siltstone` with what is known when it begins; at its end an event within
/// the span says what became of it, at level `INFO`, or at `WARN` where it failed. Stalls of writers are
/// events at `WARN`.
#[derive(Debug, Default)]
pub struct TracingListener {
    /// The spans of jobs under way, by job.
    spans: Mutex<HashMap<u64, Span>>,
}

fn bytes(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.bytes).sum()
}

fn begin(info: &JobInfo) -> Span {
    tracing::info_span!(
        target: "siltstone",
        "job",
        job = info.job,
        work = %info.work,
        keyspace = info.keyspace.as_deref(),
        place = info.place.as_ref().map(tracing::field::display),
        reason = info.reason.as_ref().map(tracing::field::display),
        bytes_in = bytes(&info.inputs),
    )
}

fn end(end: &JobEnd) {
    if let Some(error) = &end.error {
        tracing::warn!(
            target: "siltstone", job = end.info.job, work = %end.info.work, duration_us = end.duration_us, error, "{end}"
        );
        return;
    }
    tracing::info!(
        target: "siltstone",
        job = end.info.job,
        work = %end.info.work,
        duration_us = end.duration_us,
        bytes_read = end.bytes_read,
        bytes_written = end.bytes_written,
        entries_dropped = end.dropped.entries,
        "{end}"
    );
}

impl EventListener for TracingListener {
    fn on_event(&self, event: &Event) {
        match event {
            Event::JobBegan(info) => {
                let span = begin(info);
                self.spans.lock().insert(info.job, span);
            }
            Event::JobEnded(ended) => {
                let span = self.spans.lock().remove(&ended.info.job);
                span.unwrap_or_else(Span::none).in_scope(|| end(ended));
            }
            Event::WritersStalled(stall) => {
                tracing::warn!(target: "siltstone", duration_us = stall.duration_us, "{stall}");
            }
            Event::GroupHoldsMost(group) => tracing::warn!(target: "siltstone", "{group}"),
            Event::SchemaChangeEnded(_) => tracing::warn!(target: "siltstone", "{event}"),
            Event::RedesignProposed(_)
            | Event::RedesignBegan(_)
            | Event::RedesignSettled(_)
            | Event::SchemaChangeBegan(_)
            | Event::SchemaChanged(_) => {
                tracing::info!(target: "siltstone", "{event}");
            }
        }
    }
}
