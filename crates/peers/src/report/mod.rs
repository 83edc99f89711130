//! What the records say: tables for people, one JSON object for scripts, charts.

mod charts;
pub mod tables;

use crate::failure::{Failure, Result};
use crate::record::Record;
use crate::run::Parameters;
use serde::Serialize;
use std::path::Path;

/// Everything in one object.
#[derive(Serialize)]
struct Summary<'a> {
    parameters: &'a Parameters,
    records: &'a [Record],
}

/// The records as one JSON object.
///
/// # Errors
/// A figure that JSON cannot express.
pub fn json(parameters: &Parameters, records: &[Record]) -> Result<String> {
    let mut text = serde_json::to_string_pretty(&Summary { parameters, records })?;
    text.push('\n');
    Ok(text)
}

/// Writes `summary.json`, `tables.txt` and the charts to `dir`; returns the tables.
///
/// # Errors
/// A file cannot be written.
pub fn write(dir: &Path, parameters: &Parameters, records: &[Record]) -> Result<String> {
    let text = tables::all(parameters, records);
    for (name, content) in [("summary.json", &json(parameters, records)?), ("tables.txt", &text)] {
        let path = dir.join(name);
        std::fs::write(&path, content).map_err(|e| Failure::at(&path, e))?;
    }
    charts::draw(dir, parameters, records)?;
    Ok(text)
}
