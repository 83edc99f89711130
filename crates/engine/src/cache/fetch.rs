//! Fetching: many lookups have their pages read at the same time.
//!
//! The idea: a lookup goes as far as memory takes it, and says which page it needs ([`Step::Needs`]). While
//! the page is on its way other lookups are begun, and one whose page has come goes on where it stood. So
//! neither waits for the other, the device or the processor. Scans name the pages of a group beforehand, and
//! have them [fetched](fetch) at once.
//!
//! Source: ours; the same as coroutines, without their frames. Invariants: what several lookups need is read
//! once, and charged to one of them; a lookup that needs a page is called again once the page has come, and
//! not before.

use super::step::{PageRef, Step};
use super::{FileId, PAGE_BYTES, Page, Reader, log_error};
use crate::error::{Error, ErrorKind, Result};
use crate::io::File;
use crate::io::reads::{Read, Reads, read_all, read_all_cached};
use crate::memory::Pooled;
use crate::segment::LogSegment;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Where something that lookups need stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A page of a table, or of a filter file.
    Page(FileId, u32),
    /// Neighbouring pages, read at once: file, first page, how many.
    Pages(FileId, u32, u32),
    /// A stretch of the log: segment, offset, length.
    Log(u64, u64, usize),
}

impl Place {
    fn of(page: &PageRef) -> Self {
        match page {
            PageRef::Page { file, page } => Self::Page(*file, *page),
            PageRef::Pages { file, first, count } => Self::Pages(*file, *first, *count),
            PageRef::Log { segment, offset, length } => Self::Log(segment.number, *offset, *length),
        }
    }

    /// Mixes what tells places apart into all bits.
    #[inline]
    fn hash(&self) -> u64 {
        let (file, at) = match *self {
            Self::Page(file, page) => (file.key(), u64::from(page) << 32),
            Self::Pages(file, first, count) => (file.key(), u64::from(first) << 32 | u64::from(count)),
            Self::Log(segment, offset, length) => (!segment, offset ^ (length as u64).rotate_right(16)),
        };
        let mixed = (file.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 32
    }

    /// Whether lookups can do without it where it is damaged.
    fn is_spared(self, error: &Error) -> bool {
        matches!(self, Self::Page(FileId::Sidecar(_), _)) && error.kind() == ErrorKind::Corruption
    }
}

/// How it stands with a place.
enum State {
    /// It is on its way; the last of the lookups that need it, if any does.
    OnItsWay(Option<usize>),
    /// One page, which is cached too.
    Page(Page),
    /// Several pages, or a stretch of the log.
    Bytes(Arc<Vec<u8>>),
    /// A page of a filter file that is damaged: whoever asks for it is told, others need not know.
    Damaged,
}

struct Slot {
    place: Place,
    state: State,
}

/// What has come of what lookups needed.
#[derive(Default)]
pub(crate) struct Arrived {
    slots: HashTable<Slot>,
}

impl Arrived {
    #[inline]
    fn state(&self, place: Place) -> Option<&State> {
        if self.slots.is_empty() {
            return None;
        }
        self.slots.find(place.hash(), |slot| slot.place == place).map(|slot| &slot.state)
    }

    /// The page, if it has come.
    #[inline]
    pub(super) fn page(&self, file: FileId, page: u32) -> Option<Page> {
        match self.state(Place::Page(file, page))? {
            State::Page(page) => Some(Arc::clone(page)),
            _ => None,
        }
    }

    /// The bytes of several pages, or of a stretch of the log, if they have come.
    pub(super) fn bytes(&self, place: Place) -> Option<&Arc<Vec<u8>>> {
        match self.state(place)? {
            State::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Whether what came is damaged.
    pub(super) fn is_damaged(&self, place: Place) -> bool {
        matches!(self.state(place), Some(State::Damaged))
    }

    /// How many reads have brought something.
    pub fn reads(&self) -> u64 {
        self.slots.iter().filter(|slot| matches!(slot.state, State::Page(_) | State::Bytes(_))).count() as u64
    }

    fn entry(&mut self, place: Place) -> Entry<'_, Slot> {
        self.slots.entry(place.hash(), |slot| slot.place == place, |slot| slot.place.hash())
    }
}

impl std::fmt::Debug for Arrived {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "what {} reads have brought", self.reads())
    }
}

/// Reads `pages` at the same time, each once.
pub(crate) fn fetch(reader: &Reader, pages: impl IntoIterator<Item = PageRef>) -> Result<Arrived> {
    let mut fetching = Fetching::new(reader, 0, |_, _, _: &Arrived| Ok(Step::Done(())));
    for page in pages {
        fetching.want(page, None);
    }
    fetching.run()
}

/// Calls `advance` for each of the first `count` numbers, and again once what it needs has come, until all
/// are done or one fails. Beside the number, `advance` gets how many reads this one has caused since it was
/// called last, and what has arrived.
pub(crate) fn run_all(
    reader: &Reader,
    count: usize,
    advance: impl FnMut(usize, u64, &Arrived) -> Result<Step<()>>,
) -> Result<()> {
    Fetching::new(reader, count, advance).run().map(|_| ())
}

/// As [`run_all`], where memory, the operating system's included, holds all that is needed; false, with some
/// not done, where something would have to come from the device.
pub(crate) fn run_all_cached(
    reader: &Reader,
    count: usize,
    advance: impl FnMut(usize, u64, &Arrived) -> Result<Step<()>>,
) -> Result<bool> {
    let mut fetching = Fetching::new(reader, count, advance);
    let is_done = read_all_cached(&mut fetching);
    fetching.outcome.map(|()| is_done)
}

/// A lookup that can go on.
struct Ready {
    number: usize,
    /// Reads that it is charged for.
    reads: u64,
}

/// Lookups, and what they need.
struct Fetching<'a, F> {
    reader: &'a Reader,
    advance: F,
    arrived: Arrived,
    /// What is to be begun.
    wanted: Vec<PageRef>,
    /// Lookups that have not been begun.
    fresh: Range<usize>,
    ready: Vec<Ready>,
    /// Of each lookup that waits, the one that waits for the same page and came before it.
    before: Vec<Option<usize>>,
    outcome: Result<()>,
}

/// Memory that is being filled.
enum Arriving {
    Page(FileId, u32, Pooled),
    Pages(FileId, u32, Vec<u8>),
    Log(Arc<LogSegment>, Vec<u8>),
}

impl AsMut<[u8]> for Arriving {
    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Page(_, _, bytes) => bytes.bytes_mut(),
            Self::Pages(_, _, bytes) | Self::Log(_, bytes) => bytes,
        }
    }
}

impl<'a, F: FnMut(usize, u64, &Arrived) -> Result<Step<()>>> Fetching<'a, F> {
    fn new(reader: &'a Reader, count: usize, advance: F) -> Self {
        Self {
            reader,
            advance,
            arrived: Arrived::default(),
            wanted: Vec::new(),
            fresh: 0..count,
            ready: Vec::new(),
            before: Vec::new(),
            outcome: Ok(()),
        }
    }

    fn run(mut self) -> Result<Arrived> {
        read_all(&mut self);
        self.outcome.map(|()| self.arrived)
    }

    /// Notes that `lookup`, if there is one, needs `page`.
    fn want(&mut self, page: PageRef, lookup: Option<usize>) {
        let before = match self.arrived.entry(Place::of(&page)) {
            Entry::Occupied(mut slot) => match &mut slot.get_mut().state {
                State::OnItsWay(last) => std::mem::replace(last, lookup.or(*last)),
                State::Page(_) | State::Bytes(_) | State::Damaged => {
                    unreachable!("a lookup asked for what it had been given");
                }
            },
            Entry::Vacant(vacant) => {
                vacant.insert(Slot { place: Place::of(&page), state: State::OnItsWay(lookup) });
                self.wanted.push(page);
                None
            }
        };
        if let Some(lookup) = lookup {
            self.before.resize(self.fresh.end, None);
            if let Some(place) = self.before.get_mut(lookup) {
                *place = before;
            }
        }
    }

    /// Prepares the read of `page`.
    fn begin(&self, page: PageRef) -> Result<Read<Arriving>> {
        let (file, offset, buf): (Arc<dyn File>, _, _) = match page {
            PageRef::Page { file, page } => {
                let buf = Arriving::Page(file, page, self.reader.memory().pooled());
                (self.reader.file(file)?, u64::from(page) * PAGE_BYTES as u64, buf)
            }
            PageRef::Pages { file, first, count } => {
                let buf = Arriving::Pages(file, first, vec![0; count as usize * PAGE_BYTES]);
                (self.reader.file(file)?, u64::from(first) * PAGE_BYTES as u64, buf)
            }
            PageRef::Log { segment, offset, length } => {
                (Arc::clone(&segment.file), offset, Arriving::Log(segment, vec![0; length]))
            }
        };
        Ok(Read { file, offset, buf })
    }

    /// Takes over what a read has brought.
    fn arrived(&self, read: Read<Arriving>, outcome: io::Result<()>) -> (Place, Result<State>) {
        let reader = self.reader;
        match read.buf {
            Arriving::Page(file, page, bytes) => {
                let failed = |error| reader.read_error(&error, file, read.offset, PAGE_BYTES);
                let arrived = outcome.map_err(failed).and_then(|()| reader.arrived(file, page, bytes));
                (Place::Page(file, page), arrived.map(State::Page))
            }
            Arriving::Pages(file, first, bytes) => {
                let place = Place::Pages(file, first, (bytes.len() / PAGE_BYTES) as u32);
                let failed = |error| reader.read_error(&error, file, read.offset, bytes.len());
                let verified = outcome.map_err(failed).and_then(|()| {
                    reader.count_read(bytes.len());
                    reader.verify_all(file, first, &bytes)
                });
                (place, verified.map(|()| State::Bytes(Arc::new(bytes))))
            }
            Arriving::Log(segment, bytes) => {
                let place = Place::Log(segment.number, read.offset, bytes.len());
                let arrived = outcome.map_err(|error| log_error(&error, &segment, read.offset, bytes.len()));
                if arrived.is_ok() {
                    reader.count_read(bytes.len());
                }
                (place, arrived.map(|()| State::Bytes(Arc::new(bytes))))
            }
        }
    }

    /// Notes what has come of `place`, and lets those go on that need it. The last to ask for it pays.
    fn come(&mut self, place: Place, state: Result<State>) {
        let state = match state {
            Ok(state) => state,
            Err(error) if place.is_spared(&error) => State::Damaged,
            Err(error) => return self.fail(error),
        };
        let mut reads = u64::from(!matches!(state, State::Damaged));
        let Some(slot) = self.arrived.slots.find_mut(place.hash(), |slot| slot.place == place) else {
            unreachable!("a read that nobody wanted");
        };
        let State::OnItsWay(mut waiting) = std::mem::replace(&mut slot.state, state) else { return };
        while let Some(number) = waiting {
            self.ready.push(Ready { number, reads: std::mem::take(&mut reads) });
            waiting = self.before.get(number).copied().flatten();
        }
    }

    fn fail(&mut self, error: Error) {
        if self.outcome.is_ok() {
            self.outcome = Err(error);
        }
    }
}

impl<F: FnMut(usize, u64, &Arrived) -> Result<Step<()>>> Reads for Fetching<'_, F> {
    type Buf = Arriving;

    fn next(&mut self) -> Option<Read<Arriving>> {
        while self.outcome.is_ok() {
            if let Some(page) = self.wanted.pop() {
                let place = Place::of(&page);
                match self.begin(page) {
                    Ok(read) => return Some(read),
                    Err(error) => self.come(place, Err(error)),
                }
                continue;
            }
            let Ready { number, reads } = match self.ready.pop() {
                Some(ready) => ready,
                None => Ready { number: self.fresh.next()?, reads: 0 },
            };
            match (self.advance)(number, reads, &self.arrived) {
                Ok(Step::Done(())) => {}
                Ok(Step::Needs(page)) => self.want(page, Some(number)),
                Err(error) => self.fail(error),
            }
        }
        None
    }

    fn done(&mut self, read: Read<Arriving>, outcome: io::Result<()>) {
        let (place, state) = self.arrived(read, outcome);
        self.come(place, state);
    }
}
