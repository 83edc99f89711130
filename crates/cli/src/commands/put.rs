//! `siltstone put`: write one item.

use crate::failure::{Failure, Result, fail};
use crate::sizes;
use crate::store::{self, CreateArgs, DEFAULT_KEYSPACE};
use siltstone::MAX_VALUE_BYTES;
use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

/// Write one item, creating the store where there is none
///
/// The item is on the disk when the command returns. KEY and VALUE are text with the escapes \t \n \r \\
/// \xNN; a VALUE of `-` takes the bytes of standard input as they are.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone put ./store city:7 Uppsala\n  \
    siltstone put ./store img:1 - < picture.png\n  \
    siltstone put ./store user:7/name Ann --keyspace users --schema delim:/\n  \
    siltstone put ./store k v --keyspace other --create\n  \
    siltstone put ./store session:9 open --ttl 30m")]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// The key
    key: OsString,
    /// The value, or - for standard input
    #[arg(allow_hyphen_values = true)]
    value: OsString,
    /// Keyspace to write to. In a store that has others, it is created only with --create, or with options
    /// that say how
    #[arg(long, value_name = "NAME", default_value = DEFAULT_KEYSPACE)]
    keyspace: String,
    /// Create the keyspace where it does not exist
    #[arg(long = "create")]
    create_keyspace: bool,
    /// Time after which the item is gone, for example 90s, 10m, 2d
    #[arg(long, value_name = "TIME", value_parser = sizes::parse_duration)]
    ttl: Option<Duration>,
    #[command(flatten)]
    create: CreateArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    args.create.check(&store::synced())?;
    let key = store::argument("KEY", &args.key)?;
    let value = if args.value == "-" {
        let mut value = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut value)
            .map_err(|e| Failure::Failed(format!("cannot read the value from standard input: {e}")))?;
        value
    } else {
        store::argument("VALUE", &args.value)?
    };
    args.create.check_key(&key)?;
    if value.len() > MAX_VALUE_BYTES {
        fail!(
            "the value has {}; values have at most {MAX_VALUE_BYTES} bytes",
            sizes::bytes(value.len() as u64)
        );
    }
    let db = store::open_or_create(&args.dir, store::synced())?;
    let may_create = args.create_keyspace || args.keyspace == DEFAULT_KEYSPACE || args.create.says_how();
    if !may_create && !db.keyspaces().is_empty() && db.get_keyspace(&args.keyspace).is_none() {
        return Err(store::no_keyspace(&db, &args.keyspace, "; --create makes it"));
    }
    let keyspace = args.create.open_keyspace(&db, &args.keyspace)?;
    match args.ttl {
        Some(ttl) => keyspace.put_with_ttl(&key, &value, ttl)?,
        None => keyspace.put(&key, &value)?,
    }
    Ok(db.close()?)
}
