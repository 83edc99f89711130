//! Tables 6 and 7, Figure 11: stores of one kind each.

use super::Args;
use super::store::{HASH_STORES, design, head_items};
use crate::clients::workload::Workload;
use crate::kit::plot::{Axis, Chart};
use crate::papers::evaluation::{Results, Row};
use crate::papers::store::Store;
use crate::program::failure::Result;
use crate::program::output::note;
use siltstone::Options;
use std::path::Path;
use std::time::Instant;

/// Conversions after which every part is due to be merged, those that are late for their first time too.
const CONVERSIONS: u64 = 44;

/// What was measured of stores of one kind.
struct Kind {
    name: &'static str,
    /// Thousand items a second that were made into them.
    built: f64,
    hit: [f64; 5],
    miss: [f64; 5],
    /// The paper's: thousand a second built, got, missed; milliseconds a get.
    paper: [Option<f64>; 4],
}

/// Measures and shows the three kinds.
pub fn run(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    show(&measured(args, dir)?, results)
}

/// One store is taken through the three kinds, each step by itself and timed.
fn measured(args: &Args, dir: &Path) -> Result<Vec<Kind>> {
    let (items, time) = (args.items(), args.seconds());
    let design = design(items, HASH_STORES);
    // One item less than what seals a log store.
    let each = head_items(&design) - 1;
    let options = Options { background_threads: 0, ..Options::default() };
    let mut store = Store::create_with(&dir.join("kinds"), items, design, options)?;
    let ask = |store: &mut Store| -> Result<[[f64; 5]; 2]> {
        Ok([store.gets(Workload::ReadHit, time)?, store.gets(Workload::ReadMiss, time)?])
    };
    let rate = |items: u64, seconds: f64| items as f64 / seconds / 1e3;

    note!("tables 6 and 7: {each} items in a log store");
    let outcome = store.run(Workload::Fill, each, None)?;
    // What is synced is read from the device.
    store.db.sync()?;
    let [hit, miss] = ask(&mut store)?;
    let built = outcome.operations as f64 / outcome.seconds / 1e3;
    let paper = [Some(204.6), Some(46.79), Some(7086.0), Some(0.309)];
    let mut kinds = vec![Kind { name: "log store", built, hit, miss, paper }];

    note!("tables 6 and 7: {CONVERSIONS} log stores of {each} items become hash stores");
    let mut seconds = 0.0;
    for number in 0..CONVERSIONS {
        if number > 0 {
            store.run(Workload::Fill, each, None)?;
        }
        let started = Instant::now();
        store.db.flush()?;
        seconds += started.elapsed().as_secs_f64();
    }
    let [hit, miss] = ask(&mut store)?;
    let (built, paper) =
        (rate(store.filled.existing, seconds), [Some(67.96), Some(44.93), Some(7264.0), None]);
    kinds.push(Kind { name: "hash stores", built, hit, miss, paper });

    note!("tables 6 and 7: the hash stores are merged");
    let started = Instant::now();
    while store.db.step()? {}
    let built = rate(store.filled.existing, started.elapsed().as_secs_f64());
    let [hit, miss] = ask(&mut store)?;
    kinds.push(Kind {
        name: "sorted stores",
        built,
        hit,
        miss,
        paper: [Some(26.76), Some(46.57), Some(46.61), None],
    });
    store.remove()?;
    Ok(kinds)
}

fn show(kinds: &[Kind], results: &mut Results) -> Result<()> {
    let rows = |ours: fn(&Kind) -> Vec<f64>, paper: fn(&Kind) -> Vec<Option<f64>>| -> Vec<Row> {
        kinds.iter().map(|kind| (kind.name.to_owned(), ours(kind), paper(kind))).collect()
    };
    let columns = ["construction"].map(str::to_owned);
    let title = "by puts and their log, by conversion, by merging; each alone";
    results.add("Table 6", title, "thousand/s", &columns, &rows(|k| vec![k.built], |k| vec![k.paper[0]]));
    let columns = ["get, hit", "get, miss"].map(str::to_owned);
    let queried = rows(|k| vec![k.hit[0], k.miss[0]], |k| vec![k.paper[1], k.paper[2]]);
    results.add("Table 7", "queries by 16 threads", "thousand/s", &columns, &queried);
    let cost = rows(|k| vec![k.hit[1], k.miss[1]], |_| Vec::new());
    results.add("Table 7", "device reads of these queries", "reads per get", &columns, &cost);
    let mut chart = Chart::new("SILT table 7: queries by kind of store")
        .x(Axis::named("", columns.iter().cloned()))
        .y(Axis::logarithmic("thousand gets per second"));
    for (name, row, paper) in &queried {
        chart = chart.bars(name, row.iter().copied());
        chart = chart.bars(&format!("{name}, the paper's"), paper.iter().flatten().copied());
    }
    results.draw("table7.svg", &chart)?;
    let columns = ["mean", "median", "p99"].map(str::to_owned);
    let latency = rows(|k| k.hit[2..].to_vec(), |k| vec![k.paper[3]]);
    results.add("Figure 11", "latency by where the item is, 16 threads", "ms", &columns, &latency);
    let mut chart = Chart::new("SILT figure 11: latency by where the item is")
        .x(Axis::named("", columns.iter().cloned()))
        .y(Axis::logarithmic("milliseconds"));
    for (name, row, _) in &latency {
        chart = chart.bars(name, row.iter().copied());
    }
    results.draw("figure11.svg", &chart)
}
