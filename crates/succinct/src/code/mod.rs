//! Codes: how integers become bytes.

pub mod bit_stream;
pub mod elias;
pub mod huffman;
pub mod varint;
pub(crate) mod words;
