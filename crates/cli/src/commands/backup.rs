//! `siltstone backup`: backups that share what has not changed.

use crate::failure::{Failure, Result};
use crate::output::{note, print, print_json};
use crate::progress;
use crate::sizes;
use crate::store;
use siltstone::{BackupOptions, BackupProgress, Backups, Options};
use std::path::PathBuf;

/// Make, list, restore, check and delete backups of a store
///
/// A directory of backups holds each file once, whichever backups need it, under a name that never comes to
/// mean something else: it can be copied to another place or an object store file by file. A backup that is
/// cut short leaves the others whole, and can simply be made again.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone backup create ./store ./backups\n  \
    siltstone backup list ./backups\n  \
    siltstone backup restore ./backups 3 ./store-of-tuesday\n  \
    siltstone backup verify ./backups && rsync -a ./backups/ host:backups/")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Add a backup of what the store holds now; only what changed since the last one is brought there. A
    /// process that has the store open makes backups itself, by Db::backup
    Create(Create),
    /// List the backups of a directory
    List(List),
    /// Make a store of a backup, in a new directory
    Restore(Restore),
    /// Delete a backup, and the files that no other needs
    Delete(Delete),
    /// Read every byte of every backup and compare it with what was written
    Verify(List),
}

#[derive(clap::Args, Debug)]
struct Create {
    /// Directory of the store; it must not be open in another process
    dir: PathBuf,
    /// Directory of the backups; made where there is none
    backups: PathBuf,
    /// Copy all files instead of giving them a second name where the file system allows that
    #[arg(long)]
    copy: bool,
    /// Print {"number": …, "files": …, "bytes": …, "bytes_added": …, …}
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct List {
    /// Directory of the backups
    backups: PathBuf,
    /// Print JSON: of `list` an array of {"number": …, "made_at_ms": …, "files": …, "bytes": …, …}, of
    /// `verify` {"backups": …, "files": …, "bytes": …, "problems": […], "damaged": […]}
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct Restore {
    /// Directory of the backups
    backups: PathBuf,
    /// Number of the backup, as `list` shows it
    number: u64,
    /// Directory to create
    target: PathBuf,
    /// Copy all files instead of giving them a second name where the file system allows that
    #[arg(long)]
    copy: bool,
    /// Print {"number": …, "target": …, "bytes": …}
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct Delete {
    /// Directory of the backups
    backups: PathBuf,
    /// Number of the backup, as `list` shows it
    number: u64,
    /// Print {"number": …, "bytes_freed": …}
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    match &args.action {
        Action::Create(args) => create(args),
        Action::List(args) => list(args),
        Action::Restore(args) => restore(args),
        Action::Delete(args) => delete(args),
        Action::Verify(args) => verify(args),
    }
}

fn options(copies: bool) -> BackupOptions {
    if copies { BackupOptions::copies() } else { BackupOptions::default() }
}

/// Runs `work` with a bar that shows how far it has come.
fn with_bar<T>(work: impl FnOnce(&mut dyn FnMut(BackupProgress)) -> T) -> T {
    let bar = progress::bytes_bar(Some(0));
    let done = work(&mut |progress| {
        bar.set_length(progress.bytes_total);
        bar.set_position(progress.bytes_done);
    });
    bar.finish_and_clear();
    done
}

fn create(args: &Create) -> Result<()> {
    let db = store::open_existing(&args.dir, Options::default())?;
    let info = with_bar(|progress| db.backup_with(&args.backups, &options(args.copy), progress))?;
    db.close()?;
    if args.json {
        return print_json(&info);
    }
    print(&format!(
        "backup {} in {}: {} files of {}, {} of which are new\n",
        info.number,
        args.backups.display(),
        sizes::count(info.files),
        sizes::bytes(info.bytes),
        sizes::bytes(info.bytes_added)
    ))
}

fn list(args: &List) -> Result<()> {
    let backups = Backups::open(&args.backups)?;
    let listed = backups.list()?;
    for number in backups.damaged()? {
        note!(
            "backup {number} has a damaged record and can't be restored; until it is deleted (`siltstone backup delete DIR \
             {number}`) no file of any backup is removed"
        );
    }
    if args.json {
        return print_json(&listed);
    }
    let now_ms = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_ms = now_ms.map_or(0, |since| since.as_millis() as u64);
    let mut text = String::new();
    for info in &listed {
        let age = now_ms.saturating_sub(info.made_at_ms) as f64 / 1e3;
        let (files, bytes) = (sizes::count(info.files), sizes::bytes(info.bytes));
        text += &format!("{}: {files} files, {bytes}, made {} ago\n", info.number, sizes::seconds(age));
    }
    print(if listed.is_empty() { "no backups\n" } else { &text })
}

fn restore(args: &Restore) -> Result<()> {
    let backups = Backups::open(&args.backups)?;
    let restored =
        with_bar(|progress| backups.restore_with(args.number, &args.target, &options(args.copy), progress))?;
    if args.json {
        return print_json(&serde_json::json!({
            "number": restored.number, "target": args.target.to_string_lossy(), "bytes": restored.bytes,
        }));
    }
    let bytes = sizes::bytes(restored.bytes);
    print(&format!(
        "backup {} restored to {}: {bytes}, all checked\n",
        restored.number,
        args.target.display()
    ))
}

fn delete(args: &Delete) -> Result<()> {
    let freed = Backups::open(&args.backups)?.delete(args.number)?;
    if args.json {
        return print_json(&serde_json::json!({ "number": args.number, "bytes_freed": freed }));
    }
    print(&format!("backup {} deleted: {} freed\n", args.number, sizes::bytes(freed)))
}

fn verify(args: &List) -> Result<()> {
    let backups = Backups::open(&args.backups)?;
    let report = with_bar(|progress| backups.verify(progress))?;
    let is_sound = report.problems.is_empty();
    if args.json {
        print_json(&report)?;
    } else {
        let word = if is_sound { "sound" } else { "NOT SOUND" };
        let (files, bytes) = (sizes::count(report.files), sizes::bytes(report.bytes));
        print(&format!(
            "{word}: read {files} files ({bytes}) of {} backups\n",
            sizes::count(report.backups)
        ))?;
        for problem in &report.problems {
            note!("problem: {problem}");
        }
    }
    if is_sound {
        return Ok(());
    }
    let numbers: Vec<_> = report.damaged.iter().map(u64::to_string).collect();
    if !numbers.is_empty() {
        note!("error: these backups can't be restored: {}", numbers.join(", "));
    }
    note!(
        "what to do: remove each damaged file of files/ and make a backup again, which brings anew what the store still has; \
         delete backups whose records are damaged"
    );
    Err(Failure::Reported)
}
