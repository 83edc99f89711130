//! What every table file shares, whatever its format: page header, sections, properties and footer.
//!
//! ```text
//! table   ┌────────┬─────┬────────┬──────────┬─────┬────────────┬────────┐
//!         │ page 0 │ ... │ page n │ sections │ ... │ properties │ footer │
//!         └────────┴─────┴────────┴──────────┴─────┴────────────┴────────┘
//! page    ┌─────────────┬──────────┬──────────────────┬─────────┐
//!  4096 B │ crc32c u32  │ used u16 │ entries u16      │ payload │   entries = 0xffff: an overflow page
//!         └─────────────┴──────────┴──────────────────┴─────────┘
//! footer  ┌────────────┬─────────────┬────────┬──────────┬───────────────────┬───────────────────┬──────┬────────────┐
//!   48 B  │ "SILTTABL" │ version u32 │ of u32 │ id u64   │ properties at u64 │ length u32        │ crc  │ footer crc │
//!         └────────────┴─────────────┴────────┴──────────┴───────────────────┴───────────────────┴──────┴────────────┘
//! ```
//!
//! `of` is the keyspace that the table was written for, or 0: only a repair asks for it.
//!
//! The manifest repeats the properties, so that opening a store reads no table. They also stand in the file,
//! so that a table can be inspected, verified and one day salvaged by itself.

pub(crate) use super::page::{PAGE_HEADER_BYTES, PAYLOAD_BYTES};
use crate::cache::TableId;
use crate::codec::{Decoder, put_bytes, put_digest};
use crate::entry::{PrefixTombstone, PrefixTombstones};
use crate::table::filter::{KeptKeys, NotedRegionFilter};
use crate::table::slots::{MAX_SLOT_BYTES, MIN_SLOT_BYTES, SlotLayout};
use siltstone_design::{Digest, Format, IndexSpec, LevelSpec, TableFilterSpec, ThirdLevel};
use siltstone_succinct::code::varint;

pub(crate) const MAGIC: &[u8; 8] = b"SILTTABL";
pub(crate) const VERSION: u32 = 1;
pub(crate) const FOOTER_BYTES: usize = 48;

/// `entries` of an overflow page.
pub(crate) const OVERFLOW_MARK: u16 = u16::MAX;

/// A stretch of a table file behind its pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub offset: u64,
    pub length: u64,
    pub crc: u32,
}

impl Section {
    fn encode(&self, out: &mut Vec<u8>) {
        varint::put_u64(out, self.offset);
        varint::put_u64(out, self.length);
        out.extend_from_slice(&self.crc.to_le_bytes());
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        Some(Self { offset: from.varint()?, length: from.varint()?, crc: from.u32()? })
    }
}

/// Everything known of a table without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableMeta {
    pub id: TableId,
    pub format: Format,
    pub index_spec: IndexSpec,
    /// What the filter section holds.
    pub kept_keys: KeptKeys,
    /// Bytes of the whole file.
    pub bytes: u64,
    /// Entries, tombstones included.
    pub entries: u64,
    /// Tombstones among them.
    pub deleted: u64,
    /// Bytes of keys and values.
    pub user_bytes: u64,
    /// Pages, overflow pages included.
    pub pages: u32,
    /// Pages that hold entries.
    pub data_pages: u32,
    /// Place of the smallest entry; of the smallest deleted prefix where there are no entries.
    pub first: (Digest, Vec<u8>),
    /// Place of the largest entry.
    pub last: (Digest, Vec<u8>),
    /// The digest half that most bytes of keys and values share, and how many they are.
    pub largest_group: (u64, u64),
    /// Entries that expire.
    pub expiring: u64,
    /// First and last of their expiry times, in milliseconds.
    pub expires_ms: (u64, u64),
    pub index: Section,
    pub filter: Section,
    /// Which pages hold entries, where some do not; of an HTable its HashMarks.
    pub page_map: Section,
    pub sample: Section,
    pub tombstones: PrefixTombstones,
    /// How slots are cut: hash stores and sorted stores have some.
    pub slots: Option<SlotLayout>,
    /// What its entries are decoded with, where they are compressed.
    pub compressed: Option<Compressed>,
}

/// How a table's entries are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compressed {
    /// The codec, without which nothing of the table can be read, and a copy of it in another place.
    pub codec: Section,
    pub copy: Section,
    /// Bytes of values and of what pages hold of keys, and what they take compressed.
    pub raw_bytes: u64,
    pub stored_bytes: u64,
}

/// With a format's code: the table's entries are compressed.
const COMPRESSED: u8 = 16;

impl TableMeta {
    /// Bytes of the table's own filter in memory; none where the section holds what the region's is made of.
    pub fn own_filter_bytes(&self) -> u64 {
        match self.kept_keys {
            KeptKeys::Filter(_) => self.filter.length,
            KeptKeys::Fingerprints { .. } | KeptKeys::Noted(_) => 0,
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let (filter, bits) = kept_keys_code(self.kept_keys);
        let format = format_code(self.format) | if self.compressed.is_some() { COMPRESSED } else { 0 };
        out.extend_from_slice(&[format, index_code(self.index_spec), filter, bits]);
        for number in [
            self.id,
            self.bytes,
            self.entries,
            self.deleted,
            self.user_bytes,
            u64::from(self.pages),
            u64::from(self.data_pages),
            self.expiring,
            self.expires_ms.0,
            self.expires_ms.1,
            self.largest_group.1,
        ] {
            varint::put_u64(out, number);
        }
        out.extend_from_slice(&self.largest_group.0.to_le_bytes());
        for (digest, key) in [&self.first, &self.last] {
            put_digest(out, *digest);
            put_bytes(out, key);
        }
        for section in [&self.index, &self.filter, &self.page_map, &self.sample] {
            section.encode(out);
        }
        varint::put_u64(out, self.tombstones.iter().count() as u64);
        for tombstone in self.tombstones.iter() {
            out.extend_from_slice(&tombstone.hi.to_le_bytes());
            put_bytes(out, &tombstone.prefix);
        }
        if let Some(SlotLayout { slot_bytes, key_bytes }) = self.slots {
            varint::put_u64(out, u64::from(slot_bytes));
            varint::put_u64(out, u64::from(key_bytes));
        }
        if let Some(Compressed { codec, copy, raw_bytes, stored_bytes }) = &self.compressed {
            codec.encode(out);
            copy.encode(out);
            varint::put_u64(out, *raw_bytes);
            varint::put_u64(out, *stored_bytes);
        }
    }

    pub fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        let code = from.u8()?;
        let format = format_of_code(code & !COMPRESSED)?;
        let index_spec = index_of_code(from.u8()?)?;
        let kept_keys = kept_keys_of_code(from.u8()?, from.u8()?)?;
        let id = from.varint()?;
        let (bytes, entries, deleted, user_bytes) =
            (from.varint()?, from.varint()?, from.varint()?, from.varint()?);
        let (pages, data_pages) = (u32::try_from(from.varint()?).ok()?, u32::try_from(from.varint()?).ok()?);
        let (expiring, expires_ms) = (from.varint()?, (from.varint()?, from.varint()?));
        let largest_bytes = from.varint()?;
        let largest_group = (from.u64()?, largest_bytes);
        let mut bound = || Some((from.digest()?, from.bytes()?.to_vec()));
        let (first, last) = (bound()?, bound()?);
        let mut section = || Section::decode(from);
        let (index, filter, page_map, sample) = (section()?, section()?, section()?, section()?);
        let mut tombstones = Vec::new();
        for _ in 0..from.varint()? {
            tombstones.push(PrefixTombstone { hi: from.u64()?, prefix: from.bytes()?.into() });
        }
        let slots = match format {
            Format::Block | Format::HTable => None,
            Format::Hash | Format::Sorted => {
                let slot_bytes = u32::try_from(from.varint()?).ok()?;
                let key_bytes = u32::try_from(from.varint()?).ok()?;
                let is_sound = (MIN_SLOT_BYTES..=MAX_SLOT_BYTES).contains(&slot_bytes);
                Some(SlotLayout { slot_bytes, key_bytes }).filter(|_| is_sound)
            }
        };
        let is_compressed = code & COMPRESSED != 0;
        let compressed = if is_compressed { Some(Compressed::decode(from)?) } else { None };
        let codecs = compressed.map(|compressed| [compressed.codec, compressed.copy]).unwrap_or_default();
        let sections = [&index, &filter, &page_map, &sample].into_iter().chain(&codecs);
        let sane = (matches!(format, Format::Block | Format::HTable) || slots.is_some())
            && data_pages <= pages
            && sections.into_iter().all(|s| s.offset.checked_add(s.length).is_some_and(|end| end <= bytes));
        let tombstones = PrefixTombstones::new(tombstones);
        sane.then_some(Self {
            id,
            format,
            index_spec,
            kept_keys,
            bytes,
            entries,
            deleted,
            user_bytes,
            pages,
            data_pages,
            first,
            last,
            largest_group,
            expiring,
            expires_ms,
            index,
            filter,
            page_map,
            sample,
            tombstones,
            slots,
            compressed,
        })
    }

    /// Whether the table is made as `level` has it.
    pub fn is_as(&self, level: &LevelSpec) -> bool {
        self.format == level.format
            && self.index_spec == level.index
            && self.kept_keys == KeptKeys::of(level)
            // Where compression does not pay, levels that compress have tables without.
            && (self.compressed.is_none() || !level.compression.is_none())
    }

    /// What stands behind the pages, each with its name; absent ones have length 0.
    pub fn sections(&self) -> impl Iterator<Item = (&'static str, Section)> {
        let codec = self.compressed.map(|compressed| compressed.codec).unwrap_or_default();
        let copy = self.compressed.map(|compressed| compressed.copy).unwrap_or_default();
        let named = [
            ("codec", codec),
            ("index", self.index),
            ("filter", self.filter),
            ("page map", self.page_map),
            ("key sample", self.sample),
            ("copy of the codec", copy),
        ];
        named.into_iter()
    }

    /// Tombstones, and deleted prefixes.
    pub fn deletes(&self) -> u64 {
        self.deleted + self.tombstones.len() as u64
    }

    /// Whether at `now_ms` every entry is a tombstone or has expired.
    pub fn is_dead(&self, now_ms: u64) -> bool {
        let has_expired = self.expiring == 0 || self.expires_ms.1 <= now_ms;
        has_expired && self.deleted + self.expiring == self.entries
    }

    /// Estimated bytes of the file that the group of keys with digest half `hi` takes.
    pub fn group_bytes(&self, hi: u64) -> u64 {
        if self.entries == 0 || !(self.first.0.hi..=self.last.0.hi).contains(&hi) {
            return 0;
        }
        let per_user_byte = self.bytes as f64 / self.user_bytes.max(1) as f64;
        let (largest, user_bytes) = self.largest_group;
        if largest == hi { (user_bytes as f64 * per_user_byte) as u64 } else { 0 }
    }

    /// Estimated share of the entries that have expired at `now_ms`, taking expiry times as evenly spread.
    pub fn expired_share(&self, now_ms: u64) -> f64 {
        let (first, last) = self.expires_ms;
        if self.expiring == 0 || self.entries == 0 || now_ms < first {
            return 0.0;
        }
        let passed =
            if now_ms >= last { 1.0 } else { (now_ms - first) as f64 / (last - first).max(1) as f64 };
        passed * self.expiring as f64 / self.entries as f64
    }
}

impl Compressed {
    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        let (codec, copy) = (Section::decode(from)?, Section::decode(from)?);
        Some(Self { codec, copy, raw_bytes: from.varint()?, stored_bytes: from.varint()? })
    }
}

fn format_code(format: Format) -> u8 {
    match format {
        Format::Block => 1,
        Format::HTable => 2,
        Format::Hash => 3,
        Format::Sorted => 4,
    }
}

fn format_of_code(code: u8) -> Option<Format> {
    Some(match code {
        1 => Format::Block,
        2 => Format::HTable,
        3 => Format::Hash,
        4 => Format::Sorted,
        _ => return None,
    })
}

fn index_code(index: IndexSpec) -> u8 {
    match index {
        IndexSpec::Separators => 1,
        IndexSpec::LastKeys => 2,
        IndexSpec::LocatedSeparators => 3,
        IndexSpec::ThreeLevel { third: ThirdLevel::EntropyTrie } => 4,
        IndexSpec::ThreeLevel { third: ThirdLevel::PartialSuffixes } => 5,
        IndexSpec::Paged => 6,
        IndexSpec::Cells => 7,
        IndexSpec::None => 0,
    }
}

fn index_of_code(code: u8) -> Option<IndexSpec> {
    Some(match code {
        1 => IndexSpec::Separators,
        2 => IndexSpec::LastKeys,
        3 => IndexSpec::LocatedSeparators,
        4 => IndexSpec::ThreeLevel { third: ThirdLevel::EntropyTrie },
        5 => IndexSpec::ThreeLevel { third: ThirdLevel::PartialSuffixes },
        6 => IndexSpec::Paged,
        7 => IndexSpec::Cells,
        0 => IndexSpec::None,
        _ => return None,
    })
}

/// The code of what a filter section holds, and its parameter.
fn kept_keys_code(kept: KeptKeys) -> (u8, u8) {
    match kept {
        KeptKeys::Filter(TableFilterSpec::None) => (0, 0),
        KeptKeys::Filter(TableFilterSpec::Bloom { bits_per_key }) => (1, bits_per_key),
        KeptKeys::Filter(TableFilterSpec::Cuckoo { fingerprint_bits }) => (2, fingerprint_bits),
        KeptKeys::Noted(NotedRegionFilter::MultiLevelCuckoo { fingerprint_bits }) => (3, fingerprint_bits),
        KeptKeys::Fingerprints { remainder_bits } => (4, remainder_bits),
        KeptKeys::Noted(NotedRegionFilter::BloomCluster { bits_per_key }) => (5, bits_per_key),
        KeptKeys::Filter(TableFilterSpec::Fragments { fragment_bits }) => (6, fragment_bits),
    }
}

fn kept_keys_of_code(code: u8, bits: u8) -> Option<KeptKeys> {
    Some(match (code, bits) {
        (0, 0) => KeptKeys::Filter(TableFilterSpec::None),
        (_, 0) => return None,
        (1, bits_per_key) => KeptKeys::Filter(TableFilterSpec::Bloom { bits_per_key }),
        (2, fingerprint_bits) => KeptKeys::Filter(TableFilterSpec::Cuckoo { fingerprint_bits }),
        (3, fingerprint_bits) => KeptKeys::Noted(NotedRegionFilter::MultiLevelCuckoo { fingerprint_bits }),
        (4, remainder_bits) => KeptKeys::Fingerprints { remainder_bits },
        (5, bits_per_key) => KeptKeys::Noted(NotedRegionFilter::BloomCluster { bits_per_key }),
        (6, fragment_bits) => KeptKeys::Filter(TableFilterSpec::Fragments { fragment_bits }),
        _ => return None,
    })
}

/// Properties and footer of a table whose sections end at `at`, written for `keyspace`.
pub(crate) fn encode_tail(meta: &TableMeta, at: u64, keyspace: u64) -> Vec<u8> {
    let mut out = Vec::new();
    meta.encode(&mut out);
    let (length, crc) = (out.len() as u32, crc32c::crc32c(&out));
    let start = out.len();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&u32::try_from(keyspace).unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&meta.id.to_le_bytes());
    out.extend_from_slice(&at.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&crc.to_le_bytes());
    let crc = crc32c::crc32c(out.get(start..).unwrap_or(&[]));
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Where a footer says the properties are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub id: TableId,
    /// The keyspace that the table was written for; 0 where that is not known.
    pub keyspace: u64,
    pub properties: Section,
}

/// Decodes a footer, or says what is wrong with it.
pub(crate) fn decode_footer(bytes: &[u8; FOOTER_BYTES]) -> Result<Footer, String> {
    let mut from = Decoder::new(bytes);
    let mut read = || {
        let magic = from.take(8)?;
        let (version, keyspace, id) = (from.u32()?, u64::from(from.u32()?), from.u64()?);
        let properties = Section { offset: from.u64()?, length: u64::from(from.u32()?), crc: from.u32()? };
        let (_, crc) = (from.u32()?, from.u32()?);
        Some((magic, version, Footer { id, keyspace, properties }, crc))
    };
    let Some((magic, version, footer, crc)) = read() else { return Err("a short footer".into()) };
    if magic != MAGIC {
        return Err("no table magic".into());
    }
    let found = crc32c::crc32c(bytes.get(..FOOTER_BYTES - 8).unwrap_or(&[]));
    if crc != found {
        return Err(format!("a footer with checksum {found:08x} instead of {crc:08x}"));
    }
    if version != VERSION {
        return Err(format!("format version {version}; this program reads version {VERSION}"));
    }
    Ok(footer)
}
