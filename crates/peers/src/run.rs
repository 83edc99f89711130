//! One run, in its own process: open, warm up, measure, settle, close, answer.

mod build;
pub mod open;

use crate::confine::Membership;
use crate::engine::{Engine, Memory, Setting, Store};
use crate::failure::{Failure, Result};
use crate::kernel::{self, Counters};
use crate::load::{self, Load, Population, Sight};
use crate::record::{Calls, Figures, Outcome, RawRates};
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use siltstone_lab::kit::device::RawReads;
use siltstone_lab::kit::sizes;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// What is the same for every run whose figures are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// Items of the fill.
    pub items: u64,
    /// Length of every key.
    pub key_bytes: u64,
    /// Length of every value.
    pub value_bytes: u64,
    /// Items that share a prefix.
    pub group: u64,
    /// Which keys there are, in which order.
    pub seed: u64,
    /// Items of a batch.
    pub batch: u64,
    /// Threads that read.
    pub threads: u64,
    /// Length of the workloads that end after a time.
    pub seconds: f64,
    /// Before these, reads that do not count.
    pub warm_up_seconds: f64,
    /// How many times the items' number is overwritten.
    pub overwrites: f64,
    /// Memory of a run's process, page cache included.
    pub memory_cap_bytes: u64,
    /// The same of the process that fills the store.
    pub fill_memory_cap_bytes: u64,
    /// Time after which a run is ended.
    pub budget_seconds: f64,
}

impl Parameters {
    /// What a store depends on that was filled with these: where two agree in it, the one's stores do for the
    /// other.
    #[must_use]
    pub fn of_fill(&self) -> Self {
        Self {
            threads: 0,
            seconds: 0.0,
            warm_up_seconds: 0.0,
            overwrites: 0.0,
            memory_cap_bytes: 0,
            ..self.clone()
        }
    }

    /// Bytes of keys and values of `items` items.
    pub fn user_bytes(&self, items: u64) -> u64 {
        items * (self.key_bytes + self.value_bytes)
    }

    /// Items after which writers of `workload` stop, where so many exist.
    fn most_written(&self, workload: Workload, existing: u64) -> u64 {
        match workload {
            Workload::Fill => self.items,
            Workload::Overwrite | Workload::OverwriteZipf => (self.overwrites * existing as f64) as u64,
            _ => u64::MAX,
        }
    }

    /// Memory of an engine while `workload` runs.
    pub fn memory(&self, workload: Workload) -> Memory {
        let fills = workload.makes();
        Memory { cap_bytes: if fills { self.fill_memory_cap_bytes } else { self.memory_cap_bytes } }
    }

    /// Checks that the sizes fit together.
    ///
    /// # Errors
    /// They do not.
    pub fn check(&self) -> Result<()> {
        load::items(self.key_bytes, self.value_bytes, self.group, self.seed, self.items).map(|_| ())
    }
}

/// What the process is asked to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// The engine.
    pub engine: String,
    /// The workload.
    pub workload: Workload,
    /// Where the store is or will be.
    pub dir: PathBuf,
    /// The parameters.
    pub parameters: Parameters,
    /// Items that exist.
    pub existing: u64,
    /// The groups to enter.
    pub membership: Membership,
}

impl Request {
    /// How the store is opened.
    pub fn setting(&self) -> Setting<'_> {
        let Self { parameters, workload, dir, .. } = self;
        Setting {
            dir,
            memory: parameters.memory(*workload),
            user_bytes: parameters.user_bytes(parameters.items),
            only_reads: !workload.writes(),
        }
    }
}

/// What it answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// How it ended.
    pub outcome: Outcome,
    /// The figures.
    pub figures: Figures,
}

/// A process is quiet if it writes less and works less than this in one look.
const LOOK: Duration = Duration::from_millis(250);
const QUIET_BYTES: u64 = 64 << 10;
const QUIET_CPU_SECONDS: f64 = 0.02;
/// So many quiet looks are the end of background work.
const QUIET_LOOKS: u32 = 4;
/// The device is measured twice before and twice after a run that reads, each time for this part of the run's
/// length.
const PROBE_SHARE: f64 = 1.0 / 16.0;

/// Does what is asked and writes the answer to `answer`.
///
/// # Errors
/// The store's, or the answer cannot be written.
pub fn serve(request: &Request, answer: &Path) -> Result<()> {
    request.membership.enter()?;
    let Some(engine) = Engine::find(&request.engine) else {
        return Err(Failure::new(format_args!("there is no engine {}", request.engine)));
    };
    let setting = request.setting();
    match request.workload {
        Workload::Bulk => return write(answer, &build::build(request, &engine, setting)?),
        Workload::Reopen | Workload::Recover => {
            return write(answer, &open::open(request, &engine, setting)?);
        }
        Workload::Fill => {}
        _ => kernel::drop_cached(&request.dir)?,
    }
    let before = raw_reads(request)?;
    let store = engine.open(setting)?;
    let mut answered = measure(request, store.as_ref(), answer)?;
    answered.figures.raw = before.zip(raw_reads(request)?).map(|(before, after)| before.mean(after));
    let end = store.close();
    write(answer, &answered)?;
    end
}

/// What the device gives to readers who do nothing else, before or after a run that only reads: pages of the
/// store's own files, around the page cache.
fn raw_reads(request: &Request) -> Result<Option<RawRates>> {
    let Parameters { threads, batch, seconds, .. } = request.parameters;
    if request.workload.writes() {
        return Ok(None);
    }
    let at = |error| Failure::at(&request.dir, error);
    let reads = RawReads::of_directory(&request.dir).map_err(at)?;
    let length = Duration::from_secs_f64(seconds * PROBE_SHARE);
    let clients = request.workload.clients(threads as usize, batch as usize);
    let rate = |readers: usize, depth: usize| reads.per_second(readers, depth, length).map_err(at);
    let mut as_many = 0.0;
    for clients in &clients {
        as_many += rate(clients.threads, clients.batch)?;
    }
    Ok(Some(RawRates { as_many, depth_32: rate(1, 32)? }))
}

fn write(path: &Path, answer: &Answer) -> Result<()> {
    let json = serde_json::to_string_pretty(answer)?;
    std::fs::write(path, json).map_err(|e| Failure::at(path, e))
}

/// How things stood when the calls ended.
struct Ended {
    seconds: f64,
    counters: Counters,
    /// Reads that the engine counts, now and before.
    device_reads: Option<(u64, u64)>,
}

/// Returns what the clients saw, in figures.
fn figures_of(parameters: &Parameters, sight: &Sight, items: u64, ended: &Ended) -> Figures {
    let Ended { seconds, counters: when_calls_ended, device_reads } = *ended;
    let mut figures = Figures {
        items,
        seconds,
        not_found: sight.not_found,
        found_unexpectedly: sight.found_unexpectedly,
        wrong: sight.wrong,
        when_calls_ended,
        ..Figures::default()
    };
    let mut reads = 0;
    for (operation, seen) in &sight.by_operation {
        figures.operations += seen.operations;
        if operation.writes() {
            figures.user_bytes_written += parameters.user_bytes(seen.operations);
        } else {
            reads += seen.operations;
        }
        let calls = Calls::new(&seen.latencies, seen.operations, seen.stalls, seconds);
        figures.by_operation.insert(operation.name().to_owned(), calls);
    }
    figures.operations_per_second = figures.operations as f64 / seconds.max(1e-9);
    let per_read = |count: u64| sizes::ratio(count, reads);
    let read = device_reads.filter(|_| reads > 0);
    figures.device_reads_per_read = read.map(|(now, then)| per_read(now.saturating_sub(then)));
    figures.kernel_reads_per_read = when_calls_ended.device_reads.filter(|_| reads > 0).map(per_read);
    figures.kernel_bytes_per_read = per_read(when_calls_ended.read_bytes);
    figures
}

fn measure(request: &Request, store: &dyn Store, answer: &Path) -> Result<Answer> {
    let Request { parameters, workload, existing, .. } = request;
    let fills = *workload == Workload::Fill;
    let p = parameters;
    let population = Population {
        items: load::items(p.key_bytes, p.value_bytes, p.group, p.seed, p.items)?,
        all: p.items,
        existing: *existing,
        group: p.group,
        seed: p.seed,
        skew: workload.skew(),
    };
    let most_written = p.most_written(*workload, *existing);
    let load = Load::new(store, population, most_written);
    let mut run = Run { request, load: &load, store, anonymous_peak: 0, baseline: None, tenths: Vec::new() };
    let sight = run.clients()?;
    let Some(baseline) = run.baseline.take() else {
        return Err(Failure::new("the clients ended before the warm-up did"));
    };
    let seconds = baseline.started.elapsed().as_secs_f64();
    let when_calls_ended = Counters::now(&request.membership).since(baseline.counters);
    let device_reads = store.device_reads().zip(baseline.device_reads);
    let ended = Ended { seconds, counters: when_calls_ended, device_reads };
    let items = if fills { load.written() } else { *existing };
    let mut figures = figures_of(p, &sight, items, &ended);
    if workload.is_counted() {
        figures.tenths = rates(&run.tenths, most_written);
    }
    let short = workload.is_counted() && load.written() < most_written;
    let outcome = if short { Outcome::OutOfTime } else { Outcome::Complete };
    let complete = |run: &mut Run<'_>, mut figures: Figures, settle_seconds, settled| {
        let after = Counters::now(&request.membership).since(baseline.counters);
        let live = p.user_bytes(figures.items);
        run.sample();
        figures.settle_seconds = settle_seconds;
        figures.settled = settled;
        figures.write_amplification_when_calls_ended =
            sizes::ratio(when_calls_ended.write_bytes, figures.user_bytes_written);
        figures.write_amplification = sizes::ratio(after.write_bytes, figures.user_bytes_written);
        figures.cpu_us_per_operation = after.cpu_seconds * 1e6 / figures.operations.max(1) as f64;
        figures.rss_peak_bytes = kernel::memory().1;
        figures.anonymous_peak_bytes = run.anonymous_peak;
        figures.structures_bytes = store.structures_bytes();
        figures.planning_seconds = store.planning_seconds();
        figures.group_peak_bytes = request.membership.peak_bytes();
        figures.space_bytes = kernel::space(&request.dir)?;
        figures.space_amplification = sizes::ratio(figures.space_bytes, live);
        figures.after_settling = after;
        Ok::<_, Failure>(Answer { outcome, figures })
    };
    if !workload.writes() {
        return complete(&mut run, figures, 0.0, true);
    }
    let budget = Duration::from_secs_f64(p.budget_seconds);
    let started = Instant::now();
    std::thread::scope(|scope| {
        let (ended, ending) = channel();
        scope.spawn(move || _ = ended.send(store.settle()));
        let settled = run.settle(&ending, started, budget)?;
        let took = started.elapsed().saturating_sub(LOOK * QUIET_LOOKS).as_secs_f64();
        let answered = complete(&mut run, figures, took, settled)?;
        if !settled {
            // The engine cannot be told to stop; its log is there for the next run.
            write(answer, &answered)?;
            std::process::exit(0);
        }
        Ok(answered)
    })
}

/// Items a second of each tenth of `items` that was done after the seconds named.
fn rates(tenths: &[f64], items: u64) -> Vec<f64> {
    let before = std::iter::once(&0.0).chain(tenths);
    let lengths = tenths.iter().zip(before).map(|(end, begin)| (end - begin).max(1e-9));
    lengths.map(|seconds| items as f64 / 10.0 / seconds).collect()
}

/// The moment from which on calls count.
struct Baseline {
    started: Instant,
    counters: Counters,
    device_reads: Option<u64>,
}

struct Run<'a> {
    request: &'a Request,
    load: &'a Load<'a>,
    store: &'a dyn Store,
    anonymous_peak: u64,
    baseline: Option<Baseline>,
    /// Of a counted run, seconds after which each tenth was done.
    tenths: Vec<f64>,
}

impl Run<'_> {
    /// Starts the clients and waits for them, or for the time after which they are stopped.
    fn clients(&mut self) -> Result<Sight> {
        let Parameters { threads, batch, warm_up_seconds, .. } = self.request.parameters;
        let groups = self.request.workload.clients(threads as usize, batch as usize);
        let warms_up = !self.request.workload.is_counted() && warm_up_seconds > 0.0;
        if warms_up {
            self.load.measuring.store(false, Ordering::Relaxed);
        } else {
            self.begin();
        }
        std::thread::scope(|scope| {
            let (ended, endings) = channel();
            let mut handles = Vec::new();
            for clients in groups {
                for _ in 0..clients.threads {
                    let (ended, load, number) = (ended.clone(), self.load, handles.len());
                    handles.push(scope.spawn(move || {
                        let sight = load.client(clients, number);
                        if sight.is_err() {
                            load.stop.store(true, Ordering::Relaxed);
                        }
                        drop(ended);
                        sight
                    }));
                }
            }
            // A client that panics drops its sender as well, so the watch ends with the last one in any case.
            drop::<std::sync::mpsc::Sender<()>>(ended);
            self.watch(&endings);
            self.note_tenths();
            let mut all = Sight::default();
            let mut failure = None;
            for handle in handles {
                match handle.join() {
                    Ok(Ok(sight)) => all.add(sight)?,
                    Ok(Err(error)) => failure = failure.or(Some(error)),
                    Err(_) => failure = Some(Failure::new("a client panicked")),
                }
            }
            failure.map_or(Ok(all), Err)
        })
    }

    fn begin(&mut self) {
        self.baseline = Some(Baseline {
            started: Instant::now(),
            counters: Counters::now(&self.request.membership),
            device_reads: self.store.device_reads(),
        });
        self.load.measuring.store(true, Ordering::Relaxed);
    }

    /// Ends the warm-up and the run in time, and shows progress: each second to a person, every ten to a log.
    fn watch(&mut self, endings: &Receiver<()>) {
        let p = &self.request.parameters;
        let counted = self.request.workload.is_counted();
        let warm_up = Duration::from_secs_f64(p.warm_up_seconds);
        let length = Duration::from_secs_f64(if counted { p.budget_seconds } else { p.seconds });
        let person = std::io::stderr().is_terminal();
        let interval = Duration::from_secs(if person { 1 } else { 10 });
        let started = Instant::now();
        let (mut shown, mut shown_at) = (0, started);
        while endings.recv_timeout(Duration::from_millis(20)) == Err(RecvTimeoutError::Timeout) {
            self.sample();
            match &self.baseline {
                None if started.elapsed() >= warm_up => self.begin(),
                Some(baseline) if baseline.started.elapsed() >= length => {
                    self.load.stop.store(true, Ordering::Relaxed);
                }
                _ => {}
            }
            self.note_tenths();
            if shown_at.elapsed() < interval {
                continue;
            }
            let done = self.load.done.load(Ordering::Relaxed);
            let rate = (done - shown) as f64 / shown_at.elapsed().as_secs_f64();
            (shown, shown_at) = (done, Instant::now());
            let line = format!(
                "    {:>4} s  {:>14} operations  {}",
                started.elapsed().as_secs(),
                sizes::count(done),
                sizes::rate(rate)
            );
            let (before, after) = if person { ("\r", "\x1b[K") } else { ("", "\n") };
            let _ = write!(std::io::stderr(), "{before}{line}{after}");
        }
        if person && shown > 0 {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    fn note_tenths(&mut self) {
        let Some(baseline) = &self.baseline else { return };
        let done = self.load.tenths_done();
        while self.tenths.len() < done {
            self.tenths.push(baseline.started.elapsed().as_secs_f64());
        }
    }

    fn sample(&mut self) {
        self.anonymous_peak = self.anonymous_peak.max(kernel::memory().0);
    }

    /// Waits until the engine says that it has settled, and then until the process is quiet; whether it is.
    fn settle(&mut self, ending: &Receiver<Result<()>>, started: Instant, budget: Duration) -> Result<bool> {
        let (mut asked, mut quiet) = (true, 0);
        let mut before = Counters::now(&self.request.membership);
        while quiet < QUIET_LOOKS {
            if started.elapsed() > budget {
                return Ok(false);
            }
            if asked {
                match ending.recv_timeout(LOOK) {
                    Ok(end) => {
                        end?;
                        asked = false;
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return Err(Failure::new("settling panicked")),
                }
            } else {
                std::thread::sleep(LOOK);
            }
            self.sample();
            let now = Counters::now(&self.request.membership);
            let since = now.since(before);
            let is_quiet = since.write_bytes < QUIET_BYTES && since.cpu_seconds < QUIET_CPU_SECONDS;
            quiet = if is_quiet && !asked { quiet + 1 } else { 0 };
            before = now;
        }
        Ok(true)
    }
}
