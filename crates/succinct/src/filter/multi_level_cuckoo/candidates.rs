//! The answer of a multi-level filter: a set of slots, newest first.

/// The slots of runs that may hold the newest version of a key.
///
/// Iterates newest first, that is from the highest slot down.
///
/// ```
/// use siltstone_succinct::filter::multi_level_cuckoo::Candidates;
///
/// let candidates: Candidates = [2, 5].into_iter().collect();
/// assert_eq!(candidates.newest(), Some(5));
/// assert_eq!(candidates.collect::<Vec<u8>>(), [5, 2]);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Candidates(pub(super) u64);

impl Candidates {
    /// No slot.
    pub const NONE: Candidates = Candidates(0);

    /// True if no run holds the key.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The newest of the slots.
    pub fn newest(self) -> Option<u8> {
        self.0.checked_ilog2().map(|slot| slot as u8)
    }

    /// True if `slot` is among them.
    pub fn contains(self, slot: u8) -> bool {
        self.0.checked_shr(u32::from(slot)).is_some_and(|rest| rest & 1 == 1)
    }

    /// The slots as bits of a number.
    pub fn bits(self) -> u64 {
        self.0
    }
}

impl Iterator for Candidates {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let slot = self.newest()?;
        self.0 &= !(1 << slot);
        Some(slot)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let slots = self.0.count_ones() as usize;
        (slots, Some(slots))
    }
}

impl ExactSizeIterator for Candidates {}

impl FromIterator<u8> for Candidates {
    /// # Panics
    ///
    /// If a slot is 64 or more.
    fn from_iter<I: IntoIterator<Item = u8>>(slots: I) -> Self {
        Candidates(slots.into_iter().fold(0, |set, slot| {
            assert!(slot < 64, "slot {slot}: slots are numbered from 0 to 63");
            set | 1 << slot
        }))
    }
}
