//! Buckets that overflow: how full pages can get, and how many items move, with the paper's greedy pairing
//! and with ours.

use crate::kit::plot::{Axis, Chart};
use crate::papers::evaluation::Results;
use crate::program::failure::Result;
use crate::program::output::note;
use siltstone_succinct::buckets::greedy;
use siltstone_succinct::buckets::migration::{Item, Migration, Page};

/// What a page of 4 KiB has for entries.
const PAGE: Page = Page { capacity: 4087, note_bytes: 4 };
const FILLS: [f64; 5] = [0.90, 0.935, 0.95, 0.96, 0.97];
/// Buckets of the paper's table, and of a segment of ours.
const PAPERS_BUCKETS: u32 = 8191;
const OUR_BUCKETS: u32 = 256;

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// 119 bytes, an item's with its header.
fn fixed(_: u64) -> u32 {
    119
}

/// 30 to 2048 bytes, most of them small.
fn lognormal(random: u64) -> u32 {
    let normal: f64 = (0..8).map(|part| f64::from((random >> (part * 8)) as u8) / 255.0 - 0.5).sum::<f64>();
    (150.0 * (normal * 1.22).exp()).clamp(30.0, 2048.0) as u32
}

/// Random items that fill `fill` of the pages of `buckets` buckets.
fn items(buckets: u32, fill: f64, size: fn(u64) -> u32) -> Vec<Item> {
    let (mut state, mut items) = (1, Vec::new());
    let mut left = (f64::from(buckets) * 4096.0 * fill) as i64;
    loop {
        let bytes = size(random(&mut state));
        left -= i64::from(bytes);
        if left < 0 {
            break;
        }
        let bucket = ((u64::from(buckets) * (random(&mut state) >> 32)) >> 32) as u32;
        items.push(Item { bucket, order: (random(&mut state) >> 32) as u32, bytes });
    }
    items.sort_by_key(|item| item.bucket);
    items
}

pub fn run(results: &mut Results) -> Result<()> {
    note!("buckets that overflow");
    let columns = FILLS.map(|fill| format!("{:.1} % full", fill * 100.0));
    let (mut rows, mut steps) = (Vec::new(), Vec::new());
    type Size = fn(u64) -> u32;
    let sizes: [(&str, Size); 2] = [("119 bytes", fixed), ("lognormal", lognormal)];
    for (name, size) in sizes {
        let (mut greedy_moves, mut planned, mut greedy_steps, mut planned_steps) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for fill in FILLS {
            let all = items(PAPERS_BUCKETS, fill, size);
            let outcome = greedy::migrate(&all, PAPERS_BUCKETS, PAGE);
            let share = |moved: u64, of: usize| 100.0 * moved as f64 / of as f64;
            greedy_moves.push(if outcome.fits { share(outcome.moved, all.len()) } else { f64::NAN });
            greedy_steps.push(if outcome.fits { f64::from(outcome.most_steps) } else { f64::NAN });
            let all = items(OUR_BUCKETS, fill, size);
            let plan = Migration::plan(&all, OUR_BUCKETS, PAGE);
            planned.push(plan.as_ref().map_or(f64::NAN, |plan| share(plan.moved(), all.len())));
            planned_steps.push(if plan.is_some() { 1.0 } else { f64::NAN });
        }
        rows.push((format!("{name}, greedy"), greedy_moves, Vec::new()));
        rows.push((format!("{name}, planned"), planned, Vec::new()));
        steps.push((format!("{name}, greedy"), greedy_steps, Vec::new()));
        steps.push((format!("{name}, planned"), planned_steps, Vec::new()));
    }
    let mut chart = Chart::new("LSM-trie: items that leave their buckets")
        .x(Axis::linear("per cent of the pages filled"))
        .y(Axis::linear("per cent of the items"));
    for (name, row, _) in &rows {
        let points = FILLS.iter().map(|fill| fill * 100.0).zip(row.iter().copied());
        chart = chart.line(name, points.filter(|(_, share)| share.is_finite()));
    }
    results.draw("migration.svg", &chart)?;
    results.add("HTable", "items that move; NaN where a table can't be made so full", "%", &columns, &rows);
    results.add("HTable", "steps to the farthest item", "steps", &columns, &steps);
    Ok(())
}
