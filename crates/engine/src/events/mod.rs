//! Events: what background work a store does and why, what it read and wrote, and what it saved.
//!
//! A store tells its [`Listeners`] of every job when it begins and when it ends, and of every stall of
//! writers when it is over. The end of a job carries all that its beginning did.
//! [`Display`](std::fmt::Display) puts an event into one line.
//!
//! Source: Pebble's `event.go`. Where we differ, and why: an event is one type with one method for all kinds,
//! so that a listener which only writes lines need not know them, and every job says why it ran.
//!
//! ```
//! # fn main() -> siltstone::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! use siltstone::events::{Event, Listeners};
//! use siltstone::{Db, KeyspaceOptions, Options};
//! use std::sync::{Arc, Mutex};
//!
//! let lines = Arc::new(Mutex::new(Vec::new()));
//! let sink = Arc::clone(&lines);
//! let listener = move |event: &Event| sink.lock().unwrap().push(event.to_string());
//! let listeners = Listeners::default().with(Arc::new(listener));
//! let db = Db::open(dir.path().join("db"), Options { listeners, ..Options::default() })?;
//! db.create_keyspace("users", KeyspaceOptions::default())?.put(b"ann", b"1")?;
//! db.flush()?;
//! db.close()?;
//! let lines = lines.lock().unwrap();
//! assert_eq!(lines[0], "[JOB 1] flush \"users\": 1 entry 4 B begins; because the user asked for it");
//! assert!(lines[1].starts_with("[JOB 1] flush \"users\": 1 entry 4 B -> L0 1 run"), "{lines:?}");
//! # Ok(())
//! # }
//! ```

mod job;
#[cfg(feature = "tracing")]
mod spans;
mod words;

pub use job::{Dropped, JobEnd, JobInfo, Part, Place, Reason, Work};
pub use siltstone_design::Reason as RegionReason;
#[cfg(feature = "tracing")]
pub use spans::TracingListener;
pub(crate) use words::Time;

use crate::filename;
use serde::{Deserialize, Serialize};
use siltstone_design::{Design, Schema};
use std::fmt;
use std::sync::Arc;

/// Is told what a store does.
///
/// The thread that did the work calls it, after the work's locks are let go: neither readers nor writers wait
/// for a listener, but the next job of that thread does. A listener may read: `get`, `multi_get`, scans,
/// snapshots and `stats` are allowed. It must not write, flush, wait for the store, step or close it, since
/// that may wait for the very thread that calls.
///
/// A listener that panics is not called again; the store goes on.
pub trait EventListener: Send + Sync {
    /// Takes note of `event`.
    fn on_event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> EventListener for F {
    fn on_event(&self, event: &Event) {
        self(event);
    }
}

/// Who is told what a store does; see [`Options::listeners`](crate::Options::listeners).
#[derive(Clone, Default)]
pub struct Listeners(Vec<Arc<dyn EventListener>>);

impl Listeners {
    /// Adds a listener.
    ///
    /// ```
    /// use siltstone::events::{Event, Listeners};
    /// use std::sync::Arc;
    ///
    /// let listeners = Listeners::default().with(Arc::new(|event: &Event| eprintln!("{event}")));
    /// assert_eq!(listeners.iter().count(), 1);
    /// ```
    #[must_use]
    pub fn with(mut self, listener: Arc<dyn EventListener>) -> Self {
        self.0.push(listener);
        self
    }

    /// Returns the listeners in the order in which they are told.
    ///
    /// ```
    /// assert_eq!(siltstone::events::Listeners::default().iter().count(), 0);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn EventListener>> {
        self.0.iter()
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listeners({})", self.0.len())
    }
}

/// Something that happened in a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A job began.
    JobBegan(JobInfo),
    /// A job ended, well or not.
    JobEnded(JobEnd),
    /// Writers were stopped until background work had caught up.
    WritersStalled(Stall),
    /// More than half of a keyspace is one group, so that its prefixes divide nothing: told once, when it is
    /// first seen in tables of 1 MiB or more.
    GroupHoldsMost(LargeGroup),
    /// Another design would suit a keyspace's workload better, and the change would pay: told each time that
    /// it is due.
    RedesignProposed(DesignEvent),
    /// A keyspace got another design; tables of before are rewritten from now on.
    RedesignBegan(DesignEvent),
    /// Nothing is left of the designs before.
    RedesignSettled(DesignEvent),
    /// A keyspace is to have another schema: all that it holds is being copied.
    SchemaChangeBegan(SchemaEvent),
    /// A keyspace has another schema.
    SchemaChanged(SchemaEvent),
    /// A keyspace keeps its schema after all.
    SchemaChangeEnded(SchemaEvent),
}

/// A change of a keyspace's schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SchemaEvent {
    /// Name of the keyspace.
    pub keyspace: String,
    /// The schema before.
    pub from: Schema,
    /// The schema to come.
    pub to: Schema,
    /// Why it ended without that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl SchemaEvent {
    pub(crate) fn new(keyspace: &str, from: &Schema, to: &Schema, error: Option<String>) -> Self {
        Self { keyspace: keyspace.to_owned(), from: *from, to: *to, error }
    }
}

/// A change of a keyspace's design.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DesignEvent {
    /// The keyspace.
    pub keyspace: String,
    /// Name of the design before: of a preset, or `custom`.
    pub from: String,
    /// Name of the other one.
    pub to: String,
    /// The share of an operation's time that it is predicted to save, where that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_share: Option<f64>,
}

impl DesignEvent {
    pub(crate) fn new(keyspace: &str, from: &Design, to: &Design, saved_share: Option<f64>) -> Self {
        let [from, to] = [from, to].map(Design::preset_name);
        Self { keyspace: keyspace.to_owned(), from, to, saved_share }
    }
}

/// A group that holds most of its keyspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LargeGroup {
    /// The keyspace.
    pub keyspace: String,
    /// Its schema, as people write it.
    pub schema: String,
    /// The prefix of the group, as text.
    pub prefix: String,
    /// Bytes of tables that the group has, about.
    pub bytes: u64,
    /// Bytes of all tables of the keyspace.
    pub of_bytes: u64,
}

/// A stall of writers, which is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stall {
    /// How long writers waited, in microseconds.
    pub duration_us: u64,
    /// What they waited for when they stopped.
    pub cause: StallCause,
}

impl Stall {
    pub(crate) fn new(duration_us: u64, cause: StallCause) -> Self {
        Self { duration_us, cause }
    }
}

/// What stalled writers wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "because", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StallCause {
    /// A flush: a keyspace has as many sealed write buffers as it may.
    SealedBuffers {
        /// The keyspace.
        keyspace: String,
        /// Its sealed write buffers.
        sealed: u64,
    },
    /// A flush: all write buffers together take more than their share of memory.
    Memory {
        /// Bytes that they take.
        bytes: u64,
        /// Bytes that they may take.
        at_most: u64,
    },
}

/// The file of a store's event log that is written to. Where it has half of its bound it becomes
/// [`EVENTS_OLD`].
pub const EVENTS: &str = filename::EVENTS;
/// The file of a store's event log that was written to before [`EVENTS`].
pub const EVENTS_OLD: &str = filename::EVENTS_OLD;

/// An event of an event log, with its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoggedEvent {
    /// Wall-clock milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

impl LoggedEvent {
    pub(crate) fn new(at_ms: u64, event: Event) -> Self {
        Self { at_ms, event }
    }

    /// Reads a line of an event log; `None` where it is none, as where a crash cut it short.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::events::{EVENTS, LoggedEvent};
    /// use siltstone::{Db, KeyspaceOptions, Options};
    ///
    /// let options = Options { event_log_bytes: 1 << 20, ..Options::default() };
    /// let db = Db::open(dir.path().join("db"), options)?;
    /// db.keyspace("items", KeyspaceOptions::default())?.put("a", "1")?;
    /// db.flush()?;
    /// let text = std::fs::read_to_string(db.path().join(EVENTS)).unwrap();
    /// assert!(text.lines().any(|line| LoggedEvent::parse(line).is_some()));
    /// assert!(LoggedEvent::parse("{\"at_ms\": 17").is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}
