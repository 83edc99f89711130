//! Figure 10: memory of indexes while as many new items come as there are, with four combinations of stores.
//!
//! All four are stores of the engine, and what their indexes take is what the store counts. Where hash stores
//! are left out, log stores wait for the merge instead; where sorted stores are, hash stores are not merged;
//! where both are, log stores are not converted.

use super::Args;
use super::store::{HASH_STORES, design, head_items};
use crate::clients::workload::Workload;
use crate::kit::plot::{Axis, Chart};
use crate::kit::sizes::count;
use crate::papers::evaluation::Results;
use crate::papers::store::Store;
use crate::program::failure::Result;
use crate::program::output::note;
use siltstone::{Design, Options};
use std::path::Path;
use std::time::Instant;

/// Hash stores in a part of a store that has no sorted ones.
const MOST_RUNS: u16 = 256;
/// Least runs of a region that is merged as soon as anything is in it.
const FEWEST_RUNS: u16 = 2;
/// Least moments at which growing stores are looked at.
const SLICES: u64 = 20;

/// A combination of stores.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stores {
    Log,
    LogHash,
    LogSorted,
    All,
}

impl Stores {
    fn name(self) -> &'static str {
        match self {
            Self::Log => "log stores only",
            Self::LogHash => "log and hash stores",
            Self::LogSorted => "log and sorted stores",
            Self::All => "log, hash and sorted stores: SILT",
        }
    }

    /// A design for stores that have `items` when they begin to be looked at.
    fn design(self, items: u64) -> Design {
        let runs = match self {
            Self::LogHash => MOST_RUNS,
            Self::LogSorted => FEWEST_RUNS,
            Self::Log | Self::All => HASH_STORES,
        };
        let mut design = design(items, runs);
        if let (Self::LogHash, Some(hash)) = (self, design.levels.first_mut()) {
            hash.table_bytes *= 8;
        }
        design
    }

    /// Log stores that may wait: as many as become hash stores elsewhere, or all.
    fn waiting(self, stores: u64) -> Option<u64> {
        match self {
            Self::Log => Some(stores),
            Self::LogSorted => Some(u64::from(HASH_STORES)),
            Self::LogHash | Self::All => None,
        }
    }

    /// Options with which log stores wait for so many.
    fn options(self, stores: u64) -> Options {
        let options = Options::default();
        match self.waiting(stores) {
            Some(waiting) => {
                let most = usize::try_from(waiting).unwrap_or(usize::MAX).saturating_add(2);
                Options { background_threads: 0, max_sealed_memtables: most, ..options }
            }
            None => options,
        }
    }
}

/// What the indexes of a growing store take at one moment.
#[derive(Clone, Copy)]
struct Moment {
    seconds: f64,
    bytes: f64,
}

/// Fills half of the items and looks at the store while the other half comes, at a pace that conversion and
/// merging keep up with, as the paper's does with 3,000 a second: before every log store's worth they have
/// come to rest.
fn grow(dir: &Path, items: u64, stores: Stores) -> Result<Vec<Moment>> {
    let design = stores.design(items / 2);
    let each = head_items(&design);
    let logs = items.div_ceil(each);
    let mut store = Store::create_with(dir, items, design, stores.options(logs))?;
    let slices = (items / 2).div_ceil(each).max(SLICES);
    let (mut moments, mut started, mut settled) = (Vec::new(), Instant::now(), 0);
    for slice in 0..=2 * slices {
        let upto = slice * items / 2 / slices;
        store.run(Workload::Fill, upto - store.filled.existing, None)?;
        if slice == slices {
            started = Instant::now();
        }
        if slice >= slices {
            let (seconds, bytes) = (started.elapsed().as_secs_f64(), store.index_bytes() as f64);
            moments.push(Moment { seconds, bytes });
        }
        match stores.waiting(logs) {
            None => store.db.wait_until_idle()?,
            Some(waiting) if upto - settled >= waiting * each => {
                store.settle()?;
                while store.db.step()? {}
                settled = upto;
            }
            Some(_) => {}
        }
    }
    store.remove()?;
    Ok(moments)
}

/// Draws and prints what the four take.
pub fn run(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    let items = 2 * args.items();
    let mut chart = Chart::new("SILT figure 10: index memory while as many items are inserted as there are")
        .x(Axis::linear("seconds"))
        .y(Axis::linear("megabytes of index").from(0.0));
    let mut rows = Vec::new();
    let end = items as f64;
    for (stores, paper) in
        [(Stores::Log, None), (Stores::LogHash, None), (Stores::LogSorted, None), (Stores::All, Some(0.69))]
    {
        let name = stores.name();
        note!("figure 10: {} items into as many, {name}", items / 2);
        let moments = grow(&dir.join("growth"), items, stores)?;
        let of = |moment: Option<&Moment>| moment.map_or(f64::NAN, |moment| moment.bytes);
        let most = moments.iter().map(|moment| moment.bytes).fold(0.0, f64::max) / end;
        let (first, last) = (of(moments.first()), of(moments.last()));
        let seconds = moments.last().map_or(f64::NAN, |moment| moment.seconds);
        rows.push((name.to_owned(), vec![most, first / (end / 2.0), last / end, seconds], vec![paper]));
        chart = chart.line(name, moments.iter().map(|moment| (moment.seconds, moment.bytes / 1e6)));
    }
    results.draw("figure10.svg", &chart)?;
    let columns =
        ["at most, by the items of the end", "at the start", "at the end", "seconds"].map(str::to_owned);
    let title = format!("index memory, {} items into as many (the paper: 50 million)", count(items / 2));
    results.add("Figure 10", &title, "bytes per item; seconds", &columns, &rows);
    Ok(())
}
