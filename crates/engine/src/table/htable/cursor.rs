//! A walk over an HTable's entries in the store's order, a segment at a time.
//!
//! Entries at home stand in order already, those that moved are few; so putting a segment in order costs
//! little more than the digests, which any walk computes.

use super::read::HTable;
use crate::cache::PAGE_BYTES;
use crate::entry::{Cursor, EntryRef, Item, LARGE_VALUE_BYTES};
use crate::error::Result;
use crate::table::block::page::{Overflow, RawEntry, decode, page_header};
use crate::table::block::read::{overflow, overflowed_key};
use crate::table::envelope::PAGE_HEADER_BYTES;
use crate::table::walk::PageWalk;
use siltstone_design::{Digest, EncodedKey};
use std::sync::Arc;

/// Where an entry of the segment is.
struct Spot {
    digest: Digest,
    fingerprint: u64,
    prefix_len: usize,
    /// Page of the segment and place in it.
    page: u32,
    at: u32,
    /// For a key that overflows or is compressed: its number among these.
    own_key: Option<u32>,
}

/// A cursor over one table.
pub(crate) struct HTableCursor {
    walk: PageWalk<HTable>,
    next_segment: usize,
    /// The present segment: its first page, its entries in order, and keys that overflow or are compressed.
    first_page: u32,
    spots: Vec<Spot>,
    own_keys: Vec<Vec<u8>>,
    /// The entry after the current one.
    next: usize,
    entry: Option<RawEntry>,
    /// The current entry's value where it overflows or was compressed.
    own_value: Option<Vec<u8>>,
    /// Whether that is still to be read.
    value_waits: bool,
}

impl HTableCursor {
    /// A cursor on the first entry of the walk's span.
    pub fn new(walk: PageWalk<HTable>) -> Result<Self> {
        let htable = &Arc::clone(&walk.table);
        let mut cursor = Self {
            walk,
            next_segment: 0,
            first_page: 0,
            spots: Vec::new(),
            own_keys: Vec::new(),
            next: 0,
            entry: None,
            own_value: None,
            value_waits: false,
        };
        if cursor.walk.is_outside() {
            cursor.next_segment = usize::MAX;
            return Ok(cursor);
        }
        let first = cursor.walk.span.first;
        if let Some(directory) = htable.directory(&cursor.walk.reader)? {
            cursor.next_segment = directory.find(first, &[]).unwrap_or(0);
        }
        // The first entry may stand in the segment after: keys of one digest can be in two.
        while cursor.next == cursor.spots.len() && cursor.load_segment()? {
            cursor.next = cursor.spots.partition_point(|spot| spot.digest < first);
        }
        cursor.advance()?;
        Ok(cursor)
    }

    /// Reads the next segment and puts its entries in order; false at the end.
    fn load_segment(&mut self) -> Result<bool> {
        let htable = Arc::clone(&self.walk.table);
        let directory = htable.directory(&self.walk.reader)?;
        let located = directory.and_then(|directory| directory.get(self.next_segment));
        let Some(located) = located.filter(|located| located.segment.first.0 <= self.walk.span.last) else {
            return Ok(false);
        };
        self.next_segment += 1;
        self.first_page = located.segment.page;
        self.walk.read(self.first_page, located.segment.pages as usize)?;
        self.spots.clear();
        self.own_keys.clear();
        self.next = 0;
        let mut moved = Vec::new();
        let coded = htable.coded(&self.walk.reader)?;
        for (number, page) in self.walk.pages() {
            let malformed = || self.walk.malformed(number);
            let (used, entries) = page_header(page).ok_or_else(malformed)?;
            let page_of_segment = number - self.first_page;
            let mut at = PAGE_HEADER_BYTES;
            for _ in 0..entries {
                let entry = decode(page, at, used).filter(|entry| entry.shared == 0).ok_or_else(malformed)?;
                let mut own_key = None;
                let mut key =
                    page.get(entry.tail_at..entry.tail_at + entry.tail_len).ok_or_else(malformed)?;
                let own;
                if let Some(Overflow { key_len: Some(_), .. }) = entry.overflow {
                    own = self.walk.complete(|probe| overflowed_key(&htable.meta, &entry, probe))?;
                    own_key = Some(self.own_keys.len() as u32);
                    self.own_keys.push(own.clone());
                    key = &own;
                } else if coded.keys().is_some() {
                    own = coded.key(page, &entry).ok_or_else(malformed)?.into_owned();
                    own_key = Some(self.own_keys.len() as u32);
                    self.own_keys.push(own.clone());
                    key = &own;
                }
                let EncodedKey { digest, fingerprint, prefix_len, .. } = self.walk.encoder.encode(key)?;
                let page = page_of_segment;
                let spot = Spot { digest, fingerprint, prefix_len, page, at: at as u32, own_key };
                let is_home = located.segment.is_packed || located.spread.bucket(digest.hi) == page;
                if is_home {
                    self.spots.push(spot)
                } else {
                    moved.push(spot)
                }
                at = entry.end;
            }
        }
        let mut spots = std::mem::take(&mut self.spots);
        spots.append(&mut moved);
        spots.sort_by(|a, b| a.digest.cmp(&b.digest).then_with(|| self.key(a).cmp(self.key(b))));
        self.spots = spots;
        Ok(true)
    }

    fn page(&self, spot: &Spot) -> &[u8] {
        self.walk.page_at(spot.page)
    }

    /// The key of an entry that was decoded once.
    fn key(&self, spot: &Spot) -> &[u8] {
        if let Some(key) = spot.own_key.and_then(|number| self.own_keys.get(number as usize)) {
            return key;
        }
        let page = self.page(spot);
        let entry = decode(page, spot.at as usize, PAGE_BYTES);
        entry.and_then(|entry| page.get(entry.tail_at..entry.tail_at + entry.tail_len)).unwrap_or(&[])
    }

    fn current(&self) -> Option<&Spot> {
        self.next.checked_sub(1).and_then(|at| self.spots.get(at))
    }
}

impl Cursor for HTableCursor {
    fn peek(&self) -> Option<EntryRef<'_>> {
        let (entry, spot) = (self.entry.as_ref()?, self.current()?);
        let key = match spot.own_key {
            Some(number) => self.own_keys.get(number as usize)?.as_slice(),
            None => self.page(spot).get(entry.tail_at..entry.tail_at + entry.tail_len)?,
        };
        let key = EncodedKey {
            digest: spot.digest,
            fingerprint: spot.fingerprint,
            key,
            prefix_len: spot.prefix_len,
        };
        let item = if entry.is_tombstone() {
            Item::Deleted
        } else {
            let stored = || self.page(spot).get(entry.value_at..entry.value_at + entry.value_len);
            entry.item(self.own_value.as_deref().or_else(stored)?)
        };
        Some(EntryRef { key, item, older_in: entry.older_in })
    }

    fn advance(&mut self) -> Result<Option<Digest>> {
        (self.own_value, self.value_waits) = (None, false);
        self.entry = None;
        while self.next == self.spots.len() {
            if !self.load_segment()? {
                return Ok(None);
            }
        }
        self.next += 1;
        let Some(spot) = self.current().filter(|spot| spot.digest <= self.walk.span.last) else {
            (self.next_segment, self.next) = (usize::MAX, self.spots.len());
            return Ok(None);
        };
        let (digest, number) = (spot.digest, self.first_page + spot.page);
        let htable = Arc::clone(&self.walk.table);
        let coded = htable.coded(&self.walk.reader)?;
        let entry = decode(self.page(spot), spot.at as usize, PAGE_BYTES)
            .ok_or_else(|| self.walk.malformed(number))?;
        if entry.overflow.is_some() && entry.value_len >= LARGE_VALUE_BYTES {
            (self.own_value, self.value_waits) = (Some(Vec::new()), true);
        } else if entry.overflow.is_some() {
            self.own_value = Some(self.walk.complete(|probe| overflow(coded, &entry, probe))?.1);
        } else if !coded.has_plain_values() {
            let stored = self.page(spot).get(entry.value_at..entry.value_at + entry.value_len);
            let value = stored.and_then(|stored| coded.value(stored.to_vec()));
            self.own_value = Some(value.ok_or_else(|| self.walk.malformed(number))?);
        }
        self.entry = Some(entry);
        Ok(Some(digest))
    }

    fn load_value(&mut self) -> Result<()> {
        if let Some(entry) = self.entry.filter(|_| self.value_waits) {
            let htable = Arc::clone(&self.walk.table);
            let coded = htable.coded(&self.walk.reader)?;
            self.own_value = Some(self.walk.complete(|probe| overflow(coded, &entry, probe))?.1);
            self.value_waits = false;
        }
        Ok(())
    }
}
