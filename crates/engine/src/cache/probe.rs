//! A probe: what a lookup takes down the layers, and how it gets the pages that these need.
//!
//! The idea: whoever looks a key up needs pages, and one that is not in memory has to come from the device.
//! The probe either waits for it, or the layers return [`Pause::Needs`] with the page's name. Then the lookup
//! stands still until the page has come, while its thread goes on with other lookups ([`step`](super::step)).
//!
//! A layer that pauses is called again from its start once the page has come. Therefore it counts nothing
//! before it has all it needs: what a stage of a lookup costs is added to [`Probe::trace`] at the stage's
//! end. Reads of the device are the exception. They are counted when they are made, each once, since no later
//! pause unmakes them.
//!
//! Invariant: a page that has come for a lookup stays with [`Arrived`] for as long as the lookup may ask for
//! it; so every pause brings it further, however small the cache is.

use super::fetch::{Arrived, Place};
use super::step::{PageRef, Pause};
use super::{FileId, PAGE_BYTES, Page, Reader};
use crate::error::Result;
use crate::segment::LogSegment;
use crate::stats::ReadTrace;
use crate::value::Wants;
use siltstone_design::Encoder;
use std::sync::Arc;

/// Neighbouring pages that are read at once for a lookup that does not wait. More keep a device busy by
/// themselves, and the memory for many such reads would be much; so the probe waits for them. A key that
/// overflows its page is shorter.
const MOST_PAGES_NEEDED: u32 = 32;

/// What a lookup takes down the layers.
pub(crate) struct Probe<'a> {
    pub reader: &'a Reader,
    /// Encodes keys that are met on the way.
    pub encoder: &'a Encoder,
    /// Pages that were fetched for this lookup and others.
    arrived: Option<&'a Arrived>,
    /// Whether it waits for a page instead of asking for it.
    waits: bool,
    /// Pages that were read at once while it waited, and are not cached: what is needed again is not read
    /// again.
    stretches: Vec<(Place, Arc<Vec<u8>>)>,
    /// What is wanted of the value.
    pub wants: Wants,
    /// What the lookup has cost so far.
    pub trace: ReadTrace,
}

impl<'a> Probe<'a> {
    /// Returns a probe that waits for every page.
    #[inline]
    pub fn waiting(reader: &'a Reader, encoder: &'a Encoder) -> Self {
        let (trace, stretches) = (ReadTrace::default(), Vec::new());
        Self { reader, encoder, arrived: None, waits: true, stretches, wants: Wants::Copy, trace }
    }

    /// Returns a probe that takes pages from `arrived`, and asks for one that is neither there nor cached.
    #[inline]
    pub fn asking(reader: &'a Reader, encoder: &'a Encoder, arrived: &'a Arrived) -> Self {
        let (trace, stretches) = (ReadTrace::default(), Vec::new());
        Self { reader, encoder, arrived: Some(arrived), waits: false, stretches, wants: Wants::Copy, trace }
    }

    /// Lets the probe wait for pages from now on.
    #[inline]
    pub fn and_wait(mut self) -> Self {
        self.waits = true;
        self
    }

    /// Returns the probe of a lookup that wants this of the value, with the costs of an earlier part of it.
    #[inline]
    pub fn of_lookup(mut self, wants: Wants, trace: ReadTrace) -> Self {
        (self.wants, self.trace) = (wants, trace);
        self
    }

    /// Runs `part` of a lookup to its end, and waits for what it needs.
    #[inline]
    pub fn complete<T>(mut self, mut part: impl FnMut(&mut Self) -> Result<T, Pause>) -> Result<T> {
        loop {
            match part(&mut self) {
                Ok(value) => return Ok(value),
                Err(Pause::Failed(error)) => return Err(error),
                Err(Pause::Needs(_)) => self.waits = true,
            }
        }
    }

    /// Returns a page of a table or a filter file, verified.
    #[inline]
    pub fn page(&mut self, file: impl Into<FileId>, page: u32) -> Result<Page, Pause> {
        let file = file.into();
        if let Some(arrived) = self.arrived
            && let Some(page) = arrived.page(file, page)
        {
            return Ok(page);
        }
        if let Some(cached) = self.reader.cached(file, page) {
            return Ok(cached);
        }
        if self.must_ask(Place::Page(file, page)) {
            return Err(Pause::Needs(PageRef::Page { file, page }));
        }
        Ok(self.reader.load(file, page, &mut self.trace)?)
    }

    /// Returns two neighbouring pages, read at once where either is not cached.
    pub fn two_pages(&mut self, file: impl Into<FileId>, first: u32) -> Result<[Page; 2], Pause> {
        let file = file.into();
        if let Some(cached) = self.reader.cached_pair(file, first) {
            return Ok(cached);
        }
        let bytes = self.pages(file, first, 2)?;
        let ([first_bytes, second_bytes], []) = bytes.as_chunks::<PAGE_BYTES>() else {
            unreachable!("two pages were asked for");
        };
        let second = first.saturating_add(1);
        Ok([self.reader.keep(file, first, first_bytes), self.reader.keep(file, second, second_bytes)])
    }

    /// Returns the bytes of `count` pages from `first` on, read at once around the cache, and verified.
    pub fn pages(&mut self, file: impl Into<FileId>, first: u32, count: u32) -> Result<Arc<Vec<u8>>, Pause> {
        let file = file.into();
        let place = Place::Pages(file, first, count);
        let known = self.stretches.iter().find(|(known, _)| *known == place).map(|(_, bytes)| bytes);
        if let Some(bytes) = known.or_else(|| self.arrived?.bytes(place)) {
            return Ok(Arc::clone(bytes));
        }
        let is_short = count <= MOST_PAGES_NEEDED;
        if is_short && self.must_ask(place) {
            return Err(Pause::Needs(PageRef::Pages { file, first, count }));
        }
        let mut bytes = vec![0; count as usize * PAGE_BYTES];
        self.reader.pages_for_lookup(file, first, &mut bytes, &mut self.trace)?;
        let bytes = Arc::new(bytes);
        if is_short {
            self.stretches.push((place, Arc::clone(&bytes)));
        }
        Ok(bytes)
    }

    /// Returns `length` bytes of a segment of the log from `offset` on; the caller checks them.
    pub fn log(&mut self, segment: &Arc<LogSegment>, offset: u64, length: usize) -> Result<Vec<u8>, Pause> {
        let place = Place::Log(segment.number, offset, length);
        if let Some(bytes) = self.arrived.and_then(|arrived| arrived.bytes(place)) {
            return Ok(bytes.to_vec());
        }
        if self.must_ask(place) {
            return Err(Pause::Needs(PageRef::Log { segment: Arc::clone(segment), offset, length }));
        }
        Ok(self.reader.log_bytes(segment, offset, length, &mut self.trace)?)
    }

    /// Whether what is not in memory has to be asked for. What came damaged is read again by whoever needs
    /// it, to be told how.
    fn must_ask(&self, place: Place) -> bool {
        !self.waits && !self.arrived.is_some_and(|arrived| arrived.is_damaged(place))
    }
}
