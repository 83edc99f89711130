//! SILT's and SlimDB's own cost models against the points worked out from their papers.

use super::{near, number, numbers};
use serde_json::Value;
use siltstone_model::cost::silt::Silt;
use siltstone_model::cost::slimdb::{Mix, Row, SlimDb, SteppedWrites};

/// Complains where SILT's costs differ from the point's.
pub fn silt(point: &Value) -> Vec<String> {
    let input = |name: &str| number(&point["inputs"][name]);
    let silt = Silt {
        keys: input("N"),
        instances: input("P"),
        merge_items: input("d"),
        tag_bits: input("k") as u32,
        item_bytes: input("c"),
        updates_per_second: input("U"),
        device_bytes: input("F"),
        erase_cycles: input("E"),
    };
    let (costs, printed) = (silt.costs().unwrap(), silt.printed_forms().unwrap());
    let found = [
        ("WA", costs.write_amplification),
        ("H", costs.hash_stores),
        ("f", costs.false_positive_rate),
        ("RA", costs.read_amplification),
        ("MO", costs.memory_bytes_per_item),
        ("mem_MB", costs.memory_bytes / 1e6),
        ("MO_simplified", printed.memory_bytes_per_item),
        ("RA_simplified", printed.read_amplification),
    ];
    assert_eq!(point["expect"].as_object().unwrap().len(), found.len() + 1);
    let mut complaints: Vec<String> = found
        .into_iter()
        .filter_map(|(name, value)| near(point, name, value, number(&point["expect"][name])))
        .collect();
    // Given with four digits after the point.
    let lifetime = number(&point["expect"]["lifetime_years"]);
    if (costs.lifetime_years - lifetime).abs() > 1e-4 {
        complaints.push(format!("lifetime: {}, expected {lifetime}", costs.lifetime_years));
    }
    complaints
}

/// Complains where SlimDB's best layout or its cost differs from the point's.
pub fn slimdb(point: &Value) -> Vec<String> {
    let (inputs, expect) = (&point["inputs"], &point["expect"]);
    let store = SlimDb {
        levels: number(&inputs["levels"]) as u32,
        growth: number(&inputs["r"]),
        first_level_items: number(&inputs["N0"]),
        max_stepped_levels: inputs["max_sm_levels"].as_u64().map(|most| most as u32),
        // The points charge row 4 as Table 1 prints it.
        stepped_writes: SteppedWrites::Printed,
        ..SlimDb::default()
    };
    match &expect["cost"] {
        Value::Object(costs) => Mix::FIGURE_9
            .into_iter()
            .flat_map(|(name, mix)| paper_layout(point, &store, mix, number(&costs[name])))
            .collect(),
        cost => best_layout(point, &store, number(cost)),
    }
}

fn layout(point: &Value) -> Vec<u8> {
    numbers(&point["expect"]["layout"]).into_iter().map(|row| row as u8).collect()
}

fn best_layout(point: &Value, store: &SlimDb, cost: f64) -> Vec<String> {
    let inputs = &point["inputs"];
    let ratios = numbers(&inputs["ratios_PR_NR_W"]);
    let mix = Mix { positive_reads: ratios[0], negative_reads: ratios[1], writes: ratios[2] };
    let best = store.best(mix, number(&inputs["budget_MB"]) * 1e6).unwrap().unwrap();
    let mut complaints = Vec::new();
    if best.numbers() != layout(point) {
        complaints.push(format!("layout {:?}", best.numbers()));
    }
    complaints.extend(near(point, "memory", best.memory_bytes / 1e6, number(&point["expect"]["mem_MB"])));
    complaints.extend(near(point, "cost", best.cost, cost));
    complaints
}

/// The layout that the paper names: its memory and its cost; and that it is best between the budgets, but for
/// a workload without writes, where stepped levels gain nothing.
fn paper_layout(point: &Value, store: &SlimDb, mix: Mix, cost: f64) -> Vec<String> {
    let rows: Vec<Row> = layout(point).into_iter().map(|number| Row::from_number(number).unwrap()).collect();
    let priced = store.price(&rows, mix).unwrap();
    let mut complaints = Vec::new();
    complaints.extend(near(point, "memory", priced.memory_bytes / 1e6, number(&point["expect"]["mem_MB"])));
    complaints.extend(near(point, "cost", priced.cost, cost));
    if mix.writes > 0.0 {
        for budget in numbers(&point["inputs"]["budget_MB"]) {
            let best = store.best(mix, budget * 1e6).unwrap().unwrap();
            if best.numbers() != layout(point) {
                complaints.push(format!("at {budget} MB {:?} is better", best.numbers()));
            }
        }
    }
    complaints
}
