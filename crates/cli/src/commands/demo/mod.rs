//! `siltstone demo`: the engine's main job on real input, checked against the truth.
//!
//! Two kinds of semi-sorted data, both SlimDB's own examples (VLDB'17 §2): the metadata of a real directory
//! tree ([`files`]) and many small features of entities ([`features`]). Everything is read back and compared,
//! then the store is closed, opened again and compared once more.

mod agreement;
mod features;
mod files;
mod record;
mod report;
mod scratch;
mod tree;

use crate::failure::{Failure, Result, fail};
use crate::output::{note, print, print_json};
use crate::sizes;
use crate::store::{self, NewPreset};
use record::{DirectoryId, PREFIX_BYTES};
use scratch::Scratch;
use siltstone::{Db, Design, KeyspaceOptions, Options, PrefixRule, Schema, SuffixOrder};
use std::path::{Path, PathBuf};
use std::time::Instant;

const FILES: &str = "files";
const FEATURES: &str = "features";

/// Store this machine's own files' metadata and a million features, and check everything
///
/// Walks a directory tree (symbolic links are not followed) and stores every entry's metadata under its
/// parent directory, writes synthetic features in random order, lists every directory and entity from the
/// store, gets every entry and as many that do not exist, and compares all of it with the file system. Then
/// it closes the store, opens it and compares again. Files that change meanwhile are reported and left out.
/// Exits with 1 unless everything agrees.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone demo\n  \
    siltstone demo ~ --features 0\n  \
    siltstone demo /usr --preset leveled --memory-budget 32M --json\n  \
    siltstone demo --dir ./demo-store && siltstone stats ./demo-store")]
pub struct Args {
    /// Directory tree to store
    #[arg(default_value = "/usr")]
    path: PathBuf,
    /// Directory for the store, kept afterwards; must be empty or not exist [default: a temporary directory]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Keep the temporary directory
    #[arg(long)]
    keep: bool,
    /// Layout of the store (see `siltstone bench --help` for the names; auto takes what suits the memory
    /// budget)
    #[arg(long, value_parser = NewPreset::parse)]
    preset: Option<NewPreset>,
    /// Number of synthetic features
    #[arg(long, value_name = "COUNT", default_value = "1M", value_parser = sizes::parse_count)]
    features: u64,
    /// Memory for memtables, filters, indexes and cache; small, so that reads do reach the disk
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = sizes::parse_size)]
    memory_budget: u64,
    /// Print the results as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let started = Instant::now();
    let root = std::fs::metadata(&args.path).map_err(|e| Failure::at(&args.path, e))?;
    if !root.is_dir() {
        return Err(Failure::at(&args.path, "not a directory; give a directory tree to store"));
    }
    let preset = args.preset.as_ref().map(|preset| preset.chosen(&options(args))).transpose()?;
    if let Some(preset) = &preset {
        preset.check_for(&in_groups(PREFIX_BYTES))?;
    }
    let design = preset.map(|preset| preset.design);
    options(args).check_keyspace(&KeyspaceOptions {
        schema: in_groups(PREFIX_BYTES),
        design: design.clone(),
        ..KeyspaceOptions::default()
    })?;
    let scratch = match &args.dir {
        Some(dir) => Scratch::in_empty(dir)?,
        None => Scratch::temporary(args.keep)?,
    };
    note!(
        "store: {}{}",
        scratch.path().display(),
        if scratch.is_kept() { "" } else { " (removed at the end)" }
    );
    let report = demonstrate(args, design.as_ref(), scratch.path(), started)?;
    if args.json {
        print_json(&report)?
    } else {
        print(&report.to_string())?
    }
    if !scratch.is_kept() {
        scratch.remove()?;
    } else if !args.json {
        note!("the store is in {}", scratch.path().display());
    }
    if report.agrees() {
        return Ok(());
    }
    fail!("the store does not agree with what was stored; see the disagreements above");
}

/// Keys with a prefix of so many bytes.
fn in_groups(bytes: u16) -> Schema {
    Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes }, suffix: SuffixOrder::Ordered }
}

fn options(args: &Args) -> Options {
    Options { memory_budget_bytes: args.memory_budget, ..Options::default() }
}

fn demonstrate(args: &Args, design: Option<&Design>, dir: &Path, started: Instant) -> Result<report::Report> {
    let options = options(args);
    let db = store::open_or_create(dir, options.clone())?;
    let ordered = |bytes| KeyspaceOptions {
        schema: in_groups(bytes),
        design: design.cloned(),
        ..KeyspaceOptions::default()
    };
    let files = db.keyspace(FILES, ordered(PREFIX_BYTES))?;
    let features = db.keyspace(FEATURES, ordered(crate::generate::items::GROUP_PREFIX_BYTES as u16))?;

    let own = std::fs::metadata(dir).ok().map(|metadata| DirectoryId::of(&metadata));
    let stored = files::store(&db, &files, &args.path, own)?;
    let feature_seconds = features::store(&db, &features, args.features)?;
    let draining = Instant::now();
    // So that the checks read tables, and the figures of writing are complete.
    db.flush()?;
    db.wait_until_idle()?;
    let drain_seconds = draining.elapsed().as_secs_f64();
    let after_writing = db.stats();
    let first = (files::check(&files, &stored)?, features::check(&features, args.features)?);
    drop((files, features));
    db.close()?;

    let opening = Instant::now();
    let db = store::open_existing(dir, options)?;
    let open_seconds = opening.elapsed().as_secs_f64();
    let opened = db.stats();
    let (files, features) = (store::keyspace(&db, FILES)?, store::keyspace(&db, FEATURES)?);
    let second = (files::check(&files, &stored)?, features::check(&features, args.features)?);
    let after_reading = db.stats();
    drop((files, features));
    close(db)?;
    report::Report::new(&report::Facts {
        path: &args.path,
        dir,
        features: args.features,
        memory_budget_bytes: args.memory_budget,
        stored: &stored,
        feature_seconds,
        drain_seconds,
        open_seconds,
        after_writing: &after_writing,
        opened: &opened,
        after_reading: &after_reading,
        first: &first,
        second: &second,
        seconds: started.elapsed().as_secs_f64(),
    })
}

fn close(db: Db) -> Result<()> {
    if let Some(error) = db.stats().background_error {
        fail!("background work failed: {error}");
    }
    Ok(db.close()?)
}
