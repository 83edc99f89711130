//! `siltstone redesign`: a keyspace gets another layout or another schema, and what is there is rewritten for
//! it.

use crate::failure::{Result, fail};
use crate::output::{print, print_json};
use crate::progress;
use crate::sizes;
use crate::store::{self, DEFAULT_KEYSPACE, Preset, parse_preset, schema_name};
use siltstone::{Db, Keyspace, Options, RedesignStats, Schema, SchemaChangeStats};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Give a keyspace another layout or schema
///
/// All that is written from now on is laid out by the new design, and all that is there stays readable. What
/// the new design would not have made is rewritten in the background whenever the store is open for writing:
/// with --wait here, else by whoever opens it next. The store must not be open in another process: such a
/// process calls `Keyspace::redesign` itself.
///
/// With --schema all items are copied, in the background too, and the keyspace has the new schema once that
/// is done: with --wait here, else by whoever opens it next, who begins it anew if it was not finished. All
/// keys have to fit the new schema, and the design has to suit it.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  siltstone redesign ./store --preset lean --wait\n  \
        siltstone redesign ./store --keyspace files --design design.json\n  \
        siltstone redesign ./store --keyspace files --schema delim:/ --wait\n  \
        siltstone redesign ./store --keyspace files --cancel    keep the schema after all\n  \
        siltstone redesign ./store --keyspace files        how far the last one is")]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// Keyspace that gets the design
    #[arg(long, short, value_name = "NAME", default_value = DEFAULT_KEYSPACE)]
    keyspace: String,
    /// The new layout by name (see `siltstone bench --help`), with PRESET:SIZE with tables of another size
    #[arg(long, value_name = "PRESET[:SIZE]", value_parser = parse_preset, conflicts_with = "design")]
    preset: Option<Preset>,
    /// The new layout from a file: a design as JSON, as `keyspaces --json` prints it, or what `advise --json`
    /// prints
    #[arg(long, value_name = "FILE")]
    design: Option<PathBuf>,
    /// The new schema: point, or what of a key is its prefix, as `siltstone put --schema` takes it
    #[arg(long, value_name = "SCHEMA")]
    schema: Option<Schema>,
    /// Let the keyspace keep its schema, if it is getting another one
    #[arg(long, conflicts_with_all = ["schema", "preset", "design", "wait"])]
    cancel: bool,
    /// Work until all that is there is as the new design and the new schema have it
    #[arg(long)]
    wait: bool,
    /// The memory that the store is given, which is what predictions of it are for until it is opened for
    /// writing with another: as whoever uses it gives
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::parse_size)]
    memory_budget: u64,
    /// Print {"keyspace": …, "from": …, "to": …, "done": …, "remaining_bytes": …, "remaining_us": …,
    /// "history": [{"from": …, "to": …, "sequence": …, "at_ms": …, "settled_ms": …, "why": …}], "schema": …,
    /// "schema_change": {"from": …, "to": …, "design": …, "done": …, "remaining_bytes": …, "failure": …}}
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let design = match (&args.preset, &args.design) {
        (Some(preset), _) => Some(preset.design.clone()),
        (None, Some(path)) => Some(store::read_design(path)?.design),
        (None, None) => None,
    };
    store::check_rule(args.schema.as_ref())?;
    if design.is_none() && args.schema.is_none() && !args.cancel && !args.wait {
        let db = store::open_read_only(&args.dir)?;
        return report(args, &store::keyspace(&db, &args.keyspace)?);
    }
    let options = Options { memory_budget_bytes: args.memory_budget, ..Options::default() };
    let db = store::open_existing(&args.dir, options)?;
    let keyspace = store::keyspace(&db, &args.keyspace)?;
    if args.cancel && !keyspace.cancel_schema_change()? {
        fail!("keyspace {} is getting no other schema", args.keyspace);
    }
    match (args.schema, design) {
        (Some(schema), design) => keyspace.change_schema(schema, design)?,
        (None, Some(design)) => keyspace.redesign(design)?,
        (None, None) => {}
    }
    if args.wait {
        wait(&db, &keyspace)?;
    }
    let outcome = report(args, &keyspace);
    db.close()?;
    outcome
}

/// Shows progress until the keyspace has the schema that it is to have, and nothing is left of earlier
/// designs.
fn wait(db: &Db, keyspace: &Keyspace) -> Result<()> {
    wait_for_schema(db, keyspace)?;
    let Some(first) = keyspace.stats().redesign else { return Ok(()) };
    let bar = progress::bytes_bar(Some(first.remaining_bytes));
    while let Some(RedesignStats { done, remaining_bytes, .. }) = keyspace.stats().redesign {
        bar.set_position(first.remaining_bytes.saturating_sub(remaining_bytes));
        if done >= 1.0 {
            break;
        }
        if let Some(error) = db.stats().background_error {
            fail!("the redesign has stopped: {error}; it goes on when the store is opened again");
        }
        std::thread::sleep(LOOK);
    }
    bar.finish_and_clear();
    Ok(())
}

fn wait_for_schema(db: &Db, keyspace: &Keyspace) -> Result<()> {
    let mut bar = None;
    while let Some(SchemaChangeStats { done, remaining_bytes, failure: None, .. }) =
        keyspace.stats().schema_change.filter(|change| change.done < 1.0)
    {
        // How much there is to copy is known once that has begun.
        let all = (remaining_bytes as f64 / (1.0 - done)) as u64;
        let (bar, all) = bar.get_or_insert_with(|| (progress::bytes_bar(Some(all)), all));
        bar.set_position(all.saturating_sub(remaining_bytes));
        if let Some(error) = db.stats().background_error {
            fail!("the copy has stopped: {error}; it is begun anew when the store is opened again");
        }
        std::thread::sleep(LOOK);
    }
    if let Some((bar, _)) = bar {
        bar.finish_and_clear();
    }
    Ok(keyspace.wait_for_schema()?)
}

fn report(args: &Args, keyspace: &Keyspace) -> Result<()> {
    let stats = keyspace.stats();
    let (progress, schema_change) = (stats.redesign, stats.schema_change);
    if args.json {
        let (from, to) = progress.as_ref().map(|last| (&last.from, &last.to)).unzip();
        return print_json(&serde_json::json!({
            "keyspace": keyspace.name(),
            "from": from,
            "to": to,
            "done": progress.as_ref().map(|last| last.done),
            "remaining_bytes": progress.as_ref().map(|last| last.remaining_bytes),
            "remaining_us": progress.as_ref().map(|last| last.remaining_us),
            "history": keyspace.design_history(),
            "schema": keyspace.schema(),
            "schema_change": schema_change,
        }));
    }
    let line = progress.map_or_else(
        || format!("has had the design {} since it was created", keyspace.design().preset_name()),
        |last| words(&last),
    );
    let schema = schema_change.map_or_else(String::new, |change| format!("; {}", schema_words(&change)));
    let mut text = format!("keyspace {}: {line}{schema}\n", keyspace.name());
    keyspace.design_history().iter().for_each(|change| _ = writeln!(text, "  {change}"));
    print(&text)
}

/// How far a change of a schema is, in words.
pub fn schema_words(change: &SchemaChangeStats) -> String {
    let SchemaChangeStats { done, remaining_bytes, failure, .. } = change;
    let (from, to) = (schema_name(&change.from), schema_name(&change.to));
    match failure {
        Some(why) => format!("keeps the schema {from}: {why}"),
        None if *done >= 1.0 => format!("changed from the schema {from} to {to}"),
        None => format!(
            "changing from the schema {from} to {to}: {:.1}% done, {} to copy",
            done * 100.0,
            sizes::bytes(*remaining_bytes)
        ),
    }
}

/// How far a redesign is, in words.
pub fn words(last: &RedesignStats) -> String {
    let RedesignStats { from, to, done, remaining_bytes, remaining_us, .. } = last;
    if *done >= 1.0 {
        return format!("redesigned from {from} to {to}");
    }
    format!(
        "being redesigned from {from} to {to}: {:.1}% done, {} to rewrite, which takes {} of device and processor",
        done * 100.0,
        sizes::bytes(*remaining_bytes),
        sizes::seconds(remaining_us / 1e6)
    )
}
