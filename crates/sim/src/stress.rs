//! Threads on a real file system, in a child process that is killed at any moment.
//!
//! Each thread has keys of its own and a file beside the store that says what it has been told of each: what
//! was acknowledged, and what was under way. After a kill every key has the one or the other. Options and
//! designs change from round to round.

use crate::harness::schemas::schemas_for;
use crate::harness::{HASHED, ORDERED, Rng, fitting, hash, random_design};
use siltstone::{Batch, Db, Durability, ErrorKind, Keyspace, KeyspaceOptions, Options, Schema, WriteOptions};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const KEYS: u64 = 3000;
const SLOT_BYTES: u64 = 16;
const SPACES: [(&str, Schema); 3] = [("point", Schema::Point), ("files", ORDERED), ("tags", HASHED)];

/// What a run of stress is like.
#[derive(Clone, Debug)]
pub struct Stress {
    /// Where the store and the expectations lie; made where there is nothing.
    pub dir: PathBuf,
    /// What options and operations follow from, but not how threads take turns.
    pub seed: u64,
    /// Threads that write.
    pub threads: u64,
    /// How long.
    pub time: Duration,
}

/// What a run of stress did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Children that were killed.
    pub kills: u64,
    /// Children that closed the store in order.
    pub closes: u64,
    /// Writes that were acknowledged.
    pub writes: u64,
    /// Keys that were looked at after the children's ends.
    pub looks: u64,
    /// Of these, how many had what was under way when a child was killed.
    pub finished: u64,
    /// How often a keyspace had another schema after a child's end than before.
    pub schema_changes: u64,
}

impl Report {
    /// The same as one JSON object. A run that loses anything ends with an error and has none.
    pub fn to_json(&self) -> serde_json::Value {
        let Self { kills, closes, writes, looks, finished, schema_changes } = self;
        serde_json::json!({
            "kills": kills, "closes": closes, "writes": writes, "keys_compared": looks, "finished": finished,
            "schema_changes": schema_changes,
        })
    }
}

/// What is known of a thread's keys: a number that grows with every write of a key, odd where it was deleted.
struct Expected {
    file: File,
}

impl Expected {
    fn open(dir: &Path, thread: u64) -> std::io::Result<Self> {
        let path = dir.join(format!("expected-{thread}"));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        if file.metadata()?.len() < KEYS * SLOT_BYTES {
            file.set_len(KEYS * SLOT_BYTES)?;
        }
        Ok(Self { file })
    }

    /// What was acknowledged of key `n`, and what was begun.
    fn get(&self, n: u64) -> (u64, u64) {
        let mut slot = [0; SLOT_BYTES as usize];
        self.file.read_exact_at(&mut slot, n * SLOT_BYTES).expect("the expectations are there");
        let (done, begun) = slot.split_at(8);
        (u64::from_le_bytes(done.try_into().unwrap()), u64::from_le_bytes(begun.try_into().unwrap()))
    }

    fn set(&self, n: u64, done: u64, begun: u64) {
        let slot = [done.to_le_bytes(), begun.to_le_bytes()].concat();
        self.file.write_all_at(&slot, n * SLOT_BYTES).expect("the expectations can be written");
    }
}

fn key(thread: u64, n: u64) -> Vec<u8> {
    format!("{thread:02}/{n:06}").into_bytes()
}

/// The value that write `number` gave a key; `None` where there is none.
fn value(thread: u64, n: u64, number: u64) -> Option<Vec<u8>> {
    if number % 2 == 1 || number == 0 {
        return None;
    }
    let mut rng = Rng::new(hash(&(thread, n, number)));
    let length = if rng.one_in(40) { rng.range(4000, 20_000) } else { rng.range(1, 300) };
    Some(rng.value(length as usize))
}

fn options(rng: &mut Rng) -> Options {
    let every = [Durability::Buffered, Durability::Buffered, Durability::Synced];
    Options {
        memory_budget_bytes: (8 << 20) << rng.below(3),
        durability: *rng.pick(&every),
        sync_interval_ms: rng.below(3) * 20,
        background_threads: rng.range(1, 3) as usize,
        max_sealed_memtables: rng.range(1, 4) as usize,
        max_open_files: if rng.one_in(3) { 8 } else { 200 },
        direct_reads: rng.one_in(4),
        tail_retention_bytes: rng.below(2) << 20,
        event_log_bytes: 64 << 10,
        reserve_bytes: 0,
        merge_operators: Default::default(),
        ..crate::harness::options()
    }
}

fn open(dir: &Path, rng: &mut Rng) -> siltstone::Result<(Db, Vec<Keyspace>)> {
    let db = Db::open(dir.join("db"), options(rng))?;
    let mut spaces = Vec::new();
    for (name, schema) in SPACES {
        let design = Some(fitting(random_design(rng), schema));
        let created = KeyspaceOptions { schema, design, ..KeyspaceOptions::default() };
        spaces.push(match db.get_keyspace(name) {
            Some(keyspace) => keyspace,
            None => db.keyspace(name, created)?,
        });
    }
    Ok((db, spaces))
}

fn space(spaces: &[Keyspace], n: u64) -> &Keyspace {
    &spaces[(n % SPACES.len() as u64) as usize]
}

/// One writing thread of a child.
struct Writer<'a> {
    db: &'a Db,
    spaces: &'a [Keyspace],
    thread: u64,
    expected: Expected,
    rng: Rng,
}

impl Writer<'_> {
    fn write(&mut self, size: u64) -> siltstone::Result<()> {
        let mut batch = Batch::new();
        let mut keys: Vec<_> = (0..size).map(|_| self.rng.below(KEYS)).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut numbers = Vec::new();
        for n in keys {
            let (done, begun) = self.expected.get(n);
            assert_eq!(done, begun, "only this thread writes key {n}");
            // The next number for a value, or for none.
            let number = if self.rng.one_in(4) { (done + 1) | 1 } else { (done / 2 + 1) * 2 };
            let (key, keyspace) = (key(self.thread, n), space(self.spaces, n));
            match value(self.thread, n, number) {
                Some(value) => batch.put(keyspace, key, value)?,
                None => batch.delete(keyspace, key)?,
            }
            self.expected.set(n, done, number);
            numbers.push((n, number));
        }
        let durability = self.rng.one_in(60).then_some(Durability::Synced);
        self.db.write(&batch, &WriteOptions { durability })?;
        numbers.iter().for_each(|(n, number)| self.expected.set(*n, *number, *number));
        Ok(())
    }

    fn look(&mut self) -> siltstone::Result<()> {
        let n = self.rng.below(KEYS);
        let wanted = value(self.thread, n, self.expected.get(n).0);
        let found = space(self.spaces, n).get(key(self.thread, n))?;
        assert!(found == wanted, "thread {}, key {n}: a wrong value", self.thread);
        Ok(())
    }

    /// Scans the thread's group, of a snapshot or as it is.
    fn scan(&mut self) -> siltstone::Result<()> {
        let (files, prefix) = (&self.spaces[1], format!("{:02}/", self.thread));
        let snapshot = self.db.snapshot();
        if self.rng.one_in(2) {
            self.write(3)?;
            self.db.flush()?;
        }
        let scanned = snapshot.prefix(files, &prefix)?.collect::<Result<Vec<_>, _>>()?;
        let again = snapshot.prefix(files, &prefix)?.collect::<Result<Vec<_>, _>>()?;
        assert!(scanned == again, "a snapshot has changed");
        let now = files.prefix(&prefix)?.collect::<Result<Vec<_>, _>>()?;
        let own = (0..KEYS).filter(|n| n % 3 == 1);
        let wanted =
            own.filter_map(|n| Some((key(self.thread, n), value(self.thread, n, self.expected.get(n).0)?)));
        assert!(now.into_iter().eq(wanted), "a scan of thread {}'s group is wrong", self.thread);
        Ok(())
    }

    fn step(&mut self) -> siltstone::Result<()> {
        match self.rng.below(1000) {
            0..600 => self.write(1),
            600..750 => {
                let size = self.rng.range(2, 12);
                self.write(size)
            }
            750..985 => self.look(),
            985..990 => self.scan(),
            990..993 => self.db.flush(),
            993..996 => self.db.sync(),
            996 => self.rng.pick(self.spaces).compact().map(drop),
            997 => {
                let keyspace = self.rng.pick(self.spaces);
                let schema = keyspace.schema();
                let design = fitting(random_design(&mut self.rng), schema);
                // It may suit the schema no longer.
                let is_late = || keyspace.schema() != schema;
                unless_refused(keyspace.redesign(design), is_late)
            }
            998 => {
                // Scans know the prefixes and the order of the other one.
                let at = *self.rng.pick(&[0, 2]);
                let schema = *self.rng.pick(&schemas_for(SPACES[at].1));
                let design = fitting(self.spaces[at].design(), schema);
                unless_refused(self.spaces[at].change_schema(schema, Some(design)), || false)
            }
            _ => Ok(()),
        }
    }
}

/// Passes over that another thread has asked for another schema, or is asking for another design.
fn unless_refused(outcome: siltstone::Result<()>, is_late: impl FnOnce() -> bool) -> siltstone::Result<()> {
    outcome.or_else(|error| {
        let what = error.to_string();
        let is_named =
            ["wait_for_schema", "is being built or replaced already"].iter().any(|part| what.contains(part));
        let is_refused = error.kind() == ErrorKind::InvalidInput && (is_named || is_late());
        if is_refused { Ok(()) } else { Err(error) }
    })
}

/// The child: writes until it is killed, or for `time`.
pub fn child(stress: &Stress) -> siltstone::Result<()> {
    let mut rng = Rng::new(stress.seed);
    let (db, spaces) = open(&stress.dir, &mut rng)?;
    let started = Instant::now();
    std::thread::scope(|scope| {
        let writers = (0..stress.threads).map(|thread| {
            let (db, spaces, rng) = (&db, &spaces[..], Rng::new(hash(&(stress.seed, thread))));
            scope.spawn(move || {
                let expected = Expected::open(&stress.dir, thread).expect("the expectations open");
                let mut writer = Writer { db, spaces, thread, expected, rng };
                while started.elapsed() < stress.time {
                    writer.step()?;
                }
                Ok::<_, siltstone::Error>(())
            })
        });
        let writers: Vec<_> = writers.collect();
        writers.into_iter().try_for_each(|writer| writer.join().expect("a thread panicked"))
    })?;
    drop(spaces);
    db.close()
}

fn start(stress: &Stress, seed: u64, time: Duration) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.arg("stress").arg("--child").arg("--dir").arg(&stress.dir);
    command.arg("--seed").arg(seed.to_string()).arg("--threads").arg(stress.threads.to_string());
    command.arg("--milliseconds").arg(time.as_millis().to_string());
    command.spawn().map_err(|error| error.to_string())
}

/// Compares the store with what its threads were told; what was under way counts as done or not. Returns the
/// schemas that it has.
fn compare(stress: &Stress, rng: &mut Rng, report: &mut Report) -> Result<Vec<Schema>, String> {
    let (db, spaces) = open(&stress.dir, rng).map_err(|error| error.to_string())?;
    let mut live = 0;
    for thread in 0..stress.threads {
        let expected = Expected::open(&stress.dir, thread).map_err(|error| error.to_string())?;
        for n in 0..KEYS {
            let (done, begun) = expected.get(n);
            let found = space(&spaces, n).get(key(thread, n)).map_err(|error| error.to_string())?;
            live += u64::from(found.is_some());
            report.looks += 1;
            if found == value(thread, n, begun) {
                report.finished += u64::from(done != begun);
                expected.set(n, begun, begun);
            } else if found == value(thread, n, done) {
                expected.set(n, done, done);
            } else {
                let which = (0..begun + 100).find(|number| value(thread, n, *number) == found);
                return Err(format!(
                    "thread {thread}, key {n}: neither write {done} nor {begun}, but {which:?}: {:?} bytes",
                    found.map(|value| value.len())
                ));
            }
        }
    }
    let count = |keyspace: &Keyspace| keyspace.iter()?.try_fold(0u64, |sum, item| item.map(|_| sum + 1));
    let total =
        spaces.iter().map(count).sum::<siltstone::Result<u64>>().map_err(|error| error.to_string())?;
    if total != live {
        return Err(format!("iterating shows {total} items, and looking {live}"));
    }
    let problems = db.verify(&mut |_| {}).map_err(|error| error.to_string())?.problems;
    if !problems.is_empty() {
        return Err(format!("verify says {problems:?}"));
    }
    let schemas = spaces.iter().map(Keyspace::schema).collect();
    drop(spaces);
    db.close().map_err(|error| error.to_string())?;
    Ok(schemas)
}

fn writes(stress: &Stress) -> u64 {
    let of = |thread| {
        let expected = Expected::open(&stress.dir, thread).expect("the expectations open");
        (0..KEYS).map(|n| expected.get(n).0 / 2).sum::<u64>()
    };
    (0..stress.threads).map(of).sum()
}

/// Compares what lies in the directory, and does nothing else.
pub fn check(stress: &Stress) -> Result<Report, String> {
    let mut report = Report::default();
    compare(stress, &mut Rng::new(stress.seed), &mut report)?;
    Ok(report)
}

/// Rounds of children until the time is over; an error says what is wrong, and leaves everything as it is.
pub fn run(stress: &Stress) -> Result<Report, String> {
    std::fs::create_dir_all(&stress.dir).map_err(|error| error.to_string())?;
    let (started, mut report) = (Instant::now(), Report::default());
    let before = writes(stress);
    let mut schemas = Vec::new();
    for round in 0u64.. {
        if round > 0 && started.elapsed() >= stress.time {
            break;
        }
        let seed = hash(&(stress.seed, round));
        let mut rng = Rng::new(seed ^ 1);
        let closes = rng.one_in(5);
        let life = Duration::from_millis(rng.range(30, 3000));
        let told = if closes { life } else { Duration::from_secs(3600) };
        let mut child = start(stress, seed, told)?;
        if !closes {
            std::thread::sleep(life);
            child.kill().map_err(|error| error.to_string())?;
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        match (status.success(), status.signal()) {
            (true, _) if closes => report.closes += 1,
            (_, Some(9)) if !closes => report.kills += 1,
            _ => return Err(format!("round {round}: the child ended with {status}")),
        }
        let now =
            compare(stress, &mut rng, &mut report).map_err(|error| format!("round {round}: {error}"))?;
        let changed = now.iter().zip(&schemas).filter(|(now, before)| now != before);
        report.schema_changes += changed.count() as u64;
        schemas = now;
    }
    report.writes = writes(stress) - before;
    Ok(report)
}
