//! `siltstone export`: write a keyspace as rows.

use crate::failure::Result;
use crate::output::{Output, note};
use crate::progress;
use crate::rows::Format;
use crate::sizes;
use crate::store::{self, DEFAULT_KEYSPACE};
use std::path::PathBuf;

/// Write every item of a keyspace to standard output, as rows that `load` reads
///
/// The rows are one moment of the store, in the store's own order (which is not that of the keys). Times to
/// live are not part of the rows.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone export ./store --format tsv > items.tsv\n  \
    siltstone export ./old --format jsonl | siltstone load ./new - --format jsonl")]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// Keyspace to export
    #[arg(long, value_name = "NAME", default_value = DEFAULT_KEYSPACE)]
    keyspace: String,
    /// How to write the rows
    #[arg(long, value_enum)]
    format: Format,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = store::open_read_only(&args.dir)?;
    let keyspace = store::keyspace(&db, &args.keyspace)?;
    let mut out = Output::lock();
    let bar = progress::count_bar(None, "rows");
    let mut line = Vec::new();
    let mut rows = 0u64;
    for item in keyspace.iter()? {
        let (key, value) = item?;
        line.clear();
        args.format.write(&key, &value, &mut line);
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
