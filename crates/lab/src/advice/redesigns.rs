//! Redesigns under load: from every preset to every other, and from one schema to another, while a client
//! reads and writes, and how long the longest call took.
//!
//! Every answer is checked. What a call waits for by the engine's own count (stalls and pacing) says what the
//! store is to be blamed for on any machine; the time of the longest call does so only on a quiet one.

use super::stage::{Contents, Stage, directory};
use crate::kit::sizes;
use crate::kit::table::Table;
use crate::program::failure::Result;
use crate::program::output::{note, print};
use siltstone::{Design, Keyspace, KeyspaceStats, Options, PrefixRule, Schema, presets};
use std::path::PathBuf;
use std::time::Duration;

/// Flushes that a fill has, about.
const FLUSHES: u64 = 64;
/// Operations between looks at how far a redesign is, and the most of one redesign.
const AT_ONCE: u64 = 2000;
const MOST_LOOKS: u64 = 1000;
/// Hits, misses, scans, puts.
const POINT_MIX: [f64; 4] = [0.4, 0.2, 0.0, 0.4];
const GROUP_MIX: [f64; 4] = [0.4, 0.19, 0.02, 0.39];
/// Calls that took longer are counted.
const LONG: Duration = Duration::from_millis(50);

/// Redesign a store from every preset to every other under load, and count long calls
///
/// A store is filled for each pair, and read and written until its redesign is done: 42 pairs with point
/// keys, 20 with groups, and three changes of schema. Every answer is checked; a wrong one ends the command.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone-lab redesigns\n  \
    siltstone-lab redesigns --items 1M --only silt")]
pub struct Args {
    /// Items of a store
    #[arg(long, value_name = "COUNT", default_value = "200k", value_parser = sizes::parse_positive)]
    items: u64,
    /// Where stores are written, one at a time [default: the system's temporary directory]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Only redesigns from this preset, or changes of "schema"
    #[arg(long, value_name = "PRESET")]
    only: Option<String>,
}

/// What one redesign was like.
struct Seen {
    calls: u64,
    long: u64,
    longest: Duration,
    stalls: u64,
    longest_stall_ms: f64,
    is_done: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let mut table = Table::new([
        "keys",
        "from",
        "to",
        "calls",
        "longest, ms",
        "over 50 ms",
        "stalls",
        "longest, ms",
        "done under load",
    ])
    .left(3);
    let (mut pairs, mut long, mut stalls) = (0, 0, 0);
    let mut note = |keys: &str, from: &str, to: &str, seen: Seen| {
        pairs += 1;
        long += seen.long;
        stalls += u64::from(seen.longest_stall_ms > LONG.as_secs_f64() * 1e3);
        table.row([
            keys.to_owned(),
            from.to_owned(),
            to.to_owned(),
            seen.calls.to_string(),
            format!("{:.1}", seen.longest.as_secs_f64() * 1e3),
            seen.long.to_string(),
            seen.stalls.to_string(),
            format!("{:.1}", seen.longest_stall_ms),
            if seen.is_done { "yes" } else { "no" }.to_owned(),
        ]);
    };
    let is_wanted = |name: &str| args.only.as_ref().is_none_or(|only| only == name);
    for (keys, group) in [("point", 1), ("groups", 64)] {
        let contents = Contents { items: args.items, key_bytes: 16, value_bytes: 100, group };
        let designs = designs(&contents);
        for (from, before) in &designs {
            for (to, after) in designs.iter().filter(|(to, _)| to != from) {
                if !is_wanted(from) {
                    continue;
                }
                note!("{keys}: {from} to {to}");
                let begin = |keyspace: &Keyspace| keyspace.redesign(after.clone());
                let is_done =
                    |stats: &KeyspaceStats| stats.redesign.as_ref().is_some_and(|made| made.done >= 1.0);
                let mix = if group > 1 { GROUP_MIX } else { POINT_MIX };
                note(keys, from, to, change(args, contents, (before, mix), begin, is_done)?);
            }
        }
    }
    for (group, from, to, schema, mix) in schemas().into_iter().filter(|_| is_wanted("schema")) {
        note!("schema: {from} to {to}");
        let contents = Contents { items: args.items, key_bytes: 16, value_bytes: 100, group };
        let begin = |keyspace: &Keyspace| keyspace.change_schema(schema, None);
        let is_done = |stats: &KeyspaceStats| stats.schema == schema;
        let design = presets::siltstone().scaled_to(table_bytes(&contents));
        note("schema", from, to, change(args, contents, (&design, mix), begin, is_done)?);
    }
    print(&format!(
        "{table}{pairs} changes, no wrong answer; {long} calls took more than 50 ms; \
         {stalls} changes in which the store made a writer wait for more than 50 ms\n"
    ))
}

/// Changes of schema: items of a group, from what to what, and a mix that both can do.
fn schemas() -> [(u64, &'static str, &'static str, Schema, [f64; 4]); 3] {
    let ordered = Schema::ordered(PrefixRule::Fixed { bytes: 8 });
    [
        (1, "point", "ordered", ordered, POINT_MIX),
        (64, "ordered", "point", Schema::Point, POINT_MIX),
        (64, "ordered", "hashed", ordered.hashed(), GROUP_MIX),
    ]
}

fn table_bytes(contents: &Contents) -> u64 {
    (contents.bytes() / FLUSHES).next_power_of_two() / 2
}

/// The presets that suit the keys, with tables for a store of this size.
fn designs(contents: &Contents) -> Vec<(&'static str, Design)> {
    let table_bytes = table_bytes(contents);
    let suits = |name: &str| contents.group == 1 || !matches!(name, "silt" | "lsm-trie");
    let usable = presets::all().into_iter().filter(|(name, _)| suits(name));
    usable.map(|(name, design)| (name, design.scaled_to(table_bytes))).collect()
}

/// Fills a store, has a change begin, and works by a mix until it is done.
fn change(
    args: &Args,
    contents: Contents,
    (before, mix): (&Design, [f64; 4]),
    begin: impl FnOnce(&Keyspace) -> siltstone::Result<()>,
    is_done: impl Fn(&KeyspaceStats) -> bool,
) -> Result<Seen> {
    let options = Options { memory_budget_bytes: contents.bytes() / 2, ..Options::default() };
    let mut stage = Stage::new(&directory(args.dir.as_ref(), "redesigns"), Some(before), contents, options)?;
    stage.fill(true)?;
    let stalls_before = stage.db.stats().stalls;
    begin(&stage.keyspace)?;
    let mut seen =
        Seen { calls: 0, long: 0, longest: Duration::ZERO, stalls: 0, longest_stall_ms: 0.0, is_done: false };
    for _ in 0..MOST_LOOKS {
        let (long, longest) = stage.work_timed(mix, AT_ONCE, LONG)?;
        seen.calls += AT_ONCE;
        seen.long += long;
        seen.longest = seen.longest.max(longest);
        seen.is_done = is_done(&stage.keyspace.stats());
        if seen.is_done {
            break;
        }
    }
    let stalls = stage.db.stats().stalls;
    seen.stalls = stalls.count - stalls_before.count;
    // The longest of the store's life, which begins with a fill that waits for merges by itself.
    seen.longest_stall_ms = if seen.stalls > 0 { stalls.max_ms } else { 0.0 };
    stage.keyspace.wait_for_schema()?;
    stage.settle()?;
    stage.check_all()?;
    Ok(seen)
}
