//! `siltstone get`: read one item.

use crate::failure::{Failure, Result};
use crate::output::{Output, note, print_json};
use crate::rows;
use crate::store::{self, DEFAULT_KEYSPACE};
use crate::text;
use std::ffi::OsString;
use std::path::PathBuf;

/// Read one item
///
/// Prints the value with escapes for bytes that cannot be printed, or as it is with --raw. A key that is not
/// there prints nothing on standard output and exits with 1.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone get ./store city:7\n  \
    siltstone get ./store img:1 --raw > picture.png\n  \
    siltstone get ./store 'user:7/name' --keyspace users --json")]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// The key, with the escapes \t \n \r \\ \xNN
    key: OsString,
    /// Keyspace to read from
    #[arg(long, value_name = "NAME", default_value = DEFAULT_KEYSPACE)]
    keyspace: String,
    /// Print the value's bytes as they are, without a line feed
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// Print {"key": …, "value": …}
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let key = store::argument("KEY", &args.key)?;
    let db = store::open_read_only(&args.dir)?;
    let keyspace = store::keyspace(&db, &args.keyspace)?;
    let Some(value) = keyspace.get(&key)? else {
        note!("{}: no such key in keyspace {:?}", text::escape(&key), args.keyspace);
        return Err(Failure::Reported);
    };
    if args.json {
        return print_json(&rows::json_item(&key, &value));
    }
    let mut out = Output::lock();
    if args.raw {
        out.write(&value)?;
    } else {
        let mut line = Vec::new();
        text::escape_into(&value, &mut line);
        line.push(b'\n');
        out.write(&line)?;
    }
    out.finish()
}
