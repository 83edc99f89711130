//! Figure 9: gets beside puts while stores are converted and merged, at the paper's limits, and whether a put
//! waits for any of it.

use super::Args;
use super::store::{HASH_STORES, ITEM_BYTES, design};
use crate::clients::client::Outcome;
use crate::clients::workload::{Operation, Workload};
use crate::kit::plot::{Axis, Chart};
use crate::papers::evaluation::Results;
use crate::papers::store::Store;
use crate::program::failure::Result;
use crate::program::output::note;
use siltstone::Options;
use std::path::Path;

/// Slices in which the store is looked at.
const SLICES: u64 = 20;
/// Items a second that are converted and that are merged, at most (§6.1).
const CONVERTED_PER_SECOND: u64 = 10_000;
const MERGED_PER_SECOND: u64 = 20_000;

/// Gets alone, and in slices beside a tenth of puts.
pub fn run(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    let (items, time) = (args.items(), args.seconds() * 3 / SLICES as u32);
    note!("figure 9: gets beside a tenth of puts");
    let mut store = Store::create(&dir.join("throughput"), items, design(items, HASH_STORES))?;
    store.fill()?;
    let limits = Options {
        flush_bytes_per_second: CONVERTED_PER_SECOND * ITEM_BYTES,
        compaction_bytes_per_second: MERGED_PER_SECOND * ITEM_BYTES,
        compactions_at_once: 1,
        ..Options::default()
    };
    let mut store = store.reopened(16, limits)?;
    let alone = store.gets(Workload::ReadHit, args.seconds())?;
    let (mut points, mut all) = (Vec::new(), Outcome::new()?);
    let mut seconds = 0.0;
    for slice in 0..SLICES {
        let outcome = store.run(Workload::MixedBlind, u64::MAX, Some(time))?;
        let gets = outcome.operations as f64 * 0.9 / outcome.seconds / 1e3;
        points.push((slice as f64 * time.as_secs_f64(), gets));
        seconds += outcome.seconds;
        all.add(&outcome)?;
    }
    let stalls = store.db.stats().stalls;
    let chart = Chart::new("SILT figure 9: gets beside a tenth of puts")
        .x(Axis::linear("seconds"))
        .y(Axis::linear("thousand gets per second").from(0.0))
        .line("beside puts", points.iter().copied())
        .dashes("alone", [(0.0, alone[0]), (time.as_secs_f64() * SLICES as f64, alone[0])]);
    results.draw("figure9.svg", &chart)?;
    let mean = points.iter().map(|(_, gets)| gets).sum::<f64>() / points.len().max(1) as f64;
    let least = points.iter().map(|(_, gets)| *gets).fold(f64::INFINITY, f64::min);
    let puts = all.latencies.get(Operation::Put as usize);
    let count = puts.map_or(0, |puts| puts.len());
    let rows = vec![
        ("gets alone".to_owned(), vec![alone[0]], vec![Some(46.0)]),
        ("gets beside a tenth of puts".to_owned(), vec![mean], vec![Some(33.0)]),
        ("the same, in the worst slice".to_owned(), vec![least], Vec::new()),
        ("the puts".to_owned(), vec![count as f64 / seconds / 1e3], vec![Some(3.0)]),
    ];
    let title = "gets by 16 threads; 10,000 items a second converted at most, and 20,000 merged";
    results.add("Figure 9", title, "thousand/s", &["ours".to_owned()], &rows);
    let at = |q: f64| puts.map_or(f64::NAN, |all| all.value_at_quantile(q) as f64 / 1e6);
    let columns = ["stopped", "slowed, ms in all", "p99, ms", "p99.9, ms", "longest, ms"].map(str::to_owned);
    let row = vec![stalls.count as f64, stalls.paced_ms, at(0.99), at(0.999), at(1.0)];
    let rows = vec![(format!("{count} puts"), row, Vec::new())];
    results.add("Figure 9", "whether puts wait for conversion and merging", "as named", &columns, &rows);
    store.remove()
}
