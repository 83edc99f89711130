//! Codes: how integers become bytes.

pub mod varint;
pub(crate) mod words;
