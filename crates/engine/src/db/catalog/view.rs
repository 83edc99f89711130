//! Views: what a reader pins of one keyspace.

use crate::db::write_buffer::WriteBuffer;
use crate::events::Reason;
use crate::version::Version;
use std::sync::Arc;

/// One keyspace at one moment.
#[derive(Clone)]
pub(crate) struct View {
    /// Takes writes.
    pub active: WriteBuffer,
    /// Waiting to be flushed, newest first.
    pub sealed: Vec<SealedBuffer>,
    pub version: Arc<Version>,
    /// How many bulk builds have put items below the write buffers, which can't tell what of these is newer
    /// than a read.
    pub builds: u64,
}

/// Where the tables of an edit come from.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// A write buffer, which is in them now.
    Buffer(&'a WriteBuffer),
    /// A bulk build.
    Build,
    /// Other tables, if there are any.
    Tables,
}

/// A write buffer that takes no more writes.
#[derive(Clone)]
pub(crate) struct SealedBuffer {
    pub buffer: WriteBuffer,
    /// Why it was sealed.
    pub reason: Reason,
}

impl View {
    /// Returns all write buffers, newest first.
    pub fn buffers(&self) -> impl Iterator<Item = &WriteBuffer> {
        std::iter::once(&self.active).chain(self.sealed.iter().map(|sealed| &sealed.buffer))
    }

    /// Returns the write buffer with the oldest writes.
    pub fn oldest_buffer(&self) -> &WriteBuffer {
        self.sealed.last().map_or(&self.active, |sealed| &sealed.buffer)
    }
}
