//! Values that refer to a dictionary of what the table's first values have in common.
//!
//! ```text
//! dictionary   length varint (65,535 at most) · bytes
//! value        nothing, of an empty one
//!              0 u8 · bytes                       as it is
//!              length varint · LZ4 block          the decoded length; offsets may lead before the value,
//!                                                 into the dictionary, which ends just before its start
//! ```
//!
//! LZ4's block format, but that matches may come as close to the end of a value as they like, so the last
//! sequence may be nothing but a token of 0. The crate `lz4_flex` decodes, in safe code. Encoding is done
//! here, since the crate goes through the whole dictionary for every value, which takes as long as a few
//! values.
//!
//! The dictionary is made of strings of six bytes and more that several of the sampled values have, each
//! once, the most frequent first: 2 to 4 KiB of them serve as well as 16 KiB of values.

use crate::codec::Decoder;
use siltstone_succinct::code::varint;

/// Longest dictionary that there may be: offsets have 16 bits.
const LONGEST: usize = u16::MAX as usize;
/// Shortest match.
const MIN_MATCH: usize = 4;
/// Bytes of the strings that are counted to find what values have in common.
const GRAM_BYTES: usize = 6;
/// Most bits of the hashes that they are counted by.
const MOST_GRAM_BITS: u32 = 16;
/// A value that is stored as it is.
const AS_IT_IS: u8 = 0;
/// Most bytes that a byte of an LZ4 block stands for.
const MOST_EXPANSION: usize = 255;
/// Bits of the positions' hash tables.
const HASH_BITS: u32 = 12;
/// Places without a match after which a place more is passed over at each.
const PATIENCE_BITS: usize = 5;

/// What values refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dictionary {
    bytes: Vec<u8>,
}

impl Dictionary {
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        varint::put_u64(out, self.bytes.len() as u64);
        out.extend_from_slice(&self.bytes);
    }

    /// The dictionary that `from` goes on with.
    pub fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        let bytes = from.bytes().filter(|bytes| bytes.len() <= LONGEST)?;
        Some(Self { bytes: bytes.to_vec() })
    }

    /// Puts the value that `stored` stands for in the place of what `out` holds; `None` where it stands for
    /// none.
    pub fn decode_into(&self, stored: &[u8], out: &mut Vec<u8>) -> Option<()> {
        out.clear();
        if let [] | [AS_IT_IS, ..] = stored {
            out.extend_from_slice(stored.get(1..).unwrap_or(&[]));
            return Some(());
        }
        let mut from = Decoder::new(stored);
        let length = usize::try_from(from.varint()?).ok()?;
        let block = from.take(from.remaining())?;
        if length > block.len().saturating_mul(MOST_EXPANSION) {
            return None;
        }
        out.resize(length, 0);
        let decoded = lz4_flex::block::decompress_into_with_dict(block, out, &self.bytes);
        (decoded.ok()? == length).then_some(())
    }
}

fn word4(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word8(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn hash4(word: u32) -> usize {
    (word.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize
}

fn hash8(word: u64) -> usize {
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - HASH_BITS)) as usize
}

/// A hash, of so many bits, of the string of [`GRAM_BYTES`] that `bytes` begin with.
fn gram(bytes: &[u8], bits: u32) -> Option<usize> {
    let first = bytes.first_chunk::<GRAM_BYTES>()?;
    let word = first.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    Some((word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize)
}

/// Bytes that `a` and `b` begin with alike.
fn common(a: &[u8], b: &[u8]) -> usize {
    let mut at = 0;
    while let (Some(x), Some(y)) = (word8(a, at), word8(b, at)) {
        if x != y {
            return at + (x ^ y).trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = a.get(at..).unwrap_or(&[]).iter().zip(b.get(at..).unwrap_or(&[]));
    at + rest.take_while(|(x, y)| x == y).count()
}

/// Returns what `values` have in common, `most_bytes` of it at most.
pub(crate) fn learn(values: &[&[u8]], most_bytes: usize) -> Vec<u8> {
    let most_bytes = most_bytes.min(LONGEST);
    // In how many values each string stands, and the last of them. A few values need few places.
    let bytes = values.iter().map(|value| value.len()).sum::<usize>();
    let bits = (bytes.max(1).ilog2() + 1).clamp(8, MOST_GRAM_BITS);
    let mut counts = vec![(0u16, 0u16); 1 << bits];
    for (number, value) in (1..=u16::MAX).cycle().zip(values) {
        for at in value.windows(GRAM_BYTES).filter_map(|bytes| gram(bytes, bits)) {
            if let Some((count, last)) = counts.get_mut(at).filter(|(_, last)| *last != number) {
                (*count, *last) = (count.saturating_add(1), number);
            }
        }
    }
    let mut dictionary = Vec::new();
    // What no string comes up to finds none.
    let most = counts.iter().map(|(count, _)| *count).max().unwrap_or(0);
    let mut least = u16::try_from(values.len() / 4).unwrap_or(most).min(most).max(2);
    loop {
        for value in values {
            let mut run = 0..0;
            for (at, gram) in value.windows(GRAM_BYTES).map(|bytes| gram(bytes, bits)).enumerate() {
                let count = gram.and_then(|gram| counts.get_mut(gram));
                let Some(count) = count.filter(|(count, _)| *count >= least) else { continue };
                // It need not be taken twice.
                count.0 = 0;
                if run.end < at {
                    dictionary.extend_from_slice(value.get(run).unwrap_or(&[]));
                    run = at..at;
                }
                run.end = at + GRAM_BYTES;
            }
            dictionary.extend_from_slice(value.get(run).unwrap_or(&[]));
            if dictionary.len() >= most_bytes {
                dictionary.truncate(most_bytes);
                return dictionary;
            }
        }
        if least == 2 {
            return dictionary;
        }
        least = (least / 2).max(2);
    }
}

/// A dictionary as it encodes.
pub(crate) struct DictionaryEncoder {
    dictionary: Dictionary,
    /// Where in the dictionary strings of four and of eight bytes begin, plus one, by their hash; 0: nowhere.
    short: Vec<u16>,
    long: Vec<u16>,
    /// Where strings of four bytes of the value begin, plus `base`; less than that is left from earlier ones.
    own: Vec<u32>,
    base: u32,
}

/// A match: so many bytes, from so far back.
type Match = (usize, usize);

impl DictionaryEncoder {
    pub fn new(bytes: Vec<u8>) -> Self {
        let (mut short, mut long) = (vec![0; 1 << HASH_BITS], vec![0; 1 << HASH_BITS]);
        // The front, which is the most frequent, last: it stays where hashes collide.
        for at in (0..bytes.len().min(LONGEST)).rev() {
            let place = at as u16 + 1;
            let slots = [
                word4(&bytes, at).and_then(|word| short.get_mut(hash4(word))),
                word8(&bytes, at).and_then(|word| long.get_mut(hash8(word))),
            ];
            slots.into_iter().flatten().for_each(|slot| *slot = place);
        }
        Self { dictionary: Dictionary { bytes }, short, long, own: vec![0; 1 << HASH_BITS], base: 1 }
    }

    /// The same dictionary, as it decodes.
    pub fn dictionary(&self) -> Dictionary {
        self.dictionary.clone()
    }

    /// Bytes that `values` take encoded.
    pub fn encoded_bytes(&mut self, values: &[&[u8]]) -> usize {
        let mut out = Vec::new();
        let encoded = values.iter().map(|value| {
            self.encode(value, &mut out);
            out.len()
        });
        encoded.sum()
    }

    /// Puts what stands for `value` in the place of what `out` holds: a byte more than it has at most.
    pub fn encode(&mut self, value: &[u8], out: &mut Vec<u8>) {
        out.clear();
        if value.is_empty() {
            return;
        }
        varint::put_u64(out, value.len() as u64);
        self.encode_block(value, out);
        if out.len() > value.len() {
            out.clear();
            out.push(AS_IT_IS);
            out.extend_from_slice(value);
        }
    }

    fn encode_block(&mut self, value: &[u8], out: &mut Vec<u8>) {
        // Longer ones than could be told by 32 bits begin afresh, and find matches in their end only.
        let length = u32::try_from(value.len()).unwrap_or(u32::MAX / 2).min(u32::MAX / 2);
        if self.base > u32::MAX / 2 - 1 {
            self.own.fill(0);
            self.base = 1;
        }
        let base = self.base;
        self.base += length;
        let (mut at, mut literals_at, mut misses) = (0, 0, 0usize);
        while let Some(word) = word4(value, at) {
            let Some((bytes, offset)) = self.longest_match(value, (at, word), base) else {
                misses += 1;
                at += 1 + (misses >> PATIENCE_BITS);
                continue;
            };
            misses = 0;
            put_sequence(out, value.get(literals_at..at).unwrap_or(&[]), Some((bytes, offset)));
            at += bytes;
            literals_at = at;
        }
        put_sequence(out, value.get(literals_at..).unwrap_or(&[]), None);
    }

    /// The longest match that is known for the value from `at` on, which begins with `word`.
    fn longest_match(&mut self, value: &[u8], (at, word): (usize, u32), base: u32) -> Option<Match> {
        let rest = value.get(at..)?;
        let mut best = (0, 0);
        let mut consider = |from: Option<&[u8]>, offset: usize| {
            let bytes = from.map_or(0, |from| common(from, rest));
            if bytes > best.0 && (1..=LONGEST).contains(&offset) {
                best = (bytes, offset);
            }
            best.0
        };
        if let (Some(slot), Ok(place)) = (self.own.get_mut(hash4(word)), u32::try_from(at)) {
            let before = std::mem::replace(slot, base.saturating_add(place));
            if let Some(before) = before.checked_sub(base).map(|before| before as usize) {
                consider(value.get(before..), at.saturating_sub(before));
            }
        }
        let dictionary = &self.dictionary.bytes;
        let mut consider_place = |place: Option<&u16>| {
            let place = place.and_then(|place| usize::from(*place).checked_sub(1));
            place.map_or(0, |place| consider(dictionary.get(place..), at + dictionary.len() - place))
        };
        let long = word8(value, at).map_or(0, |word| consider_place(self.long.get(hash8(word))));
        if long < 8 {
            consider_place(self.short.get(hash4(word)));
        }
        (best.0 >= MIN_MATCH).then_some(best)
    }
}

/// Appends a sequence: bytes as they are, and the match behind them, which only the last one lacks.
fn put_sequence(out: &mut Vec<u8>, literals: &[u8], found: Option<Match>) {
    let match_bytes = found.map_or(0, |(bytes, _)| bytes - MIN_MATCH);
    out.push((literals.len().min(15) << 4 | match_bytes.min(15)) as u8);
    put_length(out, literals.len());
    out.extend_from_slice(literals);
    if let Some((_, offset)) = found {
        out.extend_from_slice(&(offset as u16).to_le_bytes());
        put_length(out, match_bytes);
    }
}

/// Appends what the four bits of a length in the token leave out.
fn put_length(out: &mut Vec<u8>, length: usize) {
    let Some(mut rest) = length.checked_sub(15) else { return };
    while rest >= 255 {
        out.push(255);
        rest -= 255;
    }
    out.push(rest as u8);
}
