//! What survives a merge.
//!
//! A tombstone has work to do only while something older may lie below; an expired value is a tombstone.

use crate::entry::Item;

/// What becomes of an entry: itself, a tombstone in its place, or nothing.
///
/// `bottom` says that nothing older than the merge's inputs exists for these keys.
#[inline]
pub(crate) fn retain(item: Item<'_>, now_ms: u64, bottom: bool) -> Option<Item<'_>> {
    match item.live_value(now_ms) {
        Some(_) => Some(item),
        None if bottom => None,
        None => Some(Item::Deleted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_stay_only_while_they_hide_something() {
        let value = |expires_at_ms| Item::Put { value: b"v", expires_at_ms };
        assert_eq!(retain(value(0), 100, true), Some(value(0)));
        assert_eq!(retain(value(101), 100, true), Some(value(101)));
        assert_eq!(retain(value(100), 100, false), Some(Item::Deleted));
        assert_eq!(retain(value(100), 100, true), None);
        assert_eq!(retain(Item::Deleted, 100, false), Some(Item::Deleted));
        assert_eq!(retain(Item::Deleted, 100, true), None);
    }
}
