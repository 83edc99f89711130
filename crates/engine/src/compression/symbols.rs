//! Parts of keys as codes for frequent strings: FSST (Boncz, Neumann and Leis, VLDB'20).
//!
//! ```text
//! symbols   count u8 · a length u8 (1..=8) each · their bytes
//! part      nothing, of an empty one
//!           254 u8 · bytes                            as it is
//!           code u8, or 255 u8 · byte u8, and so on   a code below the count stands for its symbol
//! ```
//!
//! The crate `fsst-rs` learns the symbols and encodes. Decoding is done here, since bytes of files are not to
//! be trusted and the crate's decoder takes every code to have a symbol. One of its 255 codes is kept for
//! parts that would grow, which are stored as they are.

use crate::codec::Decoder;

/// The code before a part that is stored as it is; those below it may be symbols.
const AS_IT_IS: u8 = 254;
/// The code before a byte that stands for itself.
const ESCAPE: u8 = 255;
/// Most symbols of a table.
const MOST_SYMBOLS: usize = AS_IT_IS as usize;
/// Bytes that are decoded between two looks at the room for them.
const CHUNK_BYTES: usize = 256;

/// A table of symbols, as it decodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbols {
    /// Bytes of each symbol, the first one lowest, and their number; 0 for a code without a symbol.
    symbols: Box<[(u64, u8); 256]>,
    count: u8,
}

impl Symbols {
    fn of(parts: impl Iterator<Item = (u64, u8)>) -> Self {
        let mut symbols = Box::new([(0, 0); 256]);
        let mut count = 0;
        for (slot, symbol) in symbols.iter_mut().take(MOST_SYMBOLS).zip(parts) {
            *slot = symbol;
            count += 1;
        }
        Self { symbols, count }
    }

    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        out.push(self.count);
        let used = || self.symbols.iter().take(usize::from(self.count));
        out.extend(used().map(|(_, length)| *length));
        for (symbol, length) in used() {
            out.extend(symbol.to_le_bytes().iter().take(usize::from(*length)));
        }
    }

    /// The symbols that `from` goes on with.
    pub fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        let count = usize::from(from.u8()?);
        let lengths = from.take(count).filter(|_| (1..=MOST_SYMBOLS).contains(&count))?;
        let mut symbols = Vec::with_capacity(count);
        for length in lengths {
            let bytes = from.take(usize::from(*length)).filter(|bytes| (1..=8).contains(&bytes.len()))?;
            let symbol = bytes.iter().rev().fold(0, |symbol, byte| symbol << 8 | u64::from(*byte));
            symbols.push((symbol, *length));
        }
        Some(Self::of(symbols.into_iter()))
    }

    /// Appends the bytes that a part stands for; `None` where it stands for none.
    pub fn decode_onto(&self, part: &[u8], out: &mut Vec<u8>) -> Option<()> {
        if let [AS_IT_IS, bytes @ ..] = part {
            out.extend_from_slice(bytes);
            return Some(());
        }
        let mut chunk = [0; CHUNK_BYTES];
        let (mut at, mut codes) = (0, part.iter());
        while let Some(code) = codes.next() {
            if at > CHUNK_BYTES - 8 {
                out.extend_from_slice(chunk.get(..at)?);
                at = 0;
            }
            let room = chunk.get_mut(at..)?.first_chunk_mut::<8>()?;
            if *code == ESCAPE {
                *room = u64::from(*codes.next()?).to_le_bytes();
                at += 1;
                continue;
            }
            let (symbol, length) = *self.symbols.get(usize::from(*code))?;
            *room = symbol.to_le_bytes();
            at += usize::from(length);
            if length == 0 {
                return None;
            }
        }
        out.extend_from_slice(chunk.get(..at)?);
        Some(())
    }

    /// How many bytes of `wanted` a part begins with, and whether it is `wanted`; `None` where it stands for
    /// no bytes. What comes behind the first difference is not looked at.
    pub fn compare(&self, part: &[u8], wanted: &[u8]) -> Option<(usize, bool)> {
        let same = |a: &[u8], b: &[u8]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
        if let [AS_IT_IS, bytes @ ..] = part {
            return Some((same(bytes, wanted), bytes == wanted));
        }
        let (mut at, mut codes) = (0, part.iter());
        while let Some(code) = codes.next() {
            let (symbol, length) = match *code {
                ESCAPE => (u64::from(*codes.next()?), 1),
                code => *self.symbols.get(usize::from(code))?,
            };
            if length == 0 {
                return None;
            }
            let rest = wanted.get(at..)?;
            let differing = match rest.first_chunk::<8>() {
                Some(word) => (u64::from_le_bytes(*word) ^ symbol).trailing_zeros() as usize / 8,
                None => same(&symbol.to_le_bytes(), rest),
            };
            if differing < usize::from(length) {
                return Some((at + differing, false));
            }
            at += usize::from(length);
        }
        Some((at, at == wanted.len()))
    }
}

/// Symbols as they encode.
pub(crate) struct SymbolEncoder {
    compressor: fsst::Compressor,
}

impl SymbolEncoder {
    /// Learns symbols from `parts`; `None` where there are none worth having.
    pub fn train(parts: &[&[u8]]) -> Option<Self> {
        if parts.iter().all(|part| part.is_empty()) {
            return None;
        }
        let mut compressor = fsst::Compressor::train(&parts.to_vec());
        if compressor.n_symbols() > MOST_SYMBOLS {
            // The last ones have a byte each, or the fewest bytes there are.
            let symbols = compressor.symbol_table().get(..MOST_SYMBOLS)?.to_vec();
            let lengths = compressor.symbol_lengths().get(..MOST_SYMBOLS)?.to_vec();
            compressor = fsst::Compressor::rebuild_from(symbols, lengths);
        }
        (compressor.n_symbols() > 0).then_some(Self { compressor })
    }

    /// The same symbols, as they decode.
    pub fn symbols(&self) -> Symbols {
        let lengths = self.compressor.symbol_lengths();
        let symbols = self.compressor.symbol_table().iter().map(|symbol| symbol.to_u64());
        Symbols::of(symbols.zip(lengths.iter().copied()))
    }

    /// Returns what stands for `part`: a byte more than it has at most.
    pub fn encode(&self, part: &[u8]) -> Vec<u8> {
        let encoded = self.compressor.compress(part);
        if encoded.len() <= part.len() {
            return encoded;
        }
        let mut as_it_is = Vec::with_capacity(part.len() + 1);
        as_it_is.push(AS_IT_IS);
        as_it_is.extend_from_slice(part);
        as_it_is
    }
}
