//! The directory of a store's sidecars: beside its tables, or one of their own below `Options::metadata_dir`,
//! which stores may share.
//!
//! Numbers of files and runs, and the hash secret, are the same in a store and in a copy of it, but mean
//! other things as soon as both go on. So that neither takes or removes a file of the other's, a store's
//! directory there has a name drawn at random, and the file SIDECARS says which, and for which store: a copy
//! finds that it lies elsewhere than SIDECARS says, and draws a name of its own. An opening for writing that
//! does not use the directory takes SIDECARS away, since it may be of an older copy put back, and then gives
//! numbers to runs that files there have for others.
//!
//! ```text
//! SIDECARS   "siltsidecars 1\n" + name of the directory, 16 hex digits + "\n"
//!            + hash of the absolute paths of store and `metadata_dir`, 16 hex digits + "\n"
//!            + CRC-32C of the three lines, 8 hex digits + "\n"
//! ```
//!
//! Earlier programs called the file CLUSTERS, with "siltclusters 1" as its first line. It is read where there
//! is no SIDECARS, and gives way to one.

use crate::error::{Error, Result};
use crate::filename::{OLD_SIDECARS, SIDECARS};
use crate::io::{Disk, read_file};
use siltstone_design::HashSecret;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const FIRST_LINE: &str = "siltsidecars 1";
const OLD_FIRST_LINE: &str = "siltclusters 1";
/// Every file that begins so is a SIDECARS, or an earlier program's CLUSTERS.
pub(crate) const MAGICS: [&[u8]; 2] = [b"siltsidecars", b"siltclusters"];

/// The directory of an opening's sidecars.
pub(crate) struct SidecarDirectory {
    /// Where they are.
    pub dir: PathBuf,
    record: Record,
}

/// What is to become of SIDECARS.
enum Record {
    Stays,
    Goes,
    Begins(String),
}

/// Reads SIDECARS: the directory's name, and the hash of the paths that it holds for.
pub(crate) fn parse(text: &str) -> Option<(&str, u64)> {
    let (lines, crc) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    let with_newline = text.get(..lines.len() + 1)?;
    let mut fields = lines.split('\n');
    let (first, name, paths) = (fields.next()?, fields.next()?, fields.next()?);
    let is_name = name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let sound = u32::from_str_radix(crc, 16).ok()? == crc32c::crc32c(with_newline.as_bytes());
    let paths = u64::from_str_radix(paths, 16).ok()?;
    ([FIRST_LINE, OLD_FIRST_LINE].contains(&first) && is_name && sound && fields.next().is_none())
        .then_some((name, paths))
}

impl SidecarDirectory {
    /// Returns what SIDECARS says to the store in `dir`; where it says nothing, files are beside the tables,
    /// or, for one who may write, in a directory yet to be made. Nothing is changed.
    pub fn find(
        disk: &dyn Disk,
        dir: &Path,
        metadata_dir: Option<&Path>,
        secret: &HashSecret,
        may_write: bool,
    ) -> Result<Self> {
        let beside = |record| Self { dir: dir.to_owned(), record };
        let (text, is_old) = match read_record(disk, &dir.join(SIDECARS))? {
            Some(text) => (Some(text), false),
            None => (read_record(disk, &dir.join(OLD_SIDECARS))?, true),
        };
        let Some(metadata_dir) = metadata_dir else {
            return Ok(beside(if text.is_some() { Record::Goes } else { Record::Stays }));
        };
        let paths = match (disk.canonical(dir), disk.canonical(metadata_dir)) {
            (Ok(dir), Ok(metadata_dir)) => hash_of(&dir, &metadata_dir, secret),
            (_, Err(error)) if !may_write && error.kind() == ErrorKind::NotFound => {
                return Ok(beside(Record::Stays));
            }
            (Err(error), _) => return Err(Error::io(&error, "finding", dir)),
            (_, Err(error)) => return Err(Error::io(&error, "finding", metadata_dir)),
        };
        let text = text.and_then(|text| String::from_utf8(text).ok()).unwrap_or_default();
        let name = match parse(&text).filter(|(_, of)| *of == paths) {
            Some((name, _)) if !is_old || !may_write => {
                return Ok(Self { dir: metadata_dir.join(name), record: Record::Stays });
            }
            Some((name, _)) => name.to_owned(),
            None if !may_write => return Ok(beside(Record::Stays)),
            None => format!("{:016x}", disk.random_u64()),
        };
        let lines = format!("{FIRST_LINE}\n{name}\n{paths:016x}\n");
        let text = format!("{lines}{:08x}\n", crc32c::crc32c(lines.as_bytes()));
        Ok(Self { dir: metadata_dir.join(name), record: Record::Begins(text) })
    }

    /// Makes it so on disk, for the store in `dir`.
    pub fn settle(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        let path = dir.join(SIDECARS);
        let fail = |error: std::io::Error| Error::io(&error, "writing", &path);
        if self.dir != dir {
            // Whoever wants its room back may have removed it.
            let fail = |error: std::io::Error| Error::io(&error, "creating directory", &self.dir);
            disk.create_dir_all(&self.dir).map_err(fail)?;
        }
        match &self.record {
            Record::Stays => return Ok(()),
            Record::Goes => remove_if_there(disk, &path)?,
            Record::Begins(text) => {
                let file = disk.create(&path).map_err(fail)?;
                file.write_all_at(text.as_bytes(), 0).map_err(fail)?;
                file.sync().map_err(fail)?;
            }
        }
        remove_if_there(disk, &dir.join(OLD_SIDECARS))?;
        disk.sync_dir(dir).map_err(fail)
    }
}

/// Returns the bytes of a file that may not be there.
fn read_record(disk: &dyn Disk, path: &Path) -> Result<Option<Vec<u8>>> {
    match read_file(disk, path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(&error, "reading", path)),
    }
}

/// Removes a file that may not be there.
fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io(&error, "removing", path)),
        _ => Ok(()),
    }
}

/// Of both paths, with the length of the first, so that no other pair is the same.
fn hash_of(dir: &Path, metadata_dir: &Path, secret: &HashSecret) -> u64 {
    let (dir, metadata_dir) =
        (dir.as_os_str().as_encoded_bytes(), metadata_dir.as_os_str().as_encoded_bytes());
    secret.hash64(&[&dir.len().to_le_bytes(), dir, metadata_dir].concat())
}
