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
/// Bytes of values that are tried before the others, and how many values these have to be at least: where
/// they have nothing in common, as vectors of floats have not, the others are spared.
const TRIED_FIRST_BYTES: usize = 16 << 10;
const TRIED_FIRST: usize = 8;

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
    let values =
        (!have_nothing_in_common(&values)).then(|| encode_all(&values)).and_then(|(encoder, encoded)| {
            let codec = Codec { keys: None, values: Some(encoder.dictionary()) };
            let pays = pays(value_bytes, encoded, codec.to_bytes().len());
            encoded_bytes -= if pays { value_bytes.saturating_sub(encoded) } else { 0 };
            pays.then_some(encoder)
        });
    let codec = Codec {
        keys: keys.as_ref().map(SymbolEncoder::symbols),
        values: values.as_ref().map(DictionaryEncoder::dictionary),
    };
    let ratio = all as f64 / encoded_bytes.max(1) as f64;
    (codec.keys.is_some() || codec.values.is_some()).then_some(Chosen { codec, keys, values, ratio })
}

/// Encodes `values` with what they have in common; returns the bytes of all.
fn encode_all(values: &[&[u8]]) -> (DictionaryEncoder, usize) {
    let raw = values.iter().map(|value| value.len()).sum::<usize>();
    let mut encoder =
        DictionaryEncoder::new(learn(values, MOST_DICTIONARY_BYTES.min(raw / DICTIONARY_PARTS)));
    let mut out = Vec::new();
    let encoded = values.iter().map(|value| {
        encoder.encode(value, &mut out);
        out.len()
    });
    let encoded = encoded.sum();
    (encoder, encoded)
}

/// Whether the first of `values` save so little that it is not worth while to look at the others.
fn have_nothing_in_common(values: &[&[u8]]) -> bool {
    let mut raw = 0;
    let first = values.iter().take_while(|value| {
        let is_within = raw < TRIED_FIRST_BYTES;
        raw += if is_within { value.len() } else { 0 };
        is_within
    });
    let first = values.get(..first.count()).unwrap_or(values);
    let is_part = (TRIED_FIRST..values.len()).contains(&first.len());
    is_part && (raw - encode_all(first).1.min(raw)) as f64 <= LEAST_SHARE * raw as f64
}
