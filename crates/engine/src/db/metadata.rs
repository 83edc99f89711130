//! Where a store's cluster files are: beside its tables, or in a directory of their own below `Options::metadata_dir`, which
//! stores may share.
//!
//! Numbers of files and runs, and the hash secret, are the same in a store and in a copy of it, but mean other things as soon as
//! both go on. So that neither takes or removes a file of the other's, a store's directory there has a name drawn at random, and
//! the file CLUSTERS says which, and for which store: a copy finds that it lies elsewhere than CLUSTERS says, and draws a name of
//! its own. An opening for writing that does not use the directory takes CLUSTERS away, since it may be of an older copy put back,
//! and then gives numbers to runs that files there have for others.
//!
//! ```text
//! CLUSTERS   "siltclusters 1\n" + name of the directory, 16 hex digits + "\n" + hash of the absolute paths of store and
//!            `metadata_dir`, 16 hex digits + "\n" + CRC-32C of the three lines, 8 hex digits + "\n"
//! ```

use crate::error::{Error, Result};
use crate::io::{Disk, random_u64, read_file};
use siltstone_design::HashSecret;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Name of the file that names the directory of clusters.
pub(crate) const CLUSTERS: &str = "CLUSTERS";
const FIRST_LINE: &str = "siltclusters 1";
/// Every file that begins so is a CLUSTERS.
pub(crate) const MAGIC: &[u8] = b"siltclusters";

/// The directory of an opening's cluster files.
pub(super) struct Metadata {
    /// Where they are.
    pub dir: PathBuf,
    record: Record,
}

/// What is to become of CLUSTERS.
enum Record {
    Stays,
    Goes,
    Begins(String),
}

/// Reads CLUSTERS: the directory's name, and the hash of the paths that it holds for.
pub(crate) fn parse(text: &str) -> Option<(&str, u64)> {
    let (lines, crc) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    let with_newline = text.get(..lines.len() + 1)?;
    let mut fields = lines.split('\n');
    let (first, name, paths) = (fields.next()?, fields.next()?, fields.next()?);
    let is_name = name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let sound = u32::from_str_radix(crc, 16).ok()? == crc32c::crc32c(with_newline.as_bytes());
    let paths = u64::from_str_radix(paths, 16).ok()?;
    (first == FIRST_LINE && is_name && sound && fields.next().is_none()).then_some((name, paths))
}

impl Metadata {
    /// What CLUSTERS says to the store in `dir`; where it says nothing, files are beside the tables, or, for one who may write, in a
    /// directory yet to be made. Nothing is changed.
    pub fn find(
        disk: &dyn Disk,
        dir: &Path,
        metadata_dir: Option<&Path>,
        secret: &HashSecret,
        may_write: bool,
    ) -> Result<Self> {
        let beside = |record| Self { dir: dir.to_owned(), record };
        let path = dir.join(CLUSTERS);
        let text = match read_file(disk, &path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io(&error, "reading", &path)),
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
        Ok(match parse(&text).filter(|(_, of)| *of == paths) {
            Some((name, _)) => Self { dir: metadata_dir.join(name), record: Record::Stays },
            None if !may_write => beside(Record::Stays),
            None => {
                let name = format!("{:016x}", random_u64());
                let lines = format!("{FIRST_LINE}\n{name}\n{paths:016x}\n");
                let text = format!("{lines}{:08x}\n", crc32c::crc32c(lines.as_bytes()));
                Self { dir: metadata_dir.join(name), record: Record::Begins(text) }
            }
        })
    }

    /// Makes it so on disk, for the store in `dir`.
    pub fn settle(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        let path = dir.join(CLUSTERS);
        let fail = |error: std::io::Error| Error::io(&error, "writing", &path);
        if self.dir != dir {
            // Whoever wants its room back may have removed it.
            let fail = |error: std::io::Error| Error::io(&error, "creating directory", &self.dir);
            disk.create_dir_all(&self.dir).map_err(fail)?;
        }
        match &self.record {
            Record::Stays => return Ok(()),
            Record::Goes => disk.remove(&path).map_err(fail)?,
            Record::Begins(text) => {
                let file = disk.create(&path).map_err(fail)?;
                file.write_all_at(text.as_bytes(), 0).map_err(fail)?;
                file.sync().map_err(fail)?;
            }
        }
        disk.sync_dir(dir).map_err(fail)
    }
}

/// Of both paths, with the length of the first, so that no other pair is the same.
fn hash_of(dir: &Path, metadata_dir: &Path, secret: &HashSecret) -> u64 {
    let (dir, metadata_dir) =
        (dir.as_os_str().as_encoded_bytes(), metadata_dir.as_os_str().as_encoded_bytes());
    secret.hash64(&[&dir.len().to_le_bytes(), dir, metadata_dir].concat())
}
