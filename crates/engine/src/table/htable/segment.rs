//! The directory of a table's segments, and the notes of a bucket page.

use super::NOTE_BYTES;
use crate::codec::{Decoder, put_bytes, put_digest};
use crate::table::block::page::page_header;
use siltstone_design::Digest;
use siltstone_succinct::buckets::migration::Parcel;
use siltstone_succinct::buckets::spread::Spread;
use siltstone_succinct::code::varint;
use siltstone_succinct::error::DecodeError;

/// A stretch of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Whether its pages are packed in order instead of being buckets.
    pub is_packed: bool,
    /// First of its pages.
    pub page: u32,
    /// How many pages it has.
    pub pages: u32,
    /// Place of its first entry; the key only where the digest does not do.
    pub first: (Digest, Vec<u8>),
    /// Upper digest half of its last entry.
    pub last_hi: u64,
}

impl Segment {
    /// How digests are spread to its buckets.
    pub fn spread(&self) -> Spread {
        Spread::new(self.first.0.hi, self.last_hi, self.pages)
    }

    /// How many filters and marks it has.
    pub fn buckets(&self) -> u32 {
        if self.is_packed { 1 } else { self.pages }
    }
}

/// A segment with what follows from those before it.
#[derive(Debug)]
pub(super) struct Located {
    pub segment: Segment,
    pub spread: Spread,
    /// Buckets of the segments before it.
    pub buckets_before: u32,
}

/// A table's segments, in order.
#[derive(Debug)]
pub(super) struct Directory(Vec<Located>);

impl Directory {
    /// The directory that the index section of a table with `pages` pages holds.
    pub fn from_bytes(bytes: &[u8], pages: u32) -> Result<Self, DecodeError> {
        let wrong =
            || DecodeError::new("segments", "a directory of segments", format_args!("{} bytes", bytes.len()));
        let mut from = Decoder::new(bytes);
        let mut segments: Vec<Located> = Vec::new();
        let mut buckets_before = 0u32;
        for _ in 0..from.varint().ok_or_else(wrong)? {
            let segment = decode(&mut from).ok_or_else(wrong)?;
            let ascends = segments.last().is_none_or(|before| before.segment.first < segment.first);
            let end = u64::from(segment.page) + u64::from(segment.pages);
            let has_targets = segment.is_packed || segment.pages <= 1 << 16;
            if !ascends || segment.pages == 0 || end > u64::from(pages) || !has_targets {
                return Err(wrong());
            }
            let spread = segment.spread();
            let buckets = segment.buckets();
            segments.push(Located { segment, spread, buckets_before });
            buckets_before = buckets_before.checked_add(buckets).ok_or_else(wrong)?;
        }
        if from.is_empty() { Ok(Self(segments)) } else { Err(wrong()) }
    }

    /// The number of the segment that may hold the place `(digest, key)`.
    pub fn find(&self, digest: Digest, key: &[u8]) -> Option<usize> {
        self.0
            .partition_point(|located| {
                let (first, first_key) = &located.segment.first;
                (*first, first_key.as_slice()) <= (digest, key)
            })
            .checked_sub(1)
    }

    pub fn get(&self, number: usize) -> Option<&Located> {
        self.0.get(number)
    }
}

/// Appends a directory of `segments`.
pub(super) fn encode(segments: &[Segment]) -> Vec<u8> {
    let mut out = Vec::new();
    varint::put_u64(&mut out, segments.len() as u64);
    for segment in segments {
        out.push(u8::from(segment.is_packed));
        varint::put_u64(&mut out, u64::from(segment.page));
        varint::put_u64(&mut out, u64::from(segment.pages));
        put_digest(&mut out, segment.first.0);
        out.extend_from_slice(&segment.last_hi.to_le_bytes());
        put_bytes(&mut out, &segment.first.1);
    }
    out
}

fn decode(from: &mut Decoder<'_>) -> Option<Segment> {
    let is_packed = match from.u8()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let (page, pages) = (u32::try_from(from.varint()?).ok()?, u32::try_from(from.varint()?).ok()?);
    let (digest, last_hi) = (from.digest()?, from.u64()?);
    Some(Segment { is_packed, page, pages, first: (digest, from.bytes()?.to_vec()), last_hi })
}

/// Appends the notes of a page and their number.
pub(super) fn put_notes(payload: &mut Vec<u8>, parcels: &[Parcel]) {
    for parcel in parcels {
        payload.extend_from_slice(&(parcel.mark as u16).to_le_bytes());
        payload.extend_from_slice(&(parcel.target as u16).to_le_bytes());
    }
    payload.push(parcels.len() as u8);
}

/// The bucket to which entries of this order have gone from the bucket that `page` is of; `Err` where the
/// page's notes make no sense.
pub(super) fn target_of(page: &[u8], order: u16) -> Result<Option<u16>, ()> {
    let (used, _) = page_header(page).ok_or(())?;
    let count = usize::from(*used.checked_sub(1).and_then(|at| page.get(at)).ok_or(())?);
    let start = (used - 1).checked_sub(count * NOTE_BYTES).ok_or(())?;
    let (notes, _) = page.get(start..used - 1).ok_or(())?.as_chunks::<NOTE_BYTES>();
    let covering = notes.iter().rev().find(|[a, b, ..]| u16::from_le_bytes([*a, *b]) <= order);
    Ok(covering.map(|[_, _, a, b]| u16::from_le_bytes([*a, *b])))
}

/// For the fuzz target: a directory and the notes of a page from arbitrary bytes.
#[cfg(feature = "sim")]
pub(crate) fn check(bytes: &[u8]) {
    if let Ok(directory) = Directory::from_bytes(bytes, u32::MAX) {
        let segments: Vec<Segment> = directory.0.iter().map(|located| located.segment.clone()).collect();
        let again = Directory::from_bytes(&encode(&segments), u32::MAX);
        assert!(again.is_ok_and(|again| again.0.iter().map(|l| &l.segment).eq(segments.iter())));
        for located in &directory.0 {
            let segment = &located.segment;
            assert!(located.spread.bucket(segment.first.0.hi) < segment.pages);
            assert!(located.spread.bucket(segment.last_hi) < segment.pages);
            assert!(directory.find(segment.first.0, &segment.first.1).is_some());
        }
    }
    let _ = target_of(bytes, bytes.len() as u16);
}
