//! A change of a keyspace's schema: what it leads to, how far it is, and how it ended.

use crate::error::Error;
use crate::sync::OnceLock;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::version::manifest::SchemaToCome;
use siltstone_design::{Design, Encoder, Schema};
use std::sync::Arc;

/// How a change ended.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// The keyspace has the schema.
    Done,
    /// Somebody has called it off.
    Cancelled,
    /// It can't be made, because of this.
    Impossible(Error),
}

/// A schema that a keyspace is to have, or has got.
pub(crate) struct SchemaChange {
    /// The schema before.
    pub from: Schema,
    /// What encodes keys by the schema to come.
    pub encoder: Encoder,
    pub design: Arc<Design>,
    /// Wall-clock milliseconds at which it was asked for.
    pub at_ms: u64,
    /// Bytes that there were to copy, and that are left, about.
    total_bytes: AtomicU64,
    remaining_bytes: AtomicU64,
    ended: OnceLock<Ended>,
}

impl SchemaChange {
    pub fn new(from: Schema, encoder: Encoder, design: Arc<Design>, at_ms: u64) -> Self {
        let (total_bytes, remaining_bytes, ended) = Default::default();
        Self { from, encoder, design, at_ms, total_bytes, remaining_bytes, ended }
    }

    /// Whether it is under way.
    pub fn is_open(&self) -> bool {
        self.ended.get().is_none()
    }

    /// Returns how it ended; none while it is under way.
    pub fn ended(&self) -> Option<&Ended> {
        self.ended.get()
    }

    /// Notes how it ended.
    pub fn end(&self, ended: Ended) {
        let _ = self.ended.set(ended);
    }

    /// Notes that `bytes` are to be copied.
    pub fn begin_copy(&self, bytes: u64) {
        self.total_bytes.store(bytes, Ordering::Relaxed);
        self.remaining_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Notes that `bytes` are left to copy.
    pub fn note_remaining(&self, bytes: u64) {
        self.remaining_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns about how many bytes there were to copy when the copy began, and how many are left.
    pub fn progress(&self) -> (u64, u64) {
        (self.total_bytes.load(Ordering::Relaxed), self.remaining_bytes.load(Ordering::Relaxed))
    }

    /// Describes it as the manifest does.
    pub fn to_come(&self) -> SchemaToCome {
        SchemaToCome { schema: *self.encoder.schema(), design: Arc::clone(&self.design), at_ms: self.at_ms }
    }
}
