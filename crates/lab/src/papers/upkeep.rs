//! `siltstone-lab upkeep`: what the work costs that is done now and then: compactions, checkpoints, backups,
//! repairs, the change feed, and the calls that `siltstone bench` has no workload for.
//!
//! A store of each preset is filled with groups of 64 items, and each kind of work is done on it once, after
//! another. A table gives rates and times; the bytes that a backup adds are counted.

use super::evaluation::{Common, Results, Row};
use crate::kit::generate::mix;
use crate::program::failure::{Failure, Result, fail};
use crate::program::output::note;
use siltstone::{
    Backups, Batch, Db, Design, Keyspace, KeyspaceOptions, Options, Schema, Update, WriteOptions,
};
use std::path::Path;
use std::time::{Duration, Instant};

const GROUP_ITEMS: u64 = 64;
const PREFIX_BYTES: u16 = 8;
const VALUE_BYTES: usize = 100;
const BATCH_ITEMS: u64 = 100;
/// How often what takes microseconds is done.
const CALLS: u64 = 10_000;
/// Items of a page.
const PAGE_ITEMS: usize = 50;
/// Write buffers.
const TABLE_BYTES: u64 = 1 << 20;
/// Presets with schemas that have groups.
const PRESETS: [&str; 5] = ["siltstone", "lean", "stepped-merge", "slimdb", "lsm-trie"];

/// Measure what upkeep costs: compaction, checkpoints, backups, repair, the change feed
///
/// Fills a store of each preset, does each kind of work once, and says how long it takes. The stores are
/// written below --dir and removed afterwards.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone-lab upkeep --quick\n  \
    siltstone-lab upkeep --items 5M --preset siltstone --json")]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Items of a store [default: 2M, with --quick 100K]
    #[arg(long, value_name = "COUNT", value_parser = crate::kit::sizes::parse_positive)]
    items: Option<u64>,
    /// Only this design
    #[arg(long, value_name = "PRESET")]
    preset: Option<String>,
}

/// Figures in the order in which they were taken.
#[derive(Default)]
struct Taken {
    figures: Vec<(&'static str, f64)>,
}

impl Taken {
    /// Notes the seconds that `work` takes.
    fn seconds<T>(&mut self, name: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.noted(name, work, |seconds| seconds)
    }

    /// Notes the microseconds that each of `count` calls takes in the mean.
    fn us_each(
        &mut self,
        name: &'static str,
        count: u64,
        mut call: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let calls = || (0..count).try_for_each(&mut call);
        self.noted(name, calls, |seconds| seconds * 1e6 / count.max(1) as f64)
    }

    /// Notes how many thousands of `count` things a second `work` does.
    fn thousands<T>(
        &mut self,
        name: &'static str,
        count: u64,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.noted(name, work, |seconds| count as f64 / 1e3 / seconds.max(1e-9))
    }

    fn noted<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Result<T>,
        figure: impl FnOnce(f64) -> f64,
    ) -> Result<T> {
        let started = Instant::now();
        let done = work()?;
        self.figures.push((name, figure(started.elapsed().as_secs_f64())));
        Ok(done)
    }

    fn count(&mut self, name: &'static str, value: f64) {
        self.figures.push((name, value));
    }
}

/// The key of item `number`: its group, and its place there.
fn key(number: u64) -> [u8; 16] {
    let (group, place) = (mix(number / GROUP_ITEMS), number % GROUP_ITEMS);
    (u128::from(group) << 64 | u128::from(place)).to_be_bytes()
}

fn prefix(number: u64) -> [u8; 8] {
    mix(number / GROUP_ITEMS).to_be_bytes()
}

/// A place of an item that has nothing to do with its neighbours.
fn any(number: u64, items: u64) -> u64 {
    mix(!number) % items.max(1)
}

fn put_all(db: &Db, keyspace: &Keyspace, numbers: std::ops::Range<u64>) -> Result<()> {
    let mut batch = Batch::new();
    for from in numbers.clone().step_by(BATCH_ITEMS as usize) {
        batch.clear();
        for number in from..numbers.end.min(from + BATCH_ITEMS) {
            let value = mix(number).to_be_bytes().repeat(VALUE_BYTES.div_ceil(8));
            batch.put(keyspace, key(number), value.get(..VALUE_BYTES).unwrap_or(&value))?;
        }
        db.write(&batch, &WriteOptions::default())?;
    }
    Ok(())
}

/// Calls on a store that is at rest.
fn call(keyspace: &Keyspace, items: u64, taken: &mut Taken) -> Result<()> {
    taken.us_each("approximate_len, us", CALLS, |_| Ok(keyspace.approximate_len().map(drop)?))?;
    taken.us_each("approximate_len_of a group, us", CALLS, |n| {
        Ok(keyspace.approximate_len_of(prefix(any(n, items))).map(drop)?)
    })?;
    taken.us_each("a page of 50 after a key, us", CALLS / 10, |n| {
        let number = any(n, items);
        let page = keyspace.prefix(prefix(number))?.after(key(number))?.keys().take(PAGE_ITEMS);
        Ok(page.collect::<siltstone::Result<Vec<_>>>().map(drop)?)
    })?;
    taken.us_each("the same before a key, backwards, us", CALLS / 10, |n| {
        let number = any(n, items);
        let page = keyspace.prefix(prefix(number))?.before(key(number))?.keys().rev().take(PAGE_ITEMS);
        Ok(page.collect::<siltstone::Result<Vec<_>>>().map(drop)?)
    })?;
    let counted = taken.thousands("len, K items/s", items, || Ok(keyspace.len()?))?;
    if counted != items {
        fail!("{counted} of {items} items were counted");
    }
    taken.thousands("next_ref over all, K items/s", items, || {
        let (mut all, mut bytes) = (keyspace.iter()?, 0);
        while let Some((_, value)) = all.next_ref()? {
            bytes += value.len();
        }
        Ok(bytes)
    })?;
    taken.us_each("update_with, us", CALLS, |n| {
        let add = |old: Option<siltstone::Old<'_>>| {
            Ok::<_, siltstone::Error>(Update::Put(old.map_or_else(Vec::new, |old| old.value.to_vec())))
        };
        Ok(keyspace.update_with(key(any(n, items)), &WriteOptions::default(), add).map(drop)?)
    })
}

/// Checkpoints, backups and what is made of them.
fn copy(db: &Db, keyspace: &Keyspace, dir: &Path, items: u64, taken: &mut Taken) -> Result<()> {
    taken.seconds("checkpoint, s", || Ok(db.checkpoint(dir.join("checkpoint"))?))?;
    let first = taken.seconds("first backup, s", || Ok(db.backup(dir.join("backups"))?))?;
    let again = taken.seconds("backup of the same, s", || Ok(db.backup(dir.join("backups"))?))?;
    put_all(db, keyspace, items..items + items / 100)?;
    db.drain()?;
    let more = taken.seconds("backup of 1 % more, s", || Ok(db.backup(dir.join("backups"))?))?;
    let share = |added: u64| added as f64 * 100.0 / first.bytes.max(1) as f64;
    taken.count("  % of bytes that the same adds", share(again.bytes_added));
    taken.count("  % of bytes that 1 % more adds", share(more.bytes_added));
    let backups = Backups::open(dir.join("backups"))?;
    let restored = || Ok(backups.restore(more.number, dir.join("restored"))?);
    taken.seconds("restore, s", restored)?;
    let report = taken.seconds("verify, s", || Ok(db.verify(&mut |_| {})?))?;
    match report.problems.first() {
        Some(problem) => fail!("{problem}"),
        None => Ok(()),
    }
}

/// Listens to all that the log holds.
fn listen(db: &Db, from_lsn: u64, items: u64, taken: &mut Taken) -> Result<()> {
    db.sync()?;
    let heard = taken.thousands("change feed, K operations/s", items, || {
        let (mut tail, mut heard) = (db.tail(from_lsn)?, 0);
        while heard < items {
            let Some(batch) = tail.next_batch(Duration::from_secs(1))? else { break };
            heard += batch.operations.len() as u64;
        }
        Ok(heard)
    })?;
    if heard < items {
        fail!("of {items} operations {heard} were heard");
    }
    Ok(())
}

/// Does everything on one store.
fn measure(dir: &Path, design: &Design, items: u64) -> Result<Taken> {
    let mut taken = Taken::default();
    let store = dir.join("store");
    let user_bytes = items * (16 + VALUE_BYTES as u64);
    let options = Options { tail_retention_bytes: 2 * user_bytes, ..Options::default() };
    let db = Db::open(&store, options.clone())?;
    let schema = Schema::fixed(PREFIX_BYTES);
    let keyspace_options =
        KeyspaceOptions { design: Some(design.clone()), schema, ..KeyspaceOptions::default() };
    let keyspace = db.create_keyspace("items", keyspace_options.clone())?;
    let from_lsn = db.log_position();
    taken.thousands("batches of 100, K items/s", items, || put_all(&db, &keyspace, 0..items))?;
    listen(&db, from_lsn, items, &mut taken)?;
    taken.seconds("flush, s", || Ok(db.flush()?))?;
    taken.seconds("drain, s", || Ok(db.drain()?))?;
    call(&keyspace, items, &mut taken)?;
    let compacted = taken.seconds("compact, s", || Ok(db.compact()?))?;
    taken.count("  bytes it writes per byte held", compacted.bytes_written as f64 / user_bytes as f64);
    copy(&db, &keyspace, dir, items, &mut taken)?;
    let built = db.create_keyspace("built", keyspace_options)?;
    built.ingest((0..items).map(|number| (key(number), "anew")))?;
    taken.seconds("replace by what was built, s", || Ok(db.replace(&keyspace, built)?))?;
    drop(keyspace);
    db.close()?;
    let repaired = || Ok(Db::repair(&store, dir.join("repaired"), &options, &mut |_| {})?);
    let report = taken.thousands("repair, K entries/s", items, repaired)?;
    if !report.losses.is_empty() {
        fail!("the repair of a sound store lost {:?}", report.losses);
    }
    let db = Db::open(&store, options)?;
    let Some(keyspace) = db.get_keyspace("items") else { fail!("{} has no items", store.display()) };
    taken.seconds("clear, s", || Ok(keyspace.clear()?))?;
    drop(keyspace);
    db.close()?;
    Ok(taken)
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let items = args.items.unwrap_or(args.common.scale(100_000, 2_000_000));
    let names = match &args.preset {
        Some(name) => vec![name.as_str()],
        None => PRESETS.to_vec(),
    };
    let scratch = args.common.scratch("upkeep")?.with_room_for(1000 * items)?;
    let mut results = Results::new(scratch.path(), &args.common)?;
    let mut rows: Vec<Row> = Vec::new();
    for name in &names {
        let Some(design) = Design::preset(name) else { fail!("there is no preset {name}") };
        note!("{name}");
        let dir = scratch.path().join(name);
        std::fs::create_dir_all(&dir).map_err(|e| Failure::at(&dir, e))?;
        for (at, (figure, value)) in
            measure(&dir, &design.scaled_to(TABLE_BYTES), items)?.figures.into_iter().enumerate()
        {
            match rows.get_mut(at) {
                Some(row) => row.1.push(value),
                None => rows.push((figure.to_owned(), vec![value], Vec::new())),
            }
        }
        std::fs::remove_dir_all(&dir).map_err(|e| Failure::at(&dir, e))?;
    }
    let columns: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    results.add("Upkeep", "work that is done now and then", "as named", &columns, &rows);
    results.print(args.common.json)
}
