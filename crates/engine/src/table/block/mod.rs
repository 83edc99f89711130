//! The block table: entries in digest order, packed into checksummed 4 KiB pages.
//!
//! ```text
//! payload  entry, entry, ...
//! entry    ┌──────────────────┬────────────────────┬────────────┬──────────────────┬───────────────────┬──────────┬───────┐
//!          │ shared varint    │ unshared varint    │ tag varint │ expiry varint    │ overflow varint   │ key tail │ value │
//!          │ bytes of the     │ bytes of key tail  │            │ ms, if flagged   │ page, if flagged; │          │       │
//!          │ previous key     │                    │            │                  │ key length if big │          │       │
//!          └──────────────────┴────────────────────┴────────────┴──────────────────┴───────────────────┴──────────┴───────┘
//! tag      value length · 16 + flags: 1 deleted, 2 expires, 4 overflow, 8 big key
//! ```
//!
//! A value that would not fit a page with its key goes to contiguous overflow pages, which stand just before
//! the page with its entry; a lookup then costs one more read. A key too big for a page goes there as well,
//! and the entry holds its digest instead. Digests are recomputed from keys when read, not stored.
//!
//! Semi-sorted neighbours share their prefix, so the key compression of LevelDB's blocks pays here although
//! keys are in hash order; restart points do not, since a lookup compares at most a page of short entries.

pub(crate) mod build;
pub(crate) mod cursor;
mod index;
pub(crate) mod page;
mod paged;
pub(crate) mod read;
