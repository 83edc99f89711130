//! `siltstone checkpoint`: a consistent copy made of hard links.

use crate::failure::Result;
use crate::output::{print, print_json};
use crate::sizes;
use crate::store;
use siltstone::Options;
use std::path::PathBuf;
use std::time::Instant;

/// Make a consistent copy of a store in a new directory
///
/// Tables are hard-linked where the file system allows it, so the copy takes little time and no space until
/// the two differ. The store must not be open in another process: such a process makes checkpoints itself.
///
/// Tables are not read: one that is damaged is damaged in the checkpoint too, now or later, as both have the
/// same file. Make a backup (`siltstone backup create`) of what is to outlast the store.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  siltstone checkpoint ./store ./monday\n  siltstone verify ./monday")]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// Directory to create; must not exist
    target: PathBuf,
    /// Print {"target": …, "seconds": …}
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = store::open_existing(&args.dir, Options::default())?;
    let started = Instant::now();
    db.checkpoint(&args.target)?;
    db.close()?;
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        return print_json(
            &serde_json::json!({ "target": args.target.to_string_lossy(), "seconds": seconds }),
        );
    }
    print(&format!("checkpoint in {} after {}\n", args.target.display(), sizes::seconds(seconds)))
}
