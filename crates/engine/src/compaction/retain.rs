//! What survives a merge.
//!
//! A tombstone has work to do only while something older may lie below; an expired value is a tombstone.

use crate::entry::Item;
use crate::events::Dropped;

/// Makes of an entry what becomes of it: itself, or a tombstone in its place. False where nothing does.
///
/// `bottom` says that nothing older than the merge's inputs exists for these keys. Tombstones and expired
/// values that go are counted in `dropped`.
#[inline]
pub(crate) fn retain(item: &mut Item<'_>, now_ms: u64, bottom: bool, dropped: &mut Dropped) -> bool {
    if item.live_value(now_ms).is_some() || matches!(item, Item::Operands(_)) {
        return true;
    }
    if bottom {
        let count = if *item == Item::Deleted { &mut dropped.tombstones } else { &mut dropped.expired };
        *count += 1;
    }
    *item = Item::Deleted;
    !bottom
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_stay_only_while_they_hide_something() {
        let value = |expires_at_ms| Item::Put { value: b"v", expires_at_ms };
        let mut dropped = Dropped::default();
        let mut retained = |mut item, bottom| retain(&mut item, 100, bottom, &mut dropped).then_some(item);
        assert_eq!(retained(value(0), true), Some(value(0)));
        assert_eq!(retained(value(101), true), Some(value(101)));
        assert_eq!(retained(value(100), false), Some(Item::Deleted));
        assert_eq!(retained(value(100), true), None);
        assert_eq!(retained(Item::Deleted, false), Some(Item::Deleted));
        assert_eq!(retained(Item::Operands(b"o"), true), Some(Item::Operands(b"o")));
        assert_eq!(retained(Item::Deleted, true), None);
        assert_eq!((dropped.tombstones, dropped.expired), (1, 1));
    }
}
