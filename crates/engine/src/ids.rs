//! Numbers that name what a store is made of. All of one store come from one counter, so that none is given
//! twice.

use std::hash::{Hash, Hasher};

/// Number of a table.
pub(crate) type TableId = u64;

/// Number of a sidecar: a file of region filters.
pub(crate) type SidecarId = u64;

/// Number of a run; larger is not always newer.
pub(crate) type RunId = u64;

/// Sidecars have smaller numbers than this.
const SIDECAR_MARK: u64 = 1 << 63;

/// A file with pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileId {
    Table(TableId),
    Sidecar(SidecarId),
}

impl FileId {
    /// Returns the number that tells the file from all others of its store, in one word. The checksums of its
    /// pages cover it, and it never changes what it is.
    #[inline]
    pub fn key(self) -> u64 {
        match self {
            Self::Table(id) => id,
            Self::Sidecar(id) => id | SIDECAR_MARK,
        }
    }

    /// Returns the sidecar of this number; `None` where numbers do not go so far.
    pub fn sidecar(id: SidecarId) -> Option<Self> {
        (id < SIDECAR_MARK).then_some(Self::Sidecar(id))
    }
}

impl Hash for FileId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.key());
    }
}

impl From<TableId> for FileId {
    #[inline]
    fn from(id: TableId) -> Self {
        Self::Table(id)
    }
}
