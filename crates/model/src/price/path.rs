//! A store that grows, at several sizes: what it costs on the way there.
//!
//! While a store grows from `n` items to `N`, each new item comes with as many operations. So the mean over
//! its operations is the mean over its items, from `n` to `N`: Simpson's rule at sizes as far apart as each
//! other, both ends among them. At each size the store is priced as one that came there with as many changes
//! for each item, in the mean over the time in which each is changed once.

use super::costs::{Costs, LevelCosts, OperationCosts, ReadLatencies};
use super::memory::MemoryCosts;
use super::workload::Workload;

/// Sizes of a store that grows, with Simpson's weights for each, and where a rough price will do.
const WEIGHTS: [f64; 5] = [1.0 / 12.0, 4.0 / 12.0, 2.0 / 12.0, 4.0 / 12.0, 1.0 / 12.0];
const WEIGHTS_ROUGHLY: [f64; 3] = [1.0 / 6.0, 4.0 / 6.0, 1.0 / 6.0];

/// The sizes at which a store of `workload` is looked at: each as the workload of a store that is there, with
/// its share of all operations.
pub(super) fn sizes(workload: &Workload, is_rough: bool) -> Vec<(f64, Workload)> {
    let Some(at_end) = workload.items_at_end.filter(|at_end| *at_end > workload.items) else {
        return vec![(1.0, workload.grown_to(workload.items))];
    };
    let weights = if is_rough { &WEIGHTS_ROUGHLY[..] } else { &WEIGHTS[..] };
    let step = (at_end - workload.items) / (weights.len() - 1) as f64;
    let sized =
        |(number, weight): (usize, &f64)| (*weight, workload.grown_to(workload.items + step * number as f64));
    weights.iter().enumerate().map(sized).collect()
}

/// What a store costs over a path of which it costs so much on each share: the mean, but the most of what a
/// limit is set to, and the end of what the store comes to.
pub(super) fn over(path: &[(f64, Costs)]) -> Option<Costs> {
    let (_, end) = path.last()?;
    if path.len() == 1 {
        return Some(end.clone());
    }
    let mean = |of: &dyn Fn(&Costs) -> f64| path.iter().map(|(share, costs)| share * of(costs)).sum::<f64>();
    let most = |of: &dyn Fn(&Costs) -> f64| path.iter().map(|(_, costs)| of(costs)).fold(0.0, f64::max);
    let mean_if_any = |of: fn(&Costs) -> Option<f64>| {
        path.iter().map(|(share, costs)| Some(share * of(costs)?)).sum::<Option<f64>>()
    };
    let memory = |of: fn(&MemoryCosts) -> f64| mean(&|costs| of(&costs.memory_bytes));
    let most_memory = |of: fn(&MemoryCosts) -> f64| most(&|costs| of(&costs.memory_bytes));
    let each = |of: fn(&OperationCosts) -> f64| mean(&|costs| of(&costs.operation_cost));
    let latency = |of: fn(&ReadLatencies) -> f64| mean(&|costs| of(&costs.latency_us));
    Some(Costs {
        cost: mean(&|costs| costs.cost),
        operation_cost: OperationCosts {
            hit: each(|cost| cost.hit),
            miss: each(|cost| cost.miss),
            scan: each(|cost| cost.scan),
            put: each(|cost| cost.put),
        },
        write_amplification: mean(&|costs| costs.write_amplification),
        change_write_amplification: mean(&|costs| costs.change_write_amplification),
        log_amplification: mean(&|costs| costs.log_amplification),
        levels: levels(path),
        latency_us: ReadLatencies {
            hit: latency(|us| us.hit),
            miss: latency(|us| us.miss),
            scan: latency(|us| us.scan),
        },
        pages_per_hit: mean(&|costs| costs.pages_per_hit),
        pages_per_miss: mean(&|costs| costs.pages_per_miss),
        pages_per_scan: mean(&|costs| costs.pages_per_scan),
        reads_per_hit: mean(&|costs| costs.reads_per_hit),
        reads_per_miss: mean(&|costs| costs.reads_per_miss),
        reads_per_scan: mean(&|costs| costs.reads_per_scan),
        memory_bytes: MemoryCosts {
            memtable: memory(|memory| memory.memtable),
            filter: memory(|memory| memory.filter),
            index: memory(|memory| memory.index),
            cache: memory(|memory| memory.cache),
            compaction: memory(|memory| memory.compaction),
            total: memory(|memory| memory.total),
            unfitted_filter: most_memory(|memory| memory.unfitted_filter),
            unfitted_index: most_memory(|memory| memory.unfitted_index),
            budget: end.memory_bytes.budget,
        },
        filter_bits_per_item: mean(&|costs| costs.filter_bits_per_item),
        index_bits_per_item: mean(&|costs| costs.index_bits_per_item),
        live_items: end.live_items,
        table_bytes: end.table_bytes,
        space_amplification: end.space_amplification,
        mean_space_amplification: mean(&|costs| costs.mean_space_amplification),
        peak_space_amplification: most(&|costs| costs.peak_space_amplification),
        cpu_us_per_get: mean(&|costs| costs.cpu_us_per_get),
        cpu_us_per_hit: mean(&|costs| costs.cpu_us_per_hit),
        cpu_us_per_miss: mean(&|costs| costs.cpu_us_per_miss),
        cpu_us_per_scan: mean(&|costs| costs.cpu_us_per_scan),
        cpu_us_per_put: mean(&|costs| costs.cpu_us_per_put),
        open_seconds: most(&|costs| costs.open_seconds),
        drive_writes_per_day: mean_if_any(|costs| costs.drive_writes_per_day),
        // Years that are used up are what adds up.
        device_years: mean_if_any(|costs| costs.device_years.map(f64::recip)).map(f64::recip),
    })
}

/// The levels at the end, with what is written into each on the average.
fn levels(path: &[(f64, Costs)]) -> Vec<LevelCosts> {
    let Some((_, end)) = path.last() else { return Vec::new() };
    let written = |number: usize| {
        let of = |(share, costs): &(f64, Costs)| {
            costs.levels.get(number).map_or(0.0, |level| share * level.write_amplification)
        };
        path.iter().map(of).sum()
    };
    let levels = end.levels.iter().enumerate();
    levels.map(|(number, level)| LevelCosts { write_amplification: written(number), ..*level }).collect()
}
