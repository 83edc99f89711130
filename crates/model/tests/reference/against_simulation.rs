//! The analytic models against what the published simulator wrote, run for run.

use super::{keys, number, numbers};
use serde_json::Value;
use siltstone_model::engines::leveldb::{Form, LevelDb};
use siltstone_model::engines::sizes;
use siltstone_model::optimize::Optimizer;

/// The refined model's largest error over these points, with room for the simulator's own noise.
const MOST_ERROR: f64 = 0.05;

/// Complains where the model is farther from the simulation than its stated accuracy.
pub fn check(point: &Value) -> Vec<String> {
    let (inputs, expect) = (&point["inputs"], &point["expect"]);
    // Other ways to pick tables than the model's are for simulators alone.
    if point["id"].as_str().unwrap().contains("mode") {
        return Vec::new();
    }
    let n = number(&inputs["N"]);
    let keys = keys(inputs);
    let bytes = |value: &Value| number(value) / 1000.0;
    let level_sizes = match (&inputs["level_threshold_bytes"], &inputs["sizes"]) {
        (Value::Array(_), _) => {
            let given: Vec<f64> =
                numbers(&inputs["level_threshold_bytes"]).iter().map(|b| b / 1000.0).collect();
            sizes::custom(&given, n).unwrap()
        }
        _ => sizes::geometric(10_485.76, 10.0, n).unwrap(),
    };
    let write_buffer = if inputs["wal_bytes"].is_null() { 4194.304 } else { bytes(&inputs["wal_bytes"]) };
    let mut engine = LevelDb { form: Form::V2, ..LevelDb::new(write_buffer, 4.0, level_sizes) };
    if inputs["sizes"].is_string() {
        let paper = LevelDb { form: Form::Paper, ..engine.clone() };
        engine.level_sizes = Optimizer::new(&keys).level_sizes(&paper).unwrap().level_sizes_items;
    }
    let simulated = number(&expect["total"]);
    let refined = engine.write_amplification(&keys).unwrap().write_amplification;
    let error = refined / simulated - 1.0;
    let printed =
        LevelDb { form: Form::Paper, ..engine }.write_amplification(&keys).unwrap().write_amplification;
    println!(
        "{} {simulated:.3} v2 {:+.1} % paper {:+.1} %",
        point["id"],
        100.0 * error,
        100.0 * (printed / simulated - 1.0)
    );
    let fine = error.abs() <= MOST_ERROR;
    let mut complaints = Vec::new();
    if !fine {
        complaints.push(format!("model {refined:.3}, simulated {simulated:.3}"));
    }
    // The paper's own simulations, which have a tolerance, are of its own model.
    if point["tol_rel"].is_number() {
        complaints.extend(super::near(point, "total", printed, simulated));
    }
    complaints
}
