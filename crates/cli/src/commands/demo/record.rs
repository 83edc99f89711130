//! A file's metadata as the demo stores it: SlimDB's own example of semi-sorted data (VLDB'17 §2, §6.2).
//!
//! ```text
//! key:    device u64 BE │ inode of the parent directory u64 BE │ name
//!         └───────────── prefix, 16 bytes ─────────────┘
//! value:  kind u8 │ mode u32 │ uid u32 │ gid u32 │ nlink u64 │ size u64 │ mtime seconds i64 │ mtime ns u32 │
//!         device u64 │ inode u64 │ symlink target bytes u32                                  (little-endian)
//! ```
//! SlimDB's prefix is the parent's inode alone. A tree may span file systems that number their inodes alike,
//! so ours has the device in front.

use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Length of the prefix in bytes.
pub const PREFIX_BYTES: u16 = 16;
/// Length of an encoded record in bytes.
const RECORD_BYTES: usize = 61;

/// Which directory: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DirectoryId {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

impl DirectoryId {
    /// The directory that `metadata` describes.
    pub fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    /// The prefix that the keys of its entries share.
    pub fn prefix(self) -> [u8; PREFIX_BYTES as usize] {
        let mut prefix = [0; PREFIX_BYTES as usize];
        let (device, inode) = prefix.split_at_mut(8);
        device.copy_from_slice(&self.device.to_be_bytes());
        inode.copy_from_slice(&self.inode.to_be_bytes());
        prefix
    }

    /// The key of the entry `name`.
    pub fn key(self, name: &[u8]) -> Vec<u8> {
        [&self.prefix(), name].concat()
    }
}

/// One entry's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    kind: u8,
    mode: u32,
    uid: u32,
    gid: u32,
    links: u64,
    size: u64,
    modified_seconds: i64,
    modified_nanoseconds: u32,
    device: u64,
    inode: u64,
    target_bytes: u32,
}

impl Record {
    /// The record of the file at `path` with this metadata, which was not read through a symbolic link.
    pub fn of(path: &Path, metadata: &Metadata) -> std::io::Result<Self> {
        let kind = metadata.file_type();
        let target_bytes = if kind.is_symlink() {
            u32::try_from(std::fs::read_link(path)?.as_os_str().as_bytes().len()).unwrap_or(u32::MAX)
        } else {
            0
        };
        Ok(Self {
            kind: match () {
                () if kind.is_file() => b'f',
                () if kind.is_dir() => b'd',
                () if kind.is_symlink() => b'l',
                () => b'o',
            },
            mode: metadata.mode(),
            uid: metadata.uid(),
            gid: metadata.gid(),
            links: metadata.nlink(),
            size: metadata.size(),
            modified_seconds: metadata.mtime(),
            modified_nanoseconds: u32::try_from(metadata.mtime_nsec()).unwrap_or(0),
            device: metadata.dev(),
            inode: metadata.ino(),
            target_bytes,
        })
    }

    /// The record as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(RECORD_BYTES);
        bytes.push(self.kind);
        bytes.extend_from_slice(&self.mode.to_le_bytes());
        bytes.extend_from_slice(&self.uid.to_le_bytes());
        bytes.extend_from_slice(&self.gid.to_le_bytes());
        bytes.extend_from_slice(&self.links.to_le_bytes());
        bytes.extend_from_slice(&self.size.to_le_bytes());
        bytes.extend_from_slice(&self.modified_seconds.to_le_bytes());
        bytes.extend_from_slice(&self.modified_nanoseconds.to_le_bytes());
        bytes.extend_from_slice(&self.device.to_le_bytes());
        bytes.extend_from_slice(&self.inode.to_le_bytes());
        bytes.extend_from_slice(&self.target_bytes.to_le_bytes());
        bytes
    }

    /// The record in `bytes`; `None` if that is none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let record = Self {
            kind: u8::from_le_bytes(take(&mut rest)?),
            mode: u32::from_le_bytes(take(&mut rest)?),
            uid: u32::from_le_bytes(take(&mut rest)?),
            gid: u32::from_le_bytes(take(&mut rest)?),
            links: u64::from_le_bytes(take(&mut rest)?),
            size: u64::from_le_bytes(take(&mut rest)?),
            modified_seconds: i64::from_le_bytes(take(&mut rest)?),
            modified_nanoseconds: u32::from_le_bytes(take(&mut rest)?),
            device: u64::from_le_bytes(take(&mut rest)?),
            inode: u64::from_le_bytes(take(&mut rest)?),
            target_bytes: u32::from_le_bytes(take(&mut rest)?),
        };
        rest.is_empty().then_some(record)
    }

    /// The names of the fields in which `self` and `other` differ.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let fields = [
            ("kind", self.kind == other.kind),
            ("mode", self.mode == other.mode),
            ("uid", self.uid == other.uid),
            ("gid", self.gid == other.gid),
            ("links", self.links == other.links),
            ("size", self.size == other.size),
            ("modified", self.modified_seconds == other.modified_seconds),
            ("modified ns", self.modified_nanoseconds == other.modified_nanoseconds),
            ("device", self.device == other.device),
            ("inode", self.inode == other.inode),
            ("target length", self.target_bytes == other.target_bytes),
        ];
        fields.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip_and_name_their_differences() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("link");
        std::os::unix::fs::symlink("some/target", &path).unwrap();
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        let record = Record::of(&path, &metadata).unwrap();
        assert_eq!((record.kind, record.target_bytes), (b'l', 11));
        let bytes = record.encode();
        assert_eq!(bytes.len(), RECORD_BYTES);
        assert_eq!(Record::decode(&bytes), Some(record.clone()));
        assert_eq!(Record::decode(&bytes[1..]), None);
        assert_eq!(Record::decode(&[&bytes[..], b"x"].concat()), None);
        let other = Record { size: 99, uid: record.uid + 1, ..record.clone() };
        assert_eq!(record.differences(&other), ["uid", "size"]);
        assert!(record.differences(&record).is_empty());
    }

    #[test]
    fn directories_of_different_devices_have_different_prefixes() {
        let (a, b) = (DirectoryId { device: 1, inode: 2 }, DirectoryId { device: 2, inode: 2 });
        assert_ne!(a.prefix(), b.prefix());
        assert_eq!(a.key(b"name"), b"\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02name");
    }
}
