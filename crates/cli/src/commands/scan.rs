//! `siltstone scan`: list the items of a group, or of a keyspace.

use crate::failure::{Failure, Result, fail};
use crate::output::Output;
use crate::rows::{self, Dialect, Format};
use crate::sizes;
use crate::store::{self, DEFAULT_KEYSPACE};
use crate::text;
use siltstone::{ErrorKind, Iter, Keyspace};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

/// Keys that are looked at for prefixes to name.
const KEYS_LOOKED_AT: usize = 5000;
/// Prefixes that are named.
const MOST_NAMED: usize = 5;

/// List the items whose keys share a prefix, or all
///
/// Prints key TAB value lines, in suffix order where the keyspace keeps suffixes in order, and otherwise in
/// an arbitrary but fixed order. PREFIX is a whole one, as the keyspace's schema has it: N bytes, or up to
/// and including the delimiter. With --anywhere it may be any beginning of keys; where it is no whole prefix,
/// all of the keyspace is walked for it.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone scan ./store user:7/ --keyspace users\n  \
    siltstone scan ./store user:7/ --keyspace users --limit 10 --reverse\n  \
    siltstone scan ./store user:7/ --keyspace users --limit 10 --after user:7/name --json\n  \
    siltstone scan ./store us --anywhere --keyspace users --keys\n  \
    siltstone scan ./store")]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// The prefix, with the escapes \t \n \r \\ \xNN; all items without it
    prefix: Option<OsString>,
    /// Keyspace to read from
    #[arg(long, value_name = "NAME", default_value = DEFAULT_KEYSPACE)]
    keyspace: String,
    /// Take PREFIX for any beginning of keys
    #[arg(long, requires = "prefix")]
    anywhere: bool,
    /// Stop after this many items
    #[arg(long, value_name = "COUNT", value_parser = sizes::parse_count)]
    limit: Option<u64>,
    /// Go on behind this key: the last one of the page before
    #[arg(long, value_name = "KEY")]
    after: Option<OsString>,
    /// Begin with the last item; with --after, with the one before KEY
    #[arg(long)]
    reverse: bool,
    /// Print the keys alone
    #[arg(long)]
    keys: bool,
    /// Print {"items": [{"key": …, "value": …}, …], "count": …}
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let prefix = args.prefix.as_ref().map(|prefix| store::argument("PREFIX", prefix)).transpose()?;
    let after = args.after.as_ref().map(|after| store::argument("--after", after)).transpose()?;
    let db = store::open_read_only(&args.dir)?;
    let keyspace = store::keyspace(&db, &args.keyspace)?;
    let mut items = match &prefix {
        None => keyspace.iter()?,
        Some(start) if args.anywhere => keyspace.starting_with(start)?,
        Some(prefix) => of_prefix(&keyspace, prefix)?,
    };
    if let Some(after) = after {
        items = if args.reverse { items.before(after)? } else { items.after(after)? };
    }
    let limit = usize::try_from(args.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let mut out = Output::lock();
    if args.json {
        // Written item by item: a group may be larger than memory.
        out.write(b"{\"items\": [")?;
    }
    let (mut line, mut count) = (Vec::new(), 0);
    for item in in_direction(items, args).take(limit) {
        let (key, value) = item?;
        line.clear();
        if args.json {
            line.extend_from_slice(if count == 0 { b"\n" } else { b",\n" });
            let mut item = rows::json_item(&key, &value);
            if let Some(item) = item.as_object_mut().filter(|_| args.keys) {
                item.retain(|name, _| name.starts_with("key"));
            }
            line.extend_from_slice(item.to_string().as_bytes());
        } else if args.keys {
            text::escape_into(&key, &mut line);
            line.push(b'\n');
        } else {
            Dialect::from(Format::Tsv).write(&key, &value, &mut line).map_err(Failure::Failed)?;
        }
        out.write(&line)?;
        count += 1u64;
    }
    if args.json {
        out.write(format!("\n], \"count\": {count}}}\n").as_bytes())?;
    }
    out.finish()
}

type Items = Box<dyn Iterator<Item = siltstone::Result<(Vec<u8>, Vec<u8>)>>>;

/// The items in the order that was asked for; with empty values where keys alone were.
fn in_direction(items: Iter, args: &Args) -> Items {
    let of_key = |key: siltstone::Result<Vec<u8>>| key.map(|key| (key, Vec::new()));
    match (args.keys, args.reverse) {
        (false, false) => Box::new(items),
        (false, true) => Box::new(items.rev()),
        (true, false) => Box::new(items.keys().map(of_key)),
        (true, true) => Box::new(items.keys().rev().map(of_key)),
    }
}

/// The items of a group; what is no whole prefix is refused, with some that are.
fn of_prefix(keyspace: &Keyspace, prefix: &[u8]) -> Result<Iter> {
    let error = match keyspace.prefix(prefix) {
        Ok(items) => return Ok(items),
        Err(error) if matches!(error.kind(), ErrorKind::BadKey | ErrorKind::InvalidInput) => error,
        Err(error) => return Err(error.into()),
    };
    let (schema, mut prefixes) = (keyspace.schema(), BTreeSet::new());
    for key in keyspace.iter()?.keys().take(KEYS_LOOKED_AT) {
        let key = key?;
        if let (Some(_), Ok(length)) = (schema.prefix_rule(), schema.prefix_len(&key)) {
            prefixes.insert(text::escape(key.get(..length).unwrap_or(&key)));
        }
        if prefixes.len() > MOST_NAMED {
            break;
        }
    }
    let some: Vec<&str> = prefixes.iter().take(MOST_NAMED).map(String::as_str).collect();
    let there_are = match some.as_slice() {
        [] => String::new(),
        some => {
            format!("; its schema is {}, and there are prefixes such as {}", schema.name(), some.join(", "))
        }
    };
    // What the library advises is the same in its own words.
    let why = error.to_string();
    let why = why.split("; Keyspace::").next().unwrap_or(&why);
    fail!("{why}{there_are}; --anywhere lists the keys that begin so")
}
