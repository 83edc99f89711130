//! `siltstone inspect`: what one file of a store holds, or what a whole store consists of.

use crate::failure::{Failure, Result};
use crate::output::{print, print_json};
use crate::sizes;
use crate::store::{self, schema_name};
use crate::table::Table;
use serde_json::Value;
use siltstone::inspect::{Inspection, KeyspaceInspection, StoreInspection};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Show what one file of a store holds, or what a store consists of, without opening it
///
/// Takes a table, a manifest, a log file, a sidecar, CURRENT, SIDECARS, EVENTS or LOCK; which it is follows
/// from its content, and where that is damaged from its name.
///
/// Takes the directory of a store as well, and shows its files by kind, what the manifest says of each
/// keyspace, level by level, and which designs it has had, when and why. Tables are not read: `siltstone
/// verify` does that.
///
/// Exits with 1 if what was looked at is damaged.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  siltstone inspect ./store\n  siltstone inspect ./store/CURRENT\n  \
        siltstone inspect ./store --json | jq '.keyspaces[].history'")]
pub struct Args {
    /// The file, or the directory of a store
    #[arg(value_name = "FILE|DIR")]
    file: PathBuf,
    /// Print JSON; of a store {"kind": "store", "manifest": …, "files": [{"kind", "files", "bytes",
    /// "unneeded"}], "keyspaces": [{"name", "schema", "schema_to_come", "preset", "design", "levels",
    /// "history": [{"from", "to", "sequence", "at_ms", "settled_ms", "why"}]}], "damage": […]}
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
        return directory(args);
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

/// Shows what the store in a directory consists of.
fn directory(args: &Args) -> Result<()> {
    let inspection = siltstone::inspect::store(&args.file)?;
    let outcome = if inspection.is_damaged() { Err(Failure::Reported) } else { Ok(()) };
    if !args.json {
        return print(&in_words(&args.file, &inspection)).and(outcome);
    }
    let mut json = serde_json::to_value(&inspection).map_err(|e| Failure::Failed(e.to_string()))?;
    if let Some(fields) = json.as_object_mut() {
        fields.insert("kind".to_owned(), "store".into());
    }
    print_json(&json).and(outcome)
}

/// A store in words.
fn in_words(dir: &Path, store: &StoreInspection) -> String {
    let manifest = store.manifest.as_deref().unwrap_or("that can't be told");
    let mut text = format!("{}: the manifest is {manifest}\n", dir.display());
    let mut files = Table::new(["files", "number", "bytes", "not needed"]);
    for kind in &store.files {
        let [number, unneeded] = [kind.files, kind.unneeded].map(sizes::count);
        files.row([kind.kind.to_owned(), number, sizes::bytes(kind.bytes), unneeded]);
    }
    let _ = write!(text, "{files}");
    store.keyspaces.iter().for_each(|keyspace| text.push_str(&keyspace_in_words(keyspace)));
    store.damage.iter().for_each(|damage| _ = writeln!(text, "\ndamage: {damage}"));
    text
}

/// A keyspace with its levels and the designs that it has had.
fn keyspace_in_words(keyspace: &KeyspaceInspection) -> String {
    let KeyspaceInspection { name, schema, preset, merge_operator, levels, history, .. } = keyspace;
    let merges = merge_operator.as_ref().map_or_else(String::new, |merges| format!("; merges by {merges}"));
    let mut text = format!("\nkeyspace {name} ({}; preset {preset}{merges})\n", schema_name(schema));
    if let Some(schema) = &keyspace.schema_to_come {
        let _ = writeln!(text, "  is getting another schema: {}", schema_name(schema));
    }
    let mut table = Table::new(["level", "regions", "runs", "tables", "entries", "bytes"]);
    for level in levels {
        table.row([
            store::level_name(level),
            sizes::count(level.regions),
            sizes::count(level.runs),
            sizes::count(level.tables),
            sizes::count(level.entries),
            sizes::bytes(level.bytes),
        ]);
    }
    let _ = write!(text, "{table}");
    if !history.is_empty() {
        text.push_str("  designs\n");
        history.iter().for_each(|change| _ = writeln!(text, "    {change}"));
    }
    text
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
