//! Starts the clients, ends them in time, and says now and then how far they are.

use super::client::{Client, Outcome, Run};
use crate::kit::sizes;
use crate::program::failure::{Failure, Result};
use crate::program::output::note;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Runs the clients of `run` to their end; the first failure ends all.
pub fn run_clients(run: &Run<'_>) -> Result<Outcome> {
    let (ended, endings) = channel();
    let started = Instant::now();
    let all = Mutex::new(Outcome::new()?);
    let failure = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..run.load.threads)
            .map(|number| {
                let (ended, all) = (ended.clone(), &all);
                scope.spawn(move || {
                    let outcome = Client::new(run, number, all).work(started);
                    if outcome.is_err() {
                        run.stop.store(true, Ordering::Relaxed);
                    }
                    let _ = ended.send(());
                    outcome
                })
            })
            .collect();
        // A client that panics drops its sender, so the watch ends with the last client in any case.
        drop(ended);
        watch(run, &endings, started);
        let mut failure = None;
        for client in clients {
            match client.join() {
                Ok(Ok(outcome)) => all.lock().unwrap_or_else(PoisonError::into_inner).add(&outcome)?,
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(_) => failure = Some(Failure::Failed("a client thread panicked".to_owned())),
            }
        }
        Ok::<_, Failure>(failure)
    })?;
    failure.map_or_else(|| Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner)), Err)
}

/// Waits for the clients, stops them at the deadline and shows progress: every second to a person, every five
/// seconds to a log.
fn watch(run: &Run<'_>, endings: &Receiver<()>, started: Instant) {
    let person = std::io::stderr().is_terminal();
    let interval = Duration::from_secs(if person { 1 } else { 5 });
    let mut next_line = started + interval;
    let (mut shown, mut shown_at) = (0, started);
    loop {
        let now = Instant::now();
        let deadline = run.load.deadline.map(|deadline| started + deadline);
        if deadline.is_some_and(|deadline| now >= deadline) {
            run.stop.store(true, Ordering::Relaxed);
        }
        let mut wake = next_line;
        if let Some(deadline) = deadline.filter(|deadline| *deadline > now) {
            wake = wake.min(deadline);
        }
        match endings.recv_timeout(wake.saturating_duration_since(now)) {
            Err(RecvTimeoutError::Disconnected) => break,
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
        }
        let now = Instant::now();
        if now < next_line {
            continue;
        }
        next_line = now + interval;
        let done = run.done.load(Ordering::Relaxed);
        let rate = (done - shown) as f64 / (now - shown_at).as_secs_f64();
        (shown, shown_at) = (done, now);
        let seconds = started.elapsed().as_secs();
        let mut line =
            format!("{seconds:>4} s  {:>14} operations  {}", sizes::count(done), sizes::rate(rate));
        if run.load.operations < u64::MAX {
            line.push_str(&format!("  {:.0} %", 100.0 * sizes::ratio(done, run.load.operations)));
        }
        if person {
            let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
        } else {
            note!("{line}");
        }
    }
    if person && shown > 0 {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
}

/// Asks the kernel to forget the cached pages of every file in `dir`.
#[cfg(target_os = "linux")]
pub fn drop_page_cache(dir: &Path) -> Result<()> {
    use rustix::fs::{Advice, fadvise};
    let entries = std::fs::read_dir(dir).map_err(|e| Failure::at(dir, e))?;
    for entry in entries {
        let path = entry.map_err(|e| Failure::at(dir, e))?.path();
        if path.is_dir() {
            drop_page_cache(&path)?;
        } else {
            let file = std::fs::File::open(&path).map_err(|e| Failure::at(&path, e))?;
            fadvise(&file, 0, None, Advice::DontNeed).map_err(|e| Failure::at(&path, e))?;
        }
    }
    Ok(())
}

/// Asks the kernel to forget the cached pages of every file in `dir`.
#[cfg(not(target_os = "linux"))]
pub fn drop_page_cache(_: &Path) -> Result<()> {
    Err(Failure::Failed("--drop-page-cache needs Linux".to_owned()))
}
