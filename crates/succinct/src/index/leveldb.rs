//! LevelDB's block index: one entry per page, with a key that ends or begins it and, unless pages have one
//! size, its place in the file.
//!
//! The idea: an array of keys, searched by halves. [`Form`] says how much of a key an entry has and whether
//! it has a place; these are the three forms that the three-level index of SlimDB is measured against. For
//! use, rather than comparison, [`Separators`](super::separators::Separators) holds what the last form holds
//! in a third of the bytes.
//!
//! Sources: LevelDB's doc/table_format.md, whose index block has this layout with a restart at every entry;
//! Ren et al., "SlimDB" (VLDB 2017), §5.2 and table 3. Where we differ from LevelDB, and why: shortened keys
//! are cut from the next page's first key ([`shortest`]) as in our other index, so that they are never longer
//! than LevelDB's; an entry of the forms with shortened keys names where its page begins, so that the first
//! one's is empty; and a form is a byte in front.
//!
//! ```text
//! +---------+---------+---------+---+----------------------+--------------+
//! | form: 1 | entry 0 | entry 1 |...| entries' offsets: 4n | entries n: 4 |     offsets count from entry 0
//! +---------+---------+---------+---+----------------------+--------------+
//!
//! entry:
//! +-------------------+--------------------+----------------------+-----+----------------+----------------+
//! | varint shared = 0 | varint key length  | varint value length  | key | varint offset  | varint length  |
//! +-------------------+--------------------+----------------------+-----+----------------+----------------+
//!                                            0 without location          \____ value, if any ____________/
//! ```
//!
//! Invariants: entries lie without gaps in the order of their pages, and their keys ascend strictly.

use super::separators::shortest;
use crate::code::varint;
use crate::error::DecodeError;

/// What an entry holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// The page's whole last key, its offset and its length: LevelDB's default.
    FullKeys,
    /// The shortest string between the page before and this one, offset and length: LevelDB with keys
    /// compressed.
    KeyCompressed,
    /// The same without offset and length, which pages of one size do not need.
    FixedBlock,
}

impl Form {
    /// All forms, from the largest.
    pub const ALL: [Form; 3] = [Form::FullKeys, Form::KeyCompressed, Form::FixedBlock];

    fn has_location(self) -> bool {
        self != Form::FixedBlock
    }
}

/// Bytes of the number of entries, and of an entry's offset.
const WORD: usize = size_of::<u32>();

/// Takes the pages of a table in order and makes a [`LevelDbIndex`] of them.
#[derive(Debug, Clone)]
pub struct LevelDbBuilder {
    form: Form,
    last_key: Vec<u8>,
    entries: Vec<u8>,
    offsets: Vec<u32>,
}

impl LevelDbBuilder {
    /// A builder without pages.
    pub fn new(form: Form) -> Self {
        LevelDbBuilder { form, last_key: Vec::new(), entries: Vec::new(), offsets: Vec::new() }
    }

    /// Adds the next page: its first and last key, and where it lies in the file and how long it is, which
    /// [`Form::FixedBlock`] ignores.
    ///
    /// # Panics
    ///
    /// If `first` is above `last` or not above the page before, or if entries take 4 GiB or more.
    pub fn add_page(&mut self, first: &[u8], last: &[u8], offset: u64, length: u64) {
        assert!(first <= last, "add_page: the page's first key is above its last key");
        let is_first = self.offsets.is_empty();
        assert!(is_first || *self.last_key < *first, "add_page: keys overlap the page before");
        let at = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        assert!(at < u32::MAX, "add_page: the index has 4 GiB");
        let key = match self.form {
            Form::FullKeys => last,
            Form::KeyCompressed | Form::FixedBlock if is_first => &[],
            Form::KeyCompressed | Form::FixedBlock => shortest(&self.last_key, first),
        };
        let mut location = Vec::new();
        if self.form.has_location() {
            varint::put_u64(&mut location, offset);
            varint::put_u64(&mut location, length);
        }
        self.offsets.push(at);
        for number in [0, key.len(), location.len()] {
            varint::put_u64(&mut self.entries, number as u64);
        }
        self.entries.extend_from_slice(key);
        self.entries.extend_from_slice(&location);
        self.last_key.clear();
        self.last_key.extend_from_slice(last);
    }

    /// Freezes the index.
    pub fn finish(self) -> LevelDbIndex {
        LevelDbIndex { form: self.form, entries: self.entries.into(), offsets: self.offsets.into() }
    }
}

/// One entry as it lies in the bytes.
struct Entry<'a> {
    key: &'a [u8],
    location: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The entry at the start of `bytes`; `None` if it does not end within them.
    #[inline]
    fn parse(mut bytes: &'a [u8]) -> Option<Self> {
        let mut number = || {
            let (number, taken) = varint::get_u64(bytes)?;
            bytes = bytes.get(taken..)?;
            usize::try_from(number).ok()
        };
        let (shared, key, location) = (number()?, number()?, number()?);
        let (key, rest) = bytes.split_at_checked(key)?;
        let (location, rest) = rest.split_at_checked(location)?;
        (shared == 0).then_some(Entry { key, location, rest })
    }

    /// Offset and length; `None` if there is no location or more than one.
    fn location(&self) -> Option<(u64, u64)> {
        let (offset, taken) = varint::get_u64(self.location)?;
        let rest = self.location.get(taken..)?;
        let (length, taken) = varint::get_u64(rest)?;
        (taken == rest.len()).then_some((offset, length))
    }
}

/// Finds the one page that may hold a key, by halves.
///
/// ```
/// use siltstone_succinct::index::leveldb::{Form, LevelDbBuilder, LevelDbIndex};
///
/// let mut builder = LevelDbBuilder::new(Form::KeyCompressed);
/// builder.add_page(b"apple", b"grape", 0, 4000);
/// builder.add_page(b"lemon", b"mango", 4000, 3800);
/// let index = builder.finish();
/// assert_eq!(index.find(b"lime"), 1);
/// assert_eq!(index.location(1), Some((4000, 3800)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelDbIndex {
    form: Form,
    entries: Box<[u8]>,
    offsets: Box<[u32]>,
}

impl LevelDbIndex {
    /// The only page that may hold `key`. Above or below all pages the last or the first; 0 if there are
    /// none.
    ///
    /// Takes O(log pages) comparisons and allocates nothing.
    #[inline]
    pub fn find(&self, key: &[u8]) -> u32 {
        let key_of = |offset: &u32| self.entry(*offset).map_or(&[][..], |entry| entry.key);
        let page = match self.form {
            // The first page that does not end below the key.
            Form::FullKeys => self.offsets.partition_point(|offset| key_of(offset) < key),
            // The last page that does not begin above it.
            Form::KeyCompressed | Form::FixedBlock => {
                self.offsets.partition_point(|offset| key_of(offset) <= key).saturating_sub(1)
            }
        };
        page.min(self.offsets.len().saturating_sub(1)) as u32
    }

    #[inline]
    fn entry(&self, offset: u32) -> Option<Entry<'_>> {
        Entry::parse(self.entries.get(offset as usize..)?)
    }

    /// Offset and length of a page in the file; `None` if the form has none or if there is no such page.
    pub fn location(&self, page: u32) -> Option<(u64, u64)> {
        self.entry(*self.offsets.get(page as usize)?)?.location()
    }

    /// What entries hold.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Number of pages.
    pub fn pages(&self) -> u32 {
        self.offsets.len() as u32
    }

    /// Bytes of memory held, this value's own included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.entries.len() + size_of_val(&*self.offsets)
    }

    /// Appends the encoding drawn at the top of this file.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        out.push(Form::ALL.iter().position(|form| *form == self.form).unwrap_or(0) as u8);
        out.extend_from_slice(&self.entries);
        for number in self.offsets.iter().chain([&self.pages()]) {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Decodes what [`LevelDbIndex::to_bytes`] wrote; `bytes` must hold that and nothing else.
    ///
    /// # Errors
    ///
    /// If an entry is not where its offset says, if it has no location where the form wants one or one where
    /// it does not, if keys don't ascend, or if bytes are left over.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let error = |expected: &str, found: String| DecodeError::new("LevelDB index", expected, found);
        let short =
            || error("a form, entries, their offsets and their number", format!("{} bytes", bytes.len()));
        let (form, rest) = bytes.split_first().ok_or_else(short)?;
        let form =
            *Form::ALL.get(usize::from(*form)).ok_or_else(|| error("a form below 3", form.to_string()))?;
        let (rest, count) = rest.split_last_chunk::<WORD>().ok_or_else(short)?;
        let count = u32::from_le_bytes(*count) as usize;
        let entries = count.checked_mul(WORD).and_then(|offsets| rest.len().checked_sub(offsets));
        let (entries, offsets) = entries.and_then(|at| rest.split_at_checked(at)).ok_or_else(short)?;
        let offsets: Box<[u32]> =
            offsets.as_chunks::<WORD>().0.iter().map(|o| u32::from_le_bytes(*o)).collect();

        let mut rest = entries;
        let mut before: Option<&[u8]> = None;
        for (number, offset) in offsets.iter().enumerate() {
            let at = entries.len() - rest.len();
            if *offset as usize != at {
                return Err(error(&format!("entry {number} at {at}"), format!("offset {offset}")));
            }
            let entry = Entry::parse(rest)
                .filter(|entry| match form.has_location() {
                    true => entry.location().is_some(),
                    false => entry.location.is_empty(),
                })
                .ok_or_else(|| error("an entry of this form", format!("other bytes in entry {number}")))?;
            if before.is_some_and(|before| before >= entry.key) {
                return Err(error(
                    "a key above the one before",
                    format!("one that is not in entry {number}"),
                ));
            }
            if number == 0 && form != Form::FullKeys && !entry.key.is_empty() {
                return Err(error("an empty key in entry 0", format!("{} bytes", entry.key.len())));
            }
            (before, rest) = (Some(entry.key), entry.rest);
        }
        if !rest.is_empty() {
            return Err(error("no bytes behind the last entry", rest.len().to_string()));
        }
        Ok(LevelDbIndex { form, entries: entries.into(), offsets })
    }
}
