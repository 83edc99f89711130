//! What an interrupt does: it removes directories of stores that were to go at the end anyhow, or ends a
//! command that goes on until then.

use crate::program::output::note;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Directories to remove with all that is in them, and those to remove where they are empty, innermost first.
#[derive(Default)]
struct Doomed {
    whole: Vec<PathBuf>,
    if_empty: Vec<PathBuf>,
}

static DOOMED: Mutex<Doomed> = Mutex::new(Doomed { whole: Vec::new(), if_empty: Vec::new() });
static HANDLER: Once = Once::new();
static STOPS: AtomicBool = AtomicBool::new(false);

fn doomed() -> MutexGuard<'static, Doomed> {
    DOOMED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has an interrupt (SIGINT, SIGTERM or SIGHUP) remove `dir` and everything in it.
pub fn removes(dir: &Path) {
    doomed().whole.push(dir.to_owned());
    set_handler();
}

/// Has an interrupt remove `dir` if there is nothing in it.
pub fn removes_empty(dir: &Path) {
    doomed().if_empty.insert(0, dir.to_owned());
    set_handler();
}

/// Has an interrupt set a flag and nothing else, for a command that looks at it; such a command has nothing
/// to remove.
pub fn stops() -> &'static AtomicBool {
    HANDLER.call_once(|| {
        // Without a handler an interrupt ends the process all the same.
        let _ = ctrlc::set_handler(|| STOPS.store(true, Ordering::Relaxed));
    });
    &STOPS
}

/// Leaves `dir` alone from now on.
pub fn spares(dir: &Path) {
    let mut doomed = doomed();
    doomed.whole.retain(|other| other != dir);
    doomed.if_empty.retain(|other| other != dir);
}

fn set_handler() {
    HANDLER.call_once(|| {
        // Without a handler an interrupt leaves the directories behind: a pity, not a failure.
        let _ = ctrlc::set_handler(|| {
            // Nobody else takes the lock again: the process ends here.
            let doomed = doomed();
            for dir in &doomed.whole {
                // Background work may still be creating files.
                let mut tries = 0;
                while dir.exists() && std::fs::remove_dir_all(dir).is_err() && tries < 500 {
                    tries += 1;
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                let what = if dir.exists() { "remains, in part" } else { "is removed" };
                note!("interrupted; {} {what}", dir.display());
            }
            for dir in &doomed.if_empty {
                let _ = std::fs::remove_dir(dir);
            }
            std::process::exit(130);
        });
    });
}
