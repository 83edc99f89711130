//! Regret: what advised designs really cost beside presets, for Endure's fifteen mixes with three memory
//! budgets.
//!
//! A design is filled once for each budget, overwritten once, and then read: hits, misses and scans by
//! themselves. The cost of a mix is the mean of the four kinds by its shares, with the device's rates, as the
//! advisor weighs it. So one store says what a design costs for all mixes, and advised designs that are equal
//! are measured once. Records go to a file as they come.

use super::lines;
use super::mixes::endure;
use super::regret_table;
use super::stage::{Contents, Kind, Stage, Taken, directory};
use crate::kit::sizes;
use crate::program::failure::{Failure, Result, refused};
use crate::program::output::{note, print};
use serde::{Deserialize, Serialize};
use siltstone::{Design, Options, presets};
use siltstone_model::advise::{Request, advise};
use siltstone_model::price::{Costs, Device, Mix, Pricer, Workload};
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of memory an item: where filters do not fit, where they do, and where the cache holds some of the
/// items as well.
const BYTES_PER_ITEM: [u64; 3] = [1, 3, 10];
const KEY_BYTES: u64 = 16;
const VALUE_BYTES: u64 = 100;
const GROUP_ITEMS: u64 = 64;
/// Items for each read that is measured; as many come before, to fill the caches.
const ITEMS_PER_READ: u64 = 8;
const ITEMS_PER_SCAN: u64 = 256;
/// Reads of each kind, by how many items there are for one.
const READS: [(Kind, u64); 3] =
    [(Kind::Hit, ITEMS_PER_READ), (Kind::Miss, ITEMS_PER_READ), (Kind::Scan, ITEMS_PER_SCAN)];

/// Clients that run a mix by the clock: as many as keep the device busy.
const CLIENTS: usize = 16;
/// Turns that designs take, so that all have the same share of what else the machine does.
const TURNS: u32 = 4;

/// Measure what advised designs cost beside presets, for Endure's fifteen mixes
///
/// Every preset that can list groups and every design that is advised is filled with three memory budgets
/// (1, 3 and 10 bytes an item), overwritten once, and read. Costs of mixes are put together from what each
/// kind of operation took. A run that is ended goes on where it was, by the file --out.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone-lab regret --items 2M --out regret.jsonl\n  \
    siltstone-lab regret --items 2M --out regret.jsonl --seconds 8    and run each mix, on a quiet machine\n  \
    siltstone-lab regret --items 2M --out regret.jsonl --table-only")]
pub struct Args {
    /// Items of a store
    #[arg(long, value_name = "COUNT", default_value = "2M", value_parser = sizes::parse_positive)]
    pub(super) items: u64,
    /// The file of records
    #[arg(long, value_name = "FILE", default_value = "regret.jsonl")]
    out: PathBuf,
    /// Where stores are written, one at a time [default: the system's temporary directory]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// How far the mix may be from what is expected, for robust advice: a Kullback-Leibler divergence in nats
    #[arg(long, value_name = "NATS", default_value_t = 0.5)]
    pub(super) uncertain: f64,
    /// Only this memory, in bytes an item: commands that share a file may run side by side
    #[arg(long, value_name = "BYTES")]
    memory: Option<u64>,
    /// Run each mix by the clock for so long as well: presets and what is advised for it, in turns
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    seconds: f64,
    /// Ask for advice again, after the model has changed
    #[arg(long)]
    advise_again: bool,
    /// Run nothing, and show what the file has
    #[arg(long)]
    table_only: bool,
}

/// A line of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    Advice(Advice),
    Measured(Measured),
    Rate(Rate),
}

/// What is advised for a mix.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Advice {
    pub items: u64,
    pub budget_bytes: u64,
    pub mix: usize,
    /// `None` for the mix alone.
    pub uncertain: Option<f64>,
    pub name: String,
    pub design: Design,
}

/// What each kind of operation takes of a design.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    pub items: u64,
    pub budget_bytes: u64,
    pub name: String,
    pub design: Design,
    /// Hits, misses, scans, puts.
    pub taken: [Taken; 4],
    pub space: f64,
}

/// How fast a design does a mix.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rate {
    pub items: u64,
    pub budget_bytes: u64,
    pub design: Design,
    pub mix: usize,
    pub per_second: f64,
}

/// All records about stores of one size.
pub struct Records {
    pub advice: Vec<Advice>,
    pub measured: Vec<Measured>,
    pub rates: Vec<Rate>,
}

impl Records {
    fn read(args: &Args) -> Result<Self> {
        let mut all = Self { advice: Vec::new(), measured: Vec::new(), rates: Vec::new() };
        for record in lines::read(&args.out)? {
            match record {
                Record::Advice(advice) if advice.items == args.items => all.advice.push(advice),
                Record::Measured(measured) if measured.items == args.items => all.measured.push(measured),
                Record::Rate(rate) if rate.items == args.items => all.rates.push(rate),
                _ => {}
            }
        }
        // What was advised again counts.
        all.advice.reverse();
        Ok(all)
    }

    /// What is advised for a mix.
    pub fn advised(&self, budget_bytes: u64, mix: usize, uncertain: Option<f64>) -> Option<&Advice> {
        self.advice.iter().find(|known| {
            known.budget_bytes == budget_bytes && known.mix == mix && known.uncertain == uncertain
        })
    }

    /// What was measured of a design.
    pub fn of(&self, budget_bytes: u64, design: &Design) -> Option<&Measured> {
        self.measured.iter().find(|known| known.budget_bytes == budget_bytes && known.design == *design)
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let mut records = Records::read(args)?;
    if !args.table_only {
        for budget_bytes in budgets(args) {
            ask(args, budget_bytes, &mut records)?;
            measure_all(args, budget_bytes, &mut records)?;
            if args.seconds > 0.0 {
                rate_all(args, budget_bytes, &mut records)?;
            }
        }
    }
    print(&regret_table::text(args, &records)?)
}

pub fn contents(items: u64) -> Contents {
    Contents { items, key_bytes: KEY_BYTES, value_bytes: VALUE_BYTES, group: GROUP_ITEMS }
}

/// What the advisor is told: each item is overwritten once.
pub fn workload(items: u64, mix: Mix) -> Workload {
    Workload { mix, ..contents(items).workload(1.0) }
}

/// The presets that can list groups, with tables and write buffers for stores of this size.
pub fn presets_for(items: u64, budget_bytes: u64) -> Vec<(&'static str, Design)> {
    let can_list = |name: &str| !matches!(name, "silt" | "lsm-trie");
    let usable = presets::all().into_iter().filter(|(name, _)| can_list(name));
    usable.map(|(name, design)| (name, contents(items).scaled(&design, budget_bytes))).collect()
}

/// The budgets that are asked for.
pub fn budgets(args: &Args) -> impl Iterator<Item = u64> + use<> {
    let (items, only) = (args.items, args.memory);
    let parts = BYTES_PER_ITEM.into_iter().filter(move |part| only.is_none_or(|only| only == *part));
    parts.map(move |part| part * items)
}

/// How uncertain the mix is taken to be: not at all, and as given.
fn uncertainties(args: &Args) -> impl Iterator<Item = Option<f64>> + use<> {
    std::iter::once(None).chain((args.uncertain > 0.0).then_some(Some(args.uncertain)))
}

/// Asks for the advice that is not there yet.
fn ask(args: &Args, budget_bytes: u64, records: &mut Records) -> Result<()> {
    for (number, mix) in endure().into_iter().enumerate() {
        for uncertain in uncertainties(args) {
            if records.advised(budget_bytes, number, uncertain).is_some() && !args.advise_again {
                continue;
            }
            let request =
                Request { uncertainty: uncertain, ..Request::new(workload(args.items, mix), budget_bytes) };
            let best = advise(&request).map_err(refused)?.best;
            let advice = Advice {
                items: args.items,
                budget_bytes,
                mix: number,
                uncertain,
                name: best.name,
                design: best.design,
            };
            lines::append(&args.out, &Record::Advice(advice.clone()))?;
            records.advice.insert(0, advice);
        }
    }
    Ok(())
}

/// Measures the designs that are not measured yet.
fn measure_all(args: &Args, budget_bytes: u64, records: &mut Records) -> Result<()> {
    let presets = presets_for(args.items, budget_bytes);
    let presets: Vec<_> = presets.into_iter().map(|(name, design)| (name.to_owned(), design)).collect();
    let mut wanted = presets.clone();
    for number in 0..endure().len() {
        for uncertain in uncertainties(args) {
            let advised = records.advised(budget_bytes, number, uncertain);
            wanted.extend(advised.map(|advice| (advice.name.clone(), advice.design.clone())));
        }
    }
    let mut seen: Vec<Design> = Vec::new();
    for (name, design) in wanted {
        if seen.contains(&design) {
            continue;
        }
        seen.push(design.clone());
        if records.of(budget_bytes, &design).is_some() {
            continue;
        }
        note!("{name} with {}", sizes::bytes(budget_bytes));
        let options = Options { memory_budget_bytes: budget_bytes, ..Options::default() };
        let mut stage = filled(args, "regret", &design, options)?;
        let ([hit, miss, scan], put) = stage.read_while_overwritten(READS)?;
        let space = stage.db.stats().space_bytes as f64 / contents(args.items).bytes() as f64;
        let taken = [hit, miss, scan, put];
        let measured = Measured { items: args.items, budget_bytes, name, design, taken, space };
        lines::append(&args.out, &Record::Measured(measured.clone()))?;
        records.measured.push(measured);
    }
    Ok(())
}

/// A store of a design with all items, in a directory named for what it is for.
fn filled(args: &Args, what: &str, design: &Design, options: Options) -> Result<Stage> {
    let directory = directory(args.dir.as_ref(), what);
    let mut stage = Stage::new(&directory, Some(design), contents(args.items), options)?;
    stage.fill(true)?;
    Ok(stage)
}

/// Runs the mixes that have not been run yet by the clock: the presets and what is advised for a mix, in
/// turns.
fn rate_all(args: &Args, budget_bytes: u64, records: &mut Records) -> Result<()> {
    let is_wanted = |number: &usize| {
        let is_it = |rate: &Rate| rate.budget_bytes == budget_bytes && rate.mix == *number;
        !records.rates.iter().any(is_it)
    };
    let wanted: Vec<usize> = (0..endure().len()).filter(is_wanted).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let open = |name: &str, design: &Design| {
        note!("{name} with {}, for its rates", sizes::bytes(budget_bytes));
        // Reads that the system's cache answers would say nothing of the design.
        let options = Options { memory_budget_bytes: budget_bytes, direct_reads: true, ..Options::default() };
        let mut stage = filled(args, &format!("rates-{name}"), design, options)?;
        stage.work(Kind::Put, args.items, true)?;
        stage.settle()?;
        Ok::<_, Failure>(stage)
    };
    let mut presets = Vec::new();
    for (name, design) in presets_for(args.items, budget_bytes) {
        presets.push(open(name, &design)?);
    }
    for number in wanted {
        let Some(advised) = records.advised(budget_bytes, number, None) else { continue };
        let mut advised = open("advised", &advised.design)?;
        let shares = endure().get(number).map_or([0.0; 4], Mix::shares);
        let turn = Duration::from_secs_f64(args.seconds / f64::from(TURNS));
        // The caches of presets know the mixes before.
        advised.rate(shares, CLIENTS, Duration::from_secs_f64(args.seconds))?;
        let mut stages: Vec<&mut Stage> = presets.iter_mut().chain([&mut advised]).collect();
        let mut sums = vec![0.0; stages.len()];
        for number in 0..=TURNS {
            for (stage, sum) in stages.iter_mut().zip(&mut sums) {
                let per_second = stage.rate(shares, CLIENTS, turn)?;
                // The first turn is for the caches.
                if number > 0 {
                    *sum += per_second;
                }
            }
        }
        for (stage, sum) in stages.iter().zip(sums) {
            let (items, design, per_second) = (args.items, stage.keyspace.design(), sum / f64::from(TURNS));
            let rate = Rate { items, budget_bytes, design, mix: number, per_second };
            lines::append(&args.out, &Record::Rate(rate.clone()))?;
            records.rates.push(rate);
        }
    }
    Ok(())
}

/// What a design is predicted to cost in a mix: what the advisor goes by.
pub fn predicted(items: u64, budget_bytes: u64, design: &Design, mix: &Mix) -> Result<Costs> {
    let pricer = Pricer::new(&workload(items, *mix), &Device::default()).map_err(refused)?.over_time();
    pricer.price(design, budget_bytes).map_err(refused)
}
