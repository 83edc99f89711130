//! `siltstone redesign`: a keyspace gets another layout, and what is there is rewritten for it.

use crate::failure::{Result, fail};
use crate::output::{print, print_json};
use crate::progress;
use crate::sizes;
use crate::store::{self, DEFAULT_KEYSPACE, Preset, parse_preset};
use siltstone::{Db, Keyspace, Options, RedesignStats};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Give a keyspace another layout
///
/// All that is written from now on is laid out by the new design, and all that is there stays readable. What
/// the new design would not have made is rewritten in the background whenever the store is open for writing:
/// with --wait here, else by whoever opens it next. The store must not be open in another process: such a
/// process calls `Keyspace::redesign` itself.
///
/// The schema of a keyspace stays as it is, and the design has to suit it.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  siltstone redesign ./store --preset lean --wait\n  \
        siltstone redesign ./store --keyspace files --design design.json\n  \
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
    /// Work until all that is there is as the new design has it
    #[arg(long)]
    wait: bool,
    /// Print {"keyspace": …, "from": …, "to": …, "done": …, "remaining_bytes": …, "remaining_us": …,
    /// "history": [{"from": …, "to": …, "sequence": …, "at_ms": …, "settled_ms": …, "why": …}]}
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
    if design.is_none() && !args.wait {
        let db = store::open_read_only(&args.dir)?;
        return report(args, &store::keyspace(&db, &args.keyspace)?);
    }
    let db = store::open_existing(&args.dir, Options::default())?;
    let keyspace = store::keyspace(&db, &args.keyspace)?;
    if let Some(design) = design {
        keyspace.redesign(design)?;
    }
    if args.wait {
        wait(&db, &keyspace)?;
    }
    let outcome = report(args, &keyspace);
    db.close()?;
    outcome
}

/// Shows progress until nothing is left of earlier designs.
fn wait(db: &Db, keyspace: &Keyspace) -> Result<()> {
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

fn report(args: &Args, keyspace: &Keyspace) -> Result<()> {
    let progress = keyspace.stats().redesign;
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
        }));
    }
    let line = progress.map_or_else(
        || format!("has had the design {} since it was created", keyspace.design().preset_name()),
        |last| words(&last),
    );
    let mut text = format!("keyspace {}: {line}\n", keyspace.name());
    keyspace.design_history().iter().for_each(|change| _ = writeln!(text, "  {change}"));
    print(&text)
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
