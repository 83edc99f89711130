//! How a page is divided.

use crate::cache::PAGE_BYTES;

/// Bytes of a page before its payload.
pub(crate) const PAGE_HEADER_BYTES: usize = 8;
/// Bytes of a page that hold entries, or a part of what overflows.
pub(crate) const PAYLOAD_BYTES: usize = PAGE_BYTES - PAGE_HEADER_BYTES;
