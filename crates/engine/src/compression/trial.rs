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
/// Bytes of values that a first look learns from, and how many values these have to be at least.
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
    // What is so small a part that it can't pay is not tried.
    let may_pay = |raw: usize| raw as f64 >= LEAST_SHARE * all as f64;
    let mut encoded_bytes = all;
    let trained = may_pay(key_bytes).then(|| SymbolEncoder::train(&sample.keys)).flatten();
    let keys = trained.filter(|encoder| {
        let encoded = sample.keys.iter().map(|key| encoder.encode(key).len()).sum();
        let codec = Codec { keys: Some(encoder.symbols()), values: None };
        let pays = pays(key_bytes, encoded, codec.to_bytes().len());
        encoded_bytes -= if pays { key_bytes.saturating_sub(encoded) } else { 0 };
        pays
    });
    let values = (may_pay(value_bytes) && !have_nothing_in_common(&values))
        .then(|| {
            let dictionary = learn(&values, MOST_DICTIONARY_BYTES.min(value_bytes / DICTIONARY_PARTS));
            let mut encoder = DictionaryEncoder::new(dictionary);
            let encoded = encoder.encoded_bytes(&values);
            (encoder, encoded)
        })
        .filter(|(encoder, encoded)| {
            let codec = Codec { keys: None, values: Some(encoder.dictionary()) };
            pays(value_bytes, *encoded, codec.to_bytes().len())
        })
        .map(|(encoder, encoded)| {
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

/// Whether what the first of `values` have in common saves so little of the next ones that it is not worth
/// while to look at all of them, as with vectors of floats. The values that a dictionary is learnt from would
/// not tell: each finds itself in it.
pub(super) fn have_nothing_in_common(values: &[&[u8]]) -> bool {
    let mut bytes = 0;
    let first = values.iter().take_while(|value| {
        let is_within = bytes < TRIED_FIRST_BYTES;
        bytes += if is_within { value.len() } else { 0 };
        is_within
    });
    let first = first.count();
    let (Some(learnt_from), Some(next)) = (values.get(..first), values.get(first..2 * first)) else {
        return false;
    };
    if first < TRIED_FIRST {
        return false;
    }
    let raw = next.iter().map(|value| value.len()).sum::<usize>();
    let encoded = DictionaryEncoder::new(learn(learnt_from, bytes / DICTIONARY_PARTS)).encoded_bytes(next);
    (raw.saturating_sub(encoded) as f64) < LEAST_SHARE * raw as f64
}
