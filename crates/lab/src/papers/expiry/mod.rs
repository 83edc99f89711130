//! `siltstone-lab expiry`: how soon the space of items is back whose time has come.
//!
//! A store is filled at a steady rate with items that all live equally long, for some of their lives; then
//! nothing more is written, and time goes on. Time is a number that the experiment sets, and background work
//! is done whenever something is due, so nothing depends on the machine. What the store's files take is set
//! beside what is live: a store that holds as many bytes as were written in the last one and a half lives
//! gives space back within half a life.

mod clock;

use super::evaluation::{Common, Results, Row};
use crate::kit::generate::mix;
use crate::kit::plot::{Axis, Chart};
use crate::program::failure::{Failure, Result, fail};
use crate::program::output::note;
use clock::ClockedDisk;
use siltstone::{Db, Design, Keyspace, KeyspaceOptions, Options};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How long an item lives, in the experiment's milliseconds.
const LIFE_MS: u64 = 1_000_000;
/// For how many lives items are written, and how many more are watched.
const WRITTEN_LIVES: u64 = 4;
const WATCHED_LIVES: u64 = 3;
/// How often a life is looked at; background work is done as often.
const LOOKS_PER_LIFE: u64 = 100;
/// Bytes of a key and of a value.
const KEY_BYTES: u64 = 16;
const VALUE_BYTES: u64 = 100;
/// The clock at the beginning.
const START_MS: u64 = 1_700_000_000_000;

/// Measure how soon the space of expired items is back
///
/// Fills a store of each preset at a steady rate with items that live equally long, stops, and watches what
/// its files take, on a clock of its own. The stores are written below --dir and removed afterwards.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone-lab expiry --quick\n  \
    siltstone-lab expiry --out ./figures --json")]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Where the SVG plot goes
    #[arg(long, value_name = "DIR", default_value = "bench-expiry")]
    out: PathBuf,
    /// Items that are live at a time [default: 200K, with --quick 20K]
    #[arg(long, value_name = "COUNT", value_parser = crate::kit::sizes::parse_positive)]
    items: Option<u64>,
    /// Only this design
    #[arg(long, value_name = "PRESET")]
    preset: Option<String>,
}

/// What a store's files took at some time, beside what was live then.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// Since the beginning, in lives of an item.
    at: f64,
    disk_bytes: u64,
    live_bytes: u64,
}

/// What was seen of one design.
struct Watched {
    looks: Vec<Look>,
    /// Bytes written into tables for each byte that was put.
    written: f64,
}

impl Watched {
    /// Looks while items are written, once the first of them have expired.
    fn steady(&self) -> impl Iterator<Item = &Look> {
        self.looks.iter().filter(|look| look.at > 1.5 && look.at <= WRITTEN_LIVES as f64)
    }

    /// What the files take, in multiples of what is live, while items are written.
    fn multiples(&self) -> Vec<f64> {
        self.steady().map(|look| look.disk_bytes as f64 / look.live_bytes.max(1) as f64).collect()
    }

    /// When the files took no more than this part of what was live when writing ended: in lives after the
    /// last item's time had come. `None` where they never did.
    fn back_after(&self, part: f64) -> Option<f64> {
        let end = WRITTEN_LIVES as f64;
        let full = self.steady().last()?.live_bytes as f64 * part;
        let late = self.looks.iter().rposition(|look| look.at > end && look.disk_bytes as f64 > full);
        let back = match late {
            Some(late) => self.looks.get(late + 1)?.at,
            None => end,
        };
        Some((back - end - 1.0).max(0.0))
    }
}

/// Bytes of a store's files.
fn disk_bytes(dir: &Path) -> Result<u64> {
    let entries = std::fs::read_dir(dir).map_err(|e| Failure::at(dir, e))?;
    Ok(entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum())
}

/// Puts items `range`, each when its time has come.
fn put(disk: &ClockedDisk, keyspace: &Keyspace, range: std::ops::Range<u64>, per_life: u64) -> Result<()> {
    let mut value = [0; VALUE_BYTES as usize];
    for number in range {
        let now_ms = START_MS + number * LIFE_MS / per_life;
        disk.set_now_ms(now_ms);
        for (at, part) in value.chunks_mut(8).enumerate() {
            let noise = mix(number * VALUE_BYTES + at as u64).to_le_bytes();
            part.copy_from_slice(noise.get(..part.len()).unwrap_or(&[]));
        }
        let key = [mix(number).to_be_bytes(), number.to_be_bytes()].concat();
        keyspace.put_with_ttl(key, value, std::time::Duration::from_millis(LIFE_MS))?;
    }
    Ok(())
}

/// Fills a store of `design` and watches it.
fn watch(dir: &Path, design: Design, per_life: u64) -> Result<Watched> {
    let disk = ClockedDisk::new(START_MS);
    let options = Options { background_threads: 0, sync_interval_ms: 0, ..Options::default() };
    let db = Db::open_on(Arc::new(disk.clone()), dir, options)?;
    let design = Some(design);
    let keyspace = db.create_keyspace("items", KeyspaceOptions { design, ..KeyspaceOptions::default() })?;
    let mut looks = Vec::new();
    let puts_at = |look: u64| (look.min(WRITTEN_LIVES * LOOKS_PER_LIFE)) * per_life / LOOKS_PER_LIFE;
    for look in 1..=(WRITTEN_LIVES + WATCHED_LIVES) * LOOKS_PER_LIFE {
        put(&disk, &keyspace, puts_at(look - 1)..puts_at(look), per_life)?;
        disk.set_now_ms(START_MS + look * LIFE_MS / LOOKS_PER_LIFE);
        while db.step()? {}
        let live = puts_at(look) - puts_at(look.saturating_sub(LOOKS_PER_LIFE));
        looks.push(Look {
            at: look as f64 / LOOKS_PER_LIFE as f64,
            disk_bytes: disk_bytes(dir)?,
            live_bytes: live * (KEY_BYTES + VALUE_BYTES),
        });
    }
    let put_bytes = puts_at(u64::MAX) * (KEY_BYTES + VALUE_BYTES);
    let written = keyspace.stats().levels.iter().map(|level| level.bytes_written).sum::<u64>();
    drop(keyspace);
    db.close()?;
    std::fs::remove_dir_all(dir).map_err(|e| Failure::at(dir, e))?;
    Ok(Watched { looks, written: written as f64 / put_bytes.max(1) as f64 })
}

/// The presets, with tables so small that what is live fills several levels.
fn designs(only: Option<&str>, live_bytes: u64) -> Result<Vec<(&'static str, Design)>> {
    let all = siltstone::presets::all().into_iter().filter(|(name, _)| only.is_none_or(|only| only == *name));
    let designs: Vec<_> = all.map(|(name, design)| (name, design.scaled_to(live_bytes / 100))).collect();
    if designs.is_empty() {
        fail!("there is no preset {}", only.unwrap_or_default());
    }
    Ok(designs)
}

const FIGURES: [&str; 5] = [
    "bytes held per live byte, mean",
    "  at most",
    "half is back after, lives past the last item's time",
    "  nine tenths",
    "table bytes written per byte put",
];

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let per_life = args.items.unwrap_or(args.common.scale(20_000, 200_000)).max(LOOKS_PER_LIFE);
    let live_bytes = per_life * (KEY_BYTES + VALUE_BYTES);
    let designs = designs(args.preset.as_deref(), live_bytes)?;
    let scratch = args.common.scratch("expiry")?.with_room_for(10 * live_bytes)?;
    let mut results = Results::new(&args.out, &args.common)?;
    let mut rows: Vec<Row> = FIGURES.map(|name| (name.to_owned(), Vec::new(), Vec::new())).to_vec();
    let mut columns = Vec::new();
    let mut chart = Chart::new("Space of items that expire")
        .x(Axis::linear("time, in lives of an item").from(0.0))
        .y(Axis::linear("bytes held, as a multiple of what is live").from(0.0))
        .note("items are written at a steady rate for four lives; dashes: what is live");
    for (at, (name, design)) in designs.into_iter().enumerate() {
        note!("{name}");
        let watched = watch(&scratch.path().join(name), design, per_life)?;
        let multiples = watched.multiples();
        let mean = multiples.iter().sum::<f64>() / multiples.len().max(1) as f64;
        let most = multiples.iter().copied().fold(0.0, f64::max);
        let back = |part| watched.back_after(part).unwrap_or(f64::INFINITY);
        for (row, value) in rows.iter_mut().zip([mean, most, back(0.5), back(0.1), watched.written]) {
            row.1.push(value);
        }
        columns.push(name.to_owned());
        let multiple = |bytes: u64| bytes as f64 / live_bytes as f64;
        if at == 0 {
            chart =
                chart.dashes("live", watched.looks.iter().map(|look| (look.at, multiple(look.live_bytes))));
        }
        chart = chart.line(name, watched.looks.iter().map(|look| (look.at, multiple(look.disk_bytes))));
    }
    results.draw("expiry.svg", &chart)?;
    results.add("Expiry", "space of items that all live equally long", "as named", &columns, &rows);
    results.print(args.common.json)
}
