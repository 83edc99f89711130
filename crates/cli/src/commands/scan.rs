//! `siltstone scan`: list the items that share a prefix.

use crate::failure::Result;
use crate::output::Output;
use crate::rows::{self, Format};
use crate::sizes;
use crate::store::{self, DEFAULT_KEYSPACE};
use std::ffi::OsString;
use std::path::PathBuf;

/// List the items whose keys share a prefix
///
/// Needs a keyspace with a schema of fixed:N or delim:C, and PREFIX whole: N bytes, or up to and including
/// the delimiter. Prints key TAB value lines in suffix order (ordered suffixes) or in an arbitrary but fixed
/// order.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone scan ./store user:7/ --keyspace users\n  \
    siltstone scan ./store user:7/ --keyspace users --limit 10 --json")]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// The prefix, with the escapes \t \n \r \\ \xNN
    prefix: OsString,
    /// Keyspace to read from
    #[arg(long, value_name = "NAME", default_value = DEFAULT_KEYSPACE)]
    keyspace: String,
    /// Stop after this many items
    #[arg(long, value_name = "COUNT", value_parser = sizes::parse_count)]
    limit: Option<u64>,
    /// Print {"items": [{"key": …, "value": …}, …], "count": …}
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let prefix = store::argument("PREFIX", &args.prefix)?;
    let db = store::open_read_only(&args.dir)?;
    let limit = usize::try_from(args.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let items = store::keyspace(&db, &args.keyspace)?.prefix(&prefix)?.take(limit);
    let mut out = Output::lock();
    let mut line = Vec::new();
    if !args.json {
        for item in items {
            let (key, value) = item?;
            line.clear();
            Format::Tsv.write(&key, &value, &mut line);
            out.write(&line)?;
        }
        return out.finish();
    }
    // Written item by item: a group may be larger than memory.
    out.write(b"{\"items\": [")?;
    let mut count = 0u64;
    for item in items {
        let (key, value) = item?;
        out.write(if count == 0 { b"\n" } else { b",\n" })?;
        out.write(rows::json_item(&key, &value).to_string().as_bytes())?;
        count += 1;
    }
    out.write(format!("\n], \"count\": {count}}}\n").as_bytes())?;
    out.finish()
}
