//! A trie as bytes, and what is checked before bytes become a trie.
//!
//! The idea: buckets and chunks are noted by their lengths, in keys and in bits, from which the directory is
//! built anew; and all of the code is read once, node by node, so that lookups may trust it.
//!
//! ```text
//!  0      1             5             9       17        25     33      41
//! +------+-------------+-------------+-------+---------+------+-------+----------+-----+----------+---------+
//! | code | block keys  | bucket keys | keys  | buckets | low  | high  | bucket 0 |...  | word 0   | word 1..|
//! | u8   | u32         | u32         | u64   | u64     | u64  | u64   |          |     | u64      |         |
//! +------+-------------+-------------+-------+---------+------+-------+----------+-----+----------+---------+
//!
//! bucket      varint(2 * keys), varint(bits of code) unless keys = 0
//! split one   varint(2 * keys + 1), then for every 128 keys or part of that, as in the next line
//! chunk       first key u64, shift u8, varint(bits of code)
//! code        0 paper, 1 strong, 2 weak
//! word        64 bits of code, the first one highest; the last word ends in zeros
//! ```
//!
//! Invariants checked: the lengths add up; chunks lie in order within their bucket; the code of every bucket
//! and chunk is that of a trie with as many keys and takes just the bits it claims.

use super::directory::{Directory, DirectoryBuilder};
use super::lengths::Lengths;
use super::node::{MOST_KEYS, nodes};
use super::spread::Spread;
use super::walk::Checker;
use super::{CHUNK_KEYS, Chunk, Code, EntropyTrie, MOST_BLOCK_KEYS, Spec};
use crate::code::varint;
use crate::code::words::{get_words, put_words};
use crate::error::DecodeError;

const HEADER_BYTES: usize = 41;

impl Code {
    /// As it stands in the first byte.
    const fn tag(self) -> u8 {
        match self {
            Code::Paper => 0,
            Code::Strong => 1,
            Code::Weak => 2,
        }
    }
}

impl EntropyTrie {
    /// Appends the encoding drawn at the top of `entropy_trie/bytes.rs`.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        out.push(self.spec.code.tag());
        out.extend_from_slice(&self.spec.block_keys.to_le_bytes());
        out.extend_from_slice(&self.spec.bucket_keys.to_le_bytes());
        for word in [self.keys, self.buckets, self.spread.low, self.spread.high] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        let mut splits = self.split.iter();
        for number in 0..self.buckets {
            let bucket = self.directory.bucket(number as usize);
            varint::put_u64(out, bucket.keys << 1 | u64::from(bucket.split));
            if bucket.split {
                let first = splits.next().map_or(0, |split| split.1 as usize);
                self.put_chunks(out, first, bucket.keys, bucket.end);
            } else if bucket.keys > 0 {
                varint::put_u64(out, bucket.end - bucket.offset);
            }
        }
        put_words(out, &self.words);
    }

    /// Appends the chunks of a bucket with `keys` keys whose code ends at `end`, from chunk number `first`
    /// on.
    fn put_chunks(&self, out: &mut Vec<u8>, first: usize, keys: u64, end: u64) {
        let count = keys.div_ceil(CHUNK_KEYS) as usize;
        let chunks = self.chunks.get(first..first + count).unwrap_or(&[]);
        let ends = chunks.iter().skip(1).map(|chunk| chunk.offset).chain([end]);
        for (chunk, end) in chunks.iter().zip(ends) {
            out.extend_from_slice(&chunk.first.to_le_bytes());
            out.push(chunk.shift);
            varint::put_u64(out, end - chunk.offset);
        }
    }

    /// Decodes what [`EntropyTrie::to_bytes`] wrote; `bytes` must hold that and nothing else.
    ///
    /// Reads all of the code, which takes a few nanoseconds per key.
    ///
    /// # Errors
    ///
    /// If a field of the header is out of its bounds, if lengths don't add up, if chunks are out of order, or
    /// if the code is not that of a trie.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (trie, rest) = header(bytes)?;
        let mut decoder = Decoder {
            rest,
            trie,
            directory: DirectoryBuilder::default(),
            offset: 0,
            rank: 0,
            pieces: Vec::new(),
        };
        decoder.buckets()?;
        let Decoder { rest, mut trie, mut directory, offset, rank, pieces } = decoder;
        if rank != trie.keys {
            return Err(wrong("keys of all buckets", trie.keys, rank));
        }
        directory.push(rank, offset, false);
        trie.directory = directory.finish();
        trie.code_bits = offset;
        trie.words = get_words(rest)
            .filter(|words| words.len() as u64 == offset.div_ceil(64))
            .ok_or_else(|| wrong("code", format!("{} words of 8 bytes", offset.div_ceil(64)), rest.len()))?;
        let used = offset % 64;
        if used > 0 && trie.words.last().is_some_and(|last| last << used != 0) {
            return Err(wrong("last word", format!("only zeros past bit {used}"), "others"));
        }
        let checker = Checker { walk: trie.walk(), end: offset };
        for piece in pieces {
            let end = checker.subtree(trie.spec.in_block(piece.rank), piece.keys, piece.start, 0);
            if end != Some(piece.end) {
                let expected = format!("the code of a trie of {} keys, to bit {}", piece.keys, piece.end);
                return Err(wrong("code", expected, format!("an end at {end:?}")));
            }
        }
        Ok(trie)
    }
}

/// An error about a field of the trie.
fn wrong(what: &'static str, expected: impl std::fmt::Display, found: impl std::fmt::Display) -> DecodeError {
    // The names of fields are known here, that of the structure goes before each.
    DecodeError::new(what, expected, format!("{found} (entropy-coded trie)"))
}

/// The trie without buckets that the header tells of, and the bytes behind the header.
fn header(bytes: &[u8]) -> Result<(EntropyTrie, &[u8]), DecodeError> {
    let short =
        || wrong("header", format!("at least {HEADER_BYTES} bytes"), format!("{} bytes", bytes.len()));
    let (head, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or_else(short)?;
    let field = |start: usize, width: usize| {
        let field = head.get(start..start + width).unwrap_or(&[]);
        field.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
    };
    let code = match field(0, 1) {
        0 => Code::Paper,
        1 => Code::Strong,
        2 => Code::Weak,
        other => return Err(wrong("code tag", "0, 1 or 2", other)),
    };
    let spec = Spec { code, block_keys: field(1, 4) as u32, bucket_keys: field(5, 4) as u32 };
    if !(1..=MOST_BLOCK_KEYS).contains(&spec.block_keys) {
        return Err(wrong("keys of a block", format!("1 to {MOST_BLOCK_KEYS}"), spec.block_keys));
    }
    if !(16..=8192).contains(&spec.bucket_keys) {
        return Err(wrong("keys of a bucket", "16 to 8192", spec.bucket_keys));
    }
    let (keys, buckets, low, high) = (field(9, 8), field(17, 8), field(25, 8), field(33, 8));
    // Each bucket has at least one byte, so that memory stays within a multiple of the input.
    if buckets == 0 || buckets > (rest.len() as u64).min(1 << 32) {
        return Err(wrong("buckets", format!("1 to {}", rest.len()), buckets));
    }
    if low > high || keys > 0 && keys - 1 > high - low || usize::try_from(keys).is_err() {
        return Err(wrong("range", format!("{keys} keys or more"), format!("{low}..={high}")));
    }
    let trie = EntropyTrie {
        spec,
        keys,
        buckets,
        spread: Spread::new(low, high, buckets),
        nodes: nodes(code),
        lengths: Lengths::new(&spec),
        directory: Directory::default(),
        split: Vec::new(),
        chunks: Vec::new(),
        words: Vec::new(),
        code_bits: 0,
    };
    Ok((trie, rest))
}

/// One trie within the code.
struct Piece {
    rank: u64,
    keys: u32,
    start: u64,
    end: u64,
}

/// Reads buckets.
struct Decoder<'a> {
    rest: &'a [u8],
    trie: EntropyTrie,
    directory: DirectoryBuilder,
    offset: u64,
    rank: u64,
    pieces: Vec<Piece>,
}

impl Decoder<'_> {
    fn buckets(&mut self) -> Result<(), DecodeError> {
        for number in 0..self.trie.buckets {
            let header = self.varint()?;
            let (keys, split) = (header >> 1, header & 1 == 1);
            let most = if split { self.trie.keys } else { self.trie.spec.bucket_keys.into() };
            let most = if split { most } else { (most * 4).min(MOST_KEYS.into()) };
            if keys > most {
                return Err(wrong("keys of a bucket", format!("at most {most}"), keys));
            }
            self.directory.push(self.rank, self.offset, split);
            if split {
                self.chunks(number, keys)?;
            } else if keys > 0 {
                self.piece(self.rank, keys)?;
            }
            // No overflow: both are at most the number of keys.
            self.rank += keys;
            if self.rank > self.trie.keys {
                return Err(wrong("keys of all buckets", self.trie.keys, format!("{} or more", self.rank)));
            }
        }
        Ok(())
    }

    fn chunks(&mut self, number: u64, keys: u64) -> Result<(), DecodeError> {
        if keys == 0 {
            return Err(wrong("keys of a split bucket", "at least 1", 0));
        }
        self.trie.split.push((number, self.trie.chunks.len() as u64));
        for chunk in 0..keys.div_ceil(CHUNK_KEYS) {
            let short = || wrong("chunk", "9 bytes and a length", "the end");
            let (first, rest) = self.rest.split_first_chunk::<8>().ok_or_else(short)?;
            let (shift, rest) = rest.split_first().ok_or_else(short)?;
            self.rest = rest;
            let first = u64::from_le_bytes(*first);
            let spread = &self.trie.spread;
            let inside =
                (spread.low..=spread.high).contains(&first) && spread.place(first).0 as u64 == number;
            let above = self.trie.chunks.last().is_none_or(|before| before.first < first);
            if !inside || !above || *shift > 63 {
                return Err(wrong("chunk", format!("an ascending key of bucket {number}"), first));
            }
            self.trie.chunks.push(Chunk { first, shift: *shift, offset: self.offset });
            self.piece(self.rank + chunk * CHUNK_KEYS, (keys - chunk * CHUNK_KEYS).min(CHUNK_KEYS))?;
        }
        Ok(())
    }

    /// Reads the length of a piece of code that holds `keys` keys.
    fn piece(&mut self, rank: u64, keys: u64) -> Result<(), DecodeError> {
        let bits = self.varint()?;
        let end = self.offset.checked_add(bits).filter(|end| *end <= self.rest.len() as u64 * 8);
        let Some(end) = end else {
            return Err(wrong("code", format!("{bits} bits more"), format!("{} bytes", self.rest.len())));
        };
        self.pieces.push(Piece { rank, keys: keys as u32, start: self.offset, end });
        self.offset = end;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, DecodeError> {
        let (value, taken) =
            varint::get_u64(self.rest).ok_or_else(|| wrong("length", "a varint", "something else"))?;
        self.rest = self.rest.get(taken..).unwrap_or(&[]);
        Ok(value)
    }
}
