//! The index of truncated separators: for each page of a sorted table, just enough of a key to tell it from
//! the one before.
//!
//! The idea: between the last key of a page and the first key of the next, keep the shortest string that lies
//! between them, cut from the latter. Neighbouring separators share prefixes, so each is stored as what it
//! adds to the one before; every 16th stands whole, for binary search.
//!
//! Sources: LevelDB's `FindShortestSeparator` and its block format with restart points (doc/table_format.md);
//! Ren et al., "SlimDB" (VLDB 2017), §3.1 and table 3, which measures its own index against this truncated,
//! key-compressed form. Where we differ from LevelDB, and why:
//!
//! - A separator is cut from the *next* page's first key (`last < s <= first`), not made by raising a byte of
//!   the last key (`last <= s < first`). It is never longer, and page 0 needs none.
//! - No file offset per page: pages have one size, so a page's number says where it lies.
//! - One byte holds both lengths of an entry, where LevelDB uses three.
//! - Restart offsets are not stored. The decoder walks all entries anyhow, to check them, and notes the
//!   offsets as it goes; in memory they take only as many bits as they need.
//! - In memory each restart also has a head: the four bytes behind the prefix that all restarts share. Binary
//!   search runs over the heads, which lie side by side, and reads separators only to break ties. At a
//!   quarter of a byte per page this halves the time of a lookup.
//!
//! ```text
//!  0            4
//! +------------+---------+---------+---+
//! | pages: u32 | entry 1 | entry 2 |...|     entry i is the separator between page i - 1 and page i;
//! +------------+---------+---------+---+     `pages - 1` entries, none if there is no page
//!
//! entry, with  shared = length of the prefix shared with the entry before; 0 in a restart (entries 1, 17, 33, ...)
//!              suffix = the rest, at least one byte
//! +--------+--------+----------------------+----------------------------+--------+
//! | hi: u4 | lo: u4 | varint(shared - 15)  | varint(suffix length - 16) | suffix |
//! +--------+--------+----------------------+----------------------------+--------+
//!  hi = min(shared, 15)       if hi = 15           if lo = 15
//!  lo = min(suffix length - 1, 15)
//! ```
//!
//! Invariants: separators ascend strictly; `shared` is the whole of the common prefix, except in restarts.
//! The second is what lets [`Separators::find`] walk the entries of an interval without rebuilding them:
//! where an entry leaves the one before says on which side of the key it falls.

use crate::bits::vector::{BitVec, BitVecBuilder};
use crate::code::varint;
use crate::error::DecodeError;

/// Entries from one whole separator to the next.
const RESTART_EVERY: usize = 16;
/// The value of a length nibble that says: a varint with the rest follows.
const ESCAPE: usize = 15;

/// The shortest string `s` with `prev_last < s <= next_first` that is a prefix of `next_first`.
///
/// Wants `prev_last < next_first`; otherwise there is no such string and the answer is all of `next_first`.
///
/// ```
/// use siltstone_succinct::index::separators::shortest;
///
/// assert_eq!(shortest(b"grape", b"grapefruit"), b"grapef");
/// assert_eq!(shortest(b"lemon", b"mango"), b"m");
/// ```
pub fn shortest<'a>(prev_last: &[u8], next_first: &'a [u8]) -> &'a [u8] {
    let shared = common_prefix(prev_last, next_first);
    next_first.get(..=shared).unwrap_or(next_first)
}

/// Length of the longest common prefix.
#[inline]
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Takes the pages of a table in order and makes a [`Separators`] of them.
///
/// ```
/// use siltstone_succinct::index::separators::SeparatorsBuilder;
///
/// let mut builder = SeparatorsBuilder::new();
/// builder.add_page(b"apple", b"grape");
/// builder.add_page(b"lemon", b"mango");
/// assert_eq!(builder.pages(), 2);
/// assert_eq!(builder.encoded_bytes(), 6); // four of header, one of lengths, and "l"
/// ```
#[derive(Debug, Default, Clone)]
pub struct SeparatorsBuilder {
    pages: u32,
    last_key: Vec<u8>,
    entries: Entries,
}

impl SeparatorsBuilder {
    /// A builder without pages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next page, which holds the keys from `first` to `last`, both included.
    ///
    /// # Panics
    ///
    /// If `first` is above `last` or not above the page before, or if there are 2^32 - 1 pages already: the
    /// caller's table is not sorted, and an index over it would lose keys.
    pub fn add_page(&mut self, first: &[u8], last: &[u8]) {
        assert!(first <= last, "add_page: the page's first key is above its last key");
        assert!(self.pages < u32::MAX, "add_page: more than 2^32 - 1 pages");
        if self.pages > 0 {
            assert!(*self.last_key < *first, "add_page: keys overlap the page before");
            self.entries.push(shortest(&self.last_key, first));
        }
        self.pages += 1;
        self.last_key.clear();
        self.last_key.extend_from_slice(last);
    }

    /// Adds the next page, which begins at `separator`; the first page's is ignored. For borders that the
    /// caller cut himself.
    ///
    /// # Panics
    ///
    /// If `separator` is empty or not above the one before, or if there are 2^32 - 1 pages already.
    pub(crate) fn add_separator(&mut self, separator: &[u8]) {
        assert!(self.pages < u32::MAX, "add_separator: more than 2^32 - 1 pages");
        if self.pages > 0 {
            assert!(*self.last_key < *separator, "add_separator: not above the separator before");
            self.entries.push(separator);
            self.last_key.clear();
            self.last_key.extend_from_slice(separator);
        }
        self.pages += 1;
    }

    /// Pages added so far.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Bytes that [`Separators::to_bytes`] would append if no further page came.
    pub fn encoded_bytes(&self) -> usize {
        size_of::<u32>() + self.entries.bytes.len()
    }

    /// Freezes the index.
    pub fn finish(self) -> Separators {
        Separators::new(self.pages, self.entries.bytes, &self.entries.restarts)
    }
}

/// Encoded separators, and where the restarts among them begin.
#[derive(Debug, Default, Clone)]
struct Entries {
    bytes: Vec<u8>,
    restarts: Vec<u64>,
    count: usize,
    previous: Vec<u8>,
}

impl Entries {
    fn push(&mut self, separator: &[u8]) {
        let shared = if self.count.is_multiple_of(RESTART_EVERY) {
            self.restarts.push(self.bytes.len() as u64);
            0
        } else {
            common_prefix(&self.previous, separator)
        };
        let suffix = separator.get(shared..).unwrap_or(&[]);
        debug_assert!(!suffix.is_empty(), "separators ascend, so each adds a byte to the one before");
        let length = suffix.len().saturating_sub(1);
        self.bytes.push((shared.min(ESCAPE) << 4 | length.min(ESCAPE)) as u8);
        for value in [shared, length] {
            if value >= ESCAPE {
                varint::put_u64(&mut self.bytes, (value - ESCAPE) as u64);
            }
        }
        self.bytes.extend_from_slice(suffix);
        self.previous.truncate(shared);
        self.previous.extend_from_slice(suffix);
        self.count += 1;
    }
}

/// One entry as it lies in the bytes.
struct Entry<'a> {
    shared: usize,
    suffix: &'a [u8],
    /// The bytes behind it.
    rest: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The entry at the start of `bytes`; `None` if it does not end within them.
    #[inline]
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&header, rest) = bytes.split_first()?;
        let (shared, rest) = Self::length(usize::from(header >> 4), rest)?;
        let (length, rest) = Self::length(usize::from(header & 15), rest)?;
        let (suffix, rest) = rest.split_at_checked(length.checked_add(1)?)?;
        Some(Entry { shared, suffix, rest })
    }

    /// The length that begins with `nibble` and may go on in `rest`.
    #[inline]
    fn length(nibble: usize, rest: &'a [u8]) -> Option<(usize, &'a [u8])> {
        if nibble < ESCAPE {
            return Some((nibble, rest));
        }
        let (more, taken) = varint::get_u64(rest)?;
        Some((usize::try_from(more).ok()?.checked_add(ESCAPE)?, rest.get(taken..)?))
    }
}

/// The first four bytes, zeros behind the end. Never sorts two strings the wrong way round, but may not tell
/// them apart.
#[inline]
fn head(bytes: &[u8]) -> u32 {
    match bytes.first_chunk::<4>() {
        Some(chunk) => u32::from_be_bytes(*chunk),
        None => bytes.iter().rev().fold(0, |head, byte| head >> 8 | u32::from(*byte) << 24),
    }
}

/// The index of a table's pages: finds the one page that may hold a key.
///
/// ```
/// use siltstone_succinct::index::separators::{Separators, SeparatorsBuilder};
///
/// let mut builder = SeparatorsBuilder::new();
/// builder.add_page(b"apple", b"grape");
/// builder.add_page(b"grapefruit", b"lemon");
/// builder.add_page(b"mango", b"pear");
/// let index = builder.finish();
/// assert_eq!(index.iter().collect::<Vec<_>>(), [&b"grapef"[..], b"m"]);
/// assert_eq!(index.find(b"banana"), 0);
/// assert_eq!(index.find(b"lime"), 1);
/// assert_eq!(index.find(b"zucchini"), 2);
///
/// let mut bytes = Vec::new();
/// index.to_bytes(&mut bytes);
/// assert_eq!(Separators::from_bytes(&bytes)?, index);
/// # Ok::<(), siltstone_succinct::error::DecodeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Separators {
    pages: u32,
    entries: Box<[u8]>,
    /// Offset of each restart in `entries`, `offset_bits` bits each.
    restarts: BitVec,
    offset_bits: u32,
    /// What all restarts begin with, and the head of each behind that.
    prefix: Box<[u8]>,
    heads: Box<[u32]>,
}

impl Separators {
    /// `restarts` must be the offsets of whole separators in `entries`.
    fn new(pages: u32, entries: Vec<u8>, restarts: &[u64]) -> Self {
        // Offsets ascend, so the last one needs the most bits.
        let offset_bits = restarts.last().map_or(0, |last| 64 - last.leading_zeros());
        let mut packed = BitVecBuilder::with_capacity(restarts.len() * offset_bits as usize);
        for offset in restarts {
            packed.push_bits(*offset, offset_bits);
        }
        let separator = |offset: &u64| {
            let entry = entries.get(*offset as usize..).and_then(Entry::parse);
            entry.map_or(&[][..], |entry| entry.suffix)
        };
        // They ascend, so what the first and the last share, all share.
        let first = restarts.first().map_or(&[][..], separator);
        let last = restarts.last().map_or(&[][..], separator);
        let prefix = first.get(..common_prefix(first, last)).unwrap_or(&[]);
        let heads = restarts.iter().map(separator);
        let heads = heads.map(|separator| head(separator.get(prefix.len()..).unwrap_or(&[]))).collect();
        Separators {
            pages,
            prefix: prefix.into(),
            heads,
            entries: entries.into_boxed_slice(),
            restarts: packed.finish(),
            offset_bits,
        }
    }

    /// The only page that may hold `key`: the last whose separator is not above it; page 0 if all are.
    ///
    /// Takes O(log pages) comparisons and allocates nothing. An index without pages answers 0 too.
    #[inline]
    pub fn find(&self, key: &[u8]) -> u32 {
        // The last restart not above the key begins the interval to search.
        match self.restarts_not_above(key).checked_sub(1) {
            Some(restart) => (restart * RESTART_EVERY) as u32 + self.count_in_interval(restart, key),
            None => 0,
        }
    }

    /// [`Separators::find`] of the two numbers, big-endian, and the key behind them. Allocates if the key has
    /// more than 240 bytes.
    #[inline]
    pub fn find_place(&self, hi: u64, lo: u64, key: &[u8]) -> u32 {
        let mut buffer = [0u8; 256];
        let Some((place, tail)) = buffer.get_mut(..16 + key.len()).and_then(<[u8]>::split_first_chunk_mut)
        else {
            return self.find(&[&hi.to_be_bytes()[..], &lo.to_be_bytes(), key].concat());
        };
        *place = (u128::from(hi) << 64 | u128::from(lo)).to_be_bytes();
        tail.copy_from_slice(key);
        let length = 16 + key.len();
        self.find(buffer.get(..length).unwrap_or(&[]))
    }

    /// How many restarts are not above `key`.
    #[inline]
    fn restarts_not_above(&self, key: &[u8]) -> usize {
        let Some(key_rest) = key.strip_prefix(&*self.prefix) else {
            return if key < &*self.prefix { 0 } else { self.heads.len() };
        };
        let head = head(key_rest);
        let below = self.heads.partition_point(|other| *other < head);
        let undecided = self.heads.get(below..).unwrap_or(&[]);
        if undecided.first() != Some(&head) {
            return below;
        }
        let mut low = below;
        let mut high = below + undecided.partition_point(|other| *other == head);
        while low < high {
            let middle = low.midpoint(high);
            if self.restart(middle).is_some_and(|restart| restart.suffix <= key) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    #[inline]
    fn restart(&self, number: usize) -> Option<Entry<'_>> {
        let offset = self.restarts.get_bits(number * self.offset_bits as usize, self.offset_bits)?;
        Entry::parse(self.entries.get(offset as usize..)?)
    }

    /// How many entries of the interval of restart `number`, itself not above `key`, are not above `key`.
    #[inline]
    fn count_in_interval(&self, number: usize, key: &[u8]) -> u32 {
        let Some(restart) = self.restart(number) else { return 0 };
        let mut rest = restart.rest;
        // The bytes that the entry before, which is not above the key, has in common with the key.
        let mut matched = common_prefix(restart.suffix, key);
        let mut count = 1;
        while count < RESTART_EVERY as u32
            && let Some(entry) = Entry::parse(rest)
        {
            // This entry leaves the one before at `shared`, upwards.
            if entry.shared < matched {
                // There the one before still agreed with the key, so this one is above it.
                break;
            }
            if entry.shared == matched {
                let key_rest = key.get(matched..).unwrap_or(&[]);
                let more = common_prefix(entry.suffix, key_rest);
                if entry.suffix.get(more) > key_rest.get(more) {
                    break;
                }
                matched += more;
            }
            // Otherwise it still agrees with the one before where that fell below the key.
            rest = entry.rest;
            count += 1;
        }
        count
    }

    /// Number of pages.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// The separators in order: that of page 1 first, page 0 has none. For inspection; allocates each.
    pub fn iter(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let mut rest = &*self.entries;
        let mut current = Vec::new();
        std::iter::from_fn(move || {
            let entry = Entry::parse(rest)?;
            rest = entry.rest;
            current.truncate(entry.shared);
            current.extend_from_slice(entry.suffix);
            Some(current.clone())
        })
    }

    /// Bytes of memory held, this value's own included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() - size_of::<BitVec>()
            + self.restarts.memory_bytes()
            + self.entries.len()
            + self.prefix.len()
            + size_of_val(&*self.heads)
    }

    /// Appends the encoding drawn at the top of this file.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.pages.to_le_bytes());
        out.extend_from_slice(&self.entries);
    }

    /// Decodes what [`Separators::to_bytes`] wrote; `bytes` must hold that and nothing else.
    ///
    /// # Errors
    ///
    /// If an entry does not end within `bytes`, if the separators don't ascend, if one shares more or less
    /// with the one before than it says, or if bytes are left over.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (pages, entries) = bytes.split_first_chunk::<4>().ok_or_else(|| {
            let found = format!("{} bytes", bytes.len());
            DecodeError::new("separators, header", "at least 4 bytes", found)
        })?;
        let pages = u32::from_le_bytes(*pages);
        let restarts = check_entries(entries, pages.saturating_sub(1))?;
        Ok(Separators::new(pages, entries.to_vec(), &restarts))
    }
}

/// Checks that `bytes` hold `count` entries as the invariants want them and nothing else; gives the restart
/// offsets.
fn check_entries(bytes: &[u8], count: u32) -> Result<Vec<u64>, DecodeError> {
    let mut restarts = Vec::new();
    let mut previous = Vec::new();
    let mut rest = bytes;
    for number in 1..=count {
        let error = |expected: &str, found: String| {
            let found = format!("{found} in entry {number} of {count}");
            DecodeError::new("separators, entry", expected, found)
        };
        let entry = Entry::parse(rest).ok_or_else(|| {
            error("an entry that ends within the bytes", format!("only {} bytes", rest.len()))
        })?;
        let is_restart = (number as usize - 1).is_multiple_of(RESTART_EVERY);
        if is_restart {
            restarts.push((bytes.len() - rest.len()) as u64);
            if entry.shared != 0 {
                return Err(error("a restart to share nothing", format!("{} bytes shared", entry.shared)));
            }
        }
        if entry.shared > previous.len() {
            let expected = format!("at most {} bytes shared", previous.len());
            return Err(error(&expected, entry.shared.to_string()));
        }
        // Past its shared prefix a separator must be above the rest of the one before. If it is no restart,
        // then the first byte alone must settle that, or the prefix would be longer. The first restart has
        // none before.
        let before = previous.get(entry.shared..).unwrap_or(&[]);
        let ascends = if is_restart {
            number == 1 || entry.suffix > before
        } else {
            entry.suffix.first() > before.first()
        };
        if !ascends {
            return Err(error("a separator above the one before", "one that is not".to_owned()));
        }
        previous.truncate(entry.shared);
        previous.extend_from_slice(entry.suffix);
        rest = entry.rest;
    }
    if !rest.is_empty() {
        let expected = format!("{count} entries and nothing else");
        return Err(DecodeError::new("separators, end", expected, format!("{} bytes more", rest.len())));
    }
    Ok(restarts)
}
