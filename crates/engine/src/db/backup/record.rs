//! What is written down of one backup: which files it consists of.
//!
//! ```text
//! record   "siltstone backup 1\n" · one line of JSON · CRC-32C of both lines, 8 hex digits · "\n"
//! ```
//!
//! Names of files say what is in them: a table's number and a hash of its bytes. So a name never comes to
//! mean something else, and a file that several backups need is there once.
//!
//! Nor does a backup's number: before the newest backup is deleted, an empty file `00000003.last` says that
//! its number has been given.

use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::io::{Disk, read_file};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The directory of the files that backups consist of.
pub(super) const FILES: &str = "files";
const RECORD: &str = ".backup";
const LAST: &str = ".last";
/// What a file is called until it is whole.
pub(super) const NEW: &str = ".new";
const FIRST_LINE: &str = "siltstone backup 1";

/// A file of bytes that never change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Stored {
    /// The table's number, or the backup's whose manifest it is.
    pub number: u64,
    pub bytes: u64,
    /// Hash of the bytes, in hexadecimal.
    pub hash: String,
}

impl Stored {
    /// Names the file of a table.
    pub fn table(&self) -> String {
        format!("{:08}-{}.table", self.number, self.hash)
    }

    /// Names the file of a manifest.
    pub fn manifest(&self) -> String {
        format!("{:08}-{}.manifest", self.number, self.hash)
    }
}

/// What is written down of a backup.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub number: u64,
    /// Drawn for this backup; the store keeps it as well.
    pub token: String,
    pub made_at_ms: u64,
    pub keyspaces: Vec<String>,
    /// Tables of the store: those numbers will always mean these bytes.
    pub tables: Vec<Stored>,
    /// Tables made for this backup of what was in write buffers.
    pub buffers: Vec<Stored>,
    pub manifest: Stored,
}

impl Record {
    /// Names the file that the record is in.
    pub fn name(&self) -> String {
        format!("{:08}-{}{RECORD}", self.number, self.token.get(..8).unwrap_or("0"))
    }

    /// Returns the names of all files that the backup consists of, with their sizes.
    pub fn files(&self) -> impl Iterator<Item = (String, &Stored)> {
        let tables = self.tables.iter().chain(&self.buffers).map(|stored| (stored.table(), stored));
        tables.chain([(self.manifest.manifest(), &self.manifest)])
    }

    /// Returns the bytes of all of its files.
    pub fn bytes(&self) -> u64 {
        self.files().map(|(_, stored)| stored.bytes).sum()
    }

    pub fn encode(&self) -> Result<Vec<u8>> {
        let json = serde_json::to_string(self);
        let json = json.map_err(|error| Error::because(crate::error::ErrorKind::InvalidInput, error))?;
        let lines = format!("{FIRST_LINE}\n{json}\n");
        let crc = crc32c::crc32c(lines.as_bytes());
        Ok(format!("{lines}{crc:08x}\n").into_bytes())
    }

    /// Decodes a record; `None` where the bytes are none, or not whole.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (lines, crc) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let with_newline = text.get(..lines.len() + 1)?;
        let (first, json) = lines.split_once('\n')?;
        let sound = first == FIRST_LINE
            && u32::from_str_radix(crc, 16).ok()? == crc32c::crc32c(with_newline.as_bytes());
        serde_json::from_str(json).ok().filter(|_| sound)
    }
}

/// The number in the name of a record.
fn number_of(name: &str) -> Option<u64> {
    name.strip_suffix(RECORD)?.split_once('-')?.0.parse().ok()
}

/// Names the file that says that `number` and those below it have been given.
pub(super) fn last_name(number: u64) -> String {
    format!("{number:08}{LAST}")
}

/// The number that such a file says.
pub(super) fn last_number(name: &str) -> Option<u64> {
    name.strip_suffix(LAST)?.parse().ok()
}

/// Whether a directory of backups may hold something of this name.
pub(super) fn is_ours(name: &str) -> bool {
    name == FILES
        || name == crate::filename::LOCK
        || last_number(name).is_some()
        || number_of(name.strip_suffix(NEW).unwrap_or(name)).is_some()
}

/// The records of a directory.
#[derive(Default)]
pub(super) struct Records {
    /// Those that can be read, oldest first.
    pub good: Vec<Record>,
    /// Those that can't, with their numbers.
    pub damaged: Vec<(u64, PathBuf)>,
    /// The largest number that was ever given.
    pub last: u64,
}

impl Records {
    /// Reads the records in `dir`.
    pub fn read(disk: &dyn Disk, dir: &Path) -> Result<Self> {
        let names = disk.list(dir).map_err(|e| Error::io(&e, "listing", dir))?;
        let mut records = Self::default();
        for name in names {
            records.last = records.last.max(last_number(&name).unwrap_or(0));
            let Some(number) = number_of(&name) else { continue };
            records.last = records.last.max(number);
            let path = dir.join(&name);
            let bytes = read_file(disk, &path).map_err(|e| Error::io(&e, "reading", &path))?;
            match Record::decode(&bytes).filter(|record| record.number == number && record.name() == name) {
                Some(record) => records.good.push(record),
                None => records.damaged.push((number, path)),
            }
        }
        records.good.sort_by_key(|record| record.number);
        Ok(records)
    }

    /// Returns backup `number`.
    pub fn get(&self, number: u64, dir: &Path) -> Result<&Record> {
        let there_is_none = || {
            let numbers: Vec<_> = self.good.iter().map(|record| record.number.to_string()).collect();
            Error::invalid(format_args!(
                "there is no backup {number} in {}; there are: {}",
                dir.display(),
                if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") }
            ))
        };
        self.good.iter().find(|record| record.number == number).ok_or_else(there_is_none)
    }

    /// Returns the table `number`, of `bytes` bytes, that the backup with `token` has.
    pub fn known(&self, token: &str, number: TableId, bytes: u64) -> Option<&Stored> {
        let record = self.good.iter().rev().find(|record| record.token == token)?;
        let found = record.tables.binary_search_by_key(&number, |stored| stored.number).ok()?;
        record.tables.get(found).filter(|stored| stored.bytes == bytes)
    }
}
