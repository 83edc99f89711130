//! `siltstone repair`: open a store again whose log is damaged.

use crate::failure::{Failure, Result};
use crate::output::{note, print, print_json};
use crate::sizes;
use crate::store;
use siltstone::{ErrorKind, Options, WalRecovery};
use std::path::PathBuf;

/// Make a store with a damaged log usable again, giving up what follows the damage
///
/// A store whose write-ahead log holds damage that no power cut explains refuses to open, because what
/// follows the damage would be lost without a word. With --drop-damaged-log this command keeps what precedes
/// the damage, moves it into tables and gives up the rest. Copy the directory first. Damaged tables and
/// manifests are not repaired: restore those from a checkpoint.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  siltstone repair ./store\n  cp -r ./store ./store-copy && siltstone repair ./store --drop-damaged-log"
)]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// Give up what follows the first damage in the log
    #[arg(long)]
    drop_damaged_log: bool,
    /// Print {"repaired": …, "damage": …}
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
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
                "{damage}\nif that file is a log (.wal), `siltstone repair --drop-damaged-log` keeps what precedes the damage and \
                 gives up all that follows it; copy the store first. Other files can't be repaired, only restored from a copy"
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
