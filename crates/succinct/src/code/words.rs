//! Runs of little-endian 64-bit words, as the bit vector and the Bloom filter store them.

/// Appends each word, eight bytes little-endian.
pub(crate) fn put_words(out: &mut Vec<u8>, words: &[u64]) {
    out.reserve(words.len() * 8);
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// The words that fill `bytes`; `None` if the length is not a multiple of eight.
pub(crate) fn get_words(bytes: &[u8]) -> Option<Vec<u64>> {
    let (chunks, rest) = bytes.as_chunks::<8>();
    rest.is_empty().then(|| chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect())
}

/// The word at the start of `bytes` and the bytes behind it; `None` if there are fewer than eight.
pub(crate) fn split_word(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*head), rest))
}
