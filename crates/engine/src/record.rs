//! Framed, checksummed log records; the write-ahead log and the manifest share them.
//!
//! ```text
//! log      ┌──────────────┬────────────────────┬────────┬────────┬─────┐
//!          │ header 512 B │ header again 512 B │ record │ record │ ... │
//!          └──────────────┴────────────────────┴────────┴────────┴─────┘
//! header   ┌─────────┬─────────────┬────────────┬───────────┬─────────────────────┬─────────┬──────────────┐
//!          │ magic 8 │ version u32 │ number u64 │ epoch u64 │ first position u64  │ crc u32 │ zeros to 512 │
//!          └─────────┴─────────────┴────────────┴───────────┴─────────────────────┴─────────┴──────────────┘
//! record   ┌─────────────┬────────┬──────────────┬────────────┬─────────┐
//!          │ payload crc │ length │ synced delta │ header crc │ payload │
//!          │ u32         │ u32    │ u32          │ u32        │ length  │
//!          └─────────────┴────────┴──────────────┴────────────┴─────────┘
//! ```
//!
//! Numbers are little-endian, checksums CRC-32C. The header checksum is salted with the log's random epoch
//! and the record's own position, so bytes of an earlier life of a recycled file, or a copy of a log stored
//! as a value, never pass for a record. The log's header stands twice, in two sectors, so that one damaged
//! byte can't hide a log.
//!
//! **A torn tail is told from damage.** `synced delta` says how far behind this record the log was known to
//! be synced when it was written (`u32::MAX`: not known). Replay stops at the first bad record. If any later
//! record proves that the bad one had been synced, it was damaged, and that is an error; otherwise it was a
//! write that a power cut may legally lose or tear. LevelDB and LSM-trie can't make this distinction: the
//! former guesses, the latter has no log.
//!
//! **The log says how far the manifest is synced**, in records of their own ([`ManifestEnd`]): the manifest
//! is only appended to when tables change, so nothing in itself would prove its last edits.
//!
//! Invariant: a record is accepted only if every record before it is.

use crate::codec::Decoder;
use crate::error::{Error, Result};
use crc32c::crc32c;
use siltstone_succinct::code::varint;
use std::path::Path;

/// Bytes of a record before its payload.
pub(crate) const HEADER_BYTES: usize = 16;
/// Bytes that a header's checksum covers: epoch, position, and the header before it.
const HEADER_CRC_BYTES: usize = 28;
/// Longest payload.
pub(crate) const MAX_PAYLOAD_BYTES: usize = u32::MAX as usize - 64;

const VERSION: u32 = 1;
const SECTOR_BYTES: usize = 512;
/// Bytes of a log file before its first record.
pub(crate) const LOG_HEADER_BYTES: u64 = 2 * SECTOR_BYTES as u64;

const UNKNOWN_DELTA: u32 = u32::MAX;

/// The identity that salts a log's header checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(pub u64);

/// What a log file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogHeader {
    pub number: u64,
    pub epoch: Epoch,
    /// Position of the first record.
    pub first_lsn: u64,
}

impl LogHeader {
    /// Both copies of the header.
    pub fn encode(&self, magic: &[u8; 8]) -> Vec<u8> {
        let mut sector = Vec::with_capacity(SECTOR_BYTES);
        sector.extend_from_slice(magic);
        sector.extend_from_slice(&VERSION.to_le_bytes());
        for number in [self.number, self.epoch.0, self.first_lsn] {
            sector.extend_from_slice(&number.to_le_bytes());
        }
        let crc = crc32c(&sector);
        sector.extend_from_slice(&crc.to_le_bytes());
        sector.resize(SECTOR_BYTES, 0);
        sector.repeat(2)
    }

    /// Decodes the header of the log at `path` from either of its copies; `None` where neither is sound.
    ///
    /// # Errors
    /// `InvalidInput` where a sound header has a format version that this program does not read.
    pub fn decode(magic: &[u8; 8], log: &[u8], path: &Path) -> Result<Option<Self>> {
        let sound = log.chunks(SECTOR_BYTES).take(2).find_map(|sector| {
            let mut from = Decoder::new(sector);
            let (found, version) = (from.take(8)?, from.u32()?);
            let header = Self { number: from.u64()?, epoch: Epoch(from.u64()?), first_lsn: from.u64()? };
            let crc = crc32c(sector.get(..36)?);
            (found == magic && from.u32()? == crc).then_some((version, header))
        });
        match sound {
            Some((version, _)) if version != VERSION => Err(Error::invalid(format_args!(
                "{} has log format version {version}, and this program reads version {VERSION}; use the program that wrote it",
                path.display()
            ))
            .at(path)),
            sound => Ok(sound.map(|(_, header)| header)),
        }
    }
}

/// Where in the log the unflushed writes begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogStart {
    /// Segment number.
    pub segment: u64,
    /// LSN at which that segment starts.
    pub lsn: u64,
}

/// The first byte of a record of the write-ahead log that holds no batch but a [`ManifestEnd`].
const MANIFEST_END: u8 = 32;

/// The first byte of a record of the write-ahead log that holds no batch but a [`Replaced`].
const REPLACED: u8 = 33;

/// Says that a keyspace gets contents that do not stand in the log: for those who follow it. It is synced
/// before they come, so where a crash was between the two it may say what never happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replaced {
    /// Number of the keyspace.
    pub keyspace: u64,
}

impl Replaced {
    /// The payload of the record.
    pub fn encode(self) -> Vec<u8> {
        let mut out = vec![REPLACED];
        varint::put_u64(&mut out, self.keyspace);
        out
    }

    /// Decodes a record's payload; `None` where it is no such record.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let mut from = Decoder::new(payload);
        let (kind, keyspace) = (from.u8()?, from.varint()?);
        (kind == REPLACED && from.is_empty()).then_some(Self { keyspace })
    }
}

/// Whether a record of the write-ahead log holds operations, and is no mark or note.
pub(crate) fn is_batch(payload: &[u8]) -> bool {
    !matches!(payload.first(), None | Some(&MANIFEST_END | &REPLACED))
}

/// How far which manifest is synced, as the write-ahead log notes it after each of its syncs. The note needs
/// no sync of its own: whatever of it survives is true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ManifestEnd {
    /// Number of the manifest that CURRENT names.
    pub number: u64,
    /// Position up to which it is synced.
    pub position: u64,
}

impl ManifestEnd {
    /// The payload of the note.
    pub fn encode(self) -> Vec<u8> {
        let mut out = vec![MANIFEST_END];
        [self.number, self.position].into_iter().for_each(|number| varint::put_u64(&mut out, number));
        out
    }

    /// Decodes a record's payload; `None` where it is no such note.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let mut from = Decoder::new(payload);
        let kind = from.u8()?;
        let end = Self { number: from.varint()?, position: from.varint()? };
        (kind == MANIFEST_END && from.is_empty()).then_some(end)
    }
}

fn header_crc(epoch: Epoch, position: u64, fields: &[u8; 12]) -> u32 {
    // One call: three would take longer than the bytes do.
    let mut bytes = [0; HEADER_CRC_BYTES];
    let (numbers, rest) = bytes.split_at_mut(16);
    let numbers = numbers.as_chunks_mut::<8>().0;
    for (place, number) in numbers.iter_mut().zip([epoch.0, position]) {
        *place = number.to_le_bytes();
    }
    rest.iter_mut().zip(fields).for_each(|(place, field)| *place = *field);
    crc32c(&bytes)
}

/// Appends one record that will stand at `position`, in a log synced up to `synced`.
pub(crate) fn append(out: &mut Vec<u8>, epoch: Epoch, position: u64, synced: u64, payload: &[u8]) {
    append_with_crc(out, epoch, position, synced, payload, crc32c(payload));
}

/// As [`append`], with the payload's checksum already computed.
pub(crate) fn append_with_crc(
    out: &mut Vec<u8>,
    epoch: Epoch,
    position: u64,
    synced: u64,
    payload: &[u8],
    payload_crc: u32,
) {
    out.reserve(HEADER_BYTES + payload.len());
    append_header(out, epoch, position, synced, payload.len(), payload_crc);
    out.extend_from_slice(payload);
}

/// Appends what stands before the payload of such a record, which has so many bytes.
pub(crate) fn append_header(
    out: &mut Vec<u8>,
    epoch: Epoch,
    position: u64,
    synced: u64,
    payload_bytes: usize,
    payload_crc: u32,
) {
    let delta = u32::try_from(position.saturating_sub(synced)).unwrap_or(UNKNOWN_DELTA);
    let mut fields = [0u8; 12];
    for (chunk, number) in fields.chunks_exact_mut(4).zip([payload_crc, payload_bytes as u32, delta]) {
        chunk.copy_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&fields);
    out.extend_from_slice(&header_crc(epoch, position, &fields).to_le_bytes());
}

/// How a log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Position after the last good record.
    pub position: u64,
    /// Furthest position that any later record proves to have been synced; beyond `position` means damage.
    pub proven_synced: u64,
}

/// Reads the records of one log, or one segment of it, held in memory.
pub(crate) struct LogReader<'a> {
    bytes: &'a [u8],
    /// Position of `bytes[0]`.
    start: u64,
    at: usize,
    epoch: Epoch,
    proven_synced: u64,
}

struct Header {
    payload_crc: u32,
    length: usize,
    /// How far the log was synced, if the record says so.
    synced: Option<u64>,
}

impl<'a> LogReader<'a> {
    /// A reader of `bytes`, the first of which stands at position `start`.
    pub fn new(bytes: &'a [u8], start: u64, epoch: Epoch) -> Self {
        Self { bytes, start, at: 0, epoch, proven_synced: 0 }
    }

    fn header(&self, at: usize) -> Option<Header> {
        let header = self.bytes.get(at..)?.first_chunk::<HEADER_BYTES>()?;
        let (fields, crc) = (header.first_chunk::<12>()?, header.last_chunk::<4>()?);
        let position = self.start + at as u64;
        if header_crc(self.epoch, position, fields) != u32::from_le_bytes(*crc) {
            return None;
        }
        let number = |i: usize| {
            fields.get(i * 4..).and_then(|f| f.first_chunk::<4>()).map_or(0, |b| u32::from_le_bytes(*b))
        };
        let delta = number(2);
        let synced = (delta != UNKNOWN_DELTA).then(|| position.saturating_sub(u64::from(delta)));
        Some(Header { payload_crc: number(0), length: number(1) as usize, synced })
    }

    /// The length that a header at `at` would give.
    fn length_at(&self, at: usize) -> Option<usize> {
        let bytes = self.bytes.get(at + 4..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*bytes) as usize)
    }

    fn payload(&self, at: usize, header: &Header) -> Option<&'a [u8]> {
        let from = at + HEADER_BYTES;
        let payload = self.bytes.get(from..from.checked_add(header.length)?)?;
        (crc32c(payload) == header.payload_crc).then_some(payload)
    }

    /// The next good record's payload with its position; `None` at the end of the good prefix.
    pub fn next_record(&mut self) -> Option<(u64, &'a [u8])> {
        let header = self.header(self.at)?;
        let payload = self.payload(self.at, &header)?;
        let position = self.start + self.at as u64;
        self.at += HEADER_BYTES + payload.len();
        self.proven_synced = self.proven_synced.max(header.synced.unwrap_or(0));
        Some((position, payload))
    }

    /// Furthest position that a record read so far proves to have been synced.
    pub fn proven_synced(&self) -> u64 {
        self.proven_synced
    }

    /// How many zeros begin at `at`. They are what a file has where nothing was written; each would pass for
    /// an empty record with a chance of one in 2^32, and one of those in 64 MiB with one in 64.
    fn zeros_at(&self, at: usize) -> usize {
        self.bytes.get(at..).map_or(0, |rest| rest.iter().take_while(|byte| **byte == 0).count())
    }

    /// Looks behind the good prefix for records that tell how far the log had been synced.
    pub fn end(self) -> End {
        self.end_with(&mut |_| {})
    }

    /// As [`end`](Self::end), and shows `visit` the payloads of the good records found there.
    pub fn end_with(mut self, visit: &mut dyn FnMut(&'a [u8])) -> End {
        let position = self.start + self.at as u64;
        let mut at = self.at + 1;
        while at + HEADER_BYTES <= self.bytes.len() {
            let zeros = self.zeros_at(at);
            if zeros >= HEADER_BYTES {
                at += zeros - HEADER_BYTES + 1;
                continue;
            }
            // Most bytes that are no header give a length that leads nowhere; only the others are worth a
            // checksum.
            if self.length_at(at).is_some_and(|length| length <= self.bytes.len() - at - HEADER_BYTES)
                && let Some(header) = self.header(at)
                && let Some(payload) = self.payload(at, &header)
            {
                visit(payload);
                self.proven_synced = self.proven_synced.max(header.synced.unwrap_or(0));
                at += HEADER_BYTES + header.length;
            } else {
                at += 1;
            }
        }
        End { position, proven_synced: self.proven_synced }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch(0xfeed);

    /// A log of three records, the third written after the first two were synced.
    fn log() -> (Vec<u8>, Vec<u64>) {
        let (mut bytes, mut starts) = (Vec::new(), Vec::new());
        for (payload, synced_records) in [(&b"one"[..], 0), (b"", 0), (b"three", 2)] {
            starts.push(bytes.len() as u64);
            let synced = starts.get(synced_records).copied().unwrap_or(0);
            append(&mut bytes, EPOCH, *starts.last().unwrap(), synced, payload);
        }
        (bytes, starts)
    }

    fn read(bytes: &[u8], start: u64, epoch: Epoch) -> (Vec<Vec<u8>>, End) {
        let mut reader = LogReader::new(bytes, start, epoch);
        let mut payloads = Vec::new();
        while let Some((_, payload)) = reader.next_record() {
            payloads.push(payload.to_vec());
        }
        (payloads, reader.end())
    }

    #[test]
    fn what_is_appended_is_read() {
        let (bytes, _) = log();
        let (payloads, end) = read(&bytes, 0, EPOCH);
        assert_eq!(payloads, [b"one".to_vec(), b"".to_vec(), b"three".to_vec()]);
        assert_eq!(end.position, bytes.len() as u64);
        assert!(end.proven_synced <= end.position);
    }

    #[test]
    fn a_header_is_read_from_either_copy_and_other_versions_are_named() {
        let header = LogHeader { number: 7, epoch: EPOCH, first_lsn: 99 };
        let path = Path::new("log");
        for damaged in [5, SECTOR_BYTES + 5] {
            let mut bytes = header.encode(b"SILTTEST");
            bytes[damaged] ^= 1;
            assert_eq!(LogHeader::decode(b"SILTTEST", &bytes, path).unwrap(), Some(header));
            bytes[(damaged + SECTOR_BYTES) % (2 * SECTOR_BYTES)] ^= 1;
            assert_eq!(LogHeader::decode(b"SILTTEST", &bytes, path).unwrap(), None);
        }
        let mut newer = header.encode(b"SILTTEST");
        newer[8] = 2;
        let crc = crc32c(&newer[..36]).to_le_bytes();
        newer[36..40].copy_from_slice(&crc);
        let error = LogHeader::decode(b"SILTTEST", &newer, path).unwrap_err();
        assert!(error.to_string().contains("log has log format version 2"), "{error}");
    }

    /// Where a checksum of zeros is zero, they said that the log had been synced up to there.
    #[test]
    fn zeros_behind_the_end_prove_nothing() {
        let (epoch, at) = (Epoch(0x5331_d71c_0000_0008), 100);
        assert_eq!(header_crc(epoch, at, &[0; 12]), 0, "an epoch for which zeros are a record there");
        let mut bytes = Vec::new();
        append(&mut bytes, epoch, 0, 0, b"one");
        bytes.resize(1000, 0);
        let (payloads, end) = read(&bytes, 0, epoch);
        assert_eq!((payloads, end.proven_synced), (vec![b"one".to_vec()], 0));
        // What was written behind them is found.
        let later = bytes.len() as u64;
        append(&mut bytes, epoch, later, later, b"later");
        assert_eq!(read(&bytes, 0, epoch).1.proven_synced, later);
    }

    #[test]
    fn other_epochs_and_positions_are_no_records() {
        let (bytes, _) = log();
        assert!(read(&bytes, 0, Epoch(1)).0.is_empty());
        assert!(read(&bytes, 1, EPOCH).0.is_empty());
    }

    #[test]
    fn any_damage_to_a_synced_record_is_proven_and_a_torn_tail_is_not_damage() {
        let (bytes, starts) = log();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let (payloads, end) = read(&damaged, 0, EPOCH);
            assert_eq!(payloads.len(), starts.iter().filter(|&&s| s <= at as u64).count() - 1);
            assert_eq!(end.proven_synced > end.position, (at as u64) < starts[2], "byte {at}");
        }
        for cut in 0..bytes.len() {
            let (_, end) = read(&bytes[..cut], 0, EPOCH);
            assert!(end.proven_synced <= end.position, "cut at {cut}");
        }
    }
}
