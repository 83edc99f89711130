//! A hash or a set in memory, while commands work on it: small ones whole, of large ones what was asked for.

use super::encoding::{self, Element};
use super::packed::Packed;
use super::recent::{Owner, Ticket};
use super::store::Database;
use crate::failure::Failure;
use foldhash::fast::RandomState;
use rand::RngExt as _;
use siltstone::{Batch, Keyspace};
use std::collections::HashMap;
use std::sync::Arc;

/// What a collection holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Fields with values.
    Hash,
    /// Members.
    Set,
}

/// An element that somebody owns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedElement {
    /// The value; empty in sets.
    pub value: Vec<u8>,
    /// When it is gone; 0 = with its key.
    pub expires_at: u64,
}

impl OwnedElement {
    /// Lends it.
    pub fn lend(&self) -> Element<'_> {
        Element { value: &self.value, expires_at: self.expires_at }
    }
}

impl From<Element<'_>> for OwnedElement {
    fn from(element: Element<'_>) -> Self {
        Self { value: element.value.to_vec(), expires_at: element.expires_at }
    }
}

/// Name and element, owned.
pub type Entry = (Vec<u8>, OwnedElement);

/// What is known of an element of a large collection.
#[derive(Clone, Debug)]
struct Known {
    element: Option<OwnedElement>,
    is_changed: bool,
}

/// A large collection: its head, and the elements that commands have asked for.
#[derive(Clone, Debug)]
pub struct Group {
    database: Arc<Database>,
    prefix: Vec<u8>,
    /// As whose its elements are kept among those used last.
    pub(super) owner: Owner,
    /// Number of elements.
    pub count: u64,
    /// No element expires before; 0 where none does.
    pub soonest: u64,
    known: HashMap<Vec<u8>, Known, RandomState>,
    /// Whether the store has elements of it; not if it was made just now.
    is_stored: bool,
}

/// Reads values of keys, or says that it can't.
type Read = fn(&Keyspace, &[Vec<u8>]) -> siltstone::Result<Option<Vec<Option<Vec<u8>>>>>;

/// Reads the values of keys together; of one, without what that takes for many.
pub(super) fn read_all(items: &Keyspace, keys: &[Vec<u8>]) -> siltstone::Result<Vec<Option<Vec<u8>>>> {
    match keys {
        [key] => Ok(vec![items.get(key)?]),
        keys => items.multi_get(keys),
    }
}

impl Group {
    /// The collection that is stored under `key`, whose elements are kept as those of `owner`.
    pub fn stored(database: &Arc<Database>, key: &[u8], owner: Owner, count: u64, soonest: u64) -> Self {
        Self { count, soonest, is_stored: true, ..Self::new(database, key, owner) }
    }

    /// One without elements, of which the store has none either.
    fn new(database: &Arc<Database>, key: &[u8], owner: Owner) -> Self {
        let prefix = database.layout.group(key);
        let (database, known) = (Arc::clone(database), HashMap::default());
        Self { database, prefix, owner, count: 0, soonest: 0, known, is_stored: false }
    }

    /// Whether the store holds it, as against one that was made just now.
    pub fn is_of_store(&self) -> bool {
        self.is_stored
    }

    fn load(&mut self, names: &[&[u8]]) -> Result<(), Failure> {
        self.load_by(names, |items, keys| read_all(items, keys).map(Some)).map(|_| ())
    }

    /// Learns of elements what those used last, or `read` under their keys, say of them; false where that is
    /// `None`.
    fn load_by(&mut self, names: &[&[u8]], read: Read) -> Result<bool, Failure> {
        let mut missing: Vec<(&[u8], Ticket)> = Vec::new();
        if self.is_stored && names.len() > 1 {
            self.known.reserve(names.len());
            self.database.recent.prefetch(self.owner, names.iter().copied());
        }
        for name in names {
            if self.known.contains_key(*name) {
                continue;
            }
            if !self.is_stored {
                self.learn(name, None);
                continue;
            }
            match self.database.recent.get(self.owner, name) {
                Ok(item) => self.learn(name, item.value.as_deref()),
                Err(ticket) => missing.push((name, ticket)),
            }
        }
        if missing.is_empty() {
            return Ok(true);
        }
        let keys: Vec<_> =
            missing.iter().map(|(name, _)| encoding::element_key(&self.prefix, name)).collect();
        let Some(values) = read(&self.database.items, &keys)? else { return Ok(false) };
        for ((name, ticket), value) in missing.into_iter().zip(values) {
            self.database.recent.add(ticket, self.owner, name, value.as_deref(), Owner::NOBODY);
            self.learn(name, value.as_deref());
        }
        Ok(true)
    }

    fn learn(&mut self, name: &[u8], value: Option<&[u8]>) {
        let element = value.and_then(encoding::read_element_value).map(|(_, element)| element.into());
        self.known.insert(name.to_vec(), Known { element, is_changed: false });
    }

    fn get(&mut self, name: &[u8]) -> Result<Option<Element<'_>>, Failure> {
        self.load(&[name])?;
        Ok(self.known.get(name).and_then(|known| known.element.as_ref()).map(OwnedElement::lend))
    }

    fn change(&mut self, name: &[u8], element: Option<OwnedElement>) -> Result<bool, Failure> {
        self.load(&[name])?;
        let Some(known) = self.known.get_mut(name) else { return Ok(false) };
        let (was_there, is_there) = (known.element.is_some(), element.is_some());
        if let Some(at) = element.as_ref().map(|element| element.expires_at).filter(|at| *at > 0) {
            self.soonest = if self.soonest == 0 { at } else { self.soonest.min(at) };
        }
        if was_there || is_there {
            *known = Known { element, is_changed: true };
        }
        self.count = self.count + u64::from(is_there) - u64::from(was_there);
        Ok(was_there)
    }

    /// Shows the elements from `from` on, in order of their places, until `take` says that it is enough.
    fn walk(&self, from: u32, mut take: impl FnMut(&[u8], Element<'_>) -> bool) -> Result<(), Failure> {
        let mut own: Vec<(u32, &Vec<u8>, &OwnedElement)> = self
            .known
            .iter()
            .filter(|(_, known)| known.is_changed)
            .filter_map(|(name, known)| Some((encoding::place(name), name, known.element.as_ref()?)))
            .filter(|(place, ..)| *place >= from)
            .collect();
        own.sort_unstable_by_key(|(place, ..)| *place);
        let mut own = own.into_iter().peekable();
        if self.is_stored {
            let items = &self.database.items;
            let stored = items.prefix_range(&self.prefix, from.to_be_bytes().as_slice()..)?;
            for item in stored {
                let (key, value) = item?;
                let suffix = key.get(self.prefix.len()..).unwrap_or_default();
                let Some((name, element)) = encoding::read_element(suffix, &value) else { continue };
                let place = encoding::place(name);
                while let Some((_, name, element)) = own.next_if(|(other, ..)| *other < place) {
                    if !take(name, element.lend()) {
                        return Ok(());
                    }
                }
                let is_changed = self.known.get(name).is_some_and(|known| known.is_changed);
                if !is_changed && !take(name, element) {
                    return Ok(());
                }
            }
        }
        for (_, name, element) in own {
            if !take(name, element.lend()) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn random(&self) -> Result<Option<Entry>, Failure> {
        // One of those that follow a random place: a single one would prefer elements behind large gaps.
        const CANDIDATES: usize = 64;
        let mut found: Vec<Entry> = Vec::new();
        for from in [rand::rng().random(), 0] {
            self.walk(from, |name, element| {
                found.push((name.to_vec(), element.into()));
                found.len() < CANDIDATES
            })?;
            if found.len() >= CANDIDATES {
                break;
            }
        }
        if found.is_empty() {
            return Ok(None);
        }
        let chosen = rand::rng().random_range(0..found.len());
        Ok(Some(found.swap_remove(chosen)))
    }

    /// Adds what has changed to `batch`.
    pub fn commit(&self, batch: &mut Batch) -> Result<(), Failure> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for (name, element) in self.changed() {
            key.clear();
            encoding::put_element_key(&mut key, &self.prefix, name);
            match element {
                Some(element) => {
                    value.clear();
                    encoding::put_element(&mut value, name, element.lend());
                    batch.put(&self.database.items, &key, &value)?;
                }
                None => batch.delete(&self.database.items, &key)?,
            }
        }
        Ok(())
    }

    /// Keeps what has been committed among the items that were used last.
    pub fn remember(&self) {
        let mut value = Vec::new();
        for (name, element) in self.changed() {
            value.clear();
            if let Some(element) = element {
                encoding::put_element(&mut value, name, element.lend());
            }
            let value = element.map(|_| value.as_slice());
            self.database.recent.put(self.owner, name, value, Owner::NOBODY);
        }
    }

    /// Elements that have been changed, and what they are now.
    fn changed(&self) -> impl Iterator<Item = (&Vec<u8>, Option<&OwnedElement>)> {
        let changed = self.known.iter().filter(|(_, known)| known.is_changed);
        changed.map(|(name, known)| (name, known.element.as_ref()))
    }
}

/// Where the elements are.
#[derive(Clone, Debug)]
pub enum Body {
    /// In one item.
    Packed(Packed),
    /// In an item each.
    Group(Box<Group>),
}

/// A hash or a set.
#[derive(Clone, Debug)]
pub struct Collection {
    /// Which of the two.
    pub kind: Kind,
    /// Its elements.
    pub body: Body,
    /// Whether it once outgrew Redis' compact encodings.
    pub is_table: bool,
}

impl Collection {
    /// An empty one.
    pub fn new(kind: Kind) -> Self {
        Self { kind, body: Body::Packed(Packed::default()), is_table: false }
    }

    /// Number of elements.
    pub fn len(&self) -> u64 {
        match &self.body {
            Body::Packed(packed) => packed.len() as u64,
            Body::Group(group) => group.count,
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The soonest expiry of an element, or a time before it; 0 where none expires.
    pub fn soonest(&self) -> u64 {
        match &self.body {
            Body::Packed(packed) => packed.soonest(),
            Body::Group(group) => group.soonest,
        }
    }

    /// Removes the elements that are gone at `now`; whether that changed anything.
    pub fn purge(&mut self, now: u64) -> Result<bool, Failure> {
        let soonest = self.soonest();
        if soonest == 0 || soonest > now {
            return Ok(false);
        }
        let before = self.len();
        match &mut self.body {
            Body::Packed(packed) => packed.purge(now),
            Body::Group(group) => {
                let (mut gone, mut soonest) = (Vec::new(), 0);
                group.walk(0, |name, element| {
                    match element.expires_at {
                        0 => {}
                        at if at <= now => gone.push(name.to_vec()),
                        at => soonest = if soonest == 0 { at } else { at.min(soonest) },
                    }
                    true
                })?;
                for name in gone {
                    // Read by the walk already; asked for again, the pages are in the cache.
                    group.change(&name, None)?;
                }
                group.soonest = soonest;
            }
        }
        Ok(self.len() != before || self.soonest() != soonest)
    }

    /// Reads `names` together, so that asking for them costs nothing more.
    pub fn prefetch(&mut self, names: &[&[u8]]) -> Result<(), Failure> {
        match &mut self.body {
            Body::Packed(_) => Ok(()),
            Body::Group(group) => group.load(names),
        }
    }

    /// The same where that takes no waiting for the device; false where it does.
    ///
    /// # Errors
    /// As [`Collection::prefetch`].
    pub fn prefetch_cached(&mut self, names: &[&[u8]]) -> Result<bool, Failure> {
        match &mut self.body {
            Body::Packed(_) => Ok(true),
            Body::Group(group) => group.load_by(names, |items, keys| items.multi_get_cached(keys)),
        }
    }

    /// The element `name`.
    pub fn get(&mut self, name: &[u8]) -> Result<Option<Element<'_>>, Failure> {
        match &mut self.body {
            Body::Packed(packed) => Ok(packed.get(name)),
            Body::Group(group) => group.get(name),
        }
    }

    /// Whether there is an element `name`.
    pub fn contains(&mut self, name: &[u8]) -> Result<bool, Failure> {
        Ok(self.get(name)?.is_some())
    }

    /// Sets the element `name`; whether it is new.
    pub fn put(&mut self, name: &[u8], element: Element<'_>) -> Result<bool, Failure> {
        match &mut self.body {
            Body::Packed(packed) => Ok(packed.put(name, element)),
            Body::Group(group) => Ok(!group.change(name, Some(element.into()))?),
        }
    }

    /// Removes the element `name`; whether it was there.
    pub fn remove(&mut self, name: &[u8]) -> Result<bool, Failure> {
        match &mut self.body {
            Body::Packed(packed) => Ok(packed.remove(name)),
            Body::Group(group) => group.change(name, None),
        }
    }

    /// Shows every element: small collections' in the order in which they came, large ones' by place.
    pub fn each(&self, mut show: impl FnMut(&[u8], Element<'_>)) -> Result<(), Failure> {
        match &self.body {
            Body::Packed(packed) => {
                packed.entries().for_each(|(_, name, element)| show(name, element));
                Ok(())
            }
            Body::Group(group) => group.walk(0, |name, element| {
                show(name, element);
                true
            }),
        }
    }

    /// All elements.
    pub fn all(&self) -> Result<Vec<Entry>, Failure> {
        let mut all = Vec::new();
        self.each(|name, element| all.push((name.to_vec(), element.into())))?;
        Ok(all)
    }

    /// All names.
    pub fn names(&self) -> Result<Vec<Vec<u8>>, Failure> {
        let mut names = Vec::new();
        self.each(|name, _| names.push(name.to_vec()))?;
        Ok(names)
    }

    /// Some `count` elements from `cursor` on, and the cursor to go on with; 0 at the end. Small collections
    /// come whole.
    pub fn scan(&self, cursor: u64, count: usize) -> Result<(u64, Vec<Entry>), Failure> {
        let Body::Group(group) = &self.body else { return Ok((0, self.all()?)) };
        let Ok(from) = u32::try_from(cursor) else { return Ok((0, Vec::new())) };
        let (mut found, mut next, mut last) = (Vec::new(), 0, 0);
        group.walk(from, |name, element| {
            let place = encoding::place(name);
            // Elements of one place come together, since the cursor says no more than the place.
            if found.len() >= count && place != last {
                next = u64::from(place);
                return false;
            }
            last = place;
            found.push((name.to_vec(), element.into()));
            true
        })?;
        Ok((next, found))
    }

    /// Any element.
    pub fn random(&self) -> Result<Option<Entry>, Failure> {
        match &self.body {
            Body::Packed(packed) if packed.is_empty() => Ok(None),
            Body::Packed(packed) => {
                let chosen = rand::rng().random_range(0..packed.len());
                let entry = packed.entries().nth(chosen);
                Ok(entry.map(|(_, name, element)| (name.to_vec(), element.into())))
            }
            Body::Group(group) => group.random(),
        }
    }

    /// Gives each element an item of its own from now on, as those of `key`.
    pub fn unpack(&mut self, database: &Arc<Database>, key: &[u8]) {
        let Body::Packed(packed) = &self.body else { return };
        let mut group = Group::new(database, key, database.recent.new_owner());
        (group.count, group.soonest) = (packed.len() as u64, packed.soonest());
        for (_, name, element) in packed.entries() {
            let known = Known { element: Some(element.into()), is_changed: true };
            group.known.insert(name.to_vec(), known);
        }
        self.body = Body::Group(Box::new(group));
    }
}
