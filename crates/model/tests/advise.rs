//! Advice: within its limits, on the front, no dearer than any preset, better with more memory, and as good as it
//! says at any time.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test that finds nothing should fail")]

use siltstone_design::{Design, PrefixRule, Schema, SuffixOrder, WriteBufferSpec, presets};
use siltstone_model::advise::{Advice, Choice, Limit, Request, advise, price_one};
use siltstone_model::price::{Costs, Mix, Pricer, Workload};

const MIB: u64 = 1 << 20;

fn mix(hits: f64, misses: f64, scans: f64, puts: f64) -> Mix {
    Mix { hits, misses, scans, puts }
}

fn grouped() -> Workload {
    Workload { items: 5e6, group_items: 64.0, batch_items: 100.0, ..Workload::default() }
}

fn points() -> Workload {
    Workload { items: 5e6, value_bytes: 32.0, mix: mix(0.3, 0.5, 0.0, 0.2), ..Workload::default() }
}

fn overwritten() -> Workload {
    Workload { items: 2e6, overwrites: 4e6, skew: 0.6, ..Workload::default() }
}

/// What designs are compared by.
fn dimensions(costs: &Costs, mix: Mix) -> [f64; 4] {
    let reads =
        mix.hits * costs.reads_per_hit + mix.misses * costs.reads_per_miss + mix.scans * costs.reads_per_scan;
    let memory = &costs.memory_bytes;
    let held = memory.memtable + memory.filter + memory.index;
    let all = mix.hits + mix.misses + mix.scans;
    [costs.write_amplification, reads / all, held, costs.peak_space_amplification]
}

fn dominates(one: &[f64; 4], other: &[f64; 4]) -> bool {
    one.iter().zip(other).all(|(one, other)| *one <= *other * (1.0 - 1e-9)) && one != other
}

/// Whether two write buffers take half of the memory at most: the engine seals larger ones early, which their
/// prices do not know.
fn has_room(design: &Design, memory_bytes: u64) -> bool {
    2 * design.write_buffer_bytes() <= memory_bytes / 2
}

/// What holds for every design of an advice.
fn check(request: &Request, advice: &Advice) {
    let schema = if request.workload.is_grouped() {
        Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 8 }, suffix: SuffixOrder::Ordered }
    } else {
        Schema::Point
    };
    assert_eq!(advice.front[0].design, advice.best.design);
    for Choice { design, name, predicted, why, .. } in &advice.front {
        design.check_for(&schema).unwrap();
        let again = request.pricer().unwrap().price(design, request.memory_bytes).unwrap();
        assert_eq!(&again, predicted, "{name}");
        let memory = &predicted.memory_bytes;
        assert!(
            memory.unfitted() <= 1.0 && memory.total <= request.memory_bytes as f64,
            "{name}: {memory:?}"
        );
        assert!(has_room(design, request.memory_bytes), "{name}");
        assert!(
            request.space_at_most.is_none_or(|most| predicted.peak_space_amplification <= most),
            "{name}"
        );
        assert!(request.reads_at_most.is_none_or(|most| predicted.reads_per_hit <= most), "{name}");
        let years = request.years_at_least.zip(predicted.device_years);
        assert!(years.is_none_or(|(least, years)| years >= least), "{name}: {years:?}");
        assert!(!why.is_empty() && why.iter().all(|sentence| sentence.ends_with('.')), "{name}: {why:?}");
    }
    let all: Vec<_> =
        advice.front.iter().map(|choice| dimensions(&choice.predicted, request.workload.mix)).collect();
    for (at, point) in all.iter().enumerate() {
        let by = all.iter().position(|other| dominates(other, point));
        assert_eq!(by, None, "{at} of the front is beaten");
    }
    // Of those that cost little enough in the mix that is told.
    let least = advice.front.iter().map(|choice| choice.predicted.cost).fold(f64::INFINITY, f64::min);
    let most = least * (1.0 + request.uncertainty.map_or(0.0, |_| request.premium_at_most));
    assert!(advice.best.predicted.cost <= most, "{} for {least}", advice.best.predicted.cost);
    let is_no_better =
        |choice: &Choice| choice.worst_cost >= advice.best.worst_cost || choice.predicted.cost > most;
    assert!(advice.front.iter().all(is_no_better));
}

#[test]
fn advice_keeps_to_its_limits_and_is_no_dearer_than_presets() {
    for (name, workload) in [("grouped", grouped()), ("points", points()), ("overwritten", overwritten())] {
        for memory in [8, 32, 256] {
            let request = Request::new(workload, memory * MIB);
            let advice = advise(&request).unwrap();
            check(&request, &advice);
            let best = &advice.best;
            println!(
                "{name} {memory} MiB: {} {:.3} µs of {}",
                best.name, best.predicted.cost, advice.considered
            );
            for (preset, costs) in &advice.presets {
                let design = Design::preset(preset).unwrap();
                let is_allowed =
                    costs.memory_bytes.unfitted() == 0.0 && has_room(&design, request.memory_bytes);
                assert!(
                    !is_allowed || best.predicted.cost <= costs.cost * 1.0001,
                    "{name} {memory} MiB: {preset} costs {}, {} {}",
                    costs.cost,
                    best.name,
                    best.predicted.cost
                );
            }
        }
    }
}

#[test]
fn more_memory_never_costs_more() {
    for workload in [grouped(), points()] {
        let mut last = f64::INFINITY;
        for memory in [4, 8, 16, 32, 64, 128] {
            let advice = advise(&Request::new(workload, memory * MIB)).unwrap();
            let cost = advice.best.predicted.cost;
            println!("{memory} MiB: {cost:.4} µs, {}", advice.best.name);
            // A search takes the first change that helps, and prices are exact to less than this.
            assert!(cost <= last * 1.005, "{memory} MiB cost {cost} µs, fewer {last}");
            assert!(advice.next_memory.saved_us >= 0.0);
            last = cost;
        }
    }
}

/// Leaves are merged at about the same time where all items are changed alike, and a store that has just been
/// merged is cheap. What is advised is to be good at any time.
#[test]
fn advice_holds_while_items_go_on_being_changed() {
    let (creation, update) = (mix(0.0, 0.5, 0.0, 0.5), mix(0.5, 0.0, 0.0, 0.5));
    let mixed = mix(0.5, 0.25, 0.0, 0.25);
    // Bytes of memory an item, and how often each was overwritten.
    for (mix, bytes, times) in
        [(creation, 2.0, 1.0), (creation, 3.2, 1.0), (update, 1.0, 2.0), (mixed, 0.7, 1.0)]
    {
        let items = 2e6;
        let workload = Workload { items, overwrites: items * times, mix, ..Workload::default() };
        let request = Request::new(workload, (bytes * items) as u64);
        let best = advise(&request).unwrap().best;
        let later = |part: u32| {
            let overwrites = items * (times + f64::from(part) / 12.0);
            let pricer = Pricer::new(&Workload { overwrites, ..workload }, &request.device).unwrap();
            pricer.price(&best.design, request.memory_bytes).unwrap().cost
        };
        let costs: Vec<f64> = (0..12).map(later).collect();
        let (said, mean) = (best.predicted.cost, costs.iter().sum::<f64>() / 12.0);
        let most = costs.iter().copied().fold(0.0, f64::max);
        println!("{bytes} bytes an item: {said:.3} µs said, {mean:.3} on the average, {most:.3} at most");
        assert!((mean / said - 1.0).abs() < 0.05, "{bytes} bytes an item: {mean} µs, and {said} said");
        assert!(most < 1.2 * mean, "{bytes} bytes an item: {most} µs at worst, {mean} on the average");
    }
}

#[test]
fn limits_bind() {
    let free = advise(&Request::new(overwritten(), 64 * MIB)).unwrap();
    let most = 1.0 + (free.best.predicted.peak_space_amplification - 1.0) * 0.8;
    let request = Request { space_at_most: Some(most), ..Request::new(overwritten(), 64 * MIB) };
    let bound = advise(&request).unwrap();
    check(&request, &bound);
    assert!(bound.best.predicted.cost >= free.best.predicted.cost * 0.999);
    assert!(bound.refused[&Limit::Space] > 0, "{:?}", bound.refused);
    let why = bound.best.why.join(" ");
    println!("free {:.4}, within {most:.3} {:.4}", free.best.predicted.cost, bound.best.predicted.cost);
    assert!(why.contains("The limit on space"), "{why}");
    // Fewer writes, for a device that is to last.
    let workload = Workload { puts_per_second: Some(20_000.0), ..grouped() };
    let free = advise(&Request::new(workload, 64 * MIB)).unwrap();
    let least = free.front.iter().filter_map(|choice| choice.predicted.device_years).fold(0.0, f64::max);
    let request = Request { years_at_least: Some(least * 0.99), ..Request::new(workload, 64 * MIB) };
    check(&request, &advise(&request).unwrap());
}

#[test]
fn limits_on_each_kind_of_read_bind() {
    // Reads are so few that the cheapest are no good at them.
    let workload = Workload { mix: mix(0.01, 0.01, 0.01, 0.97), ..grouped() };
    let request = Request::new(workload, 24 * MIB);
    let advice = advise(&request).unwrap();
    let free = advice.best;
    type Case = (Limit, fn(&Costs) -> f64, fn(&mut Request, f64), &'static str);
    let cases: [Case; 6] = [
        (Limit::Reads, |costs| costs.reads_per_hit, |r, most| r.reads_at_most = Some(most), "reads a get"),
        (
            Limit::MissReads,
            |costs| costs.reads_per_miss,
            |r, most| r.miss_reads_at_most = Some(most),
            "reads a get that finds nothing",
        ),
        (
            Limit::ScanReads,
            |costs| costs.reads_per_scan,
            |r, most| r.scan_reads_at_most = Some(most),
            "reads a scan",
        ),
        (
            Limit::HitTime,
            |costs| costs.latency_us.hit,
            |r, most| r.hit_us_at_most = Some(most),
            "microseconds a get",
        ),
        (
            Limit::MissTime,
            |costs| costs.latency_us.miss,
            |r, most| r.miss_us_at_most = Some(most),
            "microseconds a get that finds nothing",
        ),
        (
            Limit::ScanTime,
            |costs| costs.latency_us.scan,
            |r, most| r.scan_us_at_most = Some(most),
            "microseconds a scan",
        ),
    ];
    for (limit, of, set, words) in cases {
        let least = advice.front.iter().map(|choice| of(&choice.predicted)).fold(f64::INFINITY, f64::min);
        let most = f64::midpoint(least, of(&free.predicted));
        println!("{limit:?}: {} of {least}", of(&free.predicted));
        assert!(least < of(&free.predicted) * 0.995, "{limit:?}: nothing to bind");
        let mut bound = request;
        set(&mut bound, most);
        let advice = advise(&bound).unwrap();
        println!(
            "{limit:?}: {:.3} within {most:.3}; cost {:.4} {}, free {:.4} {}",
            of(&advice.best.predicted),
            advice.best.predicted.cost,
            advice.best.name,
            free.predicted.cost,
            free.name
        );
        assert!(advice.front.iter().all(|choice| of(&choice.predicted) <= most), "{limit:?}");
        assert!(advice.refused[&limit] > 0, "{:?}", advice.refused);
        assert!(advice.best.predicted.cost >= free.predicted.cost * 0.999, "{limit:?}");
        let why = advice.best.why.join(" ");
        assert!(why.contains(&format!("The limit on {words} (")), "{limit:?}: {why}");
        set(&mut bound, 1e-9);
        assert!(advise(&bound).unwrap_err().parameter().ends_with("-at-most"), "{limit:?}");
        set(&mut bound, -1.0);
        assert!(advise(&bound).unwrap_err().to_string().contains("-1"), "{limit:?}");
    }
}

#[test]
fn a_growing_store_is_advised_for_its_way() {
    let now = Workload { items: 5e5, ..grouped() };
    let growing = Workload { items_at_end: Some(1e7), ..now };
    let at_end = Workload { items: 1e7, ..now };
    let best = |workload: Workload| advise(&Request::new(workload, 16 * MIB)).unwrap().best;
    let (now, growing_best, at_end) = (best(now), best(growing), best(at_end));
    // No cheaper on the way than what suits the way.
    let pricer = Request::new(growing, 16 * MIB).pricer().unwrap();
    for other in [&now, &at_end] {
        let costs = pricer.price(&other.design, 16 * MIB).unwrap();
        let fits = costs.memory_bytes.unfitted() < 1.0;
        println!(
            "{} {:.3}, {} {:.3} {fits}",
            growing_best.name, growing_best.predicted.cost, other.name, costs.cost
        );
        assert!(!fits || growing_best.predicted.cost <= costs.cost * 1.01, "{}", other.name);
    }
    assert!(growing_best.why.join(" ").contains("grows to 20.0 times its items"), "{:?}", growing_best.why);
}

#[test]
fn what_nothing_keeps_to_is_an_error_that_names_the_limit() {
    let of = |request: &Request| advise(request).unwrap_err();
    let request = Request::new(grouped(), 64 * MIB);
    assert_eq!(of(&Request { space_at_most: Some(0.5), ..request }).parameter(), "space-at-most");
    assert_eq!(of(&Request { reads_at_most: Some(0.001), ..request }).parameter(), "reads-at-most");
    assert_eq!(of(&Request { memory_bytes: 1000, ..request }).parameter(), "memory");
    assert_eq!(of(&Request { uncertainty: Some(-1.0), ..request }).parameter(), "uncertain");
    assert_eq!(of(&Request { premium_at_most: -1.0, ..request }).parameter(), "premium-at-most");
    let no_items = Workload { items: 0.0, ..grouped() };
    assert_eq!(of(&Request { workload: no_items, ..request }).parameter(), "items");
    let log_store = price_one(&request, "silt", &presets::silt()).unwrap_err();
    assert_eq!(log_store.parameter(), "design");
}

#[test]
fn robust_advice_has_the_better_worst_case() {
    let workload = Workload { mix: mix(0.05, 0.05, 0.0, 0.9), ..points() };
    let certain = Request::new(workload, 16 * MIB);
    let robust = Request { uncertainty: Some(2.0), ..certain };
    let (of_mix, of_worst) = (advise(&certain).unwrap(), advise(&robust).unwrap());
    check(&robust, &of_worst);
    let worst = |choice: &Choice| {
        let each = choice.predicted.operation_cost.all();
        siltstone_model::advise::robust::worst_cost(&workload.mix.shares(), &each, 2.0)
    };
    assert!((worst(&of_worst.best) - of_worst.best.worst_cost).abs() < 1e-9);
    // Where it matters it is better, and at the centre it is no better than what was made for it.
    assert!(worst(&of_worst.best) <= worst(&of_mix.best) * 1.001);
    assert!(of_worst.best.predicted.cost >= of_mix.best.predicted.cost * 0.995);
    println!("centre {} and {}", of_mix.best.predicted.cost, of_worst.best.predicted.cost);
    // The premium is kept, and who pays more is insured better.
    let costs = |premium: f64| {
        let advice = advise(&Request { premium_at_most: premium, ..robust }).unwrap();
        (advice.best.predicted.cost / of_mix.best.predicted.cost, worst(&advice.best))
    };
    let [(none, uninsured), (little, insured), (_, insured_well)] = [0.0, 0.05, f64::INFINITY].map(costs);
    assert!(none < 1.005 && little < 1.055, "{none} and {little} times the best");
    assert!(insured_well <= insured && insured <= uninsured, "{uninsured}, {insured}, {insured_well}");
}

#[test]
fn one_design_can_be_priced_alone() {
    let request = Request::new(grouped(), 64 * MIB);
    let advice = price_one(&request, "lean", &presets::lean()).unwrap();
    assert_eq!((advice.best.name.as_str(), advice.front.len(), advice.presets.len()), ("lean", 1, 1));
    assert_eq!(advice.best.predicted, request.pricer().unwrap().price(&presets::lean(), 64 * MIB).unwrap());
    assert!(!advice.best.why.is_empty());
}

#[test]
fn one_design_is_priced_beyond_its_limits_and_says_which_it_breaks() {
    let workload = Workload { puts_per_second: Some(1e6), ..grouped() };
    let free = Request { uncertainty: Some(1.0), ..Request::new(workload, 64 * MIB) };
    let why = |request: &Request, design: &Design| {
        let advice = price_one(request, "lean", design).unwrap();
        assert_eq!(advice.front[0].why, advice.best.why);
        advice.best.why
    };
    let of_free = why(&free, &presets::lean());
    assert!(!of_free.iter().any(|sentence| sentence.contains("breaks")), "{of_free:?}");
    // There is no other design that this one could be compared with.
    let worst = of_free.iter().find(|sentence| sentence.contains("worst mix")).unwrap();
    assert!(!worst.contains("no design"), "{worst}");
    let narrow = Request { space_at_most: Some(0.5), years_at_least: Some(50.0), ..free };
    let said = why(&narrow, &presets::lean());
    assert!(said[0].starts_with("It breaks the limit on space at the peak: "), "{said:?}");
    assert!(said[0].ends_with(" instead of 0.5 at most."), "{said:?}");
    assert!(said[1].starts_with("It breaks the limit on years of the device: 0."), "{said:?}");
    assert_eq!(said[2..], of_free);
    let is_of_fit = |sentence: &String| sentence.contains("Not all filters and indexes fit");
    assert!(!of_free.iter().any(is_of_fit), "{of_free:?}");
    // What filters would take is what the price has of them.
    let tight = Request { memory_bytes: 8 * MIB, ..free };
    let slim = presets::slimdb().scaled_to(1 << 20);
    let memory = tight.pricer().unwrap().price(&slim, 8 * MIB).unwrap().memory_bytes;
    let all = (memory.filter + memory.unfitted_filter) / MIB as f64;
    let unfitted = why(&tight, &slim).into_iter().find(is_of_fit).unwrap();
    assert!(unfitted.contains(&format!("all filters would take {all:.1} MiB")), "{unfitted}");
    let large = why(&free, &presets::lean().scaled_to(64 << 20));
    assert!(large[0].starts_with("It breaks the limit on memory (64.0 MiB)"), "{large:?}");
}

#[test]
fn the_same_request_gets_the_same_advice() {
    let request = Request::quick(points(), 32 * MIB);
    let (one, other) = (advise(&request).unwrap(), advise(&request).unwrap());
    assert_eq!(one.best.design, other.best.design);
    assert_eq!(one.front.len(), other.front.len());
    // Points may have log stores; what shares prefixes may not.
    let of_groups = advise(&Request::quick(grouped(), 32 * MIB)).unwrap();
    let is_memtable =
        |choice: &Choice| matches!(choice.design.write_buffer, WriteBufferSpec::MemTable { .. });
    assert!(of_groups.front.iter().all(is_memtable));
}

#[test]
fn advice_as_json_has_the_fields_that_scripts_read() {
    let advice = advise(&Request::quick(grouped(), 32 * MIB)).unwrap();
    let json = serde_json::to_value(&advice).unwrap();
    let best = &json["best"];
    for field in ["design", "name", "why", "predicted"] {
        assert!(!best[field].is_null(), "{field}");
    }
    for field in [
        "write_amplification",
        "reads_per_hit",
        "reads_per_miss",
        "space_amplification",
        "cpu_us_per_get",
        "cpu_us_per_put",
        "cost",
    ] {
        assert!(best["predicted"][field].is_f64(), "{field}");
        assert!(json["presets"]["siltstone"][field].is_f64(), "{field}");
    }
    assert!(best["predicted"]["memory_bytes"]["filter"].is_f64());
    let design: siltstone_design::Design = serde_json::from_value(best["design"].clone()).unwrap();
    assert_eq!(design, advice.best.design);
    assert!(json["front"].as_array().unwrap().len() == advice.front.len());
}
