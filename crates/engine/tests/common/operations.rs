//! Random operations as values, so that the same ones can be run on many stores.

use super::bulk::BulkLoad;
use super::conditional::Conditional;
use super::schemas::schemas_for;
use super::*;

/// The keyspaces of a session.
pub const KEYSPACES: [(&str, Schema); 10] = [
    ("point", Schema::Point),
    ("files", ORDERED),
    ("tags", HASHED),
    ("whole", WHOLE),
    ("long", LONG),
    ("paths", PATHS),
    ("windows", WINDOWS),
    ("joins", JOINS),
    ("lists", ORDERED),
    ("nests", Schema::Point),
];

/// Prefixes end with the second slash.
const LONG: Schema = Schema::SemiSorted {
    prefix: PrefixRule::Delimiter { byte: b'/', count: 2 },
    suffix: SuffixOrder::Ordered,
};

/// Prefixes are the directories of paths.
const PATHS: Schema =
    Schema::SemiSorted { prefix: PrefixRule::LastDelimiter { byte: b'/' }, suffix: SuffixOrder::Ordered };

/// Suffixes are the last three bytes.
const WINDOWS: Schema =
    Schema::SemiSorted { prefix: PrefixRule::AllButLast { bytes: 3 }, suffix: SuffixOrder::Ordered };

/// Prefixes begin with their length.
const JOINS: Schema =
    Schema::SemiSorted { prefix: PrefixRule::LengthPrefixed { width: 1 }, suffix: SuffixOrder::Hashed };

/// One operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// A batch; expiry times are relative to the moment it is written.
    Write {
        effects: Vec<Effect>,
        synced: bool,
    },
    Update {
        keyspace: &'static str,
        key: Vec<u8>,
        byte: u8,
    },
    Conditional {
        keyspace: &'static str,
        write: Conditional,
    },
    /// A bulk build, with writes to its keyspaces in the middle of it.
    Ingest(BulkLoad),
    Clear {
        keyspace: &'static str,
    },
    /// A keyspace is built anew of what it holds, in its own order, and replaced by that.
    Rebuild {
        keyspace: &'static str,
    },
    /// The keyspace gets another design.
    Redesign {
        keyspace: &'static str,
        design: Design,
    },
    /// The keyspace is asked to get another schema; where this `waits`, it has it at the end.
    ChangeSchema {
        keyspace: &'static str,
        schema: Schema,
        waits: bool,
    },
    Step,
    StepAll,
    Flush,
    /// All garbage of a keyspace is cleared away.
    Compact {
        keyspace: &'static str,
    },
    Drain,
    Sync,
    Reopen,
    Kill,
    TakeSnapshot,
    DropSnapshot,
    Wait {
        ms: u64,
    },
    /// Somebody sets the system's clock back.
    SetBack {
        ms: u64,
    },
    Check {
        seed: u64,
    },
}

/// What random operations are made of.
#[derive(Clone, Copy)]
pub struct Mix {
    /// Different keys per keyspace.
    pub variety: u64,
    /// One value in so many takes overflow pages.
    pub large_one_in: u64,
    pub largest_value: u64,
    /// One key in so many is longer than a page.
    pub big_key_one_in: u64,
}

pub const SMALL: Mix = Mix { variety: 80, large_one_in: 30, largest_value: 9_000, big_key_one_in: 200 };
pub const LARGE: Mix = Mix { variety: 30, large_one_in: 4, largest_value: 100_000, big_key_one_in: 6 };

fn any_key(rng: &mut Rng, schema: Schema, mix: &Mix) -> Vec<u8> {
    let mut key = key(rng, schema, mix.variety);
    if rng.one_in(mix.big_key_one_in) {
        // The length follows from the key, so that big keys come again too.
        let lengths = [4_000, 4_040, 4_088, 5_000, 20_000, 65_535];
        let length = lengths[(hash(&key) % 6) as usize];
        let fill = (hash(&key) % 2) as u8 + b'x';
        key.resize(length, fill);
    }
    key
}

fn any_value(rng: &mut Rng, mix: &Mix) -> Vec<u8> {
    let len = match rng.below(mix.large_one_in * 2) {
        0 | 1 => rng.range(4_000, mix.largest_value),
        2 => 0,
        _ => rng.range(1, 300),
    };
    rng.value(len as usize)
}

pub fn any_effect(rng: &mut Rng, mix: &Mix) -> Effect {
    let &(keyspace, schema) = rng.pick(&KEYSPACES);
    let keyspace = keyspace.to_owned();
    let key = any_key(rng, schema, mix);
    let merges = merge_operator_of(&keyspace).is_some();
    match rng.below(20) {
        5..15 if merges => {
            let length = rng.below(40) as usize;
            Effect::Merge { keyspace, key, operand: rng.bytes(length) }
        }
        0..4 => Effect::Delete { keyspace, key },
        4 if schema != Schema::Point => {
            Effect::DeletePrefix { keyspace, prefix: prefix(rng, schema, mix.variety) }
        }
        5..7 => {
            let value = any_value(rng, mix);
            Effect::Put { keyspace, key, value, expires_at_ms: rng.range(1, 5000) }
        }
        _ => Effect::Put { keyspace, key, value: any_value(rng, mix), expires_at_ms: 0 },
    }
}

/// `count` random operations.
pub fn operations(rng: &mut Rng, count: usize, mix: &Mix) -> Vec<Op> {
    let mut ops = Vec::with_capacity(count);
    for _ in 0..count {
        ops.push(match rng.below(100) {
            0..46 => {
                let size = if rng.one_in(2) { 1 } else { rng.range(2, 12) };
                let mut effects = Vec::new();
                for _ in 0..size {
                    effects.push(any_effect(rng, mix));
                }
                Op::Write { effects, synced: rng.one_in(10) }
            }
            46..52 => {
                let &(keyspace, schema) = rng.pick(&KEYSPACES);
                Op::Conditional { keyspace, write: Conditional::any(rng, |rng| any_key(rng, schema, mix)) }
            }
            52..58 => {
                let &(keyspace, schema) = rng.pick(&KEYSPACES);
                Op::Update { keyspace, key: any_key(rng, schema, mix), byte: rng.next() as u8 }
            }
            58..72 => Op::Step,
            72 => Op::StepAll,
            73..75 => Op::Flush,
            75..77 => Op::Sync,
            77..79 => Op::Reopen,
            79..82 => Op::Kill,
            82..85 => Op::TakeSnapshot,
            85..87 => Op::DropSnapshot,
            90..93 => Op::Ingest(BulkLoad::any(rng, mix)),
            94 => Op::Clear { keyspace: rng.pick(&KEYSPACES).0 },
            93 => Op::Rebuild { keyspace: rng.pick(&KEYSPACES).0 },
            95 => {
                let &(keyspace, schema) = rng.pick(&KEYSPACES);
                Op::Redesign { keyspace, design: fitting(random_design(rng), schema) }
            }
            98 => {
                // One draw, as for a check.
                let rng = &mut Rng::new(rng.next());
                let &(keyspace, schema) = rng.pick(&KEYSPACES);
                let schema = *rng.pick(&schemas_for(schema));
                Op::ChangeSchema { keyspace, schema, waits: rng.one_in(3) }
            }
            96 => Op::Compact { keyspace: rng.pick(&KEYSPACES).0 },
            97 => Op::Drain,
            87..89 => Op::Wait { ms: rng.below(4000) },
            89 => Op::SetBack { ms: rng.below(4000) },
            _ => Op::Check { seed: rng.next() },
        });
    }
    ops.push(Op::Check { seed: 0 });
    ops
}
