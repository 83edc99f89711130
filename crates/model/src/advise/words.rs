//! The advice in words: why this design, what it would take to be better.

use super::search::{Candidate, Found};
use super::{Advice, Choice, Limit, NextMemory, Request};
use crate::price::Costs;
use siltstone_design::{Compression, Design, Format, IndexSpec, RegionFilterSpec, TableFilterSpec};
use std::collections::BTreeMap;

/// The preset that designs are compared with in words.
const USUAL: &str = "siltstone";
const MIB: f64 = 1024.0 * 1024.0;

/// Puts what was found into words.
pub(super) fn advice(request: &Request, found: Found, presets: BTreeMap<String, Costs>) -> Advice {
    let Found { best, others, with_more, more_bytes, considered, refused, better_refused } = found;
    let saved_us = (best.objective - with_more).max(0.0);
    let next_memory =
        NextMemory { bytes: more_bytes, saved_us, saved_share: saved_us / best.objective.max(1e-12) };
    let mut best = choice(request, &best);
    let compared = Comparison {
        usual: presets.get(USUAL),
        next: &next_memory,
        refused: better_refused.as_ref(),
        has_others: considered > 1,
    };
    best.why = best_in_words(request, &best, &compared);
    let beside_best = |candidate: &Candidate| Choice {
        why: vec![beside(&candidate.costs, &best.predicted)],
        ..choice(request, candidate)
    };
    let front = std::iter::once(best.clone()).chain(others.iter().map(beside_best)).collect();
    Advice { best, front, presets, next_memory, considered, refused }
}

fn choice(request: &Request, candidate: &Candidate) -> Choice {
    Choice {
        name: name(&candidate.design, candidate.origin),
        design: candidate.design.clone(),
        why: Vec::new(),
        worst_cost: request.objective(&candidate.costs),
        predicted: candidate.costs.clone(),
    }
}

/// The name of a design: its preset's, or what it was made from.
fn name(design: &Design, origin: &str) -> String {
    match design.preset_name() {
        name if name == "custom" => format!("from {origin}"),
        name => name,
    }
}

/// What the best is compared with in words.
struct Comparison<'a> {
    usual: Option<&'a Costs>,
    next: &'a NextMemory,
    /// What would be better, but for a limit.
    refused: Option<&'a (Limit, Candidate)>,
    /// Whether any other design was looked at.
    has_others: bool,
}

/// What makes up the cost.
fn best_in_words(request: &Request, best: &Choice, compared: &Comparison<'_>) -> Vec<String> {
    let Comparison { usual, next, refused, has_others } = *compared;
    let costs = &best.predicted;
    let mut why = vec![what_dominates(request, costs), what_is_written(costs), what_is_read(request, costs)];
    why.extend(on_the_way(request));
    why.push(where_memory_goes(costs, request.workload.mean_items()));
    why.extend(how_long_it_lasts(request, costs));
    why.push(more_memory(next));
    if let Some(radius) = request.uncertainty {
        why.push(worst_in_words(request, radius, best.worst_cost, has_others));
    }
    if let Some((limit, cheaper)) = refused.filter(|(_, cheaper)| cheaper.objective < best.worst_cost) {
        why.push(what_binds(request, *limit, cheaper, best.worst_cost));
    }
    if let Some(usual) = usual.filter(|usual| usual.cost > costs.cost * 1.005) {
        why.push(format!(
            "The default preset {USUAL} would cost {:.0} % more: {}",
            (usual.cost / costs.cost - 1.0) * 100.0,
            beside(usual, costs)
        ));
    }
    why
}

/// What the worst mix costs, and that no other design does better in it where others were looked at.
fn worst_in_words(request: &Request, radius: f64, worst_cost: f64, has_others: bool) -> String {
    let mut text =
        format!("In the worst mix within a divergence of {radius} an operation takes {worst_cost:.1} µs");
    if has_others {
        text.push_str("; no design that was looked at has a better worst case");
    }
    if has_others && request.premium_at_most.is_finite() {
        text.push_str(&format!(
            " among those that cost at most {} % more than the best in the mix that is expected",
            rounded(request.premium_at_most * 100.0, 1)
        ));
    }
    text.push('.');
    text
}

/// Which limits a design breaks that is priced all the same, a sentence for each.
pub(super) fn what_it_breaks(request: &Request, design: &Design, costs: &Costs) -> Vec<String> {
    let in_words = |limit: Limit| {
        let (what, bound) = (limit.in_words(), request.bound(limit).unwrap_or(f64::NAN));
        let (has, side) = (limit.of(costs), if limit == Limit::Years { "least" } else { "most" });
        match limit {
            Limit::Memory => format!(
                "It breaks the limit on {what} ({:.1} MiB): filters and indexes do not fit it, or four write buffers do not.",
                bound / MIB
            ),
            _ => format!("It breaks the limit on {what}: {has:.3} instead of {bound} at {side}."),
        }
    };
    request.all_broken(design, costs).map(in_words).collect()
}

/// A number with so many decimals at most.
fn rounded(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// What an operation's time goes to.
fn what_dominates(request: &Request, costs: &Costs) -> String {
    let (shares, each) = (request.workload.mix.shares(), costs.operation_cost.all());
    let names = ["gets that find an item", "gets that find none", "scans", "puts"];
    let parts = shares.iter().zip(each).zip(names).map(|((share, cost), name)| (share * cost, cost, name));
    let most = parts.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, 0.0, ""));
    format!(
        "An operation takes {:.1} µs of device and processor on the average; {:.0} % of that are {}, at {:.1} µs each.",
        costs.cost,
        most.0 / costs.cost.max(1e-12) * 100.0,
        most.2,
        most.1
    )
}

fn what_is_written(costs: &Costs) -> String {
    let levels: Vec<String> =
        costs.levels.iter().map(|level| format!("{:.2}", level.write_amplification)).collect();
    format!(
        "A byte that is put is written {:.2} times: {:.2} into the log, {} into the levels from the top.",
        costs.write_amplification,
        costs.log_amplification,
        levels.join(" + ")
    )
}

fn what_is_read(request: &Request, costs: &Costs) -> String {
    let mut text = format!(
        "A get reads {:.2} pages from the device if it finds an item and {:.3} if it does not",
        costs.reads_per_hit, costs.reads_per_miss
    );
    if request.workload.is_grouped() {
        text.push_str(&format!("; a scan of a group reads {:.1}", costs.reads_per_scan));
    }
    text.push('.');
    text
}

/// What figures are of where the store grows.
fn on_the_way(request: &Request) -> Option<String> {
    let (items, at_end) = (request.workload.items, request.workload.items_at_end?);
    (at_end > items).then(|| {
        format!(
            "The store grows to {:.1} times its items: figures are means over the way there, memory has to do for its end.",
            at_end / items
        )
    })
}

fn where_memory_goes(costs: &Costs, items: f64) -> String {
    let m = &costs.memory_bytes;
    let held = m.filter + m.index;
    let mut text = format!(
        "Of {:.1} MiB of memory filters take {:.1} ({:.2} bits an item), indexes {:.1} ({:.2} bits), write buffers {:.1}, compactions \
         {:.1}, the cache has {:.1}, and {:.1} are slack: {:.2} bytes an item for filters and indexes.",
        m.budget / MIB,
        m.filter / MIB,
        costs.filter_bits_per_item,
        m.index / MIB,
        costs.index_bits_per_item,
        m.memtable / MIB,
        m.compaction / MIB,
        m.cache / MIB,
        m.slack() / MIB,
        held / items
    );
    if !m.fits() {
        text.push_str(&format!(
            " Not all filters and indexes fit: all filters would take {:.1} MiB, all indexes {:.1}, and gets read more for those \
             that are missing.",
            (m.filter + m.unfitted_filter) / MIB,
            (m.index + m.unfitted_index) / MIB
        ));
    }
    text
}

/// When the device is worn out, where it is known how much is put.
fn how_long_it_lasts(request: &Request, costs: &Costs) -> Option<String> {
    let (rate, endurance) = (request.workload.puts_per_second?, request.device.endurance_bytes?);
    Some(format!(
        "With {rate} puts a second the device is worn out after {:.1} years, if {:.0} TB may be written to it.",
        costs.device_years?,
        endurance / 1e12
    ))
}

fn more_memory(next: &NextMemory) -> String {
    let mib = next.bytes as f64 / MIB;
    if next.saved_share < 5e-4 {
        return format!("Memory does not bind: another {mib:.1} MiB would save nothing worth mentioning.");
    }
    format!(
        "Memory binds: another {mib:.1} MiB would save {:.2} µs an operation ({:.1} %).",
        next.saved_us,
        next.saved_share * 100.0
    )
}

/// Which limit rules out something cheaper.
fn what_binds(request: &Request, limit: Limit, cheaper: &Candidate, cost: f64) -> String {
    let costs = &cheaper.costs;
    let (what, has) = (limit.in_words(), limit.of(costs));
    let most = request.bound(limit).unwrap_or(f64::NAN);
    format!(
        "The limit on {what} ({most:.2}) binds: without it, a design with {has:.2} would cost {:.1} % less.",
        (1.0 - cheaper.objective / cost) * 100.0
    )
}

/// One price beside another.
fn beside(costs: &Costs, other: &Costs) -> String {
    let change = |name: &str, ours: f64, theirs: f64| {
        let off = ours - theirs;
        (off.abs() > 0.02 * theirs.abs().max(0.05))
            .then(|| format!("{name} {ours:.2} instead of {theirs:.2}"))
    };
    let held = |costs: &Costs| (costs.memory_bytes.filter + costs.memory_bytes.index) / MIB;
    let changes: Vec<String> = [
        change("bytes written per byte", costs.write_amplification, other.write_amplification),
        change("reads per hit", costs.reads_per_hit, other.reads_per_hit),
        change("reads per miss", costs.reads_per_miss, other.reads_per_miss),
        change("MiB of filters and indexes", held(costs), held(other)),
        change("peak space", costs.peak_space_amplification, other.peak_space_amplification),
        change("µs an operation", costs.cost, other.cost),
    ]
    .into_iter()
    .flatten()
    .collect();
    if changes.is_empty() { "about the same.".to_owned() } else { format!("{}.", changes.join(", ")) }
}

/// A design as a list of its levels, one line each, from the top.
///
/// ```
/// use siltstone_design::presets;
/// use siltstone_model::advise::strata;
///
/// let lines = strata(&presets::lean());
/// assert_eq!(lines.len(), 4);
/// assert!(lines[0].starts_with("write buffer: memtable of 4 MiB"));
/// assert!(lines[3].contains("one run"));
/// ```
pub fn strata(design: &Design) -> Vec<String> {
    use siltstone_design::WriteBufferSpec;
    let buffer = match design.write_buffer {
        WriteBufferSpec::MemTable { bytes } => format!("memtable of {}", bytes_in_words(bytes)),
        WriteBufferSpec::LogStore { entries } => format!("log store of {entries} entries"),
    };
    let mut lines = vec![format!("write buffer: {buffer}")];
    for (number, level) in design.levels.iter().enumerate() {
        let regions = 1u64 << level.fanout_bits;
        let places = match (number, regions) {
            (0, 1) => "one region".to_owned(),
            (0, _) => format!("{regions} regions"),
            _ => format!("{regions} regions for each above"),
        };
        let runs = if level.runs == 1 { "one run".to_owned() } else { format!("{} runs", level.runs) };
        let format = match level.format {
            Format::Block => "block tables",
            Format::HTable => "hash tables of pages",
            Format::Hash => "hash stores",
            Format::Sorted => "sorted stores",
        };
        let table_filter = match level.table_filter {
            TableFilterSpec::None => String::new(),
            TableFilterSpec::Bloom { bits_per_key } => format!(", Bloom filters of {bits_per_key} bits"),
            TableFilterSpec::Cuckoo { fingerprint_bits } => {
                format!(", cuckoo filters of {fingerprint_bits} bits")
            }
            TableFilterSpec::Fragments { fragment_bits } => format!(", fragments of {fragment_bits} bits"),
        };
        let region_filter = match level.region_filter {
            RegionFilterSpec::None => String::new(),
            RegionFilterSpec::MultiLevelCuckoo { fingerprint_bits } => {
                format!(", a multi-level cuckoo filter of {fingerprint_bits} bits")
            }
            RegionFilterSpec::Maplet { remainder_bits } => format!(", a maplet of {remainder_bits} bits"),
            RegionFilterSpec::BloomCluster { bits_per_key } => {
                format!(", Bloom clusters of {bits_per_key} bits on the device")
            }
        };
        let compression = match level.compression {
            Compression::None => "",
            Compression::Dictionary => " compressed by a dictionary",
        };
        let index = match level.index {
            IndexSpec::None => "",
            IndexSpec::Separators => ", index of separators",
            IndexSpec::LastKeys => ", index of last keys",
            IndexSpec::LocatedSeparators => ", index of located separators",
            IndexSpec::ThreeLevel { .. } => ", three-level index",
            IndexSpec::Cells => ", index of cells",
            IndexSpec::Paged => ", index on the device",
        };
        lines.push(format!(
            "level {number}: {places}, {runs} of {}, {format}{compression}{index}{table_filter}{region_filter}",
            bytes_in_words(level.table_bytes)
        ));
    }
    lines
}

fn bytes_in_words(bytes: u64) -> String {
    let unit =
        |shift: u32, name: &str| format!("{} {name}", rounded(bytes as f64 / f64::from(1u32 << shift), 1));
    match bytes {
        b if b >= 1 << 40 => "any size".to_owned(),
        b if b >= 1 << 30 => unit(30, "GiB"),
        b if b >= 1 << 20 => unit(20, "MiB"),
        _ => unit(10, "KiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_and_round_ones_stay_short() {
        for (number, decimals, text) in [
            (7.000000000000001, 1, "7"),
            (13.774999618530273, 1, "13.8"),
            (0.989, 2, "0.99"),
            (100.0, 0, "100"),
        ] {
            assert_eq!(rounded(number, decimals), text);
        }
        for (bytes, text) in [
            (4 << 20, "4 MiB"),
            (14_444_134, "13.8 MiB"),
            (3 << 29, "1.5 GiB"),
            (1000, "1 KiB"),
            (0, "0 KiB"),
        ] {
            assert_eq!(bytes_in_words(bytes), text);
        }
    }
}
