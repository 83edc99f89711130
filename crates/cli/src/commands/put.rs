//! `siltstone put`: write one item.

use crate::failure::{Failure, Result, fail};
use crate::sizes;
use crate::store::{self, CreateArgs, DEFAULT_KEYSPACE};
use siltstone::{Db, Keyspace, KeyspaceOptions, MAX_VALUE_BYTES, Update, WriteOptions};
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
    siltstone put ./store session:9 open --ttl 30m\n  \
    siltstone put ./store lock:7 mine --if-absent\n  \
    siltstone put ./store lock:7 yours --if mine")]
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
    /// Write only where the key has no value; else fail and leave it as it is
    #[arg(long)]
    if_absent: bool,
    /// Write only where this is the key's value, with the same escapes as VALUE; else fail and leave it as it
    /// is
    #[arg(long = "if", value_name = "OLD", conflicts_with = "if_absent", allow_hyphen_values = true)]
    expected: Option<OsString>,
    #[command(flatten)]
    create: CreateArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let new = args.create.check(&store::synced())?;
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
    let expected = args.expected.as_ref().map(|old| store::argument("OLD", old)).transpose()?;
    let (db, keyspace) = if expected.is_some() {
        let db = store::open_existing(&args.dir, store::synced())?;
        let keyspace = store::keyspace(&db, &args.keyspace)?;
        (db, keyspace)
    } else {
        let db = store::open_or_create(&args.dir, store::synced())?;
        let keyspace = args.keyspace_of(&db, new)?;
        (db, keyspace)
    };
    if args.if_absent || expected.is_some() {
        keyspace.update_with(&key, &WriteOptions::default(), |old| {
            let old = old.map(|old| old.value);
            if old != expected.as_deref() {
                let what = match (old, &expected) {
                    (None, _) => "no value",
                    (_, None) => "a value already",
                    _ => "another value",
                };
                fail!("{} has {what}; nothing was written", args.key.display());
            }
            Ok::<_, Failure>(match args.ttl {
                Some(ttl) => Update::PutWithTtl(value.clone(), ttl),
                None => Update::PutForever(value.clone()),
            })
        })?;
    } else {
        match args.ttl {
            Some(ttl) => keyspace.put_with_ttl(&key, &value, ttl)?,
            None => keyspace.put(&key, &value)?,
        }
    }
    Ok(db.close()?)
}

impl Args {
    /// The keyspace to write to, which is made as `new` where that is wanted.
    fn keyspace_of(&self, db: &Db, new: KeyspaceOptions) -> Result<Keyspace> {
        let may_create = self.create_keyspace || self.keyspace == DEFAULT_KEYSPACE || self.create.says_how();
        if !may_create && !db.keyspaces().is_empty() && db.get_keyspace(&self.keyspace).is_none() {
            return Err(store::no_keyspace(db, &self.keyspace, "; --create makes it"));
        }
        self.create.open_keyspace(db, &self.keyspace, new)
    }
}
