//! What users are told of backups, and what they may choose.

use super::record::Record;
use serde::Serialize;

/// How a backup is made or restored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackupOptions {
    /// Share files with the store by hard links where the file system allows it, which takes no space. What
    /// damages such a file on the device damages both; without links a backup is a copy.
    pub hard_links: bool,
}

impl Default for BackupOptions {
    fn default() -> Self {
        Self { hard_links: true }
    }
}

impl BackupOptions {
    /// Makes copies of all files, which share nothing with the store.
    ///
    /// ```
    /// assert!(!siltstone::BackupOptions::copies().hard_links);
    /// ```
    #[must_use]
    pub fn copies() -> Self {
        Self { hard_links: false }
    }
}

/// How far a backup, or what is done with one, has come.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct BackupProgress {
    /// Bytes of tables that are done.
    pub bytes_done: u64,
    /// Bytes of all tables.
    pub bytes_total: u64,
    /// Bytes of files that were not there before.
    pub bytes_added: u64,
}

/// A backup.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct BackupInfo {
    /// Its number; later ones have larger ones.
    pub number: u64,
    /// When it was made, in milliseconds since the Unix epoch.
    pub made_at_ms: u64,
    /// Names of the keyspaces in it, sorted by when they were created.
    pub keyspaces: Vec<String>,
    /// Files that it consists of, which other backups may share.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Bytes that were brought into the directory for it; 0 in lists.
    pub bytes_added: u64,
}

impl BackupInfo {
    pub(super) fn of(record: &Record) -> Self {
        Self {
            number: record.number,
            made_at_ms: record.made_at_ms,
            keyspaces: record.keyspaces.clone(),
            files: record.files().count() as u64,
            bytes: record.bytes(),
            bytes_added: 0,
        }
    }
}

/// What a verification of backups found.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct BackupReport {
    /// Backups whose records can be read.
    pub backups: u64,
    /// Files read.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// What is damaged or missing, a sentence each; empty where all backups are sound.
    pub problems: Vec<String>,
    /// Backups that can't be restored because of it.
    pub damaged: Vec<u64>,
}
