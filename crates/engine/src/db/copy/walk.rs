//! What a keyspace held at a moment, item by item, for the copy.

use crate::cache::Reader;
use crate::db::catalog::PinnedKeyspace;
use crate::db::catalog::snapshots::ReadPoint;
use crate::db::stretch::Stretches;
use crate::entry::{Cursor, Item, Span};
use crate::error::Result;
use crate::table::Values;
use std::sync::Arc;

/// A keyspace at a moment that is held.
pub(super) type Held = (PinnedKeyspace, ReadPoint);

/// An item as it was written: with the time at which it expires, or 0.
pub(super) struct LiveItem<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub expires_at_ms: u64,
}

/// Hands every item within `span` that was alive at the moment to `take`, in the store's order; of merges
/// what they come to.
pub(super) fn each_live(
    (pinned, point): &Held,
    span: Span,
    reader: &Arc<Reader>,
    mut take: impl FnMut(LiveItem<'_>) -> Result<()>,
) -> Result<()> {
    let PinnedKeyspace { keyspace, view } = pinned;
    let mut stretches = Stretches::in_background(span);
    while let Some(mut merge) = stretches.next(keyspace, view, point.sequence, Values::All, reader)? {
        while let Some(entry) = merge.peek() {
            let key = entry.key.key;
            match (entry.item, &keyspace.folder) {
                // Nothing older is left: all that may hold the key takes part.
                (Item::Operands(operands), Some(folder)) => {
                    let value = folder.value(key, operands)?;
                    take(LiveItem { key, value: &value, expires_at_ms: 0 })?;
                }
                (Item::Put { expires_at_ms, .. }, _) => {
                    if let Some(value) = entry.item.live_value(point.now_ms) {
                        take(LiveItem { key, value, expires_at_ms })?;
                    }
                }
                (Item::Operands(_) | Item::Deleted, _) => {}
            }
            merge.advance()?;
        }
    }
    Ok(())
}
