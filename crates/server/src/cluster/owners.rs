//! Whose each slot is: a small number for each, so that looking one up and counting them are quick.

use super::topology::NodeId;
use crate::slots::SLOTS;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The owners of all slots.
#[derive(Clone, Debug)]
pub struct Owners {
    /// For each slot 0, or one more than its owner's place in `names`.
    places: Vec<u16>,
    names: Vec<NodeId>,
    /// How many slots each of `names` has.
    counts: Vec<usize>,
}

impl Default for Owners {
    fn default() -> Self {
        Self { places: vec![0; SLOTS], names: Vec::new(), counts: Vec::new() }
    }
}

impl Owners {
    /// Whose slot it is.
    pub fn owner(&self, slot: u16) -> Option<&NodeId> {
        let place = self.places.get(usize::from(slot))?.checked_sub(1)?;
        self.names.get(usize::from(place))
    }

    fn place_of(&self, id: &str) -> Option<usize> {
        self.names.iter().position(|name| **name == *id)
    }

    /// Gives a slot to a node, or to nobody.
    pub fn give(&mut self, slot: u16, to: Option<NodeId>) {
        let new = to.map(|id| {
            self.place_of(&id).unwrap_or_else(|| {
                self.names.push(id);
                self.counts.push(0);
                self.names.len() - 1
            })
        });
        let Some(place) = self.places.get_mut(usize::from(slot)) else { return };
        let old = std::mem::replace(place, new.map_or(0, |new| u16::try_from(new + 1).unwrap_or(0)));
        if let Some(count) = old.checked_sub(1).and_then(|old| self.counts.get_mut(usize::from(old))) {
            *count -= 1;
        }
        if let Some(count) = new.and_then(|new| self.counts.get_mut(new)) {
            *count += 1;
        }
    }

    /// The slots of a node, in order.
    pub fn slots_of<'a>(&'a self, id: &str) -> impl Iterator<Item = u16> + use<'a> {
        let wanted = self.place_of(id).and_then(|place| u16::try_from(place + 1).ok());
        let places = if wanted.is_some() { self.places.as_slice() } else { &[] };
        (0..).zip(places).filter(move |(_, place)| Some(**place) == wanted).map(|(slot, _)| slot)
    }

    /// The slots of all nodes as ranges, `0-99,120`, in one walk over them.
    pub fn written(&self) -> BTreeMap<&NodeId, String> {
        let mut texts: BTreeMap<&NodeId, String> = BTreeMap::new();
        let mut first = 0;
        for run in self.places.chunk_by(|one, next| one == next) {
            let last = first + run.len() - 1;
            let owner = run.first().and_then(|place| self.names.get(usize::from(place.checked_sub(1)?)));
            if let Some(owner) = owner {
                let text = texts.entry(owner).or_default();
                let between = if text.is_empty() { "" } else { "," };
                // Writing to a string can't fail.
                let _ = if first == last {
                    write!(text, "{between}{first}")
                } else {
                    write!(text, "{between}{first}-{last}")
                };
            }
            first = last + 1;
        }
        texts
    }

    /// Nodes that have slots, with how many.
    pub fn counts(&self) -> impl Iterator<Item = (&NodeId, usize)> {
        self.names.iter().zip(self.counts.iter().copied()).filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_given_taken_and_counted() {
        let (a, b): (NodeId, NodeId) = ("a".into(), "b".into());
        let mut owners = Owners::default();
        (0..10).for_each(|slot| owners.give(slot, Some(a.clone())));
        (5..7).for_each(|slot| owners.give(slot, Some(b.clone())));
        owners.give(0, None);
        owners.give(u16::MAX, Some(b.clone()));
        assert_eq!(owners.slots_of("a").collect::<Vec<_>>(), [1, 2, 3, 4, 7, 8, 9]);
        assert_eq!(owners.slots_of("b").collect::<Vec<_>>(), [5, 6]);
        assert_eq!(owners.slots_of("c").count(), 0);
        let written = owners.written();
        assert_eq!((written[&a].as_str(), written[&b].as_str(), written.len()), ("1-4,7-9", "5-6", 2));
        assert_eq!(owners.counts().collect::<Vec<_>>(), [(&a, 7), (&b, 2)]);
        assert_eq!((owners.owner(0), owners.owner(5), owners.owner(99)), (None, Some(&b), None));
    }
}
