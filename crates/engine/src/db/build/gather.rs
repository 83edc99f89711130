//! Items of a bulk build in memory: gathered in any order, sorted, and walked in the store's order.
//!
//! ```text
//! arena  ┌────────────────┬──────────────────┬──────────────────────┬─────┬───────┐
//!        │ key len varint │ value len varint │ expires at ms varint │ key │ value │ … one after the other
//!        └────────────────┴──────────────────┴──────────────────────┴─────┴───────┘
//! place    digest and where in the arena the item stands: 24 bytes, which is what is sorted
//! ```
//!
//! Of items with one key the last one that was given is kept.

use crate::codec::Decoder;
use crate::entry::{Cursor, EntryRef, Item, Span};
use crate::error::Result;
use siltstone_design::{Digest, EncodedKey, Encoder};
use siltstone_succinct::code::varint;
use std::cmp::Ordering;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Where an item is.
#[derive(Clone, Copy, Default)]
struct Place {
    digest: Digest,
    at: u64,
}

/// Memory that an item takes beside its key and value.
const ITEM_OVERHEAD_BYTES: usize = size_of::<Place>() + 8;
/// What the smallest item takes.
const LEAST_ITEM_BYTES: usize = size_of::<Place>() + 4;

/// Items in memory.
pub(super) struct Gathered {
    encoder: Encoder,
    arena: Vec<u8>,
    places: Vec<Place>,
    /// Whether they came in the store's order.
    pub is_sorted: bool,
}

impl Gathered {
    /// Room for items in about so many bytes of memory, which is taken as they come.
    pub fn new(encoder: Encoder, bytes: usize) -> Self {
        // Grown by doubling, both would be copied, and take more than that meanwhile.
        let (arena, places) = (Vec::with_capacity(bytes), Vec::with_capacity(bytes / LEAST_ITEM_BYTES));
        Self { encoder, arena, places, is_sorted: true }
    }

    /// Returns how many items there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Bytes of memory that the items take.
    pub fn memory_bytes(&self) -> usize {
        self.arena.len() + self.places.len() * size_of::<Place>()
    }

    /// Whether an item with so many bytes of key and value would make them take more than `at_most`.
    #[inline]
    pub fn lacks_room(&self, bytes: usize, at_most: usize) -> bool {
        self.memory_bytes() + bytes + ITEM_OVERHEAD_BYTES > at_most
    }

    /// Adds an item; of equal keys the later one counts.
    #[inline]
    pub fn add(&mut self, key: &EncodedKey<'_>, value: &[u8], expires_at_ms: u64) {
        if let Some(last) = self.places.last()
            && self.is_sorted
        {
            self.is_sorted = match last.digest.cmp(&key.digest) {
                Ordering::Less => true,
                Ordering::Equal => self.key(*last) <= key.key,
                Ordering::Greater => false,
            };
        }
        let at = self.arena.len() as u64;
        varint::put_u64(&mut self.arena, key.key.len() as u64);
        varint::put_u64(&mut self.arena, value.len() as u64);
        varint::put_u64(&mut self.arena, expires_at_ms);
        self.arena.extend_from_slice(key.key);
        self.arena.extend_from_slice(value);
        self.places.push(Place { digest: key.digest, at });
    }

    /// Returns key and item that stand at a place.
    #[inline]
    fn item(&self, place: Place) -> (&[u8], Item<'_>) {
        let mut from = Decoder::new(self.arena.get(place.at as usize..).unwrap_or(&[]));
        let mut parts = || {
            let (key, value, expires_at_ms) = (from.length()?, from.length()?, from.varint()?);
            Some((from.take(key)?, Item::Put { value: from.take(value)?, expires_at_ms }))
        };
        let parts = parts();
        debug_assert!(parts.is_some(), "places lead to items");
        parts.unwrap_or((&[], Item::Deleted))
    }

    fn key(&self, place: Place) -> &[u8] {
        self.item(place).0
    }

    /// Sorts the items, and keeps the last of each key.
    pub fn sort(&mut self) {
        let mut places = std::mem::take(&mut self.places);
        if !self.is_sorted {
            places.sort_unstable_by(|a, b| {
                a.digest
                    .cmp(&b.digest)
                    .then_with(|| self.key(*a).cmp(self.key(*b)))
                    .then_with(|| a.at.cmp(&b.at))
            });
        }
        // The later of two neighbours takes the earlier one's place.
        places.dedup_by(|next, kept| {
            let is_same = next.digest == kept.digest && self.key(*next) == self.key(*kept);
            if is_same {
                *kept = *next;
            }
            is_same
        });
        self.places = places;
        self.is_sorted = true;
    }

    /// The place of the first item, once sorted.
    pub fn first(&self) -> Option<(Digest, &[u8])> {
        self.places.first().map(|place| (place.digest, self.key(*place)))
    }

    /// Forgets all items but the last one, which the next may replace.
    pub fn keep_last(&mut self) {
        let last = self.places.last().map(|place| (place.digest, self.arena.split_off(place.at as usize)));
        self.places.clear();
        match last {
            Some((digest, item)) => {
                self.arena.clear();
                self.arena.extend_from_slice(&item);
                self.places.push(Place { digest, at: 0 });
            }
            None => self.arena.clear(),
        }
        self.is_sorted = true;
    }

    /// Forgets all items and keeps the memory.
    pub fn clear(&mut self) {
        self.arena.clear();
        self.places.clear();
        self.is_sorted = true;
    }

    /// A walk over all items, once sorted, without the last `left_out`.
    pub fn walk(&self, left_out: usize) -> Walk<&Self> {
        Walk::new(self, 0..self.places.len().saturating_sub(left_out))
    }

    /// A walk over the items within `span`, once sorted.
    pub fn walk_within(self: Arc<Self>, span: &Span) -> Walk<Arc<Self>> {
        let from = self.places.partition_point(|place| place.digest < span.first);
        let to = self.places.partition_point(|place| place.digest <= span.last);
        Walk::new(self, from..to)
    }
}

/// The entry that a walk stands on.
#[derive(Clone, Copy)]
struct Head {
    place: Place,
    fingerprint: u64,
    prefix_len: usize,
}

/// A walk over gathered items in the store's order.
pub(super) struct Walk<G> {
    gathered: G,
    rest: Range<usize>,
    head: Option<Head>,
}

impl<G: Deref<Target = Gathered>> Walk<G> {
    fn new(gathered: G, places: Range<usize>) -> Self {
        let mut walk = Self { gathered, rest: places, head: None };
        walk.turn();
        walk
    }

    #[inline]
    fn turn(&mut self) {
        let place = self.rest.next().and_then(|number| self.gathered.places.get(number));
        self.head = place.and_then(|place| {
            let key = self.gathered.encoder.encode(self.gathered.key(*place)).ok()?;
            Some(Head { place: *place, fingerprint: key.fingerprint, prefix_len: key.prefix_len })
        });
        debug_assert_eq!(place.is_some(), self.head.is_some(), "keys were encoded before");
    }
}

impl<G: Deref<Target = Gathered> + Send> Cursor for Walk<G> {
    #[inline]
    fn peek(&self) -> Option<EntryRef<'_>> {
        let Head { place, fingerprint, prefix_len } = self.head?;
        let (key, item) = self.gathered.item(place);
        let key = EncodedKey { digest: place.digest, fingerprint, key, prefix_len };
        Some(EntryRef { key, item, older_in: 0 })
    }

    #[inline]
    fn advance(&mut self) -> Result<Option<Digest>> {
        self.turn();
        Ok(self.head.map(|head| head.place.digest))
    }
}
