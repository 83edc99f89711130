//! Redis' database files (RDB), read record by record: no more of one is in memory than a value.
//!
//! Values of types that this server has not are passed over. The checksum at the end is compared where the
//! file has one. Versions 1 to 13 are read, which is all up to Redis 8.

use super::{NEWEST, Restored, Source, count, crc64_from, number, other, string, value};
use crate::failure::{Failure, Outcome};
use std::io::Read;

/// What stands in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of its database.
    pub database: usize,
    /// The key.
    pub key: Vec<u8>,
    /// When it is gone, in milliseconds since 1970; 0 = never.
    pub expires_at: u64,
    /// What it holds.
    pub value: Restored,
}

/// A file, read from the front.
pub struct File<R> {
    input: Input<R>,
    version: u32,
    database: usize,
    /// Libraries of functions, and what modules keep beside keys: left out.
    pub passed_over: u64,
}

struct Input<R> {
    from: R,
    crc: u64,
    read: u64,
    bytes: u64,
    failure: Option<std::io::Error>,
}

impl<R: Read> Source for Input<R> {
    fn take_owned(&mut self, length: usize) -> Option<Vec<u8>> {
        if length > self.left() {
            return None;
        }
        let mut bytes = vec![0; length];
        if let Err(error) = self.from.read_exact(&mut bytes) {
            self.failure = Some(error);
            return None;
        }
        self.crc = crc64_from(self.crc, &bytes);
        self.read += length as u64;
        Some(bytes)
    }

    fn left(&self) -> usize {
        usize::try_from(self.bytes - self.read).unwrap_or(usize::MAX)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        if N > self.left() {
            return None;
        }
        if let Err(error) = self.from.read_exact(&mut bytes) {
            self.failure = Some(error);
            return None;
        }
        self.crc = crc64_from(self.crc, &bytes);
        self.read += N as u64;
        Some(bytes)
    }
}

impl<R: Read> File<R> {
    /// Begins to read a file of `bytes` bytes.
    ///
    /// # Errors
    /// Where it is no such file, or of a later version.
    pub fn open(from: R, bytes: u64) -> Outcome<Self> {
        let mut input = Input { from, crc: 0, read: 0, bytes, failure: None };
        let begin: Option<[u8; 9]> = input.array();
        let version = begin.and_then(|begin| {
            let digits = begin.strip_prefix(b"REDIS")?;
            std::str::from_utf8(digits).ok()?.parse::<u32>().ok()
        });
        let version =
            version.ok_or_else(|| Failure::new("this is no file of Redis: it does not begin with REDIS"))?;
        if version == 0 || version > u32::from(NEWEST) {
            return Err(Failure::new(format!(
                "version {version} of Redis' files is not known; up to {NEWEST} are read"
            )));
        }
        Ok(Self { input, version, database: 0, passed_over: 0 })
    }

    /// Bytes that have been read.
    pub fn read(&self) -> u64 {
        self.input.read
    }

    /// The next record; none at the end.
    ///
    /// # Errors
    /// Where the file is damaged, or can't be read.
    pub fn next_record(&mut self) -> Outcome<Option<Record>> {
        let began = self.input.read;
        match self.record() {
            Some(record) => record,
            None => Err(match self.input.failure.take() {
                Some(error) => Failure::new(error),
                None => Failure::new(format!(
                    "the file is damaged, or was cut off, in what begins at byte {began}"
                )),
            }),
        }
    }

    fn record(&mut self) -> Option<Outcome<Option<Record>>> {
        let (from, mut expires_at) = (&mut self.input, 0);
        loop {
            let [kind] = from.array()?;
            match kind {
                255 => return Some(end(from, self.version)),
                254 => self.database = number(from)?,
                253 => expires_at = u64::from(u32::from_le_bytes(from.array()?)) * 1_000,
                252 => expires_at = u64::from_le_bytes(from.array()?),
                251 => drop((number(from)?, number(from)?)),
                250 => drop((string(from)?, string(from)?)),
                249 => drop(from.array::<1>()?),
                248 => drop(number(from)?),
                247 => {
                    pass_module(from)?;
                    self.passed_over += 1;
                }
                245 => {
                    string(from)?;
                    self.passed_over += 1;
                }
                244 => drop((number(from)?, number(from)?, number(from)?)),
                _ => {
                    let key = string(from)?;
                    let value = match other(kind) {
                        Some(name) => {
                            pass(kind, from)?;
                            Restored::Other(name)
                        }
                        None => value(kind, from)?,
                    };
                    return Some(Ok(Some(Record { database: self.database, key, expires_at, value })));
                }
            }
        }
    }
}

/// Compares the checksum behind the last record.
fn end<R: Read>(from: &mut Input<R>, version: u32) -> Outcome<Option<Record>> {
    let crc = from.crc;
    if version < 5 {
        return Ok(None);
    }
    match from.array().map(u64::from_le_bytes) {
        // Without `rdbchecksum` there are zeros.
        Some(0) => Ok(None),
        Some(written) if written == crc => Ok(None),
        Some(_) => Err(Failure::new("the file's checksum is wrong: it is damaged")),
        None => Err(Failure::new("the file is cut off before its checksum")),
    }
}

/// Passes over a value of a type that this server has not.
fn pass(kind: u8, from: &mut impl Source) -> Option<()> {
    match kind {
        // Lists: of strings, of ziplists; a list of listpacks, each with its kind before it.
        1 | 14 => (0..count(from)?).try_for_each(|_| string(from).map(drop)),
        18 => (0..count(from)?).try_for_each(|_| {
            number(from)?;
            string(from).map(drop)
        }),
        // Sorted sets: scores as text, or as eight bytes.
        3 => (0..count(from)?).try_for_each(|_| {
            string(from)?;
            let [length] = from.array()?;
            if length < 253 { from.take_owned(usize::from(length)).map(drop) } else { Some(()) }
        }),
        5 => (0..count(from)?).try_for_each(|_| {
            string(from)?;
            from.array::<8>().map(drop)
        }),
        10 | 12 | 17 => string(from).map(drop),
        15 | 19 | 21 => pass_stream(kind, from),
        7 => pass_module(from),
        _ => None,
    }
}

/// Passes over a stream: its entries, its counters, its groups with their consumers.
fn pass_stream(kind: u8, from: &mut impl Source) -> Option<()> {
    let numbers = |from: &mut _, count: usize| (0..count).try_for_each(|_| number(from).map(drop));
    (0..count(from)?).try_for_each(|_| {
        string(from)?;
        string(from).map(drop)
    })?;
    numbers(from, if kind >= 19 { 8 } else { 3 })?;
    (0..count(from)?).try_for_each(|_| {
        string(from)?;
        numbers(from, if kind >= 19 { 3 } else { 2 })?;
        (0..count(from)?).try_for_each(|_| {
            from.array::<24>()?;
            number(from).map(drop)
        })?;
        (0..count(from)?).try_for_each(|_| {
            string(from)?;
            from.take_owned(if kind >= 21 { 16 } else { 8 })?;
            (0..count(from)?).try_for_each(|_| from.array::<16>().map(drop))
        })
    })
}

/// Passes over what a module has written: values, each with its kind before it.
fn pass_module(from: &mut impl Source) -> Option<()> {
    number(from)?;
    loop {
        match number(from)? {
            0 => return Some(()),
            1 | 2 => drop(number(from)?),
            3 => drop(from.array::<4>()?),
            4 => drop(from.array::<8>()?),
            5 => drop(string(from)?),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Kind;

    fn all(bytes: &[u8]) -> Outcome<Vec<Record>> {
        let mut file = File::open(bytes, bytes.len() as u64)?;
        std::iter::from_fn(|| file.next_record().transpose()).collect()
    }

    /// A file of version 9 with a checksum.
    fn file(records: &[u8]) -> Vec<u8> {
        let mut bytes = [b"REDIS0009\xfa\x03ver\x057.0.0", records, b"\xff"].concat();
        bytes.extend_from_slice(&crc64_from(0, &bytes).to_le_bytes());
        bytes
    }

    #[test]
    fn records_are_read_and_other_types_passed_over() {
        let mut records = b"\xfe\x00\xfb\x03\x01\x00\x01a\x01v".to_vec();
        records.extend_from_slice(b"\xfc");
        records.extend_from_slice(&1_234u64.to_le_bytes());
        records.extend_from_slice(b"\x04\x01h\x01\x01f\xc0\x07");
        records.extend_from_slice(b"\x01\x01l\x02\x01x\x01y\x05\x01z\x01\x01m12345678");
        records.extend_from_slice(b"\xfe\x03\x02\x01s\x01\x01m");
        let bytes = file(&records);
        let found = all(&bytes).unwrap();
        let names: Vec<&[u8]> = found.iter().map(|record| record.key.as_slice()).collect();
        assert_eq!(names, [b"a", b"h", b"l", b"z", b"s"]);
        let hash = Restored::Collection(Kind::Hash, vec![(b"f".to_vec(), b"7".to_vec(), 0)]);
        assert_eq!((found[1].expires_at, &found[1].value), (1_234, &hash));
        assert_eq!((&found[2].value, &found[3].value), (&Restored::Other("list"), &Restored::Other("zset")));
        assert_eq!((found[2].expires_at, found[4].database), (0, 3));
        for at in 9..bytes.len() {
            assert!(all(&bytes[..at]).is_err(), "cut off at {at}");
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(all(&damaged).is_err(), "damaged at {at}");
        }
        assert!(all(b"REDIS0099\xff").is_err() && all(b"SQLite format 3").is_err());
    }
}
