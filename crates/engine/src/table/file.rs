//! Files of tables as those hold them who read them, and the trash for files that nobody holds any more.

use super::envelope::TableMeta;
use crate::ids::{FileId, TableId};
use crate::memory::MemoryBudget;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// The file of a table, which several values may stand for.
pub(crate) struct TableFile {
    id: TableId,
    pages: u32,
    /// Bytes of the index, for which there should be room.
    index_bytes: u64,
    obsolete: AtomicBool,
    trash: Arc<Trash>,
}

/// Files that nobody holds any more, waiting to be removed by background work.
#[derive(Debug)]
pub(crate) struct Trash {
    files: Mutex<Vec<(FileId, u32)>>,
    memory: Arc<MemoryBudget>,
}

impl Default for Trash {
    /// For tables that nobody reads.
    fn default() -> Self {
        Self::new(MemoryBudget::new(0))
    }
}

impl Trash {
    /// For tables whose indexes are kept within `memory`.
    pub fn new(memory: Arc<MemoryBudget>) -> Self {
        Self { files: Mutex::default(), memory }
    }

    /// Adds a file that nobody holds any more.
    pub fn put(&self, file: FileId, pages: u32) {
        self.files.lock().push((file, pages));
    }

    /// Takes what has gathered: files with their page counts.
    pub fn take(&self) -> Vec<(FileId, u32)> {
        std::mem::take(&mut self.files.lock())
    }
}

impl TableFile {
    /// The file of a table with this description.
    pub fn new(meta: &TableMeta, trash: Arc<Trash>) -> Self {
        let index_bytes = meta.index.length + meta.page_map.length;
        trash.memory.expect_index(index_bytes);
        Self { id: meta.id, pages: meta.pages, index_bytes, obsolete: AtomicBool::new(false), trash }
    }

    /// The file is to go once nobody reads it.
    pub fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        self.trash.memory.expect_index_no_more(self.index_bytes);
        if self.obsolete.load(Ordering::Acquire) {
            self.trash.put(FileId::Table(self.id), self.pages);
        }
    }
}
