//! What happens to a store, as values that follow from a seed: operations, and what goes wrong.
//!
//! No event depends on how the ones before it went, so any of them can be left out, which is how failures
//! shrink.

use crate::harness::operations::{LARGE, Op, SMALL, operations};
use crate::harness::{Rng, options, random_design, tiny_presets};
use clap::ValueEnum;
use siltstone::io::sim::{CallKind, CrashMode, Fault, FaultError};
use siltstone::{Design, Options};

/// Kinds of what can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Trouble {
    /// Killed processes and power cuts, between operations and at any call within one.
    Crash,
    /// Reads, writes, syncs, renames and other calls that fail.
    Error,
    /// A full disk.
    Full,
    /// Flipped bits, stale, misplaced and lost pages, files that are cut or gone.
    Damage,
    /// A clock that is set back, or jumps on.
    Clock,
}

/// What the worlds are like.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Operations per world.
    pub operations: usize,
    /// In how many more ways each crash is looked at, and in a quarter as many each damage.
    pub depth: u64,
    /// What may go wrong.
    pub troubles: Vec<Trouble>,
}

impl Settings {
    fn has(&self, trouble: Trouble) -> bool {
        self.troubles.contains(&trouble)
    }
}

/// Something to do with the store.
#[derive(Clone, Debug)]
pub enum Action {
    /// An operation of the sessions that other suites run too.
    Op(Op),
    /// A checkpoint, which is opened and compared.
    Checkpoint,
    /// A backup, which is restored and compared.
    Backup,
    /// A copy takes over what the log says since it last did, and is compared.
    Follow,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Event {
    /// An action that may fail only where calls of the disk do.
    Do(Action),
    /// Everything stops between two operations.
    Crash { mode: CrashMode, seed: u64 },
    /// Everything stops within an action, after so many calls, and perhaps again within the recovery.
    CrashWithin { action: Action, calls: u64, mode: CrashMode, seed: u64, again: Option<u64> },
    /// Calls fail from now on.
    Fail(Fault),
    /// The disk has room for so many more bytes.
    Room { bytes: u64 },
    /// Calls succeed again, and the disk has room.
    Mend,
    /// A copy of the disk is damaged and looked at.
    Damage { seed: u64 },
}

impl Event {
    /// Whether this is something that goes wrong, and not something that is done.
    pub fn is_trouble(&self) -> bool {
        !matches!(self, Self::Do(_))
    }

    /// The event in a line.
    pub fn describe(&self) -> String {
        let mut text = format!("{self:?}");
        if text.len() > 160 {
            let end = (0..=160).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.truncate(end);
            text.push('…');
        }
        text
    }
}

/// A store's life.
#[derive(Clone, Debug)]
pub struct World {
    /// What everything here follows from.
    pub seed: u64,
    /// The designs of its keyspaces, in turn.
    pub designs: Vec<Design>,
    /// What the store is opened with.
    pub options: Options,
    /// In how many more ways each crash is looked at, and in a quarter as many each damage.
    pub depth: u64,
    /// What happens, with each event's number.
    pub events: Vec<(usize, Event)>,
}

impl World {
    /// The world of `seed`.
    pub fn new(seed: u64, settings: &Settings) -> Self {
        let mut rng = Rng::new(seed ^ 0x0051_31D0);
        let mut designs = tiny_presets();
        designs.extend([random_design(&mut rng), random_design(&mut rng), random_design(&mut rng)]);
        let turn = rng.below(designs.len() as u64) as usize;
        designs.rotate_left(turn);
        let options = Options {
            event_log_bytes: if rng.one_in(3) { 8 << 10 } else { 0 },
            tail_retention_bytes: if rng.one_in(2) { 256 << 10 } else { 0 },
            max_sealed_memtables: rng.range(1, 3) as usize,
            memory_budget_bytes: (1 << 20) << rng.below(3),
            max_open_files: if rng.one_in(4) { 8 } else { 64 },
            ..options()
        };
        let events = events(&mut rng, settings).into_iter().enumerate().collect();
        Self { seed, designs, options, depth: settings.depth, events }
    }

    /// The same world with these events only.
    pub fn keeping(&self, numbers: &[usize]) -> Self {
        let kept = self.events.iter().filter(|(number, _)| numbers.contains(number));
        Self { events: kept.cloned().collect(), ..self.clone() }
    }
}

fn events(rng: &mut Rng, settings: &Settings) -> Vec<Event> {
    let mix = if rng.one_in(8) { LARGE } else { SMALL };
    let mut events = Vec::new();
    for op in operations(rng, settings.operations, &mix) {
        trouble_between(rng, settings, &mut events);
        let op = match op {
            Op::Kill if settings.has(Trouble::Crash) => {
                events.push(Event::Crash { mode: *rng.pick(&CrashMode::ALL), seed: rng.next() });
                continue;
            }
            Op::Kill => Op::Sync,
            Op::SetBack { .. } if !settings.has(Trouble::Clock) => Op::Step,
            // Now and then by years.
            Op::SetBack { .. } if rng.one_in(4) => Op::SetBack { ms: 1 << rng.range(20, 40) },
            Op::Wait { .. } if settings.has(Trouble::Clock) && rng.one_in(10) => {
                Op::Wait { ms: 1 << rng.range(14, 36) }
            }
            op => op,
        };
        let action = match rng.below(60) {
            0 => Action::Checkpoint,
            1 => Action::Backup,
            2..5 => Action::Follow,
            _ => Action::Op(op),
        };
        events.push(match rng.below(9) {
            0 if settings.has(Trouble::Crash) => {
                let most = if matches!(action, Action::Op(Op::Write { .. })) { 3 } else { 60 };
                let calls = if rng.one_in(2) { rng.below(4) } else { rng.below(most) };
                let again = rng.one_in(4).then(|| rng.below(30));
                let (mode, seed) = (*rng.pick(&CrashMode::ALL), rng.next());
                Event::CrashWithin { action, calls, mode, seed, again }
            }
            _ => Event::Do(action),
        });
    }
    events
}

fn trouble_between(rng: &mut Rng, settings: &Settings, events: &mut Vec<Event>) {
    match rng.below(80) {
        0..2 if settings.has(Trouble::Error) => events.push(Event::Fail(any_fault(rng))),
        2 if settings.has(Trouble::Full) => events.push(Event::Room { bytes: rng.below(60 << 10) }),
        3..8 => events.push(Event::Mend),
        8..14 if settings.has(Trouble::Damage) => events.push(Event::Damage { seed: rng.next() }),
        _ => {}
    }
}

/// Calls of some kind that fail, once or for a while.
fn any_fault(rng: &mut Rng) -> Fault {
    const KINDS: [CallKind; 12] = [
        CallKind::Create,
        CallKind::Open,
        CallKind::Rename,
        CallKind::Remove,
        CallKind::HardLink,
        CallKind::SyncDir,
        CallKind::Read,
        CallKind::Write,
        CallKind::Write,
        CallKind::Sync,
        CallKind::Sync,
        CallKind::Len,
    ];
    let error = match rng.below(4) {
        0 => FaultError::StorageFull,
        1 => FaultError::ShortWrite { bytes: rng.below(6000) },
        _ => FaultError::Io,
    };
    let fault = match rng.below(6) {
        0 => Fault::on_any(error),
        _ => Fault::new(*rng.pick(&KINDS), error),
    };
    let fault = match rng.below(6) {
        0 => fault.on_path(".wal"),
        1 => fault.on_path(".table"),
        2 => fault.on_path("MANIFEST"),
        _ => fault,
    };
    fault.after(rng.below(40)).times(if rng.one_in(2) { 1 } else { rng.range(2, 12) })
}
