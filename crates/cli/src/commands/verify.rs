//! `siltstone verify`: read and check everything.

use crate::failure::{Failure, Result};
use crate::output::{note, print, print_json};
use crate::progress;
use crate::sizes;
use crate::store;
use siltstone::{Db, Options};
use std::path::PathBuf;
use std::time::Instant;

/// Read every page of every table and check it: checksums, order, counts, filters
///
/// Opens the store for reading only, also where tables are missing or the log is damaged. Problems are listed
/// and the exit code is 1; nothing is changed. Damage to sidecars (.sidecar files, which hold filters of
/// regions) is noted, and leaves the store sound: answers are the same without them, and they are made anew
/// while the store is open for writing.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  siltstone verify ./store\n  siltstone verify ./store --json | jq '.problems[]'"
)]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// Print {"sound": …, "problems": […], "notes": […], "advice": […], "tables": …, "pages": …, "entries":
    /// …, "bytes": …, "clusters": …, "cluster_bytes": …, "seconds": …}
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    store::must_be_a_directory(&args.dir)?;
    let started = Instant::now();
    let bar = progress::bytes_bar(Some(0));
    let report = Db::verify_dir(&args.dir, &Options::default(), &mut |progress| {
        bar.set_length(progress.bytes_total);
        bar.set_position(progress.bytes_done);
    })?;
    bar.finish_and_clear();
    let seconds = started.elapsed().as_secs_f64();
    let sound = report.problems.is_empty();
    if args.json {
        print_json(&serde_json::json!({
            "sound": sound, "problems": report.problems, "notes": report.notes, "advice": report.advice, "tables": report.tables,
            "pages": report.pages, "entries": report.entries, "bytes": report.bytes, "clusters": report.sidecars,
            "cluster_bytes": report.sidecar_bytes, "log_entries": report.log_entries, "seconds": seconds,
        }))?;
    } else {
        let sidecars = match report.sidecars {
            0 => String::new(),
            n => {
                format!(", {} sidecars of filters ({})", sizes::count(n), sizes::bytes(report.sidecar_bytes))
            }
        };
        print(&format!(
            "{}: read {} tables, {} pages, {} entries ({}){sidecars} in {}; {} more in the log, checked as it was opened\n",
            if sound { "sound" } else { "NOT SOUND" },
            sizes::count(report.tables),
            sizes::count(report.pages),
            sizes::count(report.entries),
            sizes::bytes(report.bytes),
            sizes::seconds(seconds),
            sizes::count(report.log_entries),
        ))?;
        for problem in &report.problems {
            note!("problem: {problem}");
        }
        for advice in &report.advice {
            note!("what to do: {advice}");
        }
        for note in &report.notes {
            note!("note: {note}");
        }
    }
    if sound {
        return Ok(());
    }
    note!("error: {} problems in {}", sizes::count(report.problems.len() as u64), args.dir.display());
    Err(Failure::Reported)
}
