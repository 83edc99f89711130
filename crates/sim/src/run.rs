//! A world's events, carried out on a store beside its model.
//!
//! Whatever fails, an answer is right or an error; what was acknowledged stays for as long as the process
//! lives, and what was promised to be durable after that. What is found wrong ends the world with a panic.

use crate::damage;
use crate::harness::operations::Op;
use crate::harness::session::Session;
use crate::harness::{DIR, Effect, Model, difference, hash};
use crate::world::{Action, Event, World};
use siltstone::io::Disk;
use siltstone::io::sim::{CrashMode, DiskImage, SimDisk};
use siltstone::{Backups, Change, Db, Error, ErrorKind};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// What worlds did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Actions carried out, or tried.
    pub operations: u64,
    /// Crashes, recoveries that were crashed again among them.
    pub crashes: u64,
    /// Actions that failed as they should where calls fail or the disk is full.
    pub failures: u64,
    /// Of these, how many made the store refuse all writes until it is opened again.
    pub poisonings: u64,
    /// Calls of the disk that failed.
    pub faults: u64,
    /// Copies of the disk that were damaged.
    pub damages: u64,
    /// Of these, how many by one flipped bit.
    pub flips: u64,
    /// Of these, how many were noticed; the others had no effect.
    pub noticed: u64,
    /// Of these, how many left less than was written, as a torn log may.
    pub cut_short: u64,
    /// Clocks that were moved.
    pub clocks: u64,
}

impl Tally {
    /// Everything that went wrong, on purpose.
    pub fn troubles(&self) -> u64 {
        self.crashes + self.faults + self.damages + self.clocks
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.crashes += other.crashes;
        self.failures += other.failures;
        self.poisonings += other.poisonings;
        self.faults += other.faults;
        self.damages += other.damages;
        self.flips += other.flips;
        self.noticed += other.noticed;
        self.cut_short += other.cut_short;
        self.clocks += other.clocks;
    }
}

/// States that are kept of what a log that is gone may leave.
const MOST_STATES: usize = 200;

/// By then everything that can expire has.
const LONG_MS: u64 = 1 << 41;

/// A copy that follows the store's log.
struct Copy {
    model: Model,
    position: u64,
    /// How often keyspaces had got other schemas by then.
    schema_changes: u64,
}

/// A store in its world.
pub struct Runner {
    pub session: Session,
    world: World,
    /// What the store held when it was last made durable, and after each action since.
    since: Vec<Rc<Model>>,
    /// The same of the time before that.
    before: Vec<Rc<Model>>,
    /// The same of all time, as far back as is kept.
    history: Vec<Rc<Model>>,
    /// Hashes of all values that a key has had.
    pub written: BTreeMap<(String, Vec<u8>), BTreeSet<u64>>,
    /// Whether calls may fail.
    may_fail: bool,
    /// The disk as it was a while ago.
    pub older: DiskImage,
    copy: Option<Copy>,
    pub tally: Tally,
}

/// Carries out a world; panics where something is wrong.
pub fn run(world: &World, at: &dyn Fn(usize)) -> Tally {
    let session = Session::with(&world.designs, world.options.clone());
    session.disk.set_random_seed(world.seed);
    let now = Rc::new(session.model.clone());
    let mut runner = Runner {
        older: session.disk.snapshot(),
        session,
        world: world.clone(),
        history: vec![Rc::clone(&now)],
        since: vec![now],
        before: Vec::new(),
        written: BTreeMap::new(),
        may_fail: false,
        copy: None,
        tally: Tally::default(),
    };
    for (number, event) in &world.events {
        at(*number);
        if number % 16 == 0 {
            runner.older = runner.session.disk.snapshot();
        }
        runner.event(*number, event);
    }
    at(world.events.len());
    runner.event(usize::MAX, &Event::Mend);
    runner.session.check(world.seed);
    runner.event(usize::MAX, &Event::Crash { mode: CrashMode::Kill, seed: world.seed });
    runner.session.check(world.seed);
    runner.tally
}

/// Whether an error is one that failing calls explain.
fn is_expected(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::StorageFull | ErrorKind::Poisoned)
}

/// A keyspace that an action changed without the log, and what the store holds where the log is lost that was
/// written beside it.
type PastTheLog = Option<(&'static str, Model)>;

impl Runner {
    fn event(&mut self, number: usize, event: &Event) {
        match event {
            Event::Do(action) => self.act(number, action),
            Event::Crash { mode, seed } => {
                self.crash(*mode, *seed, None, Vec::new());
            }
            Event::CrashWithin { action, calls, mode, seed, again } => {
                self.crash_within(number, action, *calls, (*mode, *seed, *again));
            }
            Event::Fail(fault) => {
                self.session.disk.inject(fault.clone());
                self.may_fail = true;
            }
            Event::Room { bytes } => {
                self.session.disk.set_capacity(Some(self.session.disk.used_bytes() + bytes));
                self.may_fail = true;
            }
            Event::Mend => {
                self.session.disk.clear_faults();
                self.session.disk.set_capacity(None);
                self.may_fail = false;
            }
            Event::Damage { seed } => {
                // What calls that fail left behind is another matter.
                if !self.may_fail {
                    for number in 0..1 + self.world.depth / 4 {
                        damage::inflict(self, seed ^ number);
                    }
                }
            }
        }
    }

    /// What a power cut may leave, the newest last.
    pub fn since(&self) -> &[Rc<Model>] {
        &self.since
    }

    /// What a log may be cut back to whose last sync nothing proves any more.
    pub fn unproven(&self) -> impl Iterator<Item = &Rc<Model>> {
        self.before.iter().chain(&self.since)
    }

    /// What a log may be cut back to that is itself gone, or a part of it.
    pub fn history(&self) -> impl Iterator<Item = &Rc<Model>> {
        self.history.iter().chain(&self.since)
    }

    fn model(&self) -> &Rc<Model> {
        self.since.last().expect("there is always one")
    }

    /// Notes what the store holds after an action. `of_manifest` is the keyspace whose items it changed
    /// past the log: that change stays where the end of the log is lost.
    fn note(&mut self, is_durable: bool, of_manifest: PastTheLog) {
        let new = Rc::new(self.session.model.clone());
        self.note_values(&new);
        if let Some((name, without_log)) = of_manifest {
            let replace = |earlier: &mut Rc<Model>, by: &Model| {
                if let Some(changed) = by.keyspaces.get(name) {
                    Rc::make_mut(earlier).keyspaces.insert(name.to_owned(), changed.clone());
                }
            };
            self.before.iter_mut().chain(&mut self.since).for_each(|earlier| replace(earlier, &new));
            self.history.iter_mut().for_each(|earlier| replace(earlier, &without_log));
            self.before.append(&mut self.since);
        } else if is_durable {
            self.before = std::mem::take(&mut self.since);
        }
        if self.history.len() == MOST_STATES {
            self.history.remove(0);
        }
        self.history.push(Rc::clone(&new));
        self.since.push(new);
    }

    /// What an action is to change without the log.
    fn past_the_log(&self, action: &Action) -> PastTheLog {
        match action {
            Action::Op(Op::Ingest(load)) if !load.is_empty() => {
                let alone = Action::Op(Op::Ingest(load.alone()));
                Some((load.keyspace, self.prediction(&alone)))
            }
            Action::Op(Op::Clear { keyspace } | Op::Rebuild { keyspace }) => {
                Some((keyspace, self.prediction(action)))
            }
            _ => None,
        }
    }

    /// Notes the values in which a state differs from the present one.
    fn note_values(&mut self, new: &Model) {
        let old = Rc::clone(self.model());
        for (name, keyspace) in &new.keyspaces {
            let before = old.keyspaces.get(name).map(|keyspace| &keyspace.items);
            for (key, value) in &keyspace.items {
                if before.and_then(|items| items.get(key)) != Some(value) {
                    self.note_value(name, key, &value.0);
                }
            }
        }
    }

    fn note_value(&mut self, keyspace: &str, key: &[u8], value: &[u8]) {
        let key = (keyspace.to_owned(), key.to_vec());
        self.written.entry(key).or_default().insert(hash(&value));
    }

    /// Notes all values that an action writes, also those that it overwrites itself, and whether it
    /// succeeds or not: a part of it may lie in the log.
    fn note_written(&mut self, action: &Action) {
        let Action::Op(op) = action else { return };
        for effect in self.session.effects(op) {
            if let Effect::Put { keyspace, key, value, .. } = effect {
                self.note_value(&keyspace, &key, &value);
            }
        }
    }

    /// Whether an operation can be told apart, before and after, where calls fail in the middle of it.
    fn suits_failures(action: &Action) -> Option<Action> {
        match action {
            Action::Op(Op::Rebuild { .. }) => None,
            Action::Op(Op::Ingest(load)) => Some(Action::Op(Op::Ingest(load.alone()))),
            action => Some(action.clone()),
        }
    }

    /// Carries out an action, whose answer is right or an error.
    fn act(&mut self, number: usize, action: &Action) {
        let fitting = if self.may_fail { Self::suits_failures(action) } else { Some(action.clone()) };
        let Some(action) = fitting else { return };
        let (after, of_manifest) = (self.prediction(&action), self.past_the_log(&action));
        self.note_written(&action);
        match self.perform(number, &action) {
            Ok(is_durable) => self.note(is_durable, of_manifest),
            Err(error) => {
                assert!(self.may_fail && is_expected(&error), "{error:?}");
                self.tally.failures += 1;
                let seed = hash(&(self.world.seed, number));
                let mode = CrashMode::ALL.get(seed as usize % 4).copied().unwrap_or(CrashMode::Kill);
                if self.session.db.is_none() {
                    self.crash(mode, seed, None, Vec::new());
                } else if self.is_poisoned() {
                    self.tally.poisonings += 1;
                    self.peek();
                    let in_doubt = (error.kind() != ErrorKind::Poisoned).then_some(after);
                    self.crash(mode, seed, None, in_doubt.into_iter().collect());
                }
            }
        }
    }

    /// Whether the store refuses everything until it is opened again.
    fn is_poisoned(&mut self) -> bool {
        for _ in 0..2 {
            match self.session.db().sync() {
                Ok(()) => {
                    self.note(true, None);
                    return false;
                }
                Err(error) if error.kind() == ErrorKind::Poisoned => return true,
                Err(error) => assert!(is_expected(&error), "{error:?}"),
            }
        }
        false
    }

    /// What the store holds after the action, where it succeeds.
    fn prediction(&self, action: &Action) -> Model {
        let mut model = Model::clone(self.model());
        if let Action::Op(op) = action {
            self.session.effects(op).iter().for_each(|effect| model.apply(effect));
        }
        model
    }

    /// Carries out an action and says whether all is durable then.
    fn perform(&mut self, number: usize, action: &Action) -> siltstone::Result<bool> {
        self.tally.operations += 1;
        match action {
            Action::Op(op @ Op::Check { .. }) if self.may_fail => {
                let Op::Check { .. } = op else { return Ok(false) };
                self.peek();
                Ok(false)
            }
            Action::Op(op) => {
                self.tally.clocks += u64::from(matches!(op, Op::SetBack { .. }));
                self.session.run(op)?;
                Ok(match op {
                    Op::Write { synced, .. } => *synced,
                    Op::Ingest(load) => !load.is_empty(),
                    Op::Clear { .. } | Op::Rebuild { .. } | Op::Flush => true,
                    Op::Drain | Op::Sync | Op::Reopen => true,
                    _ => false,
                })
            }
            Action::Checkpoint => {
                let dir = format!("/checkpoint{number}");
                self.session.db().checkpoint(&dir)?;
                self.same_at(&dir, "a checkpoint");
                Ok(false)
            }
            Action::Backup => {
                let made = self.session.db().backup("/backups")?;
                let disk = self.session.disk.crash(CrashMode::PowerCut, 0);
                let backups = Backups::open_on(Arc::new(disk.clone()), "/backups")?;
                backups.restore(made.number, "/restored").unwrap_or_else(|e| panic!("restoring: {e}"));
                self.same_on(&disk, "/restored", "a restored backup");
                Ok(false)
            }
            Action::Follow => self.follow().map(|()| false),
        }
    }

    /// Compares what a power cut leaves of a copy with the store.
    fn same_at(&self, dir: &str, what: &str) {
        self.same_on(&self.session.disk.crash(CrashMode::PowerCut, 0), dir, what);
    }

    fn same_on(&self, disk: &SimDisk, dir: &str, what: &str) {
        disk.set_now_ms(self.session.now_ms());
        let copy = Db::open_on(Arc::new(disk.clone()), dir, self.world.options.clone());
        let copy = copy.unwrap_or_else(|error| panic!("{what}: {error}"));
        let differs = difference(&copy, self.model(), copy.clock_ms());
        assert!(differs.is_none(), "{what}: {}", differs.unwrap_or_default());
    }

    /// Lets the copy take over what was written.
    fn follow(&mut self) -> siltstone::Result<()> {
        let db = self.session.db();
        let (session, position) = (&self.session, db.log_position());
        let afresh =
            || Copy { model: session.model.clone(), position, schema_changes: session.schema_changes };
        // The log does not say by which schema a prefix was deleted.
        let of_other_schemas = |copy: &Copy| copy.schema_changes != session.schema_changes;
        let Some(copy) = self.copy.as_mut().filter(|copy| !of_other_schemas(copy)) else {
            self.copy = Some(afresh());
            return Ok(());
        };
        let tail = match db.tail(copy.position) {
            Err(error) if error.kind() == ErrorKind::PositionGone => {
                self.copy = None;
                return Ok(());
            }
            tail => tail?,
        };
        for batch in tail.unsynced() {
            let batch = batch?;
            if batch.operations.iter().any(|operation| operation.change == Change::Replaced) {
                // All of it is copied afresh.
                *copy = afresh();
                return Ok(());
            }
            for operation in batch.operations {
                let (keyspace, key) = (operation.keyspace.to_string(), operation.key);
                copy.model.apply(&match operation.change {
                    Change::Put { value, expires_at_ms } => {
                        Effect::Put { keyspace, key, value, expires_at_ms: expires_at_ms.unwrap_or(0) }
                    }
                    Change::Merge { operand } => Effect::Merge { keyspace, key, operand },
                    Change::Delete => Effect::Delete { keyspace, key },
                    Change::DeletePrefix => Effect::DeletePrefix { keyspace, prefix: key },
                    other => panic!("a change that is not known: {other:?}"),
                });
            }
            copy.position = batch.next_lsn;
        }
        let now_ms = self.session.now_ms();
        for (name, expected) in &self.session.model.keyspaces {
            let same =
                copy.model.keyspaces.get(name).is_some_and(|k| k.live(now_ms) == expected.live(now_ms));
            assert!(same, "a copy that follows the log differs in {name}");
        }
        Ok(())
    }

    /// Reads while calls fail: what is answered is right.
    fn peek(&self) {
        damage::right_or_failed(self.session.db(), (&[Rc::clone(self.model())], true), &is_expected);
    }

    fn crash_within(
        &mut self,
        number: usize,
        action: &Action,
        calls: u64,
        (mode, seed, again): (CrashMode, u64, Option<u64>),
    ) {
        let fitting = if self.may_fail { Self::suits_failures(action) } else { Some(action.clone()) };
        let Some(action) = fitting else { return };
        let mut in_doubt = vec![self.prediction(&action)];
        if let Action::Op(Op::Ingest(load)) = &action {
            let mut besides = Model::clone(self.model());
            load.besides.iter().for_each(|effect| besides.apply(effect));
            in_doubt.push(besides);
        }
        let of_manifest = self.past_the_log(&action);
        self.note_written(&action);
        self.session.disk.halt_after(calls);
        let done = self.perform(number, &action);
        let halted = self.session.disk.is_halted();
        self.session.disk.resume();
        match done {
            Ok(is_durable) => {
                self.note(is_durable, of_manifest);
                in_doubt.clear();
            }
            Err(error) if !halted => {
                assert!(self.may_fail && is_expected(&error), "{error:?}");
            }
            Err(_) => {}
        }
        self.crash(mode, seed, again, in_doubt);
    }

    /// Everything stops, and the store is opened again: it holds something that it may hold.
    fn crash(&mut self, mode: CrashMode, seed: u64, again: Option<u64>, in_doubt: Vec<Model>) {
        self.tally.crashes += 1;
        let kept = if mode == CrashMode::Kill { self.since.len().saturating_sub(1) } else { 0 };
        let in_doubt: Vec<_> = in_doubt.into_iter().map(Rc::new).collect();
        let mut legal: Vec<_> = self.since.get(kept..).unwrap_or_default().to_vec();
        legal.extend(in_doubt.iter().cloned());
        self.session.snapshots.clear();
        self.copy = None;
        if let Some(db) = &self.session.db {
            // What has expired may be gone, and the manifest need not know yet how late it was.
            self.session.disk.set_now_ms(db.clock_ms());
        }
        self.other_crashes(seed, &in_doubt);
        let disk = self.session.disk.crash(mode, seed);
        self.tally.faults += self.session.disk.failed_calls();
        self.session.db = None;
        self.may_fail = false;
        let mut disk = disk;
        if let Some(calls) = again {
            // A recovery that is cut short must not change what the next one finds.
            self.tally.crashes += 1;
            legal = vec![self.recover(&disk.crash(CrashMode::Kill, 0), &legal, mode).1];
            disk.halt_after(calls);
            drop(self.session.open(&disk));
            disk = disk.crash(mode, seed ^ 1);
        }
        let (db, model) = self.recover(&disk, &legal, mode);
        self.session.disk = disk;
        self.session.db = Some(db);
        self.session.model = Model::clone(&model);
        self.session.note_schemas();
        self.note(true, None);
        (self.before, self.since) = (Vec::new(), vec![Rc::new(self.session.model.clone())]);
        if seed.is_multiple_of(4) {
            let report = self.session.db().verify(&mut |_| {}).expect("verify reads what is there");
            assert!(report.problems.is_empty(), "verify after {mode:?}: {:?}", report.problems);
        }
        self.half_made_copies();
    }

    /// Looks at more of what a crash at this moment may leave, on copies of the disk.
    fn other_crashes(&mut self, seed: u64, in_doubt: &[Rc<Model>]) {
        let image = self.session.disk.snapshot();
        // Where nothing is at risk, all crashes leave the same.
        if image.unsynced_ops() == 0 {
            return;
        }
        let modes = [CrashMode::Kill, CrashMode::PowerCut].into_iter();
        let modes = modes.chain([CrashMode::Torn, CrashMode::Reordered].into_iter().cycle());
        for (number, mode) in modes.take(self.world.depth as usize).enumerate() {
            let kept = if mode == CrashMode::Kill { self.since.len().saturating_sub(1) } else { 0 };
            let mut legal: Vec<_> = self.since.get(kept..).unwrap_or_default().to_vec();
            legal.extend(in_doubt.iter().cloned());
            self.recover(&image.crash(mode, hash(&(seed, number))), &legal, mode);
            self.tally.crashes += 1;
        }
    }

    /// Opens the store, and says which of the states it is in.
    fn recover(&self, disk: &SimDisk, legal: &[Rc<Model>], mode: CrashMode) -> (Db, Rc<Model>) {
        let db = self.session.open(disk).unwrap_or_else(|error| panic!("after {mode:?}: {error}"));
        // What was to replace a keyspace, and did not come to it.
        if db.get_keyspace("next").is_some() {
            db.drop_keyspace("next").unwrap_or_else(|error| panic!("after {mode:?}: {error}"));
        }
        let now_ms = db.clock_ms();
        let found = damage::contents_of(&db).unwrap_or_else(|error| panic!("after {mode:?}: {error}"));
        let holds = |model: &&Rc<Model>| damage::is_state(&found, model, now_ms);
        let mut fitting: Vec<_> = legal.iter().rev().filter(holds).collect();
        if fitting.len() > 1 {
            // Some may differ in what will expire.
            let later = disk.crash(CrashMode::Kill, 0);
            later.set_now_ms(now_ms + LONG_MS);
            let db =
                self.session.open(&later).unwrap_or_else(|error| panic!("after {mode:?}, later: {error}"));
            let found =
                damage::contents_of(&db).unwrap_or_else(|error| panic!("after {mode:?}, later: {error}"));
            fitting.retain(|model| damage::is_state(&found, model, now_ms + LONG_MS));
        }
        match fitting.first() {
            Some(model) => (db, Rc::clone(model)),
            None => {
                let newest = legal.last().and_then(|model| difference(&db, model, now_ms));
                let oldest = legal.first().and_then(|model| difference(&db, model, now_ms));
                panic!(
                    "after {mode:?} the store holds none of {} states that it may hold; newest: {newest:?}; oldest: {oldest:?}",
                    legal.len()
                )
            }
        }
    }

    /// Checkpoints that a crash cut short do not open as something else, and make room for others.
    fn half_made_copies(&self) {
        let disk = &self.session.disk;
        for name in disk.list(Path::new("/")).unwrap_or_default() {
            let dir = format!("/{name}");
            if dir == DIR || !name.starts_with("checkpoint") {
                continue;
            }
            if let Err(error) =
                Db::open_on(Arc::new(disk.crash(CrashMode::Kill, 0)), &dir, self.world.options.clone())
            {
                let says = error.to_string();
                assert!(
                    error.kind() == ErrorKind::NotAStore,
                    "a checkpoint cut short: {:?}: {says}",
                    error.kind()
                );
            }
            for file in disk.list(Path::new(&dir)).unwrap_or_default() {
                disk.remove(&Path::new(&dir).join(file)).expect("a healthy disk removes files");
            }
            disk.sync_dir(Path::new(&dir)).expect("a healthy disk syncs");
        }
    }
}
