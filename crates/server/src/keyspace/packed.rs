//! A small collection as one string of bytes, searched from the front and changed in place: Redis' listpack,
//! in our encoding (`encoding.rs`).

use super::encoding::{Element, Reader, put_varint};
use std::ops::Range;

/// The elements, one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    bytes: Vec<u8>,
    count: usize,
}

/// Walks over elements: their place, name and value.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    reader: Reader<'a>,
    length: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = (Range<usize>, &'a [u8], Element<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let from = self.length - self.reader.bytes.len();
        let length = self.reader.varint()?;
        let name = self.reader.take(length)?;
        let length = self.reader.varint()?;
        let expires_at = if length & 1 == 0 { 0 } else { self.reader.u64()? };
        let value = self.reader.take(length >> 1)?;
        Some((from..self.length - self.reader.bytes.len(), name, Element { value, expires_at }))
    }
}

fn put(to: &mut Vec<u8>, name: &[u8], element: Element<'_>) {
    put_varint(to, name.len());
    to.extend_from_slice(name);
    put_varint(to, element.value.len() << 1 | usize::from(element.expires_at > 0));
    if element.expires_at > 0 {
        to.extend_from_slice(&element.expires_at.to_le_bytes());
    }
    to.extend_from_slice(element.value);
}

impl Packed {
    /// Reads what [`Packed::write`] wrote; `None` where that is damaged.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader { bytes };
        let count = reader.varint()?;
        Some(Self { bytes: reader.bytes.to_vec(), count })
    }

    /// Appends it.
    pub fn write(&self, to: &mut Vec<u8>) {
        put_varint(to, self.count);
        to.extend_from_slice(&self.bytes);
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of all elements.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The elements in the order in which they came.
    pub fn entries(&self) -> Entries<'_> {
        Entries { reader: Reader { bytes: &self.bytes }, length: self.bytes.len() }
    }

    fn find(&self, name: &[u8]) -> Option<(Range<usize>, Element<'_>)> {
        self.entries().find(|(_, other, _)| *other == name).map(|(place, _, element)| (place, element))
    }

    /// The element `name`.
    pub fn get(&self, name: &[u8]) -> Option<Element<'_>> {
        self.find(name).map(|(_, element)| element)
    }

    /// Sets the element `name`; whether it is new.
    pub fn put(&mut self, name: &[u8], element: Element<'_>) -> bool {
        let Some((place, _)) = self.find(name) else {
            put(&mut self.bytes, name, element);
            self.count += 1;
            return true;
        };
        let mut bytes = Vec::with_capacity(place.len() + element.value.len());
        put(&mut bytes, name, element);
        self.bytes.splice(place, bytes);
        false
    }

    /// Removes the element `name`; whether it was there.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let Some((place, _)) = self.find(name) else { return false };
        self.bytes.drain(place);
        self.count -= 1;
        true
    }

    /// The soonest expiry of an element; 0 where none expires.
    pub fn soonest(&self) -> u64 {
        self.entries().map(|(_, _, element)| element.expires_at).filter(|at| *at > 0).min().unwrap_or(0)
    }

    /// Removes the elements that are gone at `now`.
    pub fn purge(&mut self, now: u64) {
        let gone = |element: &Element<'_>| element.expires_at > 0 && element.expires_at <= now;
        let mut left = Self::default();
        for (_, name, element) in self.entries().filter(|(_, _, element)| !gone(element)) {
            put(&mut left.bytes, name, element);
            left.count += 1;
        }
        *self = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_does_what_a_map_does() {
        let (mut packed, mut map) = (Packed::default(), BTreeMap::new());
        let mut random = 7u32;
        for _ in 0..5000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let name = format!("n{}", (random >> 8) % 40).into_bytes();
            let value = vec![b'v'; (random >> 16) as usize % 200];
            if random >> 30 == 0 {
                assert_eq!(packed.remove(&name), map.remove(&name).is_some());
            } else {
                let expires_at = u64::from(random >> 29);
                let is_new = packed.put(&name, Element { value: &value, expires_at });
                assert_eq!(is_new, map.insert(name.clone(), (value, expires_at)).is_none());
            }
            assert_eq!(packed.len(), map.len());
            let found = packed.get(&name).map(|element| (element.value.to_vec(), element.expires_at));
            assert_eq!(found, map.get(&name).cloned());
        }
        let mut bytes = Vec::new();
        packed.write(&mut bytes);
        assert_eq!(Packed::read(&bytes), Some(packed.clone()));
        packed.purge(5);
        assert!(packed.entries().all(|(_, _, element)| element.expires_at == 0 || element.expires_at > 5));
        assert_eq!(packed.len(), map.values().filter(|(_, at)| *at == 0 || *at > 5).count());
        assert!(packed.soonest() == 0 || packed.soonest() > 5);
    }
}
