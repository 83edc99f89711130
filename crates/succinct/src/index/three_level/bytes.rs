//! To bytes and back.

use super::build::TRIE_OF_PREFIXES;
use super::pages::Pages;
use super::suffixes::{PartialSuffixes, Scale, Suffixes, TRIE, TrieSuffixes};
use super::{ThirdLevel, ThreeLevelIndex, Ties};
use crate::bits::rank_select::RankSelect;
use crate::bits::vector::BitVec;
use crate::code::words::split_word;
use crate::error::DecodeError;
use crate::index::entropy_trie::{EntropyTrie, Spec};
use crate::index::separators::Separators;

const PARTS: usize = 5;

impl ThreeLevelIndex {
    /// Appends the encoding drawn at the top of `three_level`.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        out.push(match self.third_level() {
            ThirdLevel::EntropyTrie => 0,
            ThirdLevel::PartialSuffixes => 1,
        });
        out.extend_from_slice(&self.pages().to_le_bytes());
        let mut parts: [Vec<u8>; PARTS] = Default::default();
        let [prefixes, starts, inner, suffixes, ties] = &mut parts;
        self.prefixes.to_bytes(prefixes);
        self.pages.starts.to_bytes(starts);
        self.pages.inner.to_bytes(inner);
        match &self.suffixes {
            Suffixes::Trie(trie) => trie.trie.to_bytes(suffixes),
            Suffixes::Partial(partial) => {
                put_two(suffixes, |out| partial.lengths.to_bytes(out), |out| partial.bits.to_bytes(out));
            }
        }
        if let Some(held) = &self.ties {
            put_two(ties, |out| held.borders.to_bytes(out), |out| held.separators.to_bytes(out));
        }
        for part in &parts {
            out.extend_from_slice(&(part.len() as u64).to_le_bytes());
        }
        for part in &parts {
            out.extend_from_slice(part);
        }
    }

    /// Decodes what [`ThreeLevelIndex::to_bytes`] wrote; `bytes` must hold that and nothing else.
    ///
    /// # Errors
    ///
    /// If a part does not decode, or if the parts speak of different numbers of pages, prefixes or borders.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (form, pages, parts) = split(bytes)?;
        let [prefixes, starts, inner, suffixes, ties] = parts;
        let prefixes = trie(prefixes, TRIE_OF_PREFIXES)?;
        let pages = check_pages(
            pages as usize,
            prefixes.len(),
            BitVec::from_bytes(starts)?,
            BitVec::from_bytes(inner)?,
        )?;
        let ties = if ties.is_empty() { None } else { Some(Box::new(check_ties(ties, &pages.inner)?)) };
        let tied = ties.as_ref().map_or(0, |ties| ties.borders.count_ones());
        let borders = pages.inner.count_ones().saturating_sub(tied);
        let suffixes = match form {
            ThirdLevel::EntropyTrie => {
                let trie = trie(suffixes, TRIE)?;
                let expected = if borders == 0 { 0 } else { 2 * borders + 1 };
                expect("three-level index, keys of level 3", expected, trie.len())?;
                Suffixes::Trie(TrieSuffixes { scale: Scale::new(pages.count()), trie })
            }
            ThirdLevel::PartialSuffixes => {
                let (lengths, bits) = split_two(suffixes)?;
                let (lengths, bits) = (BitVec::from_bytes(lengths)?, BitVec::from_bytes(bits)?);
                Suffixes::Partial(PartialSuffixes::new(borders, lengths, bits)?)
            }
        };
        Ok(ThreeLevelIndex { prefixes, pages, suffixes, ties })
    }
}

/// Form, number of pages and parts.
fn split(bytes: &[u8]) -> Result<(ThirdLevel, u32, [&[u8]; PARTS]), DecodeError> {
    let too_short = || {
        let found = format!("{} bytes", bytes.len());
        DecodeError::new("three-level index, header", "at least 45 bytes", found)
    };
    let (&[form], rest) = bytes.split_first_chunk::<1>().ok_or_else(too_short)?;
    let form = match form {
        0 => ThirdLevel::EntropyTrie,
        1 => ThirdLevel::PartialSuffixes,
        _ => return Err(DecodeError::new("three-level index, form", "0 or 1", form)),
    };
    let (pages, mut rest) = rest.split_first_chunk::<4>().ok_or_else(too_short)?;
    let mut lengths = [0u64; PARTS];
    for length in &mut lengths {
        (*length, rest) = split_word(rest).ok_or_else(too_short)?;
    }
    let mut parts = [&[][..]; PARTS];
    for (part, length) in parts.iter_mut().zip(lengths) {
        (*part, rest) = split_at(rest, length)?;
    }
    expect("three-level index, bytes behind the last part", 0, rest.len())?;
    Ok((form, u32::from_le_bytes(*pages), parts))
}

fn split_at(bytes: &[u8], length: u64) -> Result<(&[u8], &[u8]), DecodeError> {
    let split = usize::try_from(length).ok().and_then(|length| bytes.split_at_checked(length));
    split.ok_or_else(|| {
        let found = format!("{} bytes", bytes.len());
        DecodeError::new("three-level index, part", format!("{length} bytes"), found)
    })
}

/// Appends two pieces, the first with its length before it.
fn put_two(out: &mut Vec<u8>, first: impl Fn(&mut Vec<u8>), second: impl Fn(&mut Vec<u8>)) {
    let mut bytes = Vec::new();
    first(&mut bytes);
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(&bytes);
    second(out);
}

fn split_two(bytes: &[u8]) -> Result<(&[u8], &[u8]), DecodeError> {
    let (length, rest) = split_word(bytes).ok_or_else(|| {
        DecodeError::new("three-level index, part", "at least 8 bytes", format!("{} bytes", bytes.len()))
    })?;
    split_at(rest, length)
}

fn expect(what: &'static str, expected: usize, found: usize) -> Result<(), DecodeError> {
    if expected == found { Ok(()) } else { Err(DecodeError::new(what, expected, found)) }
}

/// A trie that was built to `spec`: one built otherwise would answer in other terms.
fn trie(bytes: &[u8], spec: Spec) -> Result<EntropyTrie, DecodeError> {
    let trie = EntropyTrie::from_bytes(bytes)?;
    if trie.spec() != spec {
        let (expected, found) = (format!("{spec:?}"), format!("{:?}", trie.spec()));
        return Err(DecodeError::new("three-level index, kind of trie", expected, found));
    }
    Ok(trie)
}

fn check_pages(pages: usize, prefixes: usize, starts: BitVec, inner: BitVec) -> Result<Pages, DecodeError> {
    expect("three-level index, pages of level 2", pages, inner.len())?;
    let (starts, inner) = (ranked(starts)?, ranked(inner)?);
    expect("three-level index, prefixes of level 2", prefixes, starts.count_ones())?;
    expect("three-level index, borders of level 2", pages.saturating_sub(1), starts.count_zeros())?;
    if pages > 0 && starts.bits().get(0) != Some(true) {
        return Err(DecodeError::new("three-level index, level 2", "a prefix on page 0", "none"));
    }
    if inner.bits().get(0) == Some(true) {
        return Err(DecodeError::new("three-level index, level 2", "no page before page 0", "one"));
    }
    Ok(Pages { starts, inner })
}

fn check_ties(bytes: &[u8], inner: &RankSelect) -> Result<Ties, DecodeError> {
    let (borders, separators) = split_two(bytes)?;
    let borders = ranked(BitVec::from_bytes(borders)?)?;
    let separators = Separators::from_bytes(separators)?;
    expect("three-level index, pages of the ties", inner.len(), borders.len())?;
    let mut words = borders.bits().words().iter().zip(inner.bits().words());
    if borders.count_ones() == 0 || words.any(|(tied, inner)| tied & !inner != 0) {
        let found = "other borders, or none";
        return Err(DecodeError::new("three-level index, ties", "some of the inner borders", found));
    }
    expect(
        "three-level index, separators of the ties",
        borders.count_ones() + 1,
        separators.pages() as usize,
    )?;
    Ok(Ties { borders, separators })
}

fn ranked(bits: BitVec) -> Result<RankSelect, DecodeError> {
    if bits.len() as u64 > crate::bits::rank_select::MAX_BITS {
        return Err(DecodeError::new("three-level index, level 2", "at most 2^34 bits", bits.len()));
    }
    Ok(RankSelect::new(bits))
}
