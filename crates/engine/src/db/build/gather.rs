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
/// Items that a walk looks up together: about as many as the processor has misses under way.
const LOOKED_UP_TOGETHER: usize = 32;
/// Bytes of an item that are loaded ahead at most, and those of a cache line.
const FETCHED_BYTES: usize = 256;
const LINE_BYTES: usize = 64;

/// Takes the next item.
#[inline]
fn take_record<'a>(from: &mut Decoder<'a>) -> Option<(&'a [u8], Item<'a>)> {
    let (key, value, expires_at_ms) = (from.length()?, from.length()?, from.varint()?);
    Some((from.take(key)?, Item::Put { value: from.take(value)?, expires_at_ms }))
}

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
        let mut gathered = Self::with_room(encoder, 0, 0);
        // Grown by doubling, both would be copied, and take more than that meanwhile. That is left for
        // budgets that are larger than what there is.
        let _ = gathered.arena.try_reserve_exact(bytes);
        let _ = gathered.places.try_reserve_exact(bytes / LEAST_ITEM_BYTES);
        gathered.is_sorted = true;
        gathered
    }

    /// Room for items of so many bytes in the arena.
    pub fn with_room(encoder: Encoder, bytes: usize, items: usize) -> Self {
        let (arena, places) = (Vec::with_capacity(bytes), Vec::with_capacity(items));
        Self { encoder, arena, places, is_sorted: false }
    }

    /// Bytes of memory that items take of so many bytes in the arena.
    pub fn bytes_for(bytes: usize, items: usize) -> usize {
        bytes + items * size_of::<Place>()
    }

    /// The items' bytes, to which those of others may be added; see [`Self::find_records`].
    pub fn arena(&mut self) -> &mut Vec<u8> {
        &mut self.arena
    }

    /// Finds the items in the arena, none of which has a place yet, and returns where the first begins that
    /// is not there as a whole.
    pub fn find_records(&mut self) -> usize {
        self.is_sorted = false;
        let mut from = Decoder::new(&self.arena);
        loop {
            let at = self.arena.len() - from.remaining();
            let Some((key, _)) = take_record(&mut from) else { return at };
            let Ok(key) = self.encoder.encode(key) else { return at };
            self.places.push(Place { digest: key.digest, at: at as u64 });
        }
    }

    /// Forgets all items, and keeps what stands in the arena from `at` on.
    pub fn keep_only(&mut self, at: usize) {
        self.arena.drain(..at);
        self.places.clear();
    }

    /// The items, each with its key and as it stands in the arena: in the order in which they came, or else
    /// in the store's.
    pub fn records(&self) -> impl Iterator<Item = (EncodedKey<'_>, &[u8])> {
        self.places.iter().filter_map(|place| {
            let rest = self.arena.get(place.at as usize..)?;
            let mut from = Decoder::new(rest);
            let (key, _) = take_record(&mut from)?;
            Some((
                self.encoder.encode_again(key, place.digest).ok()?,
                rest.get(..rest.len() - from.remaining())?,
            ))
        })
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
        let parts = take_record(&mut Decoder::new(self.arena.get(place.at as usize..).unwrap_or(&[])));
        debug_assert!(parts.is_some(), "places lead to items");
        parts.unwrap_or((&[], Item::Deleted))
    }

    fn key(&self, place: Place) -> &[u8] {
        self.item(place).0
    }

    /// Loads the item at a place into the processor's cache.
    #[inline]
    fn fetch(&self, place: Place) {
        let at = place.at as usize;
        let item = self.arena.get(at..self.arena.len().min(at + FETCHED_BYTES)).unwrap_or(&[]);
        item.iter().step_by(LINE_BYTES).for_each(|byte| {
            std::hint::black_box(*byte);
        });
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

    /// The place of the last item, once sorted.
    pub fn last(&self) -> Option<(Digest, &[u8])> {
        self.places.last().map(|place| (place.digest, self.key(*place)))
    }

    /// Moves the last item to `next`, with which the items go on: it may be of the same key as what comes.
    /// Only if they came in the store's order, of which every item with that key is the last.
    pub fn hand_last_to(&mut self, next: &mut Self) {
        let Some(last) = self.places.last().copied().filter(|_| self.is_sorted) else { return };
        let (key, item) = self.item(last);
        if let (Ok(encoded), Item::Put { value, expires_at_ms }) = (self.encoder.encode(key), item) {
            next.add(&encoded, value, expires_at_ms);
        }
        let is_of_last = |place: &Place| place.digest == last.digest && self.key(*place) == self.key(last);
        let others = self.places.iter().rev().skip_while(|place| is_of_last(place)).count();
        self.places.truncate(others);
    }

    /// Forgets all items and keeps the memory.
    pub fn clear(&mut self) {
        self.arena.clear();
        self.places.clear();
        self.is_sorted = true;
    }

    /// A walk over all items, once sorted.
    pub fn walk(&self) -> Walk<&Self> {
        Walk::new(self, 0..self.places.len())
    }

    /// A walk over the items within `span`, once sorted.
    pub fn walk_within(self: Arc<Self>, span: &Span) -> Walk<Arc<Self>> {
        let from = self.places.partition_point(|place| place.digest < span.first);
        let to = self.places.partition_point(|place| place.digest <= span.last);
        Walk::new(self, from..to)
    }
}

/// An item that a walk has looked up.
#[derive(Clone, Copy)]
struct Head {
    place: Place,
    fingerprint: u64,
    prefix_len: usize,
}

/// A walk over gathered items in the store's order.
///
/// Sorted items lie anywhere in the arena, so that each would cost a cache miss or two. A walk looks up a few
/// at once, and so waits for their misses together.
pub(super) struct Walk<G> {
    gathered: G,
    rest: Range<usize>,
    /// The items looked up, the next one last.
    ahead: Vec<Head>,
}

impl<G: Deref<Target = Gathered>> Walk<G> {
    fn new(gathered: G, places: Range<usize>) -> Self {
        let mut walk = Self { gathered, rest: places, ahead: Vec::with_capacity(LOOKED_UP_TOGETHER) };
        walk.look_up();
        walk
    }

    #[inline]
    fn turn(&mut self) {
        self.ahead.pop();
        if self.ahead.is_empty() {
            self.look_up();
        }
    }

    /// Looks up the next items.
    fn look_up(&mut self) {
        let Self { gathered, rest, ahead } = self;
        let end = rest.end.min(rest.start + LOOKED_UP_TOGETHER);
        let places = gathered.places.get(rest.start..end).unwrap_or(&[]);
        rest.start = end;
        // These loads do not wait for each other.
        for place in places {
            gathered.fetch(*place);
        }
        ahead.extend(places.iter().rev().filter_map(|place| {
            let key = gathered.encoder.encode_again(gathered.key(*place), place.digest).ok()?;
            Some(Head { place: *place, fingerprint: key.fingerprint, prefix_len: key.prefix_len })
        }));
        debug_assert_eq!(places.len(), ahead.len(), "keys were encoded before");
    }
}

impl<G: Deref<Target = Gathered> + Send> Cursor for Walk<G> {
    #[inline]
    fn peek(&self) -> Option<EntryRef<'_>> {
        let Head { place, fingerprint, prefix_len } = *self.ahead.last()?;
        let (key, item) = self.gathered.item(place);
        let key = EncodedKey { digest: place.digest, fingerprint, key, prefix_len };
        Some(EntryRef { key, item, older_in: 0 })
    }

    #[inline]
    fn advance(&mut self) -> Result<Option<Digest>> {
        self.turn();
        Ok(self.ahead.last().map(|head| head.place.digest))
    }
}
