//! `siltstone clear`: remove all items of a keyspace.

use crate::failure::Result;
use crate::store;
use std::path::PathBuf;

/// Remove all items of a keyspace, and keep the keyspace
///
/// It happens at once however much there is, and is on the disk when the command returns. The files go at
/// once; nothing brings the items back but a backup.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone clear ./store --keyspace cache\n  \
    siltstone count ./store --keyspace cache")]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// Keyspace to clear
    #[arg(long, value_name = "NAME")]
    keyspace: String,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = store::open_existing(&args.dir, store::synced())?;
    store::keyspace(&db, &args.keyspace)?.clear()?;
    Ok(db.close()?)
}
