//! Contestants one after another, each in a process and a memory group of its own.

use super::{Figures, Trial};
use crate::confine::{Group, Membership};
use crate::engine::Memory;
use crate::failure::{Failure, Result};
use crate::kernel::{self, Counters};
use crate::supervise;
use serde::{Deserialize, Serialize};
use siltstone_lab::kit::sizes;
use siltstone_lab::kit::table::Table;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The argument that makes this program the process of a contestant.
pub const CHILD_ARGUMENT: &str = "--as-process-of-a-contestant";

/// Nobody waits longer for a contestant.
const LIMIT: Duration = Duration::from_secs(3600);

/// A contestant says how far it is once in so many seconds.
const TOLD_EACH_SECONDS: u64 = 10;

/// What the process is asked to do.
#[derive(Serialize, Deserialize)]
struct Request {
    trial: Trial,
    name: String,
    dir: PathBuf,
    membership: Membership,
}

/// What a contestant works with.
pub struct Contest<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its own directory; it exists and is empty.
    pub dir: &'a Path,
    /// Its memory.
    pub memory: Memory,
    membership: &'a Membership,
}

/// What happens from some moment on.
pub struct Watch {
    started: Instant,
    before: Counters,
}

/// What has happened.
pub struct Seen {
    /// Time.
    pub seconds: f64,
    /// The kernel's counts.
    pub counters: Counters,
}

/// How far a contestant is, said on standard error.
pub struct Progress {
    what: &'static str,
    of: u64,
    done: AtomicU64,
    started: Instant,
    /// Seconds after which it was said last.
    told: AtomicU64,
}

impl Progress {
    /// Nothing of so many is done.
    pub fn new(what: &'static str, of: u64) -> Self {
        Self { what, of, done: AtomicU64::new(0), started: Instant::now(), told: AtomicU64::new(0) }
    }

    /// So many more are done.
    pub fn add(&self, count: u64) {
        let done = self.done.fetch_add(count, Ordering::Relaxed) + count;
        let (seconds, told) = (self.started.elapsed().as_secs(), self.told.load(Ordering::Relaxed));
        let is_due = seconds >= told + TOLD_EACH_SECONDS;
        let is_mine = || self.told.compare_exchange(told, seconds, Ordering::Relaxed, Ordering::Relaxed);
        if is_due && is_mine().is_ok() {
            let (done, of) = (sizes::count(done), sizes::count(self.of));
            let _ = writeln!(std::io::stderr(), "    {done} of {of} {} after {seconds} s", self.what);
        }
    }
}

impl Contest<'_> {
    /// Counts from now on.
    pub fn watch(&self) -> Watch {
        Watch { started: Instant::now(), before: Counters::now(self.membership) }
    }

    /// What `watch` has seen so far.
    pub fn seen(&self, watch: &Watch) -> Seen {
        let seconds = watch.started.elapsed().as_secs_f64();
        Seen { seconds, counters: Counters::now(self.membership).since(watch.before) }
    }

    /// Adds what all contestants say of their memory.
    pub fn add_memory(&self, figures: &mut Figures) {
        figures.bytes("resident at most", kernel::memory().1);
        if let Some(peak) = self.membership.peak_bytes() {
            figures.bytes("with page cache", peak);
        }
    }
}

/// The process of a contestant: takes the request from standard input.
///
/// # Errors
/// The contestant's own.
pub fn serve(answer: &Path) -> Result<()> {
    let served = supervise::request::<Request>().and_then(|request| {
        request.membership.enter()?;
        let Request { trial, name, dir, membership } = &request;
        let memory = Memory { cap_bytes: trial.common().memory_cap };
        let figures = trial.contest(&Contest { name, dir, memory, membership })?;
        supervise::write_whole(answer, &figures)
    });
    supervise::say_failure(answer, served)
}

/// Runs all contestants of a trial and prints what they answered.
pub fn run(trial: &Trial) -> Result<()> {
    let common = trial.common();
    let chosen = supervise::chosen(trial.contestants(), &common.only)?;
    std::fs::create_dir_all(&common.dir).map_err(|e| Failure::at(&common.dir, e))?;
    trial.prepare()?;
    let mut answers = Vec::new();
    for name in chosen {
        let _ = writeln!(std::io::stderr(), "{name}");
        let dir = common.dir.join("store");
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).map_err(|e| Failure::at(&dir, e))?;
        let group = Group::new(&format!("siltstone-peers-{}", std::process::id()), common.memory_cap);
        let membership = group.membership().clone();
        let request = Request { trial: trial.clone(), name: name.clone(), dir, membership };
        let answer = common.dir.join("answer.json");
        let capped = (&group, common.memory_cap);
        let figures = supervise::in_a_process::<Figures>(CHILD_ARGUMENT, &request, &answer, capped, LIMIT)?;
        let said = match &figures {
            Ok(figures) => figures.line(),
            Err(why) => format!("failed: {why}"),
        };
        let _ = writeln!(std::io::stderr(), "    {said}");
        answers.push((name, figures));
    }
    let output = if common.json { json(&answers)? } else { table(&answers) };
    std::io::stdout().write_all(output.as_bytes())?;
    let _ = std::fs::remove_dir_all(common.dir.join("store"));
    if trial.keeps() {
        return Ok(());
    }
    std::fs::remove_dir_all(&common.dir).map_err(|e| Failure::at(&common.dir, e))
}

type Answers = [(String, std::result::Result<Figures, String>)];

fn json(answers: &Answers) -> Result<String> {
    let mut all = serde_json::Map::new();
    for (name, answer) in answers {
        let value = match answer {
            Ok(Figures(figures)) => {
                figures.iter().map(|figure| (figure.name.clone(), figure.value.into())).collect()
            }
            Err(why) => serde_json::Map::from_iter([("failed".to_owned(), why.clone().into())]),
        };
        all.insert(name.clone(), value.into());
    }
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}

/// A row for each contestant, a column for each figure that any has.
fn table(answers: &Answers) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for Figures(figures) in answers.iter().filter_map(|(_, answer)| answer.as_ref().ok()) {
        for figure in figures {
            if !columns.contains(&figure.name.as_str()) {
                columns.push(&figure.name);
            }
        }
    }
    let mut table = Table::new(std::iter::once("").chain(columns.iter().copied()));
    for (name, answer) in answers {
        let mut cells = vec![name.clone()];
        match answer {
            Ok(Figures(figures)) => cells.extend(columns.iter().map(|column| {
                let figure = figures.iter().find(|figure| figure.name == *column);
                figure.map_or_else(|| "-".to_owned(), |figure| figure.text.clone())
            })),
            Err(why) => cells.push(why.clone()),
        }
        table.row(cells);
    }
    table.to_string()
}
