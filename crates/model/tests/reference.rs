//! Every reference point of `reference/models.json` against this crate, each within its own tolerance.
//!
//! The points come from the papers' printed tables, from independent computations of their formulas, from the
//! published simulator and from runs of real engines. One function per kind of point; a point of a kind
//! nobody checks fails.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a point that lacks something should fail")]

use serde_json::Value;
use siltstone_model::engines::cola::{self, Growing};
use siltstone_model::engines::leveldb::{Form, LevelDb};
use siltstone_model::engines::rocksdb_universal::{Tables, Universal};
use siltstone_model::engines::{samt, sizes};
use siltstone_model::optimize::Optimizer;
use siltstone_model::{Direct, Grouping, Popularity, Primitives};

#[path = "reference/against_simulation.rs"]
mod against_simulation;
#[path = "reference/layouts.rs"]
mod layouts;

/// What is wrong with a point, if anything.
type Complaints = Vec<String>;

#[test]
fn every_point_holds() {
    let file: Value = serde_json::from_str(include_str!("reference/models.json")).unwrap();
    let points = file["points"].as_array().unwrap();
    assert_eq!(points.len(), 87);
    let mut failures = Vec::new();
    for point in points {
        let complaints = match point["kind"].as_str().unwrap() {
            "primitive" => primitive(point),
            "leveldb_wa" => write_amplification(point),
            "leveldb_opt" => optimum(point),
            "leveldb_wa+opt" => [write_amplification(point), optimum_at_most(point)].concat(),
            "universal" => universal(point),
            "cola_samt" => cola_samt(point),
            "real_engine" => real_engine(point),
            "simulator" => against_simulation::check(point),
            "silt" => layouts::silt(point),
            "slimdb" => layouts::slimdb(point),
            kind => vec![format!("nobody checks points of kind {kind}")],
        };
        failures
            .extend(complaints.into_iter().map(|why| format!("{}: {why}", point["id"].as_str().unwrap())));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"))
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

/// The paper's grouping, which the reference values were computed with.
fn keys(inputs: &Value) -> Direct {
    let ratio = 1.0 + inputs["rel_diff"].as_f64().unwrap_or(0.1);
    let grouping = Grouping::Mean { ratio };
    let keys = number(&inputs["N"]) as u64;
    Direct::new(&Popularity::zipf_grouped(keys, number(&inputs["s"]), grouping).unwrap())
}

/// Complains unless `found` is within the point's tolerance of `expected`.
fn near(point: &Value, what: &str, found: f64, expected: f64) -> Option<String> {
    let allowed = match (point["tol_rel"].as_f64(), point["tol_abs"].as_f64()) {
        (Some(relative), _) => relative * expected.abs(),
        (None, Some(absolute)) => absolute,
        (None, None) => panic!("no tolerance in {point}"),
    };
    // Not the negated comparison: NaN must complain.
    let fine = (found - expected).abs() <= allowed;
    (!fine).then(|| format!("{what}: {found}, expected {expected} within {allowed}"))
}

fn primitive(point: &Value) -> Complaints {
    let (inputs, expect) = (&point["inputs"], &point["expect"]);
    let keys = keys(inputs);
    let total = keys.total();
    let mut complaints = Vec::new();
    let mut each = |what: &str, function: &dyn Fn(f64) -> f64, scale: f64| match &expect[what] {
        Value::Object(pairs) => {
            for (argument, expected) in pairs {
                let found = function(argument.parse::<f64>().unwrap() * scale);
                complaints.extend(near(point, &format!("{what}({argument})"), found, number(expected)));
            }
        }
        Value::Null => {}
        expected => complaints.extend(near(point, what, function(number(&inputs["size"])), number(expected))),
    };
    each("unique", &|p| keys.unique(p), 1.0);
    each("unique_inv", &|u| keys.unique_inverse(u), total);
    each("dinterval", &|u| keys.dinterval(u), total);
    match &expect["merge"] {
        Value::Null => {}
        Value::Object(pairs) => {
            for (shares, expected) in pairs {
                let (u, v) = shares.split_once(',').unwrap();
                let size = |share: &str| share.parse::<f64>().unwrap() * total;
                complaints.extend(near(point, "merge", keys.merge(size(u), size(v)), number(expected)));
            }
        }
        expected => {
            let merged = keys.merge(number(&inputs["u"]), number(&inputs["v"]));
            complaints.extend(near(point, "merge", merged, number(expected)));
        }
    }
    if let Some(expected) = expect["groups"].as_u64() {
        let grouping = Grouping::Mean { ratio: 1.0 + number(&inputs["rel_diff"]) };
        let groups = Popularity::zipf_grouped(total.round() as u64, number(&inputs["s"]), grouping).unwrap();
        if groups.groups().len() as u64 != expected {
            complaints.push(format!("{} groups, expected {expected}", groups.groups().len()));
        }
    }
    complaints
}

/// The engine of a point: the paper's defaults unless told.
fn leveldb(inputs: &Value) -> LevelDb {
    let keys = number(&inputs["N"]);
    let level_sizes = match &inputs["sizes"] {
        Value::Array(_) => numbers(&inputs["sizes"]),
        _ => sizes::geometric(10_485.76, 10.0, keys).unwrap(),
    };
    let write_buffer = inputs["wal_items"].as_f64().unwrap_or(4194.304);
    LevelDb::new(write_buffer, inputs["c0"].as_f64().unwrap_or(4.0), level_sizes)
}

fn write_amplification(point: &Value) -> Complaints {
    let (inputs, expect) = (&point["inputs"], &point["expect"]);
    let engine = leveldb(inputs);
    let cost = engine.write_amplification(&keys(inputs)).unwrap();
    let mut complaints: Complaints =
        near(point, "total", cost.write_amplification, number(&expect["total"])).into_iter().collect();
    complaints.extend(steps(point, &cost.steps));
    if let Some(worst) = expect["worst_case"].as_f64() {
        complaints.extend(near(point, "worst case", engine.worst_case(), worst));
    }
    // What programs use by default is as near.
    let default = Popularity::zipf(number(&inputs["N"]) as u64, number(&inputs["s"])).unwrap();
    let total = engine.write_amplification(&Direct::new(&default)).unwrap().write_amplification;
    complaints.extend(near(point, "total, default grouping", total, number(&expect["total"])));
    complaints
}

fn steps(point: &Value, steps: &[siltstone_model::engines::Step]) -> Complaints {
    let Value::Array(expected) = &point["expect"]["wa_levels"] else { return Vec::new() };
    if expected.len() != steps.len() {
        return vec![format!("{} steps, expected {}", steps.len(), expected.len())];
    }
    let pairs = steps.iter().zip(expected);
    pairs.filter_map(|(step, e)| near(point, &step.to, step.write_amplification, number(e))).collect()
}

/// Table 1's optimum, with all its rows.
fn optimum(point: &Value) -> Complaints {
    let inputs = &point["inputs"];
    let keys = keys(inputs);
    let engine = leveldb(inputs);
    assert_eq!(engine.level_sizes.len() as u64, inputs["L"].as_u64().unwrap());
    let best = Optimizer::new(&keys).level_sizes(&engine).unwrap();
    let engine = LevelDb { level_sizes: best.level_sizes_items, ..engine };
    let cost = engine.write_amplification(&keys).unwrap();
    let mut complaints = steps(point, &cost.steps);
    complaints.extend(near(point, "total", cost.write_amplification, number(&point["expect"]["total"])));
    complaints
}

fn optimum_at_most(point: &Value) -> Complaints {
    let (inputs, expect) = (&point["inputs"], &point["expect"]);
    let best = Optimizer::new(&keys(inputs)).level_sizes(&leveldb(inputs)).unwrap();
    let most = number(&expect["opt_total_at_most"]) * (1.0 + number(&point["tol_rel"]));
    let ascending = best.level_sizes_items.is_sorted();
    let fine = best.write_amplification <= most && ascending;
    let found = (best.write_amplification, best.level_sizes_items);
    (!fine).then(|| format!("optimum {found:?}, expected at most {most}")).into_iter().collect()
}

/// A full store takes N uniform inserts, then the updates that count: ten times N, as the model does by
/// itself.
fn universal(point: &Value) -> Complaints {
    let inputs = &point["inputs"];
    let options = Universal {
        level0_file_num_compaction_trigger: inputs["trigger"].as_u64().unwrap() as usize,
        level0_stop_writes_trigger: inputs["stop"].as_u64().unwrap() as usize,
        size_ratio: number(&inputs["size_ratio"]),
        max_size_amplification_percent: number(&inputs["max_amp"]),
        ..Universal::new(number(&inputs["wal_items"]))
    };
    assert_eq!(number(&inputs["updates"]), 10.0 * number(&inputs["N"]));
    let found = options.write_amplification(&keys(inputs)).unwrap().write_amplification;
    near(point, "total", found, number(&point["expect"]["total"])).into_iter().collect()
}

fn cola_samt(point: &Value) -> Complaints {
    let inputs = &point["inputs"];
    let keys = keys(inputs);
    let engine = Growing {
        write_buffer: number(&inputs["wal_items"]),
        growth: inputs["r"].as_u64().unwrap() as u32,
        levels: inputs["L"].as_u64().unwrap() as usize,
    };
    let cola = cola::write_amplification(&engine, &keys).unwrap().write_amplification;
    let samt = samt::write_amplification(&engine, &keys).unwrap().write_amplification;
    let found = [("cola", cola), ("samt", samt)];
    found
        .into_iter()
        .filter_map(|(what, found)| near(point, what, found, number(&point["expect"][what])))
        .collect()
}

/// Real engines against the models, over the updates after the first N. LevelDB and RocksDB's leveled
/// compaction had settled by then; universal compaction was measured over three rounds, so the simulation
/// runs the same three.
fn real_engine(point: &Value) -> Complaints {
    let (inputs, expect) = (&point["inputs"], &point["expect"]);
    let n = number(&inputs["N"]);
    let keys = keys(inputs);
    let config = inputs["config"].as_str().unwrap();
    let found = match config {
        "" => leveldb(inputs).write_amplification(&keys).unwrap().write_amplification,
        "optmor" => {
            // RocksDB 7.8 cuts tables where those of the next level begin.
            let level_sizes = sizes::geometric(36_595.04, 5.377, n).unwrap();
            let engine = LevelDb::new(4194.304, 4.0, level_sizes);
            let engine = LevelDb { form: Form::V2, aligned_tables: true, ..engine };
            engine.write_amplification(&keys).unwrap().write_amplification
        }
        "ucnopace" => {
            let options = Universal { level0_stop_writes_trigger: 16, ..Universal::new(4194.304) };
            let mut tables = Tables::new(options).unwrap();
            tables.load(&[n]);
            tables.insert(&keys, n);
            let settled = tables.written();
            tables.insert(&keys, number(&inputs["updates"]) - n);
            tables.cost_since(&settled).write_amplification
        }
        _ => return vec![format!("unknown configuration {config}")],
    };
    near(point, "total", found, number(&expect["total_excluding_first_N_updates"])).into_iter().collect()
}
