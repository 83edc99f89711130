//! `siltstone stats --watch`: figures and events of a store, beside the process that has it open.

use super::tail::{Line, Tail};
use super::{Args, figures};
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::output::{Output, note, print};
use crate::sizes;
use crate::store;
use serde::Serialize;
use siltstone::{KeyspaceStats, LevelStats, Stats};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often events are looked for.
const LOOK: Duration = Duration::from_millis(100);
/// Events that a screen shows.
const EVENTS_ON_SCREEN: usize = 12;

/// What a refresh prints with `--json`; events are printed as they stand in the log.
#[derive(Serialize)]
struct Refresh<'a> {
    seconds: f64,
    stats: &'a Stats,
}

/// How a watch shows what it sees.
enum View {
    /// A screen that is drawn anew, with the last events below.
    Screen(Vec<String>),
    /// Lines, of the figures only those that have changed.
    Lines(BTreeMap<String, String>),
    Json,
}

/// Shows figures and events until it is interrupted or its time is over.
pub fn run(args: &Args) -> Result<()> {
    let stop = interrupt::stops();
    let mut stats = store::open_read_only(&args.dir)?.stats();
    let mut tail = Tail::new(&args.dir);
    let mut view = match (args.json, Output::is_terminal()) {
        (true, _) => View::Json,
        (false, true) => View::Screen(Vec::new()),
        (false, false) => View::Lines(BTreeMap::new()),
    };
    if !tail.exists() {
        note!(
            "{}: there is no event log; the process that writes keeps none, or not yet",
            args.dir.display()
        );
    }
    let mut lines = tail.new_lines();
    let on_screen = if matches!(view, View::Screen(_)) { EVENTS_ON_SCREEN } else { 0 };
    lines.drain(..lines.len().saturating_sub(args.events.unwrap_or(on_screen)));
    let started = Instant::now();
    loop {
        view.show(args, started.elapsed(), &stats, &lines)?;
        let until = Instant::now() + args.interval;
        loop {
            let is_over = args.duration.is_some_and(|duration| started.elapsed() >= duration);
            if is_over || stop.load(Ordering::Relaxed) {
                return view.events(&tail.new_lines());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(LOOK));
            view.events(&tail.new_lines())?;
        }
        lines = tail.new_lines();
        match store::open_read_only(&args.dir) {
            Ok(db) => stats = db.stats(),
            // The writer may just be replacing files: the next refresh looks again.
            Err(Failure::Failed(why)) => note!("not refreshed: {why}"),
            Err(failure) => return Err(failure),
        }
    }
}

impl View {
    /// Shows the figures, and the events that have come since the last refresh.
    fn show(&mut self, args: &Args, since: Duration, stats: &Stats, lines: &[Line]) -> Result<()> {
        match self {
            Self::Json => {
                let refresh = Refresh { seconds: since.as_secs_f64(), stats };
                let json = serde_json::to_string(&refresh)
                    .map_err(|e| Failure::Failed(format!("cannot express the result as JSON: {e}")))?;
                print(&format!("{json}\n"))?;
                self.events(lines)
            }
            Self::Lines(before) => {
                let mut text = String::new();
                for (name, line) in changed_lines(stats) {
                    if before.get(&name) != Some(&line) {
                        let _ = writeln!(text, "[+{:.1} s] {name}: {line}", since.as_secs_f64());
                        before.insert(name, line);
                    }
                }
                print(&text)?;
                self.events(lines)
            }
            Self::Screen(recent) => {
                recent.extend(lines.iter().map(Line::in_words));
                recent.drain(..recent.len().saturating_sub(EVENTS_ON_SCREEN));
                // Home and clear, then all of it in one write.
                let mut text = format!("\x1b[H\x1b[2J{}", figures(&args.dir, stats));
                let _ = writeln!(text, "\nevents ({:.0} s, Ctrl-C ends)", since.as_secs_f64());
                recent.iter().for_each(|line| _ = writeln!(text, "{line}"));
                print(&text)
            }
        }
    }

    /// Shows events that come between two refreshes.
    fn events(&mut self, lines: &[Line]) -> Result<()> {
        let mut text = String::new();
        for line in lines {
            match self {
                Self::Json if line.event.is_some() => _ = writeln!(text, "{}", line.text),
                Self::Json => {}
                Self::Lines(_) => _ = writeln!(text, "{}", line.in_words()),
                Self::Screen(recent) => {
                    recent.push(line.in_words());
                    _ = writeln!(text, "{}", line.in_words());
                }
            }
        }
        if text.is_empty() { Ok(()) } else { print(&text) }
    }
}

/// One line of figures for every write buffer and level, by name.
fn changed_lines(stats: &Stats) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for KeyspaceStats { name, write_buffer_entries, write_buffer_bytes, levels, .. } in &stats.keyspaces {
        let buffers =
            format!("{} entries, {}", sizes::count(*write_buffer_entries), sizes::bytes(*write_buffer_bytes));
        lines.push((format!("{name} write buffers"), buffers));
        lines.extend(levels.iter().map(|level| (format!("{name} L{}", level.level), level_line(level))));
    }
    lines
}

fn level_line(level: &LevelStats) -> String {
    format!(
        "{} regions, {} runs, {} tables, {} entries, {}; {} written, {:.2} per byte",
        sizes::count(level.regions),
        sizes::count(level.runs),
        sizes::count(level.tables),
        sizes::count(level.entries),
        sizes::bytes(level.bytes),
        sizes::bytes(level.bytes_written),
        level.write_amplification,
    )
}
