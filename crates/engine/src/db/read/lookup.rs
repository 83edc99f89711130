//! One lookup as a state machine.
//!
//! ```text
//!  write buffer 0 → write buffer 1 → ... → level 0: region filter → run 0 → run 1 → ... → level 1: region filter → ...
//!     └────────────────┴─────────────────────────────────┴────────────┴────────┴── an answer, or none, ends it
//! ```
//!
//! Each arrow is a stage. [`Lookup::advance`] goes from stage to stage as far as memory takes it. Where a
//! stage needs a page, the lookup stays before that stage and says which page ([`Step::Needs`]); called
//! again, it begins with that stage. A stage counts what it cost when it is done, so a stage that is begun
//! twice counts once.
//!
//! Source: ours; SplinterDB keeps the state of its asynchronous lookups likewise (`routing_async_state`).
//! Where we differ, and why: the state is a place in the version, not in the code of each layer. A stage is
//! so short that to begin it again costs less than to remember where in a table it stood.
//!
//! Invariants: all that the lookup reads is pinned and never changes, so a stage that is begun again finds
//! the same; the answer and the costs do not depend on who drives it.

use crate::cache::{Arrived, Pause, Probe, Reader, Step, TableId};
use crate::db::catalog::view::View;
use crate::db::clock::StoreClock;
use crate::entry::{Answer, Item, Sequence};
use crate::error::{Error, ErrorKind, Result};
use crate::merge_operator::{Folded, Folder, is_open};
use crate::region_filter::{Candidate, Candidates};
use crate::stats::ReadTrace;
use crate::value::{Value, Wants};
use crate::version::{Region, Version};
use siltstone_design::{EncodedKey, Encoder};
use std::sync::Arc;

/// What lookups read: one keyspace as a sequence number sees it.
pub(super) struct Pinned<'a> {
    /// The view whose write buffers are asked before the levels; none where the levels alone are.
    pub buffers: Option<&'a View>,
    pub version: &'a Arc<Version>,
    pub sequence: Sequence,
    pub encoder: &'a Encoder,
    pub reader: &'a Reader,
    /// Tells which values have expired.
    pub clock: Clock<'a>,
    pub wants: Wants,
    /// Makes values of operands, where the keyspace takes merges.
    pub folder: Option<&'a Arc<Folder>>,
}

/// Tells lookups the time.
#[derive(Clone, Copy)]
pub(super) enum Clock<'a> {
    /// It is asked for each value that expires.
    Now(&'a StoreClock),
    /// It stands still, for whoever reads one moment.
    At(u64),
}

/// What a lookup ends with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::db) struct Found {
    pub value: Option<Value>,
    /// The wall-clock millisecond from which on the value is gone; 0 for never.
    pub expires_at_ms: u64,
    /// The table whose entry ended it; 0 where a write buffer's did, or none was found.
    pub table: TableId,
}

impl Clock<'_> {
    fn has_passed(self, at_ms: u64) -> bool {
        match self {
            Self::Now(clock) => clock.has_passed(at_ms),
            Self::At(now_ms) => at_ms <= now_ms,
        }
    }
}

/// How a lookup comes by pages that are not cached.
#[derive(Clone, Copy)]
pub(super) enum Supply<'a> {
    /// It waits for each.
    Wait,
    /// Those that have arrived are there; for others it stops.
    Arrived(&'a Arrived),
    /// Those that have arrived are there; for others it waits.
    ArrivedOrWait(&'a Arrived),
}

/// The runs of a region that are being asked.
struct AskedRuns {
    /// What is said of the next run and those after it.
    candidates: Candidates,
    /// Tables probed before the region.
    probed_above: u64,
}

/// The lookup of one key.
pub(super) struct Lookup<'a> {
    pub pinned: &'a Pinned<'a>,
    pub key: &'a EncodedKey<'a>,
    /// Write buffers that have been asked.
    buffers: usize,
    /// The level where it stands: 0 as long as write buffers are asked.
    level: usize,
    /// It stops before this level.
    end: usize,
    /// The runs of the level's region, once its filter has been asked.
    runs: Option<AskedRuns>,
    /// Sequence number of the oldest version that it passed over because it can't see it; see
    /// [`LogStore::get`](crate::log_store::LogStore::get).
    pub newer: Option<Sequence>,
    /// What it has cost.
    pub trace: ReadTrace,
    /// Operands that it has found and that wait for what older sources say.
    operands: Option<Vec<u8>>,
}

impl<'a> Lookup<'a> {
    /// A lookup in write buffers and levels.
    #[inline]
    pub fn new(pinned: &'a Pinned<'a>, key: &'a EncodedKey<'a>) -> Self {
        let (trace, newer, operands) = (ReadTrace::default(), None, None);
        Self { pinned, key, buffers: 0, level: 0, end: usize::MAX, runs: None, newer, trace, operands }
    }

    /// A lookup in the levels from `level` on.
    pub fn from_level(pinned: &'a Pinned<'a>, key: &'a EncodedKey<'a>, level: usize) -> Self {
        Self { level, ..Self::new(pinned, key) }
    }

    /// Lets it stop before level `end`, from which it can go on.
    pub fn stop_before(&mut self, end: usize) {
        self.end = end;
    }

    /// The level where it stands, or found its answer.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Whether it has found operands, so that what older sources say is only a part of the answer.
    pub fn has_operands(&self) -> bool {
        self.operands.is_some()
    }

    /// Goes as far as `supply` takes it. `None` where nothing is said of the key.
    #[inline]
    pub fn advance(&mut self, supply: Supply<'_>) -> Result<Step<Option<Found>>> {
        let Pinned { reader, encoder, .. } = *self.pinned;
        let probe = match supply {
            Supply::Wait => Probe::waiting(reader, encoder),
            Supply::Arrived(arrived) => Probe::asking(reader, encoder, arrived),
            Supply::ArrivedOrWait(arrived) => Probe::asking(reader, encoder, arrived).and_wait(),
        };
        let mut probe = probe.of_lookup(self.pinned.wants, self.trace);
        let outcome = self.run(&mut probe);
        self.trace = probe.trace;
        Step::of(outcome)
    }

    /// Goes to the end, and waits for what it needs.
    #[inline]
    pub fn complete(&mut self) -> Result<Option<Found>> {
        loop {
            if let Step::Done(found) = self.advance(Supply::Wait)? {
                return Ok(found);
            }
        }
    }

    #[inline]
    fn run(&mut self, probe: &mut Probe<'_>) -> Result<Option<Found>, Pause> {
        let Pinned { buffers, version, sequence, .. } = *self.pinned;
        for buffer in buffers.iter().flat_map(|view| view.buffers()).skip(self.buffers) {
            let answer = buffer.get(self.key, sequence, probe, &mut self.newer)?;
            self.buffers += 1;
            if let Some(found) = self.found(answer, 0)? {
                return Ok(Some(found));
            }
        }
        while self.level < self.end
            && let Some(level) = version.levels.get(self.level)
        {
            if let Some(region) = level.region_of(self.key.digest.hi)
                && let Some(found) = self.ask_region(region, probe)?
            {
                return Ok(Some(found));
            }
            self.level += 1;
        }
        if self.operands.is_some() && version.levels.get(self.level).is_none() {
            return Ok(self.end()?);
        }
        Ok(None)
    }

    /// Asks the filter of a region, then the runs that may hold the key, newest first.
    #[inline]
    fn ask_region(&mut self, region: &Region, probe: &mut Probe<'_>) -> Result<Option<Found>, Pause> {
        let key = self.key;
        let asked = match self.runs.take() {
            Some(asked) => asked,
            None => {
                let probed_above = probe.trace.tables_probed;
                AskedRuns { candidates: region.candidates(key, probe)?, probed_above }
            }
        };
        let AskedRuns { mut candidates, probed_above } = asked;
        for (place, run) in region.runs.iter().enumerate().skip(candidates.place()) {
            let mut candidate = candidates.next().unwrap_or(Candidate::Unknown);
            if self.operands.is_some() && region.names_newest_only() {
                candidate = Candidate::Unknown;
            }
            if candidate != Candidate::No
                && let Some(table) = run.table_for(key.digest, key.key)
            {
                let answer = table.get(key, probe).inspect_err(|_| {
                    self.runs = Some(AskedRuns { candidates: candidates.from(place), probed_above });
                })?;
                probe.trace.note_region(probed_above);
                let is_absent = answer == Answer::Absent;
                if let Some(found) = self.found(answer, table.id())? {
                    return Ok(Some(found));
                }
                probe.trace.false_positives += u64::from(candidate == Candidate::Yes && is_absent);
            }
            if run.tombstones.hides(key) {
                return Ok(self.end()?);
            }
        }
        Ok(None)
    }

    /// What the answer of `table`, or of a write buffer, means for a get: what it ends with, or that it goes
    /// on. The clock is read only for values that expire.
    #[inline(always)]
    fn found(&mut self, answer: Answer, table: TableId) -> Result<Option<Found>> {
        let (value, expires_at_ms) = match answer {
            Answer::Absent => return Ok(None),
            _ if self.operands.is_some() => return self.fold(answer),
            Answer::Operands(_) => return self.fold(answer),
            Answer::Deleted => (None, 0),
            Answer::Put { value, expires_at_ms } => {
                let is_live = expires_at_ms == 0 || !self.pinned.clock.has_passed(expires_at_ms);
                (is_live.then_some(value), expires_at_ms)
            }
        };
        Ok(Some(Found { value, expires_at_ms, table }))
    }

    /// What it ends with where nothing older is left.
    #[cold]
    fn end(&mut self) -> Result<Option<Found>> {
        if self.operands.is_some() { self.fold(Answer::Deleted) } else { Ok(Some(Found::default())) }
    }

    /// The same where operands have been found, now or before. Which table has the newest of them is of no
    /// use to whoever writes next: filters of regions take part in no lookup that goes on behind it.
    #[cold]
    fn fold(&mut self, answer: Answer) -> Result<Option<Found>> {
        let Some(folder) = self.pinned.folder else {
            return Err(Error::new(
                ErrorKind::Corruption,
                "an entry of a keyspace without merge operator holds operands",
            ));
        };
        let folded = match (self.operands.take(), &answer) {
            (None, Answer::Operands(operands)) => Folded::Operands(operands.clone()),
            (None, _) => return Ok(None),
            (Some(newer), Answer::Put { value, .. }) => {
                folder.fold(&newer, Item::Put { value: value.bytes(), expires_at_ms: 0 })?
            }
            (Some(newer), Answer::Operands(older)) => folder.fold(&newer, Item::Operands(older))?,
            (Some(newer), Answer::Deleted | Answer::Absent) => folder.fold(&newer, Item::Deleted)?,
        };
        let value = match folded {
            Folded::Value(value) => value,
            Folded::Operands(operands) if is_open(&operands) => {
                self.operands = Some(operands);
                return Ok(None);
            }
            Folded::Operands(operands) => folder.value(self.key.key, &operands)?,
        };
        Ok(Some(Found { value: Some(Value::Copied(value)), ..Found::default() }))
    }
}
