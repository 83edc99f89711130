//! What writers in threads do, what they were told, and what a reader must then find.
//!
//! What a writer does follows from the seed, its number and how much it has done, so that the whole of it is
//! known from how far it came. Every write carries that number under a key of the writer's own. So whoever
//! reads one moment learns how far each writer had come then, and knows every value that there must be:
//! writers' keys, and sums that all of them add to by merges and by transactions.

use crate::harness::{Rng, hash};
use siltstone::io::sim::SimDisk;
use siltstone::{Batch, Db, Durability, Keyspace, Result, Snapshot, WriteOptions};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Keys of each writer.
const KEYS: u64 = 5;
/// How far writers have come, as they were told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Writes that were begun,
    pub begun: u64,
    /// that were acknowledged,
    pub done: u64,
    /// and that were acknowledged as synced.
    pub synced: u64,
}

/// The keyspaces that all of a world's threads use.
#[derive(Clone)]
pub struct Spaces {
    pub items: Keyspace,
    /// Takes merges that add.
    pub sums: Keyspace,
}

/// What the writers of one world were told, moment by moment.
pub struct History {
    seed: u64,
    disk: SimDisk,
    /// By moment, and within it by writer. No thread waits while this is locked.
    moments: Mutex<Vec<Vec<Bounds>>>,
}

/// A write, as the seed has it.
struct Plan {
    puts: Vec<(u64, Vec<u8>)>,
    delete: Option<u64>,
    add: u64,
    is_transaction: bool,
    durability: Durability,
}

fn own_key(writer: u64, n: u64) -> Vec<u8> {
    format!("{writer}/{n}").into_bytes()
}

fn progress_key(writer: u64) -> Vec<u8> {
    format!("{writer}/done").into_bytes()
}

const TURNS: &[u8] = b"turns";
const TOTAL: &[u8] = b"total";

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value[..8].try_into().unwrap()))
}

impl History {
    pub fn new(seed: u64, writers: u64, disk: &SimDisk) -> Self {
        let moments = Mutex::new(vec![vec![Bounds::default(); writers as usize]]);
        Self { seed, disk: disk.clone(), moments }
    }

    /// What the writers know now.
    pub fn now(&self) -> Vec<Bounds> {
        self.moments.lock().unwrap().last().unwrap().clone()
    }

    /// What they knew at a call to the disk, by its marker.
    pub fn at(&self, marker: u64) -> Vec<Bounds> {
        self.moments.lock().unwrap()[marker as usize].clone()
    }

    fn note(&self, writer: u64, change: impl FnOnce(&mut Bounds)) {
        let mut moments = self.moments.lock().unwrap();
        let mut now = moments.last().unwrap().clone();
        change(&mut now[writer as usize]);
        moments.push(now);
        self.disk.set_marker(moments.len() as u64 - 1);
    }

    fn plan(&self, writer: u64, write: u64) -> Plan {
        let mut rng = Rng::new(hash(&(self.seed, writer, write)));
        let puts = rng.range(0, 2);
        let value = |rng: &mut Rng| {
            let length = if rng.one_in(4) { rng.range(8, 60) } else { rng.range(300, 1400) };
            let mut value = write.to_le_bytes().to_vec();
            value.extend(rng.bytes(length as usize));
            value
        };
        Plan {
            puts: (0..puts).map(|_| (rng.below(KEYS), value(&mut rng))).collect(),
            delete: rng.one_in(4).then(|| rng.below(KEYS)),
            add: rng.range(1, 9),
            is_transaction: rng.one_in(3),
            durability: if rng.one_in(4) { Durability::Synced } else { Durability::Buffered },
        }
    }

    /// Does the next write of a writer.
    pub fn write(&self, db: &Db, spaces: &Spaces, writer: u64) -> Result<()> {
        let write = self.now()[writer as usize].begun + 1;
        let plan = self.plan(writer, write);
        let options = WriteOptions { durability: Some(plan.durability) };
        self.note(writer, |bounds| bounds.begun = write);
        let done = write.to_le_bytes();
        let Spaces { items, sums } = spaces;
        if plan.is_transaction {
            db.transaction(&options, |tx| {
                let turns = number(tx.get(items, TURNS)?) + 1;
                for (n, value) in &plan.puts {
                    tx.put(items, own_key(writer, *n), value)?;
                }
                tx.put(items, TURNS, turns.to_le_bytes())?;
                tx.put(items, progress_key(writer), done)
            })?;
        } else {
            let mut batch = Batch::new();
            for (n, value) in &plan.puts {
                batch.put(items, own_key(writer, *n), value)?;
            }
            if let Some(n) = plan.delete {
                batch.delete(items, own_key(writer, n))?;
            }
            batch.merge(sums, TOTAL, plan.add.to_le_bytes())?;
            batch.put(items, progress_key(writer), done)?;
            db.write(&batch, &options)?;
        }
        let is_synced = plan.durability == Durability::Synced;
        self.note(writer, |bounds| {
            bounds.done = write;
            bounds.synced = if is_synced { write } else { bounds.synced };
        });
        Ok(())
    }

    /// Notes that all writes that are done now are synced, as `before` says.
    pub fn note_synced(&self, before: &[Bounds]) {
        for (writer, bounds) in before.iter().enumerate() {
            self.note(writer as u64, |now| now.synced = now.synced.max(bounds.done));
        }
    }

    /// Looks how far a writer has come, which is no less than it was told before and no more than it began.
    pub fn look(&self, spaces: &Spaces, writer: u64) -> Result<()> {
        let least = self.now()[writer as usize].done;
        let found = number(spaces.items.get(progress_key(writer))?);
        let most = self.now()[writer as usize].begun;
        assert!((least..=most).contains(&found), "writer {writer}: {found}, and not {least} to {most}");
        Ok(())
    }

    /// Reads everything at one moment, compares it, and returns how far the writers had come by then.
    pub fn check(&self, snapshot: &Snapshot, spaces: &Spaces) -> Result<Vec<u64>> {
        let Spaces { items, sums } = spaces;
        let writers = self.now().len() as u64;
        let (mut came, mut total, mut turns) = (Vec::new(), 0, 0);
        let mut expected = BTreeMap::new();
        for writer in 0..writers {
            let done = number(snapshot.get(items, progress_key(writer))?);
            came.push(done);
            if done > 0 {
                expected.insert(progress_key(writer), done.to_le_bytes().to_vec());
            }
            for write in 1..=done {
                let plan = self.plan(writer, write);
                let puts = plan.puts.into_iter().map(|(n, value)| (own_key(writer, n), value));
                expected.extend(puts);
                if plan.is_transaction {
                    turns += 1;
                } else {
                    total += plan.add;
                    plan.delete.map(|n| expected.remove(&own_key(writer, n)));
                }
            }
            for n in 0..KEYS {
                let key = own_key(writer, n);
                let found = snapshot.get(items, &key)?;
                assert!(
                    found.as_ref() == expected.get(&key),
                    "writer {writer} at {done}: key {n} is another"
                );
            }
        }
        assert_eq!(number(snapshot.get(sums, TOTAL)?), total, "the sum of merges at {came:?}");
        assert_eq!(number(snapshot.get(items, TURNS)?), turns, "the count of transactions at {came:?}");
        if turns > 0 {
            expected.insert(TURNS.to_vec(), turns.to_le_bytes().to_vec());
        }
        let scanned = snapshot.iter(items)?.collect::<Result<BTreeMap<_, _>>>()?;
        assert!(scanned == expected, "a scan at {came:?} finds other items than gets");
        Ok(came)
    }
}
