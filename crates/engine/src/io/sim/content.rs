//! The bytes of one simulated file, in shared chunks, so that keeping an older version costs next to nothing.
//!
//! Cloning a [`Content`] copies one pointer. The first write after that copies the list of chunk pointers and
//! the chunks it touches; a chunk never written is not stored and reads as zeros.
//!
//! Invariants: the list holds exactly the chunks that cover `len`, and every stored byte at or after `len` is
//! zero.

use std::mem;
use std::sync::Arc;

/// Small enough that a write after a snapshot copies little, large enough that the pointers stay few.
const CHUNK_BYTES: usize = 4096;

type Chunk = [u8; CHUNK_BYTES];

/// A file's bytes; missing chunks are zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    chunks: Arc<Vec<Option<Arc<Chunk>>>>,
    len: u64,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `buf` from `offset`, with zeros where the file has ended.
    pub(super) fn read(&self, offset: u64, mut buf: &mut [u8]) {
        let mut at = offset;
        while !buf.is_empty() {
            let (index, start) = locate(at);
            let step = buf.len().min(CHUNK_BYTES - start);
            let (now, rest) = mem::take(&mut buf).split_at_mut(step);
            let stored = self.chunks.get(index).and_then(Option::as_ref);
            match stored.and_then(|chunk| chunk.get(start..start + step)) {
                Some(bytes) => now.copy_from_slice(bytes),
                None => now.fill(0),
            }
            buf = rest;
            at += step as u64;
        }
    }

    /// Writes `bytes` at `offset`, extending the file with zeros where needed.
    pub(super) fn write(&mut self, offset: u64, mut bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.set_len(self.len.max(offset + bytes.len() as u64));
        let chunks = Arc::make_mut(&mut self.chunks);
        let mut at = offset;
        while !bytes.is_empty() {
            let (index, start) = locate(at);
            let step = bytes.len().min(CHUNK_BYTES - start);
            let (now, rest) = bytes.split_at(step);
            if let Some(chunk) = chunks.get_mut(index) {
                let chunk = Arc::make_mut(chunk.get_or_insert_with(|| Arc::new([0; CHUNK_BYTES])));
                if let Some(to) = chunk.get_mut(start..start + step) {
                    to.copy_from_slice(now);
                }
            }
            bytes = rest;
            at += step as u64;
        }
    }

    /// Cuts or zero-extends to `len` bytes.
    pub(super) fn set_len(&mut self, len: u64) {
        if len == self.len {
            return;
        }
        let chunks = Arc::make_mut(&mut self.chunks);
        chunks.resize(len.div_ceil(CHUNK_BYTES as u64) as usize, None);
        let (index, start) = locate(len);
        if len < self.len
            && let Some(Some(chunk)) = chunks.get_mut(index)
            && let Some(cut) = Arc::make_mut(chunk).get_mut(start..)
        {
            cut.fill(0);
        }
        self.len = len;
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len as usize];
        self.read(0, &mut bytes);
        bytes
    }
}

/// The chunk that holds the byte at `offset`, and the byte's place in it.
fn locate(offset: u64) -> (usize, usize) {
    ((offset / CHUNK_BYTES as u64) as usize, (offset % CHUNK_BYTES as u64) as usize)
}
