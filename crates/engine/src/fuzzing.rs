//! The engine's decoders as functions of bytes, for the targets in `fuzz/` and for nobody else.
//!
//! Each takes arbitrary bytes, decodes them, and where they are accepted asserts what must hold of the
//! result: lengths stay within the bytes, and what was decoded encodes to something that decodes to the same.
//! No input may panic.

use crate::cache::PAGE_BYTES;
use crate::codec::Decoder;
use crate::compression::Codec;
use crate::entry::Item;
use crate::memory::MemoryBudget;
use crate::merge_operator::{Folded, Folder, MergeOperators, is_open, operand, rewritten};
use crate::operation;
use crate::record::{self, Epoch, LOG_HEADER_BYTES, LogHeader, LogReader};
use crate::region_filter::sidecar::{SidecarHeader, SidecarRecord};
use crate::region_filter::{RegionFilter, cluster_shape};
use crate::table::block::page::{self, Found};
use crate::table::envelope::{FOOTER_BYTES, PAGE_HEADER_BYTES, TableMeta, decode_footer, encode_tail};
use crate::table::hash_store::read::{decode_directory, decode_tags};
use crate::table::sample::KeySample;
use crate::table::slots::record::{Parts, Slot};
use crate::table::slots::{MAX_SLOT_BYTES, MIN_SLOT_BYTES, SlotLayout};
use crate::table::sorted_store::fragments::Fragments;
use crate::table::sorted_store::read::Tries;
use crate::table::{Table, Trash};
use crate::version::Version;
use crate::version::check;
use crate::version::edit::Edit;
use crate::version::manifest::{self, parse_current};
use crate::wal;
use siltstone_design::{Digest, Encoder, HashSecret, Schema, TableFilterSpec};
use std::sync::Arc;

/// Eight bytes off the front as a number, or what there is of them.
fn number(from: &mut Decoder<'_>) -> u64 {
    from.u64().unwrap_or(from.remaining() as u64)
}

/// A log's header, and its records under the header's own epoch or one chosen by the bytes.
pub fn log(bytes: &[u8]) {
    for magic in [manifest::MAGIC, wal::MAGIC] {
        let path = std::path::Path::new("log");
        let Ok(Some(header)) = LogHeader::decode(magic, bytes, path) else { continue };
        assert_eq!(LogHeader::decode(magic, &header.encode(magic), path).ok().flatten(), Some(header));
        read_log(bytes.get(LOG_HEADER_BYTES as usize..).unwrap_or(&[]), header.first_lsn, header.epoch);
    }
    let mut from = Decoder::new(bytes);
    let (epoch, start) = (Epoch(number(&mut from)), number(&mut from) >> 1);
    read_log(from.take(from.remaining()).unwrap_or(&[]), start, epoch);
}

fn read_log(bytes: &[u8], start: u64, epoch: Epoch) -> Vec<Vec<u8>> {
    let mut reader = LogReader::new(bytes, start, epoch);
    let mut payloads = Vec::new();
    let mut expected = start;
    while let Some((position, payload)) = reader.next_record() {
        assert_eq!(position, expected);
        expected += (record::HEADER_BYTES + payload.len()) as u64;
        payloads.push(payload.to_vec());
    }
    let end = reader.end();
    assert_eq!(end.position, expected);
    assert!(end.position - start <= bytes.len() as u64);
    payloads
}

/// A log made of the bytes and then damaged as they say: what is read is a prefix of what was written, and
/// damage to what a later record proves synced does not pass for a torn tail.
pub fn damaged_log(bytes: &[u8]) {
    let mut from = Decoder::new(bytes);
    // As a store draws it: an input cannot choose an epoch that another record's bytes happen to continue.
    let epoch = Epoch(HashSecret([11; 16]).hash64(bytes));
    let start = number(&mut from) >> 8;
    let mut log = Vec::new();
    let mut payloads = Vec::new();
    let mut ends = Vec::new();
    let (mut synced, mut proven) = (start, start);
    while let (Some(length), Some(kind)) = (from.u8(), from.u8()) {
        if kind == 0xff {
            break;
        }
        let payload = from.take(usize::from(length).min(from.remaining())).unwrap_or(&[]);
        let position = start + log.len() as u64;
        record::append(&mut log, epoch, position, synced, payload);
        payloads.push(payload.to_vec());
        ends.push(start + log.len() as u64);
        proven = synced;
        if kind & 1 == 1 {
            synced = start + log.len() as u64;
        }
    }
    assert_eq!(read_log(&log, start, epoch), payloads);
    let Some(at) = from.u32().filter(|_| !log.is_empty()).map(|at| at as usize % log.len()) else { return };
    let flip = from.u8().unwrap_or(0) | 1;
    if let Some(byte) = log.get_mut(at) {
        *byte ^= flip;
    }
    let whole = ends.iter().take_while(|&&end| end <= start + at as u64).count();
    let read = read_log(&log, start, epoch);
    assert_eq!(read.as_slice(), payloads.get(..whole).unwrap_or(&[]), "one changed byte ends the log there");
    let mut reader = LogReader::new(&log, start, epoch);
    while reader.next_record().is_some() {}
    let end = reader.end();
    // The last record says how far the log was synced, unless it is the one that was hit.
    if whole + 1 < ends.len() && proven > end.position {
        assert!(end.proven_synced > end.position, "damage before {proven} passed for a torn tail");
    }
    assert!(end.proven_synced <= proven);
}

/// A batch of operations, as a record of the write-ahead log holds it.
pub fn batch(bytes: &[u8]) {
    let mut from = Decoder::new(bytes);
    while !from.is_empty() {
        let before = from.remaining();
        let at = bytes.len() - before;
        let Some(found) = operation::decode(&mut from) else { return };
        assert!(found.key.len() < before && from.remaining() < before);
        let mut encoded = Vec::new();
        operation::encode(&mut encoded, found.keyspace, found.key, found.item, found.is_checked);
        assert_eq!(operation::decode(&mut Decoder::new(&encoded)), Some(found));
        if found.is_checked {
            let length = bytes.len() - from.remaining() - at;
            assert_eq!(operation::checked_length(bytes.get(at..).unwrap_or(&[])), Some(length));
        }
    }
}

/// An edit of the manifest, applied to an empty version where it fits.
pub fn edit(bytes: &[u8]) {
    let Some(edit) = Edit::decode(bytes) else { return };
    assert_eq!(Edit::decode(&edit.encode()).as_ref(), Some(&edit));
    let encoder = Encoder::new(Schema::Point, HashSecret([7; 16]));
    let trash = Arc::new(Trash::default());
    let mut open = |meta: &TableMeta| Arc::new(Table::new(meta.clone(), encoder, Arc::clone(&trash)));
    if let Ok((version, _)) = Version::default().apply(&edit, &mut open) {
        // It may well be unsound; saying so must not panic.
        let _ = check::problems(&version);
        let rebuilt = Edit { keyspace: edit.keyspace, steps: version.to_steps() };
        assert_eq!(Edit::decode(&rebuilt.encode()).as_ref(), Some(&rebuilt));
    }
}

/// The text of CURRENT.
pub fn current(bytes: &[u8]) {
    let name = std::str::from_utf8(bytes).ok().and_then(parse_current);
    assert!(name.is_none_or(|current| crate::filename::is_manifest(current.manifest)));
}

/// A page of a block table: a search for a key chosen by the bytes, then a walk over all entries.
pub fn page(bytes: &[u8]) {
    let (key_len, rest) =
        bytes.split_first().map_or((0, bytes), |(first, rest)| (usize::from(*first % 32), rest));
    let (key, rest) = rest.split_at_checked(key_len).unwrap_or((&[], rest));
    let mut page = rest.to_vec();
    page.resize(PAGE_BYTES, 0);
    let digest = Digest { hi: key.len() as u64, lo: 7 };
    let mut asked = 0;
    let found = page::find(&page, None, (key, digest), |_| {
        asked += 1;
        asked % 3 == 0
    });
    let Some((used, entries)) = page::page_header(&page) else {
        assert!(found == Found::Damaged, "an overflow page has no entries");
        return;
    };
    assert!(used <= PAGE_BYTES);
    let (mut at, mut last_key) = (PAGE_HEADER_BYTES, Vec::new());
    let mut holds_key = false;
    for _ in 0..entries {
        let Some(entry) = page::decode(&page, at, used) else {
            return;
        };
        assert!(entry.end > at && entry.end <= used);
        at = entry.end;
        let tail = page.get(entry.tail_at..entry.tail_at + entry.tail_len).unwrap_or(&[]);
        if entry.overflow.is_some_and(|overflow| overflow.key_len.is_some()) {
            // Asked about in the search; it shares nothing with the next.
            last_key.clear();
            continue;
        }
        if entry.overflow.is_none() {
            assert!(page.get(entry.value_at..entry.value_at + entry.value_len).is_some());
        }
        if entry.shared > last_key.len() {
            return; // A walk stops here and reports it.
        }
        last_key.truncate(entry.shared);
        last_key.extend_from_slice(tail);
        holds_key |= last_key == key;
    }
    if asked == 0 {
        assert_eq!(matches!(found, Found::Entry(_)), holds_key, "search and walk disagree");
    }
}

/// A table's footer, properties and key sample.
pub fn tail(bytes: &[u8]) {
    if let Some(footer) = bytes.last_chunk::<FOOTER_BYTES>() {
        let _ = decode_footer(footer);
    }
    if let Some(meta) = TableMeta::decode(&mut Decoder::new(bytes)) {
        let mut encoded = Vec::new();
        meta.encode(&mut encoded);
        assert_eq!(TableMeta::decode(&mut Decoder::new(&encoded)).as_ref(), Some(&meta));
        for now_ms in [0, meta.expires_ms.0, meta.expires_ms.1, u64::MAX] {
            assert!(meta.expired_share(now_ms) >= 0.0);
        }
        let tail = encode_tail(&meta, 4096, 3);
        let footer = tail.last_chunk::<FOOTER_BYTES>().map(decode_footer);
        assert!(
            footer.is_some_and(|footer| footer.is_ok_and(|f| f.properties.length == encoded.len() as u64))
        );
    }
    if let Some(sample) = KeySample::from_bytes(bytes) {
        assert_eq!(KeySample::from_bytes(&sample.to_bytes()).as_ref(), Some(&sample));
        assert!(sample.overlap(&sample, &[]) >= 0.0);
        assert!(sample.overlap(&sample, std::slice::from_ref(&sample)) == 0.0);
    }
}

/// A sidecar's header, and a record of one: a region's filter, or a part of it.
pub fn sidecar(bytes: &[u8]) {
    if let Some(header) = bytes.first_chunk().and_then(SidecarHeader::decode) {
        assert_eq!(Some(&header.encode()), bytes.first_chunk());
        let (first, all) = (header.first_page(), header.file_bytes());
        assert!(header.pages == 0 || all.is_none_or(|all| first.is_some_and(|first| u64::from(first) < all)));
    }
    let Some(record) = SidecarRecord::decode(bytes) else { return };
    let encoded = record.encode().unwrap_or_default();
    assert_eq!(SidecarRecord::decode(encoded.get(8..).unwrap_or(&[])).as_ref(), Some(&record));
    assert_eq!(record.bytes(), encoded.len() as u64);
    let memory = MemoryBudget::new(64 << 20);
    if let Ok(Some(filter)) = RegionFilter::decode(&record, &memory) {
        assert_eq!(filter.covered(), record.runs.len());
        assert!(filter.is_in_memory() || filter.pages().is_none());
    }
    let rows = cluster_shape(&record).map(|shape| shape.rows().len());
    assert!(rows.is_none_or(|rows| rows == record.runs.len()));
}

/// A directory of an HTable's segments, and the notes of one of its pages.
pub fn htable(bytes: &[u8]) {
    crate::table::htable::check(bytes);
}

/// What stands in a slot, and the directories and tries that lead to slots, of a layout chosen by the first
/// bytes.
pub fn slots(bytes: &[u8]) {
    if let Some(Slot::Whole(record) | Slot::Spilled { head: record, .. }) = Slot::decode(bytes) {
        for key_bytes in [0, 1, 8, u32::MAX] {
            let Some(parts) = Parts::decode(record, key_bytes) else { continue };
            assert!(parts.key_at <= parts.value_at && parts.value_at <= parts.end);
            assert!(parts.item(record).is_none() || parts.end <= record.len() && parts.key(record).is_some());
        }
    }
    let Some(([low, high, entries], rest)) = bytes.split_first_chunk() else { return };
    let slot_bytes = u32::from(u16::from_le_bytes([*low, *high])).clamp(MIN_SLOT_BYTES, MAX_SLOT_BYTES);
    let layout = SlotLayout { slot_bytes, key_bytes: 0 };
    let _ = (decode_directory(rest, layout), decode_tags(rest));
    for filter in [TableFilterSpec::None, TableFilterSpec::Fragments { fragment_bits: 8 }] {
        let Ok(tries) = Tries::from_bytes(rest, (layout, filter), u64::from(*entries)) else { continue };
        for hi in [0, 1, 1 << 40, u64::MAX] {
            let slots = tries.slots(hi);
            assert!(slots.start <= slots.end && slots.end <= usize::from(*entries));
        }
    }
    for width in [2, 9, 32] {
        let Ok(fragments) = Fragments::from_bytes(rest, width, u64::from(*entries)) else { continue };
        assert!(!fragments.may_hold(usize::from(*entries), 0));
        let all = (0..usize::from(*entries)).map(|slot| fragments.may_hold(slot, u64::MAX));
        assert!(all.count() == usize::from(*entries));
    }
}

/// What a compressed table is decoded with, and the parts of keys and values that stand behind it.
pub fn codec(bytes: &[u8]) {
    let (length, rest) = bytes.split_first_chunk().map_or((0, bytes), |(length, rest)| {
        (usize::from(u16::from_le_bytes(*length)) % (rest.len() + 1), rest)
    });
    let (codec, part) = rest.split_at_checked(length).unwrap_or((rest, &[]));
    let Ok(codec) = Codec::from_bytes(codec) else { return };
    assert!(Codec::from_bytes(&codec.to_bytes()).is_ok_and(|same| same == codec));
    if let Some(symbols) = &codec.keys {
        let mut key = Vec::new();
        let decoded = symbols.decode_onto(part, &mut key);
        assert!(key.len() <= 8 * part.len());
        if decoded.is_some() {
            assert_eq!(symbols.compare(part, &key), Some((key.len(), true)));
        }
        let _ = symbols.compare(part, bytes);
    }
    if let Some(dictionary) = &codec.values {
        let mut value = Vec::new();
        let _ = dictionary.decode_into(part, &mut value);
        assert!(value.len() <= 255 * part.len());
    }
}

/// The operators that operands are folded with.
const OPERATORS: [&str; 10] = [
    "add",
    "add-saturating",
    "append",
    "append:2c",
    "set-union",
    "set-union:2",
    "max",
    "min",
    "max-u64",
    "min-u64",
];

/// What runs say of a key; nothing where the newest write was a deletion.
type Said = Option<Folded>;

/// Folds what a newer run says over what an older one says.
fn over(folder: &Folder, older: &Said, newer: Said) -> Said {
    match newer {
        Some(Folded::Operands(operands)) if is_open(&operands) => {
            let older = older.as_ref().map_or(Item::Deleted, Folded::item);
            let Ok(folded) = folder.fold(&operands, older) else { panic!("operands that merges wrote") };
            Some(folded)
        }
        newer => newer,
    }
}

/// Operands of an entry; and puts, deletions and merges of a key in several runs, folded as the bytes say,
/// beside the operator applied to one after the other.
pub fn operands(bytes: &[u8]) {
    if let Some(entry) = rewritten(bytes) {
        assert!(!entry.operands.is_empty() && entry.base.is_none() == is_open(bytes));
        assert!(entry.operands.iter().map(|operand| operand.len()).sum::<usize>() < bytes.len());
    }
    let mut from = Decoder::new(bytes);
    let choice = usize::from(from.u8().unwrap_or(0)) % OPERATORS.len();
    let name = OPERATORS.get(choice).copied().unwrap_or_default();
    let Some(operator) = MergeOperators::default().get(name) else { panic!("no operator {name}") };
    let folder = Folder::new(Arc::clone(&operator), name, "fuzzed");
    // Runs, the oldest first. Their newest writes are folded first, or their neighbours.
    let mut runs: Vec<Said> = Vec::new();
    let mut naive: Result<Option<Vec<u8>>, String> = Ok(None);
    while let Some(byte) = from.u8() {
        let (kind, length) = (byte % 8, usize::from(byte >> 5) * 2);
        let length = if name.ends_with("u64") || name.starts_with("add") { 8 } else { length };
        let part = from.take(length.min(from.remaining())).unwrap_or(&[]);
        let said = match kind {
            0 => {
                naive = Ok(Some(part.to_vec()));
                Some(Folded::Value(part.to_vec()))
            }
            1 => {
                naive = Ok(None);
                None
            }
            // Such are refused when they are written.
            _ if folder.check(part).is_err() => continue,
            _ => {
                naive = naive.and_then(|old| operator.apply(old.as_deref(), part).map(Some));
                Some(Folded::Operands(operand(part)))
            }
        };
        match (kind, runs.pop()) {
            (4.., Some(run)) => runs.push(over(&folder, &run, said)),
            (_, run) => runs.extend(run.into_iter().chain([said])),
        }
        if kind == 3
            && runs.len() > 1
            && let (Some(newer), Some(older)) = (runs.pop(), runs.pop())
        {
            runs.push(over(&folder, &older, newer));
        }
    }
    let newest_first = runs.into_iter().rev().reduce(|newer, older| over(&folder, &older, newer)).flatten();
    let found = match over(&folder, &None, newest_first) {
        None => Ok(None),
        Some(Folded::Value(value)) => Ok(Some(value)),
        Some(Folded::Operands(operands)) => folder.value(b"key", &operands).map(Some).map_err(|_| ()),
    };
    assert_eq!(found, naive.map_err(|_| ()), "{name}");
}

/// A decoder as a function of bytes.
pub type Target = fn(&[u8]);
/// Every decoder above by name.
pub const DECODERS: &[(&str, Target)] = &[
    ("log", log),
    ("damaged_log", damaged_log),
    ("batch", batch),
    ("edit", edit),
    ("current", current),
    ("page", page),
    ("codec", codec),
    ("tail", tail),
    ("htable", htable),
    ("sidecar", sidecar),
    ("slots", slots),
    ("operands", operands),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // A taste of fuzzing on every test run; coverage-guided fuzzing is in `fuzz/`.
        #[test]
        fn arbitrary_bytes_are_refused_or_decoded(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..300),
                proptest::collection::vec(0u8..12, 0..300),
            ],
        ) {
            for (_, decode) in DECODERS {
                decode(&bytes);
            }
        }
    }
}
