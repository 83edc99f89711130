//! Items that were used last, as they are stored, so that a command need not look them up.
//!
//! The idea: most commands ask for what a command before them has read or written, and a lookup in the store
//! costs more than all else that they do. This is a table of fixed size, in sets of a few places, as a
//! processor's cache: an item lies in the set that the hash of its key names, or nowhere. Each set has a lock
//! of its own, and gives up places by CLOCK: an item that was used since the hand came by stays for a round.
//!
//! An item belongs to an owner: heads to their database, elements to their large collection. Owners have
//! numbers that are used once, and the head of a large collection says its number. So with a head all
//! elements are forgotten, and with a database all of its heads.
//!
//! Invariant: what it says of an item is what the store holds. Whoever writes an item has its key to itself,
//! and says here what has become of it before others may have it. Whoever has read one may add it only if
//! nothing was said about its set meanwhile ([`Ticket`]), so a reader needs no lock for that.
//!
//! Source: set-associative caches and CLOCK are folklore; what is stored of one item, ours.

use foldhash::fast::RandomState;
use parking_lot::{Mutex, MutexGuard};
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};

/// Places of a set.
const WAYS: usize = 8;
/// Bytes of key and value together in one place; longer items are not kept.
const PLACE_BYTES: usize = 110;
/// The length of a value that is not there.
const ABSENT: u8 = u8::MAX;
/// Bytes of a set.
const SET_BYTES: usize = size_of::<Line>() + WAYS * size_of::<Place>();

/// Whose items they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(u64);

impl Owner {
    /// Of no items: what an item names that has no elements.
    pub const NOBODY: Self = Self(0);
}

/// What the store holds of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its value; `None` where there is no such item.
    pub value: Option<Vec<u8>>,
    /// Whose elements it is the head of.
    pub elements: Owner,
}

/// Allows an item to be added that was not there, if it is read from the store afterwards.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    said: u32,
}

#[derive(Clone, Copy)]
struct Place {
    owner: Owner,
    elements: Owner,
    key_bytes: u8,
    value_bytes: u8,
    bytes: [u8; PLACE_BYTES],
}

impl Place {
    const EMPTY: Self = Self {
        owner: Owner::NOBODY,
        elements: Owner::NOBODY,
        key_bytes: 0,
        value_bytes: ABSENT,
        bytes: [0; PLACE_BYTES],
    };

    /// Whether an item fits.
    fn takes(key: &[u8], value: Option<&[u8]>) -> bool {
        key.len() + value.map_or(0, <[u8]>::len) <= PLACE_BYTES
    }

    /// Holds an item that [fits](Self::takes) from now on.
    fn hold(&mut self, owner: Owner, key: &[u8], item: (Option<&[u8]>, Owner)) {
        let (value, elements) = item;
        (self.owner, self.elements) = (owner, elements);
        self.key_bytes = u8::try_from(key.len()).unwrap_or(0);
        self.value_bytes = value.map_or(ABSENT, |value| u8::try_from(value.len()).unwrap_or(ABSENT));
        let (for_key, rest) = self.bytes.split_at_mut(key.len());
        for_key.copy_from_slice(key);
        let value = value.unwrap_or_default();
        if let Some(for_value) = rest.get_mut(..value.len()) {
            for_value.copy_from_slice(value);
        }
    }

    fn is_of(&self, owner: Owner, key: &[u8]) -> bool {
        self.owner == owner && self.bytes.get(..usize::from(self.key_bytes)) == Some(key)
    }

    fn item(&self) -> Item {
        let from = usize::from(self.key_bytes);
        let value = self.bytes.get(from..from + usize::from(self.value_bytes));
        let value = if self.value_bytes == ABSENT { None } else { value.map(<[u8]>::to_vec) };
        Item { value, elements: self.elements }
    }
}

/// Places that a hash names together.
#[derive(Default)]
struct Set {
    /// A part of the hash of each place's item; 0 where there is none.
    tags: [u32; WAYS],
    /// Places that were used since the hand came by, as bits.
    used: u8,
    /// The place that is asked next to make room.
    hand: u8,
    /// How often something was said about its items, as far as the number goes.
    said: u32,
    /// Made with the first item.
    places: Option<Box<[Place; WAYS]>>,
}

impl Set {
    /// The number of an item's place.
    fn find(&self, tag: u32, owner: Owner, key: &[u8]) -> Option<usize> {
        let places = self.places.as_ref()?;
        let mut tagged = self.tags.iter().zip(places.iter());
        tagged.position(|(other, place)| *other == tag && place.is_of(owner, key))
    }

    /// A place that is free, or is given up.
    fn victim(&mut self) -> usize {
        if let Some(free) = self.tags.iter().position(|tag| *tag == 0) {
            return free;
        }
        loop {
            let at = usize::from(self.hand) % WAYS;
            self.hand = self.hand.wrapping_add(1);
            if self.used & 1 << at == 0 {
                return at;
            }
            self.used &= !(1 << at);
        }
    }

    /// Puts an item into place `found`, or into one that is free or given up.
    fn put(&mut self, tag: u32, found: Option<usize>, hold: impl FnOnce(&mut Place)) -> usize {
        let at = found.unwrap_or_else(|| self.victim());
        let places = self.places.get_or_insert_with(|| Box::new([Place::EMPTY; WAYS]));
        if let (Some(place), Some(of)) = (places.get_mut(at), self.tags.get_mut(at)) {
            hold(place);
            *of = tag;
        }
        at
    }

    fn remove(&mut self, at: usize) {
        if let Some(tag) = self.tags.get_mut(at) {
            *tag = 0;
            self.used &= !(1 << at);
        }
    }
}

/// A set with its lock, in bytes that come into the processor's cache together.
#[derive(Default)]
#[repr(align(64))]
struct Line(Mutex<Set>);

/// Items that were used last.
pub struct Recent {
    sets: Box<[Line]>,
    hasher: RandomState,
    owners: AtomicU64,
    /// Sets that have places.
    made: AtomicU64,
}

impl Recent {
    /// A table that takes up to `bytes` of memory, as items come.
    pub fn new(bytes: u64) -> Self {
        let sets = usize::try_from(bytes).unwrap_or(usize::MAX) / SET_BYTES;
        Self {
            sets: (0..sets).map(|_| Line::default()).collect(),
            hasher: RandomState::default(),
            owners: AtomicU64::new(1),
            made: AtomicU64::new(0),
        }
    }

    /// Memory that it takes now.
    pub fn bytes(&self) -> u64 {
        let (places, sets) = (WAYS * size_of::<Place>(), self.sets.len() * size_of::<Line>());
        sets as u64 + self.made.load(Ordering::Relaxed) * places as u64
    }

    /// An owner of whom nothing is there.
    pub fn new_owner(&self) -> Owner {
        Owner(self.owners.fetch_add(1, Ordering::Relaxed))
    }

    /// The set of an item, and the item's tag.
    fn line(&self, owner: Owner, key: &[u8]) -> Option<(&Line, u32)> {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u64(owner.0);
        hasher.write(key);
        let hash = hasher.finish();
        let number = ((u128::from(hash) * self.sets.len() as u128) >> u64::BITS) as usize;
        Some((self.sets.get(number)?, hash as u32 | 1))
    }

    /// The same, locked.
    fn set(&self, owner: Owner, key: &[u8]) -> Option<(MutexGuard<'_, Set>, u32)> {
        self.line(owner, key).map(|(line, tag)| (line.0.lock(), tag))
    }

    /// Has the sets of some items come to the processor's cache, all at the same time: one by one, each lock
    /// would wait for its own.
    pub fn prefetch<'k>(&self, owner: Owner, keys: impl Iterator<Item = &'k [u8]>) {
        let touch = |key| self.line(owner, key).is_some_and(|(line, _)| line.0.is_locked());
        std::hint::black_box(keys.filter(|key| touch(key)).count());
    }

    /// What the store holds of an item, or a ticket to add it.
    pub fn get(&self, owner: Owner, key: &[u8]) -> Result<Item, Ticket> {
        let Some((mut set, tag)) = self.set(owner, key) else { return Err(Ticket { said: 0 }) };
        let found = set.find(tag, owner, key);
        let item = found.and_then(|at| Some(set.places.as_ref()?.get(at)?.item()));
        if let (Some(at), Some(_)) = (found, &item) {
            set.used |= 1 << at;
        }
        item.ok_or(Ticket { said: set.said })
    }

    /// Adds an item as it was read from the store after the ticket was got.
    pub fn add(&self, ticket: Ticket, owner: Owner, key: &[u8], value: Option<&[u8]>, elements: Owner) {
        if !Place::takes(key, value) {
            return;
        }
        let Some((mut set, tag)) = self.set(owner, key) else { return };
        if set.said == ticket.said {
            self.note_made(&set);
            let found = set.find(tag, owner, key);
            set.put(tag, found, |place| place.hold(owner, key, (value, elements)));
        }
    }

    /// Says what has become of an item that was written. The caller has its key to itself.
    pub fn put(&self, owner: Owner, key: &[u8], value: Option<&[u8]>, elements: Owner) {
        let Some((mut set, tag)) = self.set(owner, key) else { return };
        set.said = set.said.wrapping_add(1);
        match (Place::takes(key, value), set.find(tag, owner, key)) {
            (true, found) => {
                self.note_made(&set);
                let at = set.put(tag, found, |place| place.hold(owner, key, (value, elements)));
                set.used |= 1 << at;
            }
            (false, Some(at)) => set.remove(at),
            (false, None) => {}
        }
    }

    /// Forgets an item that may have been written, and, with a head, the elements that are its own.
    pub fn forget(&self, owner: Owner, key: &[u8]) {
        let Some((mut set, tag)) = self.set(owner, key) else { return };
        set.said = set.said.wrapping_add(1);
        if let Some(at) = set.find(tag, owner, key) {
            set.remove(at);
        }
    }

    /// Counts a set that is about to get its places, if it has none.
    fn note_made(&self, set: &Set) {
        if set.places.is_none() {
            self.made.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn get(recent: &Recent, owner: Owner, key: &[u8]) -> Option<Option<Vec<u8>>> {
        recent.get(owner, key).ok().map(|item| item.value)
    }

    #[test]
    fn it_never_says_what_is_not_so() {
        let recent = Recent::new(4 * SET_BYTES as u64);
        let owners = [recent.new_owner(), recent.new_owner()];
        let (mut held, mut random, mut found) = (HashMap::new(), 7u32, 0);
        for round in 0..50_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let owner = owners[(random >> 8) as usize % 2];
            let key = format!("key {}", (random >> 10) % 50).into_bytes();
            let place = (owner.0, key.clone());
            match random >> 30 {
                0 => {
                    // Some are too long to be kept.
                    let value = (round % 3 > 0).then(|| vec![b'v'; round % 130]);
                    recent.put(owner, &key, value.as_deref(), Owner::NOBODY);
                    held.insert(place, value);
                }
                1 => {
                    held.remove(&place);
                    recent.forget(owner, &key);
                }
                _ => match recent.get(owner, &key) {
                    Ok(item) => {
                        found += 1;
                        // What was forgotten is not there in the store of this test.
                        assert_eq!(item.value, held.get(&place).cloned().flatten());
                    }
                    Err(ticket) => {
                        let value = held.get(&place).cloned().flatten();
                        recent.add(ticket, owner, &key, value.as_deref(), Owner::NOBODY);
                    }
                },
            }
        }
        assert!(found > 1_000, "{found}");
        assert!(recent.bytes() <= 4 * SET_BYTES as u64);
    }

    #[test]
    fn what_was_written_since_it_was_read_is_not_added() {
        let recent = Recent::new(SET_BYTES as u64);
        let owner = recent.new_owner();
        let ticket = recent.get(owner, b"key").unwrap_err();
        recent.forget(owner, b"key");
        recent.add(ticket, owner, b"key", Some(b"old"), Owner::NOBODY);
        assert_eq!(get(&recent, owner, b"key"), None);
        // One that was written with a value too long to be kept is no better.
        let ticket = recent.get(owner, b"key").unwrap_err();
        recent.put(owner, b"key", Some(&[b'v'; 1000]), Owner::NOBODY);
        recent.add(ticket, owner, b"key", Some(b"old"), Owner::NOBODY);
        assert_eq!(get(&recent, owner, b"key"), None);
        let ticket = recent.get(owner, b"key").unwrap_err();
        recent.add(ticket, owner, b"key", Some(b"new"), Owner::NOBODY);
        assert_eq!(get(&recent, owner, b"key"), Some(Some(b"new".to_vec())));
    }

    #[test]
    fn what_is_used_stays() {
        let recent = Recent::new(SET_BYTES as u64);
        let owner = recent.new_owner();
        recent.put(owner, b"used", None, Owner::NOBODY);
        for number in 0..100u32 {
            assert_eq!(get(&recent, owner, b"used"), Some(None));
            let key = number.to_be_bytes();
            let ticket = recent.get(owner, &key).unwrap_err();
            recent.add(ticket, owner, &key, None, Owner::NOBODY);
        }
    }

    #[test]
    fn a_table_without_room_keeps_nothing() {
        let recent = Recent::new(0);
        let owner = recent.new_owner();
        recent.put(owner, b"key", None, Owner::NOBODY);
        recent.forget(owner, b"key");
        let ticket = recent.get(owner, b"key").unwrap_err();
        recent.add(ticket, owner, b"key", None, Owner::NOBODY);
        assert_eq!(get(&recent, owner, b"key"), None);
        assert_eq!(recent.bytes(), 0);
    }
}
