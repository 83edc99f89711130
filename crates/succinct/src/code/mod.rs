//! Codes: how integers become bytes.

pub(crate) mod bit_stream;
pub(crate) mod elias;
pub(crate) mod huffman;
pub mod varint;
pub(crate) mod words;
