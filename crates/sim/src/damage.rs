//! Damage: bytes that change at rest, pages that are stale, misplaced or lost, files that are cut or gone.
//!
//! It is done to a copy of the disk, so that a world goes on without it. An answer of the damaged store is
//! right or an error; a log may be cut short, as a crash might have cut it, and has no holes. What a repair
//! brings back was written once.

use crate::harness::{DIR, Model, Rng, contents, difference, hash};
use crate::run::Runner;
use siltstone::io::sim::{CrashMode, SimDisk};
use siltstone::{Db, Error, ErrorKind};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

const SECTOR_BYTES: u64 = 512;
const PAGE_BYTES: u64 = 4096;

type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Everything in a store.
pub fn contents_of(db: &Db) -> siltstone::Result<Contents> {
    let mut all = Contents::new();
    for name in db.keyspaces() {
        let Some(keyspace) = db.get_keyspace(&name) else { continue };
        let items: BTreeMap<_, _> = keyspace.iter()?.collect::<Result<_, _>>()?;
        all.insert(name, items);
    }
    Ok(all)
}

/// Whether a store that holds `found` is in the state `model`.
pub fn is_state(found: &Contents, model: &Model, now_ms: u64) -> bool {
    found.len() == model.keyspaces.len()
        && model.keyspaces.iter().all(|(name, keyspace)| {
            found.get(name).is_some_and(|items| {
                let is_live = |expires: u64| expires == 0 || now_ms < expires;
                let live = keyspace.items.iter().filter(|(_, (_, expires))| is_live(*expires));
                live.map(|(key, (value, _))| (key, value)).eq(items.iter())
            })
        })
}

/// Reads everything, in two ways: it is as one of the states has it, or an error that `is_expected`; the same
/// state for all keyspaces where that `is_one`. Returns the states that fit, and how many reads failed.
pub fn right_or_failed(
    db: &Db,
    (states, is_one): (&[Rc<Model>], bool),
    is_expected: &dyn Fn(&Error) -> bool,
) -> (Vec<Rc<Model>>, u64) {
    let now_ms = db.clock_ms();
    let (mut fitting, mut failed) = (states.to_vec(), 0);
    let mut seen = 0u64;
    let names: Vec<_> =
        states.last().map(|model| model.keyspaces.keys().cloned().collect()).unwrap_or_default();
    for name in names {
        if !is_one {
            fitting = states.to_vec();
        }
        let Some(keyspace) = db.get_keyspace(&name) else {
            fitting.retain(|model| !model.keyspaces.contains_key(&name));
            assert!(!fitting.is_empty(), "keyspace {name} is gone");
            continue;
        };
        let all: Result<BTreeMap<_, _>, _> = keyspace.iter().and_then(Iterator::collect);
        match all {
            Ok(all) => fitting.retain(|model| {
                model.keyspaces.get(&name).is_some_and(|keyspace| keyspace.live(now_ms) == all)
            }),
            Err(error) => {
                assert!(is_expected(&error), "{error:?}");
                failed += 1;
            }
        }
        let differs = || states.last().and_then(|model| difference(db, model, now_ms));
        assert!(!fitting.is_empty(), "iterating over {name} shows what it never held: {:?}", differs());
        let keys: Vec<_> = states
            .iter()
            .filter_map(|model| model.keyspaces.get(&name))
            .next_back()
            .map(|keyspace| keyspace.items.keys().cloned().collect())
            .unwrap_or_default();
        for key in keys.iter().step_by(3) {
            seen += 1;
            match keyspace.get(key) {
                Ok(found) => fitting.retain(|model| {
                    model.keyspaces.get(&name).is_some_and(|keyspace| keyspace.get(key, now_ms) == found)
                }),
                Err(error) => {
                    assert!(is_expected(&error), "{error:?}");
                    failed += 1;
                }
            }
            assert!(
                !fitting.is_empty(),
                "a wrong value of {:?} in {name} ({seen} read)",
                String::from_utf8_lossy(key)
            );
        }
    }
    (fitting, failed)
}

/// Damages a copy of the disk and looks at it.
pub fn inflict(runner: &mut Runner, seed: u64) {
    let mut rng = Rng::new(seed);
    let disk = runner.session.disk.crash(CrashMode::Kill, 0);
    let now_ms = runner.session.now_ms();
    disk.set_now_ms(now_ms);
    let Some((file, what)) = damage(runner, &disk, &mut rng) else { return };
    runner.tally.damages += 1;
    runner.tally.flips += u64::from(what.starts_with("bit"));
    let what = format!("{what} (damage seed {seed})");
    let is_manifest = file.starts_with("MANIFEST") || file == "CURRENT";
    // What follows a damaged record that nothing proves is lost without notice; what one keyspace has in
    // tables by then is not, so each is in a state of its own.
    let of_log = file.ends_with(".wal");
    let states: Vec<_> = if of_log {
        runner.history().cloned().collect()
    } else if is_manifest {
        runner.unproven().cloned().collect()
    } else {
        runner.since().last().cloned().into_iter().collect()
    };
    let image = disk.snapshot();
    let is_damage = |error: &Error| matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Poisoned);
    let noticed;
    match runner.session.open(&disk) {
        Err(error) => {
            assert!(
                matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotAStore),
                "opening after {what}: {error:?}"
            );
            noticed = true;
        }
        Ok(db) => {
            let said = Said(format!("after {what}"));
            let (fitting, failed) = right_or_failed(&db, (&states, !of_log), &is_damage);
            let newest =
                states.last().is_some_and(|last| fitting.iter().any(|model| Rc::ptr_eq(model, last)));
            runner.tally.cut_short += u64::from(failed == 0 && !newest);
            let report = db.verify(&mut |_| {}).expect("verify reports damage");
            assert!(failed == 0 || !report.problems.is_empty(), "verify does not see {what}");
            noticed = failed > 0 || !report.problems.is_empty() || !report.notes.is_empty();
            // Background work over damage fails, or does no harm.
            for _ in 0..rng.below(6) {
                if let Err(error) = db.step() {
                    assert!(is_damage(&error), "a step after {what}: {error:?}");
                    break;
                }
            }
            right_or_failed(&db, if of_log { (&states, false) } else { (&fitting, true) }, &is_damage);
            drop(said);
        }
    }
    runner.tally.noticed += u64::from(noticed);
    if rng.one_in(3) {
        repair(runner, &image.crash(CrashMode::Kill, 0), (&what, noticed), &states);
    }
}

/// Says what was done to the disk, where a check after it panics.
struct Said(String);

impl Drop for Said {
    fn drop(&mut self) {
        if std::thread::panicking() {
            crate::hunt::add_context(&self.0);
        }
    }
}

/// Repairs the damaged store: what comes back was written at some time, and where nothing is said to be lost,
/// nothing is.
fn repair(runner: &Runner, disk: &SimDisk, (what, noticed): (&str, bool), states: &[Rc<Model>]) {
    let options = crate::harness::options();
    let report = match Db::repair_on(Arc::new(disk.clone()), DIR, "/new", &options, &mut |_| {}) {
        Ok(report) => report,
        Err(error) => {
            panic!("repair after {what}, noticed: {noticed}: {error:?}");
        }
    };
    let db = Db::open_on(Arc::new(disk.clone()), "/new", options)
        .unwrap_or_else(|error| panic!("the repaired store, after {what}: {error}"));
    for name in db.keyspaces() {
        let Some(keyspace) = db.get_keyspace(&name).filter(|keyspace| keyspace.merge_operator().is_none())
        else {
            continue;
        };
        if name.starts_with("lost+found") {
            continue;
        }
        for (key, value) in contents(&keyspace) {
            let key = (name.clone(), key);
            // Where the manifest's end is lost, a table goes where its keys fit, which may be another
            // keyspace.
            let is_placed = report.manifest.is_none();
            let mut histories =
                runner.written.iter().filter(|(of, _)| **of == key || (!is_placed && of.1 == key.1));
            let known = histories.any(|(_, values)| values.contains(&hash(&value)));
            assert!(
                known,
                "repair after {what} makes up a value of {:?} in {name}",
                String::from_utf8_lossy(&key.1)
            );
        }
    }
    if report.losses.is_empty() && report.manifest.is_none() {
        let said = Said(format!("repair after {what} says that nothing is lost"));
        right_or_failed(&db, (states, false), &|_| false);
        drop(said);
    }
}

/// Damages a file; none where there is nothing to damage, or nothing has changed. Returns the file's name and
/// what was done.
fn damage(runner: &Runner, disk: &SimDisk, rng: &mut Rng) -> Option<(String, String)> {
    let image = disk.snapshot();
    let names = image.list(DIR).ok()?;
    let names: Vec<_> = names.into_iter().filter(|name| name != "LOCK" && name != "EVENTS").collect();
    // Logs and manifests are few among many tables.
    let parts = ["", "", ".table", ".wal", "MANIFEST", ".sidecar", "CURRENT"];
    let part = *rng.pick(&parts);
    let some: Vec<_> = names.iter().filter(|name| name.contains(part)).cloned().collect();
    let name = if some.is_empty() { rng.pick(&names).clone() } else { rng.pick(&some).clone() };
    let path = format!("{DIR}/{name}");
    let bytes = image.read_file(&path).ok()?;
    if bytes.is_empty() {
        return None;
    }
    let length = bytes.len() as u64;
    let unit = if rng.one_in(2) { SECTOR_BYTES } else { PAGE_BYTES };
    let at = rng.below(length.div_ceil(unit)) * unit;
    let step = unit.min(length - at) as usize;
    let place = |bytes: &[u8], at: u64| bytes.get(at as usize..at as usize + step).map(<[u8]>::to_vec);
    let what = match rng.below(10) {
        0..4 => {
            let (at, bit) = (rng.below(length), rng.below(8) as u8);
            disk.flip_bit(&path, at, bit).ok()?;
            return Some((name.clone(), format!("bit {bit} of byte {at} of {name} flipped")));
        }
        4 => {
            let count = rng.range(1, 40).min(length);
            let at = rng.below(length - count + 1);
            let noise = rng.bytes(count as usize);
            disk.corrupt(&path, at, &noise).ok()?;
            return Some((name.clone(), format!("{count} bytes of noise at byte {at} of {name}")));
        }
        5 => {
            // A write that never reached the disk.
            let old = runner.older.read_file(&path).ok()?;
            disk.corrupt(&path, at, &place(&old, at)?).ok()?;
            format!("{step} stale bytes at byte {at} of {name}")
        }
        6 => {
            // A write that went elsewhere: from the same file, or from another.
            let from = if rng.one_in(2) { name.clone() } else { rng.pick(&names).clone() };
            let source = image.read_file(format!("{DIR}/{from}")).ok()?;
            let other = rng.below((source.len() as u64).div_ceil(unit).max(1)) * unit;
            disk.corrupt(&path, at, &place(&source, other)?).ok()?;
            format!("{step} bytes of {from} at {other} written to byte {at} of {name}")
        }
        7 => {
            disk.corrupt(&path, at, &vec![0; step]).ok()?;
            format!("{step} zeros at byte {at} of {name}")
        }
        8 => {
            let cut = rng.below(length);
            disk.write_file(&path, bytes.get(..cut as usize)?).ok()?;
            format!("{name} cut to {cut} bytes")
        }
        _ => {
            siltstone::io::Disk::remove(disk, Path::new(&path)).ok()?;
            disk.settle();
            format!("{name} removed")
        }
    };
    let is_changed = disk.read_file(&path).map_or(true, |now| now != bytes);
    is_changed.then_some((name, what))
}
