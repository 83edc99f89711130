//! `siltstone repair`: what can be read of a damaged store, in a new one; or a damaged log given up.

use crate::failure::{Failure, Result};
use crate::output::{note, print, print_json};
use crate::progress;
use crate::sizes;
use crate::store;
use siltstone::{Db, ErrorKind, Options, RepairReport, WalRecovery};
use std::path::{Path, PathBuf};

/// Salvage every readable item of a damaged store into a new one, and say what was lost
///
/// With the name of a new directory this command reads all tables and logs of the store, whatever state its
/// manifest is in, writes every item that it can read into a new store there, and lists what was lost. The
/// damaged store is not changed, and what could not be read, or not be placed, is kept in `lost+found` in the
/// new one. It exits with 0 once the new store is whole, also where something was lost: `losses` of --json,
/// and the lines that begin with "lost:", say what.
///
/// Without it, the command says what is damaged. With --drop-damaged-log it makes a store usable in place
/// whose write-ahead log alone is damaged: it keeps what precedes the damage, moves it into tables and gives
/// up the rest, of which `lost+found` in the store keeps a copy. A damaged manifest is never given up so.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  siltstone repair ./store\n  siltstone repair ./store ./repaired\n  siltstone repair ./store --drop-damaged-log"
)]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// Directory to create for the new store
    #[arg(conflicts_with = "drop_damaged_log")]
    target: Option<PathBuf>,
    /// Give up what follows the first damage in the log
    #[arg(long)]
    drop_damaged_log: bool,
    /// Merge operator of merges whose own is not known, since the manifest that named it is lost: add,
    /// append, max and others; without it they are kept as they are
    #[arg(long, value_name = "NAME", requires = "target")]
    merge_operator: Option<String>,
    /// Print {"repaired": …, "damage": …}; with a new directory {"entries": …, "operations": …, "tables": …,
    /// "keyspaces": […], "manifest": …, "losses": [{"file": …, "keyspace": …, "bytes": …, "entries": …,
    /// "what": …}], "notes": […], "kept": […], …}
    #[arg(long)]
    json: bool,
}

/// Salvages the store into `target`.
fn salvage(args: &Args, target: &Path) -> Result<()> {
    let bar = progress::bytes_bar(Some(0));
    let mut options = Options::default();
    if let Some(name) = &args.merge_operator {
        options.merge_operators = options.merge_operators.with_unknown(name).map_err(|what| {
            Failure::Usage(format!("--merge-operator: {what}; \"add\" or \"append\" are some"))
        })?;
    }
    let report = Db::repair(&args.dir, target, &options, &mut |progress| {
        bar.set_length(progress.bytes_total);
        bar.set_position(progress.bytes_done);
    })?;
    bar.finish_and_clear();
    if args.json {
        return print_json(&report);
    }
    let RepairReport { entries, operations, tables, losses, notes, kept, manifest, keyspaces, .. } = report;
    if let Some(damage) = &manifest {
        note!("manifest: {damage}");
    }
    for read in &notes {
        note!("note: {read}");
    }
    for loss in &losses {
        let of = loss.keyspace.as_ref().map_or(String::new(), |name| format!(" of keyspace {name:?}"));
        let (bytes, entries) = (sizes::bytes(loss.bytes), sizes::count(loss.entries));
        note!("lost: {}{of}: {} ({bytes}, {entries} entries)", loss.file, loss.what);
    }
    if !kept.is_empty() {
        note!("{} files are kept in {}", kept.len(), target.join("lost+found").display());
    }
    print(&format!(
        "{}: read {} entries of {} tables and {} operations of the log into {} keyspaces of {}\n",
        match (losses.is_empty(), manifest) {
            (false, _) => "SOME THINGS WERE LOST",
            (true, Some(_)) => "CURRENT or the manifest is damaged, and all that was found of items was read",
            (true, None) => "nothing was lost",
        },
        sizes::count(entries),
        sizes::count(tables),
        sizes::count(operations),
        sizes::count(keyspaces.len() as u64),
        target.display()
    ))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    if let Some(target) = &args.target {
        return salvage(args, target);
    }
    // By its own name, so that the error's kind is not lost in a message.
    let damage = match siltstone::Db::open_read_only(&args.dir, Options::default()) {
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::Corruption => Some(error.to_string()),
        Err(error) => return Err(error.into()),
    };
    match &damage {
        None => {}
        Some(damage) if !args.drop_damaged_log => {
            return Err(Failure::Failed(format!(
                "{damage}\n`siltstone repair {0} NEW` reads all that can be read into a new store. If that file is a log (.wal), \
                 `siltstone repair {0} --drop-damaged-log` keeps what precedes the damage and gives up all that follows it",
                args.dir.display()
            )));
        }
        Some(damage) => {
            note!("damage: {damage}");
            let options = Options { wal_recovery: WalRecovery::StopAtDamage, ..Options::default() };
            let db = store::open_existing(&args.dir, options)?;
            // Tables no longer need the log.
            db.flush()?;
            let items = db.stats().keyspaces.iter().map(|k| k.items_estimate).sum();
            note!("about {} items are left", sizes::count(items));
            db.close()?;
            // Succeeds only if the store opens strictly now.
            store::open_read_only(&args.dir)?;
        }
    }
    if args.json {
        return print_json(&serde_json::json!({ "repaired": damage.is_some(), "damage": damage }));
    }
    print(match damage {
        Some(_) => "repaired: the store opens again; what followed the damage in the log is gone\n",
        None => {
            "nothing to repair: the manifest and the log are sound (`siltstone verify` checks the tables)\n"
        }
    })
}
