//! `siltstone export`: write a keyspace as rows.

use crate::failure::{Result, fail, usage};
use crate::output::{Output, note};
use crate::progress;
use crate::rows::{Dialect, Format};
use crate::sizes;
use crate::store::{self, DEFAULT_KEYSPACE};
use std::path::PathBuf;

/// Write every item of a keyspace to standard output, as rows that `load` reads
///
/// The rows are one moment of the store, in the store's own order (which is not that of the keys). Times to
/// live are not part of the rows.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone export ./store --format csv > items.csv\n  \
    siltstone export ./store --raw --keyspace paths > paths.tsv\n  \
    siltstone export ./old --format jsonl | siltstone load ./new - --format jsonl")]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// Keyspace to export
    #[arg(long, value_name = "NAME", default_value = DEFAULT_KEYSPACE)]
    keyspace: String,
    /// How to write the rows
    #[arg(long, value_enum, default_value = "tsv")]
    format: Format,
    /// TSV without escapes, as `load --raw` reads it; an item with a line feed, or a tab in its key, ends the
    /// export
    #[arg(long)]
    raw: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let format = args.format;
    if args.raw && format != Format::Tsv {
        usage!("--raw is a form of TSV; leave it out, or add --format tsv");
    }
    let dialect = Dialect { raw: args.raw, ..format.into() };
    let db = store::open_read_only(&args.dir)?;
    let keyspace = store::keyspace(&db, &args.keyspace)?;
    let mut out = Output::lock();
    let bar = progress::count_bar(None, "rows");
    let mut line = Vec::new();
    let mut rows = 0u64;
    let mut items = keyspace.iter()?;
    while let Some((key, value)) = items.next_ref()? {
        line.clear();
        if let Err(why) = dialect.write(key, value, &mut line) {
            out.finish()?;
            fail!("{why}");
        }
        out.write(&line)?;
        rows += 1;
        if rows.is_multiple_of(1024) {
            bar.set_position(rows);
        }
    }
    out.finish()?;
    bar.finish_and_clear();
    if !Output::is_terminal() {
        note!("exported {} rows", sizes::count(rows));
    }
    Ok(())
}
