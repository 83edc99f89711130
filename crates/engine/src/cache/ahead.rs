//! Reading ahead: many lookups have their pages fetched at the same time.
//!
//! The idea: a lookup goes as far as it can with what is in memory. A reader that [reads ahead](Reader::reading_ahead) notes the
//! page that would have to come from the device, and makes the lookup give up with an error. While such pages are on their way
//! ([`Reader::fetch_for`]) other lookups are begun, and one whose page has come goes on where it stood. So neither
//! waits for the other, the device or the processor.
//!
//! Source: ours; the same as coroutines, without their frames. Invariant: a page that several lookups need is read once, and a
//! lookup that has given up is called again once what it wants has come.

use super::{FileId, PAGE_BYTES, Page, Reader, log_error};
use crate::error::{Error, ErrorKind, Result};
use crate::io::File;
use crate::io::reads::{Read, Reads, read_all};
use crate::memory::Pooled;
use crate::segment::LogSegment;
use crate::stats::ReadTrace;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Something that lookups want from the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// A page of a file.
    Page(FileId, u32),
    /// A stretch of the log: segment, offset, length.
    Log(u64, u64, usize),
}

impl Place {
    /// Whether lookups can do without it where it is damaged.
    fn is_spared(self, error: &Error) -> bool {
        matches!(self, Self::Page(FileId::Sidecar(_), _)) && error.kind() == ErrorKind::Corruption
    }
}

/// How it stands with it.
enum State {
    /// It is wanted, or on its way; these lookups have given up for it.
    Wanted(Vec<usize>),
    /// It is here; whether a lookup has been charged for the read.
    Page(Page, bool),
    Log(Vec<u8>, bool),
    /// A page of a sidecar that is damaged: whoever asks for it is told, others need not know.
    Damaged,
}

/// What a reader that reads ahead has got, and what lookups still want.
#[derive(Default)]
pub(super) struct Ahead {
    places: HashMap<Place, State>,
    /// What is to be begun; of the log with its segment.
    wanted: Vec<(Place, Option<Arc<LogSegment>>)>,
    /// The lookup that is under way.
    lookup: usize,
    /// It has given up.
    gave_up: bool,
    /// What was not fetched is waited for.
    waits: bool,
}

impl Ahead {
    /// Makes the lookup that is under way give up for `place`.
    fn give_up(&mut self, place: Place, segment: Option<&Arc<LogSegment>>) -> Error {
        let lookup = self.lookup;
        match self.places.entry(place) {
            Entry::Occupied(mut occupied) => {
                if let State::Wanted(waiting) = occupied.get_mut()
                    && waiting.last() != Some(&lookup)
                {
                    waiting.push(lookup);
                }
            }
            Entry::Vacant(vacant) => {
                vacant.insert(State::Wanted(vec![lookup]));
                self.wanted.push((place, segment.cloned()));
            }
        }
        self.gave_up = true;
        Error::new(ErrorKind::Io, "")
    }

    /// Notes what has come of `place`, and the lookups that can go on.
    fn come(&mut self, place: Place, state: State, ready: &mut Vec<usize>) {
        if let Some(State::Wanted(mut waiting)) = self.places.insert(place, state) {
            ready.append(&mut waiting);
        }
    }
}

impl Reader {
    /// The same reader, for lookups that read ahead.
    pub fn reading_ahead(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), ahead: Some(Mutex::default()), loads: self.loads }
    }

    /// A page for a lookup that reads ahead: one that is neither fetched nor cached is an error for now, unless it waits.
    #[inline]
    pub(super) fn page_ahead(&self, file: FileId, page: u32, trace: &mut ReadTrace) -> Result<Option<Page>> {
        let Some(ahead) = &self.ahead else { return Ok(None) };
        let ahead = &mut *ahead.lock();
        let place = Place::Page(file, page);
        match ahead.places.get_mut(&place) {
            Some(State::Page(page, charged)) => {
                trace.device_reads += u64::from(!std::mem::replace(charged, true));
                return Ok(Some(Arc::clone(page)));
            }
            Some(State::Damaged) => return Ok(None),
            _ if ahead.waits => return Ok(None),
            Some(_) => {}
            None => {
                if let Some(cached) = self.shared.pages.get(&(file.key(), page)) {
                    // It may be evicted before the lookup comes back to it.
                    ahead.places.insert(place, State::Page(Arc::clone(&cached), true));
                    self.shared.note(0);
                    return Ok(Some(cached));
                }
            }
        }
        Err(ahead.give_up(place, None))
    }

    /// The same for a stretch of the log.
    #[inline]
    pub(super) fn log_ahead(
        &self,
        segment: &Arc<LogSegment>,
        offset: u64,
        length: usize,
        trace: &mut ReadTrace,
    ) -> Result<Option<Vec<u8>>> {
        let Some(ahead) = &self.ahead else { return Ok(None) };
        let ahead = &mut *ahead.lock();
        let place = Place::Log(segment.number, offset, length);
        match ahead.places.get_mut(&place) {
            Some(State::Log(bytes, charged)) => {
                trace.device_reads += u64::from(!std::mem::replace(charged, true));
                Ok(Some(bytes.clone()))
            }
            _ if ahead.waits => Ok(None),
            _ => Err(ahead.give_up(place, Some(segment))),
        }
    }

    /// Whether the lookup that failed just now did so for want of a page, so that it is to be called again.
    pub fn gave_up(&self) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| std::mem::take(&mut ahead.lock().gave_up))
    }

    /// Notes pages of `file` that will be asked for, to be [fetched](Reader::fetch) with others.
    pub fn want(&self, file: impl Into<FileId>, pages: Range<u32>) {
        let Some(ahead) = &self.ahead else { return };
        let file = file.into();
        let Ahead { places, wanted, .. } = &mut *ahead.lock();
        for page in pages.filter(|page| self.shared.pages.peek(&(file.key(), *page)).is_none()) {
            let place = Place::Page(file, page);
            if let Entry::Vacant(vacant) = places.entry(place) {
                vacant.insert(State::Wanted(Vec::new()));
                wanted.push((place, None));
            }
        }
    }

    /// Lets what was not fetched ahead be read when it is asked for, instead of giving up.
    pub fn wait_for_the_rest(&self) {
        if let Some(ahead) = &self.ahead {
            ahead.lock().waits = true;
        }
    }

    /// Reads all that is wanted, at the same time.
    pub fn fetch(&self) -> Result<()> {
        self.fetch_for(0, |_| Ok(()))
    }

    /// Calls `lookup` for each of the first `count` numbers, and, where it has given up, again once what it wants has come, until an
    /// error.
    pub fn fetch_for(&self, count: usize, lookup: impl FnMut(usize) -> Result<()>) -> Result<()> {
        let Some(ahead) = &self.ahead else { return Ok(()) };
        let mut fetching =
            Fetching { reader: self, ahead, lookup, fresh: 0..count, ready: Vec::new(), outcome: Ok(()) };
        read_all(&mut fetching);
        fetching.outcome
    }
}

/// Lookups, and what they want.
struct Fetching<'a, F> {
    reader: &'a Reader,
    ahead: &'a Mutex<Ahead>,
    lookup: F,
    /// Lookups that have not been begun.
    fresh: Range<usize>,
    /// Those that can go on.
    ready: Vec<usize>,
    outcome: Result<()>,
}

/// Memory that is being filled.
enum Arriving {
    Page(FileId, u32, Pooled),
    Log(Arc<LogSegment>, Vec<u8>),
}

impl AsMut<[u8]> for Arriving {
    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Page(_, _, bytes) => bytes.bytes_mut(),
            Self::Log(_, bytes) => bytes,
        }
    }
}

impl<F> Fetching<'_, F> {
    fn begin(&self, place: Place, segment: Option<Arc<LogSegment>>) -> Result<Option<Read<Arriving>>> {
        let (file, offset, buf): (Arc<dyn File>, _, _) = match (place, segment) {
            (Place::Page(table, page), _) => {
                let bytes = Arriving::Page(table, page, self.reader.memory().pooled());
                (self.reader.file(table)?, u64::from(page) * PAGE_BYTES as u64, bytes)
            }
            (Place::Log(_, offset, length), Some(segment)) => {
                (Arc::clone(&segment.file), offset, Arriving::Log(segment, vec![0; length]))
            }
            (Place::Log(..), None) => return Ok(None),
        };
        Ok(Some(Read { file, offset, buf }))
    }

    /// What has come of a read.
    fn arrived(&self, read: Read<Arriving>, outcome: io::Result<()>) -> (Place, Result<State>) {
        match read.buf {
            Arriving::Page(table, page, bytes) => {
                let failed = |error| self.reader.read_error(&error, table, read.offset, PAGE_BYTES);
                let arrived = outcome.map_err(failed).and_then(|()| self.reader.arrived(table, page, bytes));
                (Place::Page(table, page), arrived.map(|page| State::Page(page, false)))
            }
            Arriving::Log(segment, bytes) => {
                let (place, length) = (Place::Log(segment.number, read.offset, bytes.len()), bytes.len());
                let arrived = outcome.map_err(|error| log_error(&error, &segment, read.offset, length));
                (
                    place,
                    arrived.map(|()| {
                        self.reader.count_read(length);
                        State::Log(bytes, false)
                    }),
                )
            }
        }
    }

    /// Notes what has come of `place`.
    fn come(&mut self, place: Place, state: Result<State>) {
        match state {
            Ok(state) => self.ahead.lock().come(place, state, &mut self.ready),
            Err(error) if place.is_spared(&error) => {
                self.ahead.lock().come(place, State::Damaged, &mut self.ready);
            }
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: Error) {
        if self.outcome.is_ok() {
            self.outcome = Err(error);
        }
    }
}

impl<F: FnMut(usize) -> Result<()>> Reads for Fetching<'_, F> {
    type Buf = Arriving;

    fn next(&mut self) -> Option<Read<Arriving>> {
        while self.outcome.is_ok() {
            let wanted = self.ahead.lock().wanted.pop();
            if let Some((place, segment)) = wanted {
                match self.begin(place, segment) {
                    Ok(Some(read)) => return Some(read),
                    Ok(None) => {}
                    Err(error) => self.come(place, Err(error)),
                }
                continue;
            }
            let lookup = self.ready.pop().or_else(|| self.fresh.next())?;
            self.ahead.lock().lookup = lookup;
            if let Err(error) = (self.lookup)(lookup) {
                self.fail(error);
            }
        }
        None
    }

    fn done(&mut self, read: Read<Arriving>, outcome: io::Result<()>) {
        let (place, state) = self.arrived(read, outcome);
        self.come(place, state);
    }
}
