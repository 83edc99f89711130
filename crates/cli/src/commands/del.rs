//! `siltstone del`: delete one item.

use crate::failure::Result;
use crate::store::{self, DEFAULT_KEYSPACE};
use std::ffi::OsString;
use std::path::PathBuf;

/// Delete one item
///
/// Succeeds whether or not the key was there: the store does not look. The deletion is on the disk when the
/// command returns.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  siltstone del ./store city:7\n  siltstone del ./store user:7/name --keyspace users"
)]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// The key, with the escapes \t \n \r \\ \xNN
    key: OsString,
    /// Keyspace to delete from
    #[arg(long, value_name = "NAME", default_value = DEFAULT_KEYSPACE)]
    keyspace: String,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let key = store::argument("KEY", &args.key)?;
    let db = store::open_existing(&args.dir, store::synced())?;
    store::keyspace(&db, &args.keyspace)?.delete(&key)?;
    Ok(db.close()?)
}
