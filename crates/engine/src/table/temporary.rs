//! Files of tables that nothing durable relies on.

use crate::io::File;
use std::io;
use std::sync::Arc;

/// A file that is gone before a power cut could matter to it, so that syncing it does nothing.
#[derive(Debug)]
pub(super) struct TemporaryFile(pub Arc<dyn File>);

impl File for TemporaryFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }
}
