//! `siltstone count`: how many items there are.

use crate::failure::Result;
use crate::output::{print, print_json};
use crate::store::{self, DEFAULT_KEYSPACE};
use std::ffi::OsString;
use std::path::PathBuf;

/// Count the items of a keyspace, or of a group
///
/// The items are walked and counted, but for long values; --approximate reckons from what is known of the
/// tables and reads next to nothing.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone count ./store\n  \
    siltstone count ./store user:7/ --keyspace users\n  \
    siltstone count ./store --approximate --json")]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// The prefix of the group, with the escapes \t \n \r \\ \xNN; all items without it
    prefix: Option<OsString>,
    /// Keyspace to read from
    #[arg(long, value_name = "NAME", default_value = DEFAULT_KEYSPACE)]
    keyspace: String,
    /// Do not walk the items
    #[arg(long)]
    approximate: bool,
    /// Print {"items": …, "approximate": …}
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let prefix = args.prefix.as_ref().map(|prefix| store::argument("PREFIX", prefix)).transpose()?;
    let db = store::open_read_only(&args.dir)?;
    let keyspace = store::keyspace(&db, &args.keyspace)?;
    let items = match (prefix, args.approximate) {
        (None, false) => keyspace.len()?,
        (None, true) => keyspace.approximate_len()?,
        (Some(prefix), false) => keyspace.len_of(prefix)?,
        (Some(prefix), true) => keyspace.approximate_len_of(prefix)?,
    };
    if args.json {
        return print_json(&serde_json::json!({ "items": items, "approximate": args.approximate }));
    }
    print(&format!("{items}\n"))
}
