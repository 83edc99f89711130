//! `siltstone inspect`: what one file of a store holds.

use crate::failure::{Failure, Result};
use crate::output::{print, print_json};
use crate::sizes;
use serde_json::Value;
use siltstone::inspect::Inspection;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Show what one file of a store holds, without opening the store
///
/// Takes a table, a manifest, a log file, a sidecar, CURRENT, SIDECARS, EVENTS or LOCK; which it is follows
/// from its content, and where that is damaged from its name. Exits with 1 if it is damaged.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  siltstone inspect ./store/CURRENT\n  siltstone inspect ./store/CURRENT --json"
)]
pub struct Args {
    /// The file
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let metadata = std::fs::metadata(&args.file).map_err(|e| {
        let is_link = std::fs::symlink_metadata(&args.file).is_ok_and(|found| found.is_symlink());
        let leads_nowhere = is_link && e.kind() == std::io::ErrorKind::NotFound;
        if leads_nowhere {
            Failure::at(&args.file, "is a link that leads nowhere")
        } else {
            Failure::at(&args.file, e)
        }
    })?;
    if metadata.is_dir() {
        return Err(Failure::at(
            &args.file,
            "is a directory; give one file of the store, for example its CURRENT (`siltstone stats` shows the whole)",
        ));
    }
    let inspection = siltstone::inspect::file(&args.file)?;
    let outcome = if inspection.is_damaged() { Err(Failure::Reported) } else { Ok(()) };
    if args.json {
        return print_json(&inspection).and(outcome);
    }
    if let Inspection::Events(found) = &inspection {
        let strange = found.unreadable_lines;
        let bytes = sizes::bytes(found.bytes);
        let mut text = format!("kind: events\nbytes: {bytes}\nunreadable_lines: {strange}\nevents:\n");
        found.events.iter().for_each(|event| _ = writeln!(text, "  {event}"));
        return print(&text);
    }
    let tree = serde_json::to_value(&inspection)
        .map_err(|e| Failure::at(&args.file, format!("cannot show what was read: {e}")))?;
    let mut text = String::new();
    outline(&tree, 0, &mut text);
    print(&text).and(outcome)
}

/// Writes a tree as indented `name: value` lines, lists as `- ` items.
fn outline(tree: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match tree {
        Value::Object(fields) => {
            for (name, value) in fields {
                match plain(value) {
                    Some(value) => _ = writeln!(out, "{indent}{name}: {value}"),
                    None => {
                        let _ = writeln!(out, "{indent}{name}:");
                        outline(value, depth + 1, out);
                    }
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                match plain(item) {
                    Some(item) => _ = writeln!(out, "{indent}- {item}"),
                    None => {
                        let mut nested = String::new();
                        outline(item, depth + 1, &mut nested);
                        // The first line's indentation makes room for the dash.
                        let nested = nested.get(indent.len() + 2..).unwrap_or_default();
                        let _ = write!(out, "{indent}- {nested}");
                    }
                }
            }
        }
        leaf => _ = writeln!(out, "{indent}{}", plain(leaf).unwrap_or_default()),
    }
}

/// A value that fits on its name's line: anything but a tree, and lists of numbers.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("–".to_owned()),
        Value::String(text) => Some(text.clone()),
        Value::Array(items) if items.iter().all(Value::is_number) => {
            let items: Vec<String> = items.iter().map(Value::to_string).collect();
            Some(format!("[{}]", items.join(", ")))
        }
        Value::Object(fields) if fields.is_empty() => Some("{}".to_owned()),
        Value::Array(_) | Value::Object(_) => None,
        simple => Some(simple.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_become_outlines() {
        let tree = serde_json::json!({
            "a": 1, "list": [{"x": "y", "z": [1, 2]}, {"x": null, "z": []}], "names": ["p", "q"], "sub": {"k": true}
        });
        let mut text = String::new();
        outline(&tree, 0, &mut text);
        assert_eq!(
            text,
            "a: 1\nlist:\n  - x: y\n    z: [1, 2]\n  - x: –\n    z: []\nnames:\n  - p\n  - q\nsub:\n  k: true\n"
        );
    }
}
