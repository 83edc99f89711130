//! The directory the demo works in, and who removes it.

use crate::failure::{Failure, Result, fail};
use crate::interrupt;
use std::path::{Path, PathBuf};

/// A directory for the store; a temporary one is removed when this goes out of scope, however that happens.
pub struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    /// A fresh directory among the system's temporary files.
    pub fn temporary(keep: bool) -> Result<Self> {
        let parent = std::env::temp_dir();
        for attempt in 0..1000 {
            let path = parent.join(format!("siltstone-demo-{}-{attempt}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => {
                    if !keep {
                        interrupt::removes(&path);
                    }
                    return Ok(Self { path, keep });
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Failure::at(&path, error)),
            }
        }
        fail!("{} is full of old demo directories; remove them or give --dir", parent.display());
    }

    /// `dir`, which must be empty or not exist, and is kept.
    pub fn in_empty(dir: &Path) -> Result<Self> {
        if let Ok(metadata) = std::fs::metadata(dir) {
            if !metadata.is_dir() {
                return Err(Failure::at(dir, "not a directory"));
            }
            let mut entries = std::fs::read_dir(dir).map_err(|e| Failure::at(dir, e))?;
            if entries.next().is_some() {
                return Err(Failure::at(dir, "not empty; give --dir an empty or a new directory"));
            }
        }
        Ok(Self { path: dir.to_owned(), keep: true })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it stays.
    pub fn is_kept(&self) -> bool {
        self.keep
    }

    /// Removes it and everything in it.
    pub fn remove(mut self) -> Result<()> {
        self.keep = true;
        std::fs::remove_dir_all(&self.path).map_err(|e| Failure::at(&self.path, e))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            // A failure is already on its way to the user.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
