//! Views: what a reader pins of one keyspace.

use crate::db::write_buffer::WriteBuffer;
use crate::version::Version;
use std::sync::Arc;

/// One keyspace at one moment.
#[derive(Clone)]
pub(crate) struct View {
    /// Takes writes.
    pub active: WriteBuffer,
    /// Waiting to be flushed, newest first.
    pub sealed: Vec<WriteBuffer>,
    pub version: Arc<Version>,
}

impl View {
    /// Returns all write buffers, newest first.
    pub fn buffers(&self) -> impl Iterator<Item = &WriteBuffer> {
        std::iter::once(&self.active).chain(&self.sealed)
    }

    /// Returns the write buffer with the oldest writes.
    pub fn oldest_buffer(&self) -> &WriteBuffer {
        self.sealed.last().unwrap_or(&self.active)
    }
}
