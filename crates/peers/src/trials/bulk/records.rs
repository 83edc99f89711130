//! Files of items of one size.

use crate::failure::{Failure, Result};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

/// Bytes read or written at once, about.
const AT_ONCE: usize = 1 << 20;

/// Reads items from front to back.
pub struct Reader {
    file: File,
    key_bytes: usize,
    item_bytes: usize,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
}

impl Reader {
    /// Opens a file of items with keys and values of these sizes.
    pub fn open(path: &Path, sizes: (usize, usize)) -> Result<Self> {
        Self::with_buffer(path, sizes, AT_ONCE)
    }

    /// The same with a buffer of about so many bytes.
    pub fn with_buffer(path: &Path, (key_bytes, value_bytes): (usize, usize), bytes: usize) -> Result<Self> {
        let file = File::open(path).map_err(|e| Failure::at(path, e))?;
        let item_bytes = key_bytes + value_bytes;
        let buffer = vec![0; (bytes / item_bytes).max(1) * item_bytes];
        Ok(Self { file, key_bytes, item_bytes, buffer, at: 0, end: 0 })
    }

    /// Sizes of keys and values.
    pub fn sizes(&self) -> (usize, usize) {
        (self.key_bytes, self.item_bytes - self.key_bytes)
    }

    /// The next item.
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.at == self.end && !self.fill()? {
            return Ok(None);
        }
        let item = self.at..self.at + self.item_bytes;
        self.at = item.end;
        Ok(self.buffer.get(item).and_then(|item| item.split_at_checked(self.key_bytes)))
    }

    fn fill(&mut self) -> Result<bool> {
        (self.at, self.end) = (0, 0);
        while let Some(rest) = self.buffer.get_mut(self.end..).filter(|rest| !rest.is_empty()) {
            match self.file.read(rest)? {
                0 => break,
                bytes => self.end += bytes,
            }
        }
        if !self.end.is_multiple_of(self.item_bytes) {
            return Err(Failure::new("a file of items ends within one"));
        }
        Ok(self.end > 0)
    }
}

/// Writes items.
pub struct Writer {
    file: BufWriter<File>,
}

impl Writer {
    /// Creates the file.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|e| Failure::at(path, e))?;
        Ok(Self { file: BufWriter::with_capacity(AT_ONCE, file) })
    }

    /// Adds an item.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.file.write_all(key)?;
        Ok(self.file.write_all(value)?)
    }

    /// Writes what is left.
    pub fn finish(mut self) -> Result<()> {
        Ok(self.file.flush()?)
    }
}
