//! Whether compression pays for a table: tried on its first entries, for keys and for values each.

use super::Codec;
use super::dictionary::{DictionaryEncoder, learn};
use super::symbols::SymbolEncoder;

/// The share of a part's bytes that compression has to save: a tenth of what is left.
const LEAST_RATIO: f64 = 1.1;
/// The share of all bytes of the sample that it has to save, so that decoding pays.
const LEAST_SHARE: f64 = 0.02;
/// Longest dictionary that is made: longer ones save hardly more, and every open table keeps one in memory.
const MOST_DICTIONARY_BYTES: usize = 4 << 10;
/// A dictionary is no longer than this part of the sample.
const DICTIONARY_PARTS: usize = 16;
/// Bytes of a value that are looked at.
const MOST_VALUE_BYTES: usize = 16 << 10;

/// What a table is encoded with.
pub(crate) struct Chosen {
    pub codec: Codec,
    pub keys: Option<SymbolEncoder>,
    pub values: Option<DictionaryEncoder>,
    /// Bytes of the sample over what they take encoded.
    pub ratio: f64,
}

/// The first entries of a table.
pub(crate) struct Sample<'a> {
    /// What pages will hold of keys.
    pub keys: Vec<&'a [u8]>,
    pub values: Vec<&'a [u8]>,
    /// Whether there are no other entries, so that the codec itself has to pay here.
    pub is_all: bool,
    /// How often the table will hold the codec.
    pub copies: usize,
}

/// Returns what entries such as those of `sample` are best encoded with; `None` where that is nothing.
pub(crate) fn choose(sample: &Sample<'_>) -> Option<Chosen> {
    let values: Vec<&[u8]> =
        sample.values.iter().map(|value| value.get(..MOST_VALUE_BYTES).unwrap_or(value)).collect();
    let bytes_of = |parts: &[&[u8]]| parts.iter().map(|part| part.len()).sum::<usize>();
    let (key_bytes, value_bytes) = (bytes_of(&sample.keys), bytes_of(&values));
    let all = key_bytes + value_bytes;
    let pays = |raw: usize, encoded: usize, codec_bytes: usize| {
        let encoded = encoded + if sample.is_all { codec_bytes * sample.copies } else { 0 };
        raw as f64 >= LEAST_RATIO * encoded as f64 && raw as f64 - encoded as f64 >= LEAST_SHARE * all as f64
    };
    let mut encoded_bytes = all;
    let keys = SymbolEncoder::train(&sample.keys).filter(|encoder| {
        let encoded = sample.keys.iter().map(|key| encoder.encode(key).len()).sum();
        let codec = Codec { keys: Some(encoder.symbols()), values: None };
        let pays = pays(key_bytes, encoded, codec.to_bytes().len());
        encoded_bytes -= if pays { key_bytes.saturating_sub(encoded) } else { 0 };
        pays
    });
    let dictionary = learn(&values, MOST_DICTIONARY_BYTES.min(value_bytes / DICTIONARY_PARTS));
    let mut encoder = DictionaryEncoder::new(dictionary);
    let mut out = Vec::new();
    let encoded = values.iter().map(|value| {
        encoder.encode(value, &mut out);
        out.len()
    });
    let encoded = encoded.sum();
    let codec = Codec { keys: None, values: Some(encoder.dictionary()) };
    let values = pays(value_bytes, encoded, codec.to_bytes().len()).then(|| {
        encoded_bytes -= value_bytes.saturating_sub(encoded);
        encoder
    });
    let codec = Codec {
        keys: keys.as_ref().map(SymbolEncoder::symbols),
        values: values.as_ref().map(DictionaryEncoder::dictionary),
    };
    let ratio = all as f64 / encoded_bytes.max(1) as f64;
    (codec.keys.is_some() || codec.values.is_some()).then_some(Chosen { codec, keys, values, ratio })
}
