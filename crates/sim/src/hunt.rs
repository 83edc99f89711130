//! Worlds one after the other, and what is done about those that fail: they are made smaller and printed.

use crate::run::{Tally, run};
use crate::world::{Settings, World};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Runs of a failing world that making it smaller may take.
const SHRINKING_RUNS: u32 = 400;
/// Failures after which a hunt ends.
const MOST_FAILURES: usize = 20;

thread_local! {
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
    static WORLD: RefCell<bool> = const { RefCell::new(false) };
}

/// Adds what is known of a panic to what is said of it.
pub fn add_context(text: &str) {
    SAID.with_borrow_mut(|said| {
        said.push_str("; ");
        said.push_str(text);
    });
}

/// Lets panics within worlds be noted instead of printed.
pub fn quiet_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !WORLD.with_borrow(|within| *within) {
            before(info);
            return;
        }
        let text = info.payload_as_str().unwrap_or("something that is no text");
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        SAID.with_borrow_mut(|said| *said = format!("{text} (at {place})"));
    }));
}

/// A world that failed.
#[derive(Debug)]
pub struct Failure {
    /// The event at which it did.
    pub at: usize,
    /// What was wrong.
    pub what: String,
}

/// What kind of failure a world ended with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// A recovery found a store without something that was promised to be there.
    Lost,
    /// An answer, an error or a report was not the one that the model expects.
    Wrong,
    /// The engine itself panicked.
    Panicked,
}

impl Failure {
    /// Tells whose panic ended the world, by its place, and what it says.
    pub fn verdict(&self) -> Verdict {
        let checks = self.what.contains("crates/sim/") || self.what.contains("tests/common/");
        if !checks {
            Verdict::Panicked
        } else if self.what.contains("holds none of") || self.what.contains(" is gone") {
            Verdict::Lost
        } else {
            Verdict::Wrong
        }
    }
}

/// Carries out a world and catches its panic.
pub fn attempt(world: &World) -> Result<Tally, Failure> {
    let at = std::cell::Cell::new(0);
    WORLD.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(|| run(world, &|number| at.set(number))));
    WORLD.set(false);
    outcome.map_err(|_| Failure { at: at.get(), what: SAID.take() })
}

/// What is the same of two failures that are one: all but numbers.
fn kind(failure: &Failure) -> String {
    let place = failure.what.rfind("(at ").and_then(|at| failure.what.get(at..)).unwrap_or_default();
    let place = place.split(')').next().unwrap_or_default();
    let words: String = failure.what.chars().take(40).filter(|c| !c.is_ascii_digit()).collect();
    format!("{place}{words}")
}

/// The smallest world found that fails in the same way: with fewer operations first, then with less trouble.
pub fn shrink(world: &World, failure: Failure) -> (World, Failure) {
    let wanted = kind(&failure);
    let (mut smallest, mut failure, mut runs) = (world.clone(), failure, 0);
    smallest.events.retain(|(number, _)| *number <= failure.at);
    let mut changed = true;
    while changed && runs < SHRINKING_RUNS {
        changed = false;
        for of_trouble in [false, true] {
            let mut size = smallest.events.len().div_ceil(2);
            while size > 0 && runs < SHRINKING_RUNS {
                let chosen = smallest.events.iter().filter(|(_, event)| event.is_trouble() == of_trouble);
                let numbers: Vec<usize> = chosen.map(|(number, _)| *number).collect();
                for without in numbers.chunks(size) {
                    let kept = smallest.events.iter().map(|(number, _)| *number);
                    let kept: Vec<_> = kept.filter(|number| !without.contains(number)).collect();
                    let smaller = world.keeping(&kept);
                    runs += 1;
                    if let Err(again) = attempt(&smaller)
                        && kind(&again) == wanted
                    {
                        (smallest, failure, changed) = (smaller, again, true);
                    }
                }
                size /= 2;
            }
        }
    }
    (smallest, failure)
}

/// How to hunt.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The first world's seed.
    pub seed: u64,
    /// How many worlds at most.
    pub worlds: u64,
    /// For how long at most.
    pub time: Option<Duration>,
    /// How many worlds at once.
    pub threads: usize,
    /// Whether the first failure ends it, as it is.
    pub stops: bool,
    /// What worlds are like.
    pub settings: Settings,
}

/// What a hunt found.
#[derive(Debug, Default)]
pub struct Found {
    /// Worlds that came to their end.
    pub worlds: u64,
    /// What was done in them.
    pub tally: Tally,
    /// What failed, as it is to be printed.
    pub failures: Vec<String>,
    /// What kind of failure each of them was.
    pub verdicts: Vec<Verdict>,
    /// How long it took.
    pub seconds: f64,
}

impl Found {
    /// What was done, in a line.
    pub fn summary(&self) -> String {
        let Self { worlds, tally, failures, seconds, .. } = self;
        let rate = |count: u64| count as f64 / seconds.max(0.001);
        format!(
            "{worlds} worlds in {seconds:.1} s: {} operations ({:.0}/s), {} troubles ({:.0}/s): {} crashes, {} calls failed with {} \
             failures and {} poisonings, {} damages ({} flips) of which {} were noticed and {} cut a log short, {} clocks; {} failed",
            tally.operations,
            rate(tally.operations),
            tally.troubles(),
            rate(tally.troubles()),
            tally.crashes,
            tally.faults,
            tally.failures,
            tally.poisonings,
            tally.damages,
            tally.flips,
            tally.noticed,
            tally.cut_short,
            tally.clocks,
            failures.len()
        )
    }

    /// The same as one JSON object. `faults` are all that went wrong on purpose but crashes: calls that
    /// failed, damages and clocks.
    pub fn to_json(&self) -> serde_json::Value {
        let Self { worlds, tally, failures, verdicts, seconds } = self;
        let of = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
        serde_json::json!({
            "worlds": worlds,
            "seconds": seconds,
            "operations": tally.operations,
            "faults": tally.troubles() - tally.crashes,
            "crashes": tally.crashes,
            "failed_calls": tally.faults,
            "refused_operations": tally.failures,
            "poisonings": tally.poisonings,
            "damages": tally.damages,
            "damages_noticed": tally.noticed,
            "flips": tally.flips,
            "logs_cut_short": tally.cut_short,
            "clocks": tally.clocks,
            "lost": of(Verdict::Lost),
            "wrong": of(Verdict::Wrong),
            "panics": of(Verdict::Panicked),
            "failures": failures,
        })
    }
}

/// A failure in words: what was wrong, in which smallest world, and how to see it again.
pub fn report(world: &World, failure: &Failure, smallest: &World, settings: &Settings) -> String {
    let mut text = format!("seed {}, event {}: {}\n", world.seed, failure.at, failure.what);
    for (number, event) in &smallest.events {
        text.push_str(&format!("  {number}: {}\n", event.describe()));
    }
    let kept: Vec<_> = smallest.events.iter().map(|(number, _)| number.to_string()).collect();
    let names: Vec<_> =
        settings.troubles.iter().map(|trouble| format!("{trouble:?}").to_lowercase()).collect();
    text.push_str(&format!(
        "  again: siltstone-sim --seed {} --worlds 1 --operations {} --depth {} --faults {} --keep {}",
        world.seed,
        settings.operations,
        settings.depth,
        names.join(","),
        kept.join(",")
    ));
    text
}

/// Runs worlds until there are enough, or time is over; calls `heard` with every failure.
pub fn hunt(hunt: &Hunt, heard: &(dyn Fn(&str) + Sync)) -> Found {
    let (next, stop) = (AtomicU64::new(hunt.seed), AtomicBool::new(false));
    let (total, started) = (Mutex::new(Found::default()), Instant::now());
    let last = hunt.seed.saturating_add(hunt.worlds);
    std::thread::scope(|scope| {
        for _ in 0..hunt.threads.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) && hunt.time.is_none_or(|time| started.elapsed() < time) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= last {
                        break;
                    }
                    let world = World::new(seed, &hunt.settings);
                    let (tally, failed) = match attempt(&world) {
                        Ok(tally) => (tally, None),
                        Err(failure) => {
                            let (smallest, failure) = match hunt.stops {
                                true => (world.clone(), failure),
                                false => shrink(&world, failure),
                            };
                            let text = report(&world, &failure, &smallest, &hunt.settings);
                            heard(&text);
                            (Tally::default(), Some((text, failure.verdict())))
                        }
                    };
                    let mut total = total.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    total.worlds += 1;
                    total.tally += tally;
                    if let Some((text, verdict)) = failed {
                        total.failures.push(text);
                        total.verdicts.push(verdict);
                    }
                    if total.failures.len() >= if hunt.stops { 1 } else { MOST_FAILURES } {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut found = total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    found.seconds = started.elapsed().as_secs_f64();
    found
}
