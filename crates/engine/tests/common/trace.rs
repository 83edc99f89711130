//! A recorded run of random operations, with what the store held after each.

use super::bulk::BulkLoad;
use super::conditional::Conditional;
use super::schemas::{Asked, redesign, schemas_for};
use super::*;
use siltstone::io::sim::{CallInfo, DiskImage};
use siltstone::{Batch, Durability, Snapshot, WriteOptions};
use std::time::Duration;

const VARIETY: u64 = 60;

/// Operations that were run on a simulated disk, one after the other.
pub struct Trace {
    pub seed: u64,
    pub disk: SimDisk,
    /// The disk at every call that changed it; the marker is the number of the operation under way, from 1.
    pub images: Vec<(CallInfo, DiskImage)>,
    /// What the store held after each number of operations.
    pub prints: Vec<Print>,
    /// How many operations had to survive a power cut after each number of operations.
    pub floors: Vec<usize>,
    effects: Vec<Vec<Effect>>,
    names: Vec<&'static str>,
}

impl Trace {
    /// Runs `operations` or a few more operations on keyspaces of all kinds; the same for a seed always.
    pub fn record(seed: u64, operations: u64) -> Self {
        let designs = tiny_presets();
        // Two designs a trace in turn, so that a few traces in a row have them all.
        let mut in_turn = designs.iter().cycle().skip(2 * seed as usize % designs.len()).cloned();
        let mut next = || in_turn.next();
        let keyspaces = [
            ("point", Schema::Point, next()),
            ("files", ORDERED, next()),
            ("tags", HASHED, None),
            ("lists", ORDERED, next()),
        ];
        Self::record_on(&keyspaces, seed, operations)
    }

    /// The same on these keyspaces at first, with random designs where none is given.
    pub fn record_on(keyspaces: &[(&str, Schema, Option<Design>)], seed: u64, operations: u64) -> Self {
        let disk = SimDisk::new();
        disk.set_random_seed(seed);
        disk.record_images(true);
        let mut runner = Runner {
            rng: Rng::new(seed),
            db: Some(open_traced(&disk, seed).unwrap()),
            snapshots: Vec::new(),
            model: Model::default(),
            made_for: BTreeMap::new(),
            asked_schemas: Asked::default(),
            trace: Self {
                seed,
                disk: disk.clone(),
                images: Vec::new(),
                prints: vec![Print::default()],
                floors: vec![0],
                effects: vec![Vec::new()],
                names: vec!["open"],
            },
        };
        for (name, schema, design) in keyspaces {
            runner.begin("create keyspace");
            let design = design.clone().unwrap_or_else(|| random_design(&mut runner.rng));
            runner.create(name, *schema, design);
        }
        for _ in 0..operations + runner.rng.below(1 + operations / 4) {
            runner.operation();
        }
        let Runner { mut trace, db, snapshots, .. } = runner;
        // Whatever the end has to say was covered by a close in some trace; here the machine stops.
        trace.disk.set_marker(trace.prints.len() as u64);
        let (mut images, last) = (disk.take_recorded(), disk.snapshot());
        if let Some((call, _)) = images.last() {
            let call =
                CallInfo { marker: trace.prints.len() as u64, number: call.number + 1, ..call.clone() };
            images.push((call, last));
        }
        trace.images = images;
        disk.record_images(false);
        drop((db, snapshots));
        trace
    }

    /// What operation `number` was, from 1.
    pub fn describe(&self, number: usize) -> &'static str {
        self.names.get(number).copied().unwrap_or("the end")
    }

    pub fn model_after(&self, operations: usize) -> Model {
        let mut model = Model::default();
        self.effects[..=operations].iter().flatten().for_each(|effect| model.apply(effect));
        model
    }
}

struct Runner {
    rng: Rng,
    db: Option<Db>,
    snapshots: Vec<Snapshot>,
    model: Model,
    /// The schemas that keys are made for, by keyspace: those of the beginning, which any later one fits.
    made_for: BTreeMap<String, Schema>,
    asked_schemas: Asked,
    trace: Trace,
}

impl Runner {
    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn begin(&mut self, name: &'static str) {
        self.trace.disk.set_marker(self.trace.prints.len() as u64);
        self.trace.names.push(name);
    }

    fn end(&mut self, mut effects: Vec<Effect>, is_durable: bool) {
        effects.iter().for_each(|effect| self.model.apply(effect));
        // A schema comes with all that was written before.
        let changed = self.asked_schemas.changed(self.db(), &self.model);
        changed.iter().for_each(|effect| self.model.apply(effect));
        let is_durable = is_durable || !changed.is_empty();
        effects.extend(changed);
        self.trace.effects.push(effects);
        let operations = self.trace.prints.len();
        self.trace.prints.push(self.model.print());
        let floor = if is_durable { operations } else { *self.trace.floors.last().unwrap() };
        self.trace.floors.push(floor);
    }

    fn create(&mut self, name: &str, schema: Schema, design: Design) {
        let merge_operator = merge_operator_of(name);
        let options = KeyspaceOptions { merge_operator, ..keyspace_options(schema, design) };
        self.db().keyspace(name, options).unwrap();
        self.made_for.insert(name.into(), schema);
        self.end(vec![Effect::Create { keyspace: name.into(), schema }], true);
    }

    /// Picks a keyspace, with the schema that its keys are made for.
    fn any_keyspace(&mut self) -> (Keyspace, Schema) {
        let names = self.db().keyspaces();
        let name = self.rng.pick(&names).clone();
        let keyspace = self.db().get_keyspace(&name).unwrap();
        (keyspace, self.made_for[&name])
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.rng.below(12) {
            0 => 0,
            1 => self.rng.range(5_000, 9_000),
            _ => self.rng.range(10, 400),
        };
        self.rng.value(len as usize)
    }

    /// Adds a random write to `batch`.
    fn write(&mut self, batch: &mut Batch, effects: &mut Vec<Effect>) {
        let (keyspace, schema) = self.any_keyspace();
        let (name, key) = (keyspace.name().to_owned(), key(&mut self.rng, schema, VARIETY));
        match self.rng.below(20) {
            0..4 => {
                batch.delete(&keyspace, &key).unwrap();
                effects.push(Effect::Delete { keyspace: name, key });
            }
            4..6 if keyspace.schema() != Schema::Point => {
                let prefix = prefix_by(&mut self.rng, keyspace.schema(), (schema, VARIETY));
                batch.delete_prefix(&keyspace, &prefix).unwrap();
                effects.push(Effect::DeletePrefix { keyspace: name, prefix });
            }
            6..14 if keyspace.merge_operator().is_some() => {
                let length = self.rng.below(30) as usize;
                let operand = self.rng.bytes(length);
                batch.merge(&keyspace, &key, &operand).unwrap();
                effects.push(Effect::Merge { keyspace: name, key, operand });
            }
            6..8 => {
                let (value, ttl_ms) = (self.value(), self.rng.range(1, 4000));
                batch.put_with_ttl(&keyspace, &key, &value, Duration::from_millis(ttl_ms)).unwrap();
                let expires_at_ms = siltstone::io::Disk::now_ms(&self.trace.disk) + ttl_ms;
                effects.push(Effect::Put { keyspace: name, key, value, expires_at_ms });
            }
            _ => {
                let value = self.value();
                batch.put(&keyspace, &key, &value).unwrap();
                effects.push(Effect::Put { keyspace: name, key, value, expires_at_ms: 0 });
            }
        }
    }

    /// Builds a keyspace beside another one, and replaces that by it.
    fn replace(&mut self) {
        self.begin("create keyspace to replace another");
        let (old, schema) = self.any_keyspace();
        let name = old.name().to_owned();
        let options = KeyspaceOptions {
            schema: old.schema(),
            design: Some(old.design()),
            merge_operator: old.merge_operator().map(str::to_owned),
        };
        let new = self.db().keyspace("next", options).unwrap();
        self.end(vec![Effect::Create { keyspace: "next".into(), schema: old.schema() }], true);
        self.begin("ingest into it");
        let load = BulkLoad::of(&mut self.rng, "", (schema, VARIETY), 60, 2_000)
            .without_ttls_if(old.merge_operator().is_some());
        let now_ms = siltstone::io::Disk::now_ms(&self.trace.disk);
        let effects = load.run(&new, now_ms, || Ok(())).unwrap();
        self.end(effects.clone(), true);
        self.begin("replace keyspace");
        self.db().replace(&old, new).unwrap();
        let mut all = vec![
            Effect::Drop { keyspace: "next".into() },
            Effect::Drop { keyspace: name.clone() },
            Effect::Create { keyspace: name.clone(), schema: old.schema() },
        ];
        all.extend(effects.into_iter().map(|effect| match effect {
            Effect::Put { key, value, expires_at_ms, .. } => {
                Effect::Put { keyspace: name.clone(), key, value, expires_at_ms }
            }
            other => other,
        }));
        self.end(all, true);
    }

    fn operation(&mut self) {
        match self.rng.below(100) {
            0..54 => {
                let synced = self.rng.one_in(8);
                self.begin(if synced { "synced batch" } else { "batch" });
                let (mut batch, mut effects) = (Batch::new(), Vec::new());
                let size = if self.rng.one_in(2) { 1 } else { self.rng.range(2, 10) };
                for _ in 0..size {
                    self.write(&mut batch, &mut effects);
                }
                let durability = Some(if synced { Durability::Synced } else { Durability::Buffered });
                self.db().write(&batch, &WriteOptions { durability }).unwrap();
                self.end(effects, synced);
            }
            54..60 => {
                self.begin("conditional write");
                let (keyspace, schema) = self.any_keyspace();
                let write = Conditional::any(&mut self.rng, |rng| key(rng, schema, VARIETY));
                let now_ms = siltstone::io::Disk::now_ms(&self.trace.disk);
                let model = &self.model.keyspaces[keyspace.name()];
                let effects = write.run(self.db(), &keyspace, model, now_ms).unwrap();
                self.end(effects, false);
            }
            60..66 => {
                self.begin("update");
                let (keyspace, schema) = self.any_keyspace();
                let key = key(&mut self.rng, schema, VARIETY);
                let byte = self.rng.next() as u8;
                let now_ms = siltstone::io::Disk::now_ms(&self.trace.disk);
                let model = &self.model.keyspaces[keyspace.name()];
                let old = model.get(&key, now_ms);
                let expires_at_ms = if old.is_some() { model.items[&key].1 } else { 0 };
                let change = |old: Option<&[u8]>| {
                    let mut new = old.map(<[u8]>::to_vec).unwrap_or_default();
                    new.push(byte);
                    (byte > 20).then_some(new)
                };
                let name = keyspace.name().to_owned();
                let effect = match keyspace.update(&key, change).unwrap() {
                    Some(value) => Effect::Put { keyspace: name, key, value, expires_at_ms },
                    None => Effect::Delete { keyspace: name, key },
                };
                // An update of nothing into nothing writes nothing, and an expired value stays what it is.
                let wrote = old.is_some() || byte > 20;
                self.end(if wrote { vec![effect] } else { Vec::new() }, false);
            }
            66 => {
                self.begin("compact");
                let (keyspace, _) = self.any_keyspace();
                keyspace.compact().unwrap();
                self.end(Vec::new(), false);
            }
            67 => {
                self.begin("drain");
                self.db().drain().unwrap();
                self.end(Vec::new(), true);
            }
            68..78 => {
                self.begin("step");
                self.db().step().unwrap();
                self.end(Vec::new(), false);
            }
            78..82 => {
                self.begin("flush");
                self.db().flush().unwrap();
                self.end(Vec::new(), true);
            }
            82..86 => {
                self.begin("sync");
                self.db().sync().unwrap();
                self.end(Vec::new(), true);
            }
            89 => {
                self.begin("clear keyspace");
                let (keyspace, _) = self.any_keyspace();
                let (name, schema) = (keyspace.name().to_owned(), keyspace.schema());
                keyspace.clear().unwrap();
                self.end(
                    vec![Effect::Drop { keyspace: name.clone() }, Effect::Create { keyspace: name, schema }],
                    true,
                );
            }
            86 => {
                self.begin("redesign");
                let (keyspace, _) = self.any_keyspace();
                redesign(&keyspace, &random_design(&mut self.rng)).unwrap();
                self.end(Vec::new(), false);
            }
            92 => {
                self.begin("change schema");
                let (keyspace, schema) = self.any_keyspace();
                let schema = *self.rng.pick(&schemas_for(schema));
                self.asked_schemas.change_schema(&keyspace, schema).unwrap();
                self.end(Vec::new(), false);
            }
            87..89 => {
                self.begin("snapshot");
                if self.snapshots.len() < 2 {
                    self.snapshots.push(self.db.as_ref().unwrap().snapshot());
                } else {
                    self.snapshots.remove(0);
                }
                self.end(Vec::new(), false);
            }
            90..92 => {
                // The clock moves between operations, so that an image's clock is the operation's.
                self.trace.disk.advance_ms(self.rng.clone().below(2500));
                self.begin("step after a while");
                self.db().step().unwrap();
                self.end(Vec::new(), false);
            }
            93 => {
                self.begin("checkpoint");
                let number = self.trace.prints.len();
                self.db().checkpoint(format!("/checkpoint{number}")).unwrap();
                self.end(Vec::new(), false);
            }
            94..97 => {
                let name = *self.rng.pick(&["tags", "more"]);
                let design = random_design(&mut self.rng);
                if self.model.keyspaces.contains_key(name) {
                    self.begin("drop keyspace");
                    self.db().drop_keyspace(name).unwrap();
                    self.end(vec![Effect::Drop { keyspace: name.into() }], true);
                } else {
                    self.begin("create keyspace");
                    self.create(name, HASHED, design);
                }
            }
            97 => {
                self.begin("ingest");
                let (keyspace, schema) = self.any_keyspace();
                let count = *self.rng.pick(&[1, 20, 120]);
                let load = BulkLoad::of(&mut self.rng, "", (schema, VARIETY), count, 2_000)
                    .without_ttls_if(keyspace.merge_operator().is_some());
                let now_ms = siltstone::io::Disk::now_ms(&self.trace.disk);
                let effects = load.run(&keyspace, now_ms, || Ok(())).unwrap();
                self.end(effects, true);
            }
            98 => self.replace(),
            _ => {
                self.begin("reopen");
                self.snapshots.clear();
                self.db.take().unwrap().close().unwrap();
                self.db = Some(open_traced(&self.trace.disk, self.trace.seed).unwrap());
                self.end(Vec::new(), true);
            }
        }
    }
}
