//! `siltstone tail`: the changes of a store.

use crate::failure::{Failure, Result};
use crate::output::{Output, note};
use crate::store;
use crate::text;
use siltstone::{Change, ErrorKind, TailBatch, TailOperation};
use std::path::PathBuf;

/// Show what was written to a store, batch by batch, as far back as its log goes
///
/// Reads the log of a closed store, or of one that another process has open, up to now. How far back the log
/// goes is up to the program that writes (its Options::tail_retention_bytes). What was written to keyspaces
/// that are dropped by now is left out. Where a keyspace was cleared, built or replaced, "replaced" says so.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone tail ./store\n  \
    siltstone tail ./store --from 1048592 --json | jq '.operations[]'")]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// Position of the log to begin at, as shown before; the oldest there is by default
    #[arg(long, value_name = "LSN")]
    from: Option<u64>,
    /// Print a JSON object per batch: {"lsn": …, "next_lsn": …, "operations": [{"keyspace": …, "key": …,
    /// "put": …}]}
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = store::open_read_only(&args.dir)?;
    let mut tail = db.tail(args.from.unwrap_or_else(|| db.oldest_log_position())).map_err(gone)?;
    let mut out = Output::lock();
    for batch in &mut tail {
        let batch = batch?;
        let lines = if args.json { json(&batch) } else { in_words(&batch) };
        out.write(lines.as_bytes())?;
    }
    out.finish()?;
    note!("up to position {}", tail.position());
    Ok(())
}

/// Says what is left to do where a position is gone.
fn gone(error: siltstone::Error) -> Failure {
    match error.kind() {
        ErrorKind::PositionGone => Failure::Failed(format!("{error}; leave out --from to see what is there")),
        _ => error.into(),
    }
}

fn shown(bytes: &[u8]) -> String {
    text::escape(bytes)
}

fn in_words(batch: &TailBatch) -> String {
    let mut lines = String::new();
    for TailOperation { keyspace, key, change, .. } in &batch.operations {
        let key = shown(key);
        let what = match change {
            Change::Put { value, expires_at_ms: None } => format!("put {key} {}", shown(value)),
            Change::Put { value, expires_at_ms: Some(at) } => {
                format!("put {key} {} until {at}", shown(value))
            }
            Change::Merge { operand } => format!("merge {key} {}", shown(operand)),
            Change::Delete => format!("delete {key}"),
            Change::DeletePrefix => format!("delete-prefix {key}"),
            Change::Replaced => "replaced: cleared, built or replaced by other contents".to_owned(),
            _ => format!("another change of {key}"),
        };
        lines += &format!("{} {keyspace} {what}\n", batch.lsn);
    }
    lines
}

fn json(batch: &TailBatch) -> String {
    let operations = batch.operations.iter().map(|TailOperation { keyspace, key, change, .. }| {
        let mut object = serde_json::Map::new();
        let mut add = |name: &str, value: serde_json::Value| {
            object.insert(name.to_owned(), value);
        };
        add("keyspace", (**keyspace).into());
        add("key", shown(key).into());
        match change {
            Change::Put { value, expires_at_ms } => {
                add("put", shown(value).into());
                if let Some(at) = expires_at_ms {
                    add("expires_at_ms", (*at).into());
                }
            }
            Change::Merge { operand } => add("merge", shown(operand).into()),
            Change::Delete => add("delete", true.into()),
            Change::DeletePrefix => add("delete_prefix", true.into()),
            Change::Replaced => add("replaced", true.into()),
            _ => add("other", true.into()),
        }
        object
    });
    let operations: Vec<_> = operations.collect();
    let object =
        serde_json::json!({ "lsn": batch.lsn, "next_lsn": batch.next_lsn, "operations": operations });
    format!("{object}\n")
}
