//! Advice as one page that needs nothing else: the front, the design drawn as its strata, knobs to turn.
//!
//! Prices for the knobs are worked out beforehand: of every design of the front and every preset at a row of
//! memory sizes. The cost of a mix is linear in its shares, so the page's script adds up four numbers for any
//! mix and need not know the model. What stands in the page at a grid point is what `price`
//! says, to the digit, and so is which limit of the request a design breaks there.

use serde::Serialize;
use siltstone::Design;
use siltstone_model::ModelError;
use siltstone_model::advise::{Advice, Limit, Request, strata};
use siltstone_model::price::{Costs, Mix, OperationCosts};

/// The page around the data and the script.
const PAGE: &str = include_str!("page.html");
/// Where the data goes.
const DATA: &str = "/*DATA*/null";

/// Memory sizes of the grid, as powers of the square root of two around the one that was asked for.
const HALVINGS: i32 = 6;
const DOUBLINGS: i32 = 6;

/// What the page knows.
#[derive(Serialize)]
pub struct Grid {
    items: f64,
    /// Where the store grows.
    items_at_end: Option<f64>,
    /// On the average over the way there.
    mean_items: f64,
    key_bytes: f64,
    value_bytes: f64,
    group_items: f64,
    mix: Mix,
    why: Vec<String>,
    limits: Limits,
    /// Bytes of memory that designs are priced with.
    memory_bytes: Vec<u64>,
    /// Which of them was asked for.
    asked: usize,
    designs: Vec<Priced>,
    /// Which of them is advised, and what `why` is about.
    advised: usize,
}

/// What designs have to keep to, and what is made small.
#[derive(Serialize)]
struct Limits {
    /// Limits besides the memory, in words.
    others: Vec<String>,
    /// How far the mix may be from the one given, where its worst case is made small,
    uncertainty: Option<f64>,
    /// and what a design may cost more in that one for it, as a share; none where that may be anything.
    premium_at_most: Option<f64>,
}

impl Limits {
    fn of(request: &Request) -> Self {
        let limits = Limit::CEILINGS.into_iter().chain([Limit::Years]);
        Self {
            others: limits.filter_map(|limit| bound(limit, request)).collect(),
            uncertainty: request.uncertainty,
            premium_at_most: Some(request.premium_at_most).filter(|premium| premium.is_finite()),
        }
    }
}

/// What a limit asks for; `None` where the request does not set it, and for the memory, which it always does.
fn bound(limit: Limit, request: &Request) -> Option<String> {
    let bound = request.bound(limit)?;
    let what = match limit {
        Limit::Memory => return None,
        Limit::Years => return Some(format!("at least {bound} years of the device")),
        Limit::Space => "× the items on disk at the peak",
        Limit::Reads => "device reads of a get that finds an item",
        Limit::MissReads => "device reads of a get that finds nothing",
        Limit::ScanReads => "device reads of a scan",
        Limit::HitTime => "µs that a get takes which finds an item",
        Limit::MissTime => "µs that a get takes which finds nothing",
        Limit::ScanTime => "µs that a scan takes",
    };
    Some(format!("at most {bound} {what}"))
}

/// A limit that a design breaks.
#[derive(Serialize)]
struct Broken {
    limit: Limit,
    words: String,
}

impl Broken {
    fn of(limit: Limit, request: &Request, costs: &Costs) -> Self {
        let words = match bound(limit, request) {
            Some(bound) => format!("{:.2} instead of {bound}", limit.of(costs)),
            None => "write buffers, filters and indexes do not fit it".to_owned(),
        };
        Self { limit, words }
    }
}

/// A design and its price at every size of memory.
#[derive(Serialize)]
struct Priced {
    name: String,
    is_preset: bool,
    strata: Vec<String>,
    levels: Vec<Stratum>,
    prices: Vec<Price>,
    design: Design,
}

/// A level as it is drawn.
#[derive(Serialize)]
struct Stratum {
    regions: f64,
    runs: f64,
    entries: f64,
    bytes: f64,
    write_amplification: f64,
}

/// A price as far as the page shows it; the names are those of `Costs`.
#[derive(Serialize)]
struct Price {
    /// The first limit that the design breaks.
    breaks: Option<Broken>,
    operation_cost: OperationCosts,
    write_amplification: f64,
    reads_per_hit: f64,
    reads_per_miss: f64,
    reads_per_scan: f64,
    space_amplification: f64,
    peak_space_amplification: f64,
    cpu_us_per_get: f64,
    cpu_us_per_put: f64,
    device_years: Option<f64>,
    memtable: f64,
    filter: f64,
    index: f64,
    cache: f64,
}

impl Price {
    fn of(costs: &Costs, breaks: Option<Broken>) -> Self {
        let memory = &costs.memory_bytes;
        Self {
            breaks,
            operation_cost: costs.operation_cost,
            write_amplification: costs.write_amplification,
            reads_per_hit: costs.reads_per_hit,
            reads_per_miss: costs.reads_per_miss,
            reads_per_scan: costs.reads_per_scan,
            space_amplification: costs.space_amplification,
            peak_space_amplification: costs.peak_space_amplification,
            cpu_us_per_get: costs.cpu_us_per_get,
            cpu_us_per_put: costs.cpu_us_per_put,
            device_years: costs.device_years,
            memtable: memory.memtable,
            filter: memory.filter,
            index: memory.index,
            cache: memory.cache,
        }
    }
}

/// Prices all that the page shows.
pub fn grid(request: &Request, advice: &Advice) -> Result<Grid, ModelError> {
    let pricer = request.pricer()?;
    let memory_bytes: Vec<u64> = (-HALVINGS..=DOUBLINGS)
        .map(|power| (request.memory_bytes as f64 * 2f64.powf(f64::from(power) / 2.0)).round() as u64)
        .collect();
    let requests: Vec<Request> =
        memory_bytes.iter().map(|bytes| Request { memory_bytes: *bytes, ..*request }).collect();
    let of_front = advice.front.iter().map(|choice| (choice.name.clone(), choice.design.clone(), false));
    let of_presets =
        advice.presets.keys().filter_map(|name| Some((name.clone(), Design::preset(name)?, true)));
    let mut designs: Vec<Priced> = Vec::new();
    for (name, design, is_preset) in of_front.chain(of_presets) {
        if designs.iter().any(|known| known.design == design) {
            continue;
        }
        let store = pricer.filled(&design, false)?;
        let costs: Vec<Costs> = memory_bytes.iter().map(|bytes| store.costs(*bytes)).collect();
        let priced = |(costs, request): (&Costs, &Request)| {
            let breaks = request.broken(&design, costs);
            Price::of(costs, breaks.map(|limit| Broken::of(limit, request, costs)))
        };
        let levels = costs.first().map_or(&[][..], |costs| &costs.levels).iter().map(|level| Stratum {
            regions: level.regions,
            runs: level.runs,
            entries: level.entries,
            bytes: level.bytes,
            write_amplification: level.write_amplification,
        });
        designs.push(Priced {
            name,
            is_preset,
            strata: strata(&design),
            levels: levels.collect(),
            prices: costs.iter().zip(&requests).map(priced).collect(),
            design,
        });
    }
    let workload = &request.workload;
    Ok(Grid {
        items: workload.items,
        items_at_end: workload.items_at_end,
        mean_items: workload.mean_items(),
        key_bytes: workload.key_bytes,
        value_bytes: workload.mean_value_bytes(),
        group_items: workload.group_items,
        mix: workload.mix.normalized(),
        why: advice.best.why.clone(),
        limits: Limits::of(request),
        advised: designs.iter().position(|priced| priced.design == advice.best.design).unwrap_or(0),
        asked: HALVINGS as usize,
        memory_bytes,
        designs,
    })
}

/// The page.
pub fn page(request: &Request, advice: &Advice) -> Result<String, ModelError> {
    let data = serde_json::to_string(&grid(request, advice)?)
        .map_err(|error| ModelError::new("html", error.to_string()))?;
    // Nothing in a string may end the script that it stands in.
    Ok(PAGE.replace(DATA, &data.replace('<', "\\u003c")))
}
