//! What survives a merge.
//!
//! A tombstone has work to do only while something older may lie below; an expired value is a tombstone.

use crate::entry::Item;

/// Makes of an entry what becomes of it: itself, or a tombstone in its place. False where nothing does.
///
/// `bottom` says that nothing older than the merge's inputs exists for these keys.
#[inline]
pub(crate) fn retain(item: &mut Item<'_>, now_ms: u64, bottom: bool) -> bool {
    if item.live_value(now_ms).is_some() {
        return true;
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
        let retained = |mut item, bottom| retain(&mut item, 100, bottom).then_some(item);
        assert_eq!(retained(value(0), true), Some(value(0)));
        assert_eq!(retained(value(101), true), Some(value(101)));
        assert_eq!(retained(value(100), false), Some(Item::Deleted));
        assert_eq!(retained(value(100), true), None);
        assert_eq!(retained(Item::Deleted, false), Some(Item::Deleted));
        assert_eq!(retained(Item::Deleted, true), None);
    }
}
