//! What records of regret come to: by mix, by budget, and for advice that expects other mixes.

use super::mixes::{endure, in_words};
use super::regret::{Args, Measured, Records, budgets, predicted, presets_for};
use crate::kit::sizes;
use crate::kit::table::Table;
use crate::program::failure::Result;
use siltstone::Design;
use siltstone_model::advise::robust::worst_cost;
use siltstone_model::price::{Device, Mix};

/// Puts for each read where reads are measured.
const A_FEW: f64 = 0.01;

/// How costs are weighed.
#[derive(Clone, Copy, PartialEq)]
enum Weighed {
    All,
    Device,
}

impl Weighed {
    /// What each kind of operation cost.
    fn costs(self, measured: &Measured) -> [f64; 4] {
        let device = Device::default();
        measured.taken.map(|taken| match self {
            Self::All => taken.cost_us(&device),
            Self::Device => taken.device_us(&device),
        })
    }

    fn of_mix(self, measured: &Measured, mix: &Mix) -> f64 {
        mix.shares().iter().zip(self.costs(measured)).map(|(share, cost)| share * cost).sum()
    }
}

/// The advised design of one mix beside the presets.
struct Beside {
    advised: f64,
    best: f64,
    best_name: &'static str,
}

/// All tables.
pub fn text(args: &Args, records: &Records) -> Result<String> {
    let mut text = by_kind(args, records)?;
    let mut ratios = [Vec::new(), Vec::new()];
    text.push_str(&by_mix(args, records, &mut ratios)?);
    text.push_str(&sums(args, records));
    let [all, device] = ratios.map(|ratios| summary(&ratios));
    text.push_str(&format!(
        "\nAdvised beside the measured best of the presets: {all}; device alone: {device}\n\n"
    ));
    if args.uncertain > 0.0 {
        text.push_str(&robust(args, records));
    }
    if !records.rates.is_empty() {
        text.push_str(&rates(args, records));
    }
    Ok(text)
}

fn summary(ratios: &[f64]) -> String {
    let mut sorted = ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [median, worst] =
        [sorted.get(sorted.len() / 2), sorted.last()].map(|r| r.copied().unwrap_or(f64::NAN));
    let best = sorted.iter().filter(|ratio| **ratio <= 1.0).count();
    format!("median {median:.3}, worst {worst:.3}, as good or better in {best} of {}", sorted.len())
}

/// What each kind of operation took, beside what was predicted.
fn by_kind(args: &Args, records: &Records) -> Result<String> {
    let mut table = Table::new([
        "memory",
        "design",
        "hit",
        "miss",
        "scan",
        "put",
        "reads: hit",
        "miss",
        "scan",
        "written",
    ]);
    for budget in budgets(args) {
        for measured in records.measured.iter().filter(|measured| measured.budget_bytes == budget) {
            // Each kind is measured by itself, so that the cache is its own; but there are write buffers.
            let alone = |mix: Mix| predicted(args.items, budget, &measured.design, &mix);
            let none = Mix { hits: 0.0, misses: 0.0, scans: 0.0, puts: A_FEW };
            let of_hits = alone(Mix { hits: 1.0, ..none })?;
            let of_misses = alone(Mix { misses: 1.0, ..none })?;
            let of_scans = alone(Mix { scans: 1.0, ..none })?;
            let [hits, misses, scans] = [&of_hits, &of_misses, &of_scans].map(|of| of.operation_cost.all());
            let predicted = [hits[0], misses[1], scans[2], hits[3]];
            let mut cells = vec![sizes::bytes(budget), measured.name.clone()];
            let both = Weighed::All.costs(measured).into_iter().zip(predicted);
            cells.extend(both.map(|(measured, predicted)| format!("{measured:.1} / {predicted:.1}")));
            let [hit, miss, scan, put] = measured.taken;
            let reads = [
                (hit, of_hits.reads_per_hit),
                (miss, of_misses.reads_per_miss),
                (scan, of_scans.reads_per_scan),
            ];
            cells.extend(
                reads.map(|(taken, predicted)| format!("{:.2} / {predicted:.2}", taken.device_reads)),
            );
            cells.push(format!("{:.0}", put.bytes_written));
            table.row(cells);
        }
    }
    Ok(format!(
        "µs of device and processor of an operation, and reads of the device, measured / predicted\n{table}\n"
    ))
}

fn beside(
    records: &Records,
    weighed: Weighed,
    (budget, number, mix): (u64, usize, &Mix),
    presets: &[(&'static str, Design)],
) -> Option<Beside> {
    let advice = records.advised(budget, number, None)?;
    let advised = weighed.of_mix(records.of(budget, &advice.design)?, mix);
    let costs = presets
        .iter()
        .filter_map(|(name, design)| Some((weighed.of_mix(records.of(budget, design)?, mix), *name)));
    let (best, best_name) = costs.min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(Beside { advised, best, best_name })
}

fn by_mix(args: &Args, records: &Records, ratios: &mut [Vec<f64>; 2]) -> Result<String> {
    let header = [
        "memory",
        "mix",
        "miss/hit/scan/put",
        "advised",
        "µs",
        "predicted",
        "best preset",
        "µs",
        "ratio",
        "device",
    ];
    let mut table = Table::new(header).left(3);
    for budget in budgets(args) {
        let presets = presets_for(args.items, budget);
        for (number, mix) in endure().iter().enumerate() {
            let both = [Weighed::All, Weighed::Device]
                .map(|weighed| beside(records, weighed, (budget, number, mix), &presets));
            let ([Some(all), Some(device)], Some(advice)) = (both, records.advised(budget, number, None))
            else {
                continue;
            };
            let [ratio, of_device] = [&all, &device].map(|beside| beside.advised / beside.best);
            for (ratios, ratio) in ratios.iter_mut().zip([ratio, of_device]) {
                ratios.push(ratio);
            }
            let predicted = predicted(args.items, budget, &advice.design, mix)?.operation_cost.of(mix);
            table.row([
                sizes::bytes(budget),
                format!("w{number}"),
                in_words(mix),
                advice.name.clone(),
                format!("{:.2}", all.advised),
                format!("{predicted:.2}"),
                all.best_name.to_owned(),
                format!("{:.2}", all.best),
                format!("{ratio:.3}"),
                format!("{of_device:.3}"),
            ]);
        }
    }
    Ok(format!("By mix, µs of an operation\n{table}\n"))
}

/// The cost of all mixes together, of what is advised and of each preset.
fn sums(args: &Args, records: &Records) -> String {
    let mut table = Table::new(["memory", "design", "µs of all mixes", "of the advised"]).left(2);
    for budget in budgets(args) {
        let presets = presets_for(args.items, budget);
        let sum = |cost: &dyn Fn(usize, &Mix) -> Option<f64>| -> Option<f64> {
            endure().iter().enumerate().map(|(number, mix)| cost(number, mix)).sum()
        };
        let advised = sum(&|number, mix| {
            let advice = records.advised(budget, number, None)?;
            Some(Weighed::All.of_mix(records.of(budget, &advice.design)?, mix))
        });
        let Some(advised) = advised else { continue };
        let mut row = |name: &str, sum: f64| {
            table.row([
                sizes::bytes(budget),
                name.to_owned(),
                format!("{sum:.0}"),
                format!("{:.3}", sum / advised),
            ]);
        };
        row("advised", advised);
        for (name, design) in &presets {
            let of_preset = sum(&|_, mix| Some(Weighed::All.of_mix(records.of(budget, design)?, mix)));
            if let Some(of_preset) = of_preset {
                row(name, of_preset);
            }
        }
    }
    format!("Sums over the fifteen mixes\n{table}")
}

/// What robust advice costs where the mix is as expected, and where it is the worst that was expected: device
/// and processor, and the device alone.
fn robust(args: &Args, records: &Records) -> String {
    let heads = [
        "memory",
        "mix",
        "design",
        "at the centre",
        "at the edge",
        "device: at the centre",
        "device: at the edge",
    ];
    let mut table = Table::new(heads).left(3);
    let mut ratios: [Vec<f64>; 4] = Default::default();
    for budget in budgets(args) {
        for (number, mix) in endure().iter().enumerate() {
            let advised =
                [None, Some(args.uncertain)].map(|uncertain| records.advised(budget, number, uncertain));
            let [Some(usual), Some(robust)] = advised else { continue };
            let measured = [usual, robust].map(|advice| records.of(budget, &advice.design));
            let [Some(of_usual), Some(of_robust)] = measured else { continue };
            let ratios_by = |weighed: Weighed| {
                let worst = |measured| worst_cost(&mix.shares(), &weighed.costs(measured), args.uncertain);
                let centre = weighed.of_mix(of_robust, mix) / weighed.of_mix(of_usual, mix);
                [centre, worst(of_robust) / worst(of_usual)]
            };
            let [[centre, edge], [of_device, of_device_at_edge]] =
                [Weighed::All, Weighed::Device].map(ratios_by);
            let found = [centre, edge, of_device, of_device_at_edge];
            ratios.iter_mut().zip(found).for_each(|(all, ratio)| all.push(ratio));
            if usual.design != robust.design {
                let cells = [sizes::bytes(budget), format!("w{number}"), robust.name.clone()];
                table.row(cells.into_iter().chain(found.map(|ratio| format!("{ratio:.3}"))));
            }
        }
    }
    let [centres, edges, of_device, of_device_at_edge] = ratios.map(|ratios| summary(&ratios));
    format!(
        "Advice for mixes within a divergence of {}, beside advice for the mix itself (where they differ)\n{table}\
         At the centre: {centres}; at the edge: {edges}\n\
         Device alone, at the centre: {of_device}; at the edge: {of_device_at_edge}\n",
        args.uncertain,
    )
}

/// Operations a second of mixes that were really run.
fn rates(args: &Args, records: &Records) -> String {
    let mut table = Table::new(["memory", "mix", "advised/s", "best preset", "preset/s", "ratio"]).left(2);
    for budget in budgets(args) {
        let presets = presets_for(args.items, budget);
        for number in 0..endure().len() {
            let of = |design: &Design| {
                let mut rates = records.rates.iter();
                let rate =
                    rates.find(|r| r.budget_bytes == budget && r.mix == number && r.design == *design)?;
                Some(rate.per_second)
            };
            let advised = records.advised(budget, number, None).and_then(|advice| of(&advice.design));
            let rated = presets.iter().filter_map(|(name, design)| Some((of(design)?, *name)));
            let best = rated.max_by(|a, b| a.0.total_cmp(&b.0));
            let (Some(advised), Some((best, name))) = (advised, best) else { continue };
            table.row([
                sizes::bytes(budget),
                format!("w{number}"),
                format!("{advised:.0}"),
                name.to_owned(),
                format!("{best:.0}"),
                format!("{:.3}", advised / best),
            ]);
        }
    }
    format!("\nOperations a second of mixes that were run, in turns\n{table}")
}
