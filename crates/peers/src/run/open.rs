//! How long a store takes until it answers: after it was closed in order, and after its process was killed.

use super::{Answer, Request};
use crate::engine::{Engine, Setting};
use crate::failure::{Failure, Result};
use crate::kernel::{self, Counters};
use crate::load;
use crate::record::{Figures, Outcome};
use crate::supervise;
use crate::workload::Workload;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use siltstone_lab::kit::generate::permutation::Permutation;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The argument that makes this program a process that overwrites items until it is killed.
pub const WRITER_ARGUMENT: &str = "--as-writer-that-is-killed";

/// Items that are asked for once the store is open.
const ASKED: u64 = 1000;

/// Opens the store and asks for items; before a recovery, lets a process write and kills it.
///
/// # Errors
/// The engine's own.
pub fn open(request: &Request, engine: &Engine, setting: Setting<'_>) -> Result<Answer> {
    let written_before_kill = match request.workload {
        Workload::Recover => Some(write_and_kill(request)?),
        _ => None,
    };
    kernel::drop_cached(&request.dir)?;
    let p = &request.parameters;
    let items = load::items(p.key_bytes, p.value_bytes, p.group, p.seed, p.items)?;
    let order = Permutation::new(p.items, p.seed);
    let mut rng = SmallRng::seed_from_u64(p.seed ^ 0x6f70_656e);
    let mut figures =
        Figures { items: request.existing, settled: true, written_before_kill, ..Figures::default() };
    let (mut key, mut value, mut expected) = (Vec::new(), Vec::new(), Vec::new());
    let before = Counters::now(&request.membership);
    let started = Instant::now();
    let store = engine.open(setting)?;
    for asked in 0..ASKED {
        let item = order.at(rng.random_range(0..request.existing.max(1)));
        items.key(item, &mut key);
        let found = store.get(&key, &mut value)?;
        if asked == 0 {
            figures.open_seconds = Some(started.elapsed().as_secs_f64());
            figures.open_read_bytes = Counters::now(&request.membership).since(before).read_bytes;
        }
        figures.not_found += u64::from(!found);
        figures.wrong += u64::from(found && !items.is_value_of(item, &value, &mut expected));
    }
    figures.after_settling = Counters::now(&request.membership).since(before);
    figures.structures_bytes = store.structures_bytes();
    (figures.anonymous_peak_bytes, figures.rss_peak_bytes) = kernel::memory();
    figures.group_peak_bytes = request.membership.peak_bytes();
    figures.space_bytes = kernel::space(&request.dir)?;
    store.close()?;
    Ok(Answer { outcome: Outcome::Complete, figures })
}

/// Lets another process overwrite items for as long as workloads last, and kills it. Returns how many it was
/// told are written.
fn write_and_kill(request: &Request) -> Result<u64> {
    let program = std::env::current_exe()?;
    let mut child =
        Command::new(program).arg(WRITER_ARGUMENT).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let json = serde_json::to_vec(request)?;
    child.stdin.take().map(|mut pipe| pipe.write_all(&json)).transpose()?;
    let lines = BufReader::new(child.stdout.take().ok_or_else(|| Failure::new("no pipe"))?).lines();
    let reader = std::thread::spawn(move || {
        lines.map_while(std::result::Result::ok).filter_map(|line| line.parse().ok()).last()
    });
    let started = Instant::now();
    let length = Duration::from_secs_f64(request.parameters.seconds);
    while started.elapsed() < length {
        if let Some(status) = child.try_wait()? {
            return Err(Failure::new(format_args!("the process that writes ended by itself: {status}")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill()?;
    child.wait()?;
    let written: Option<u64> = reader.join().map_err(|_| Failure::new("the reader of the pipe panicked"))?;
    Ok(written.unwrap_or(0))
}

/// The process that is killed: takes the request from standard input, overwrites items that exist, and says
/// after each batch how many it has been told are written.
///
/// # Errors
/// The engine's own.
pub fn write_until_killed() -> Result<()> {
    let request: Request = supervise::request()?;
    let p = &request.parameters;
    let engine = Engine::find(&request.engine).ok_or_else(|| Failure::new("there is no such engine"))?;
    let store = engine.open(request.setting())?;
    let items = load::items(p.key_bytes, p.value_bytes, p.group, p.seed, p.items)?;
    let order = Permutation::new(p.items, p.seed);
    let mut rng = SmallRng::seed_from_u64(p.seed ^ 0x6b69_6c6c);
    let mut batch = vec![(Vec::new(), Vec::new()); p.batch as usize];
    let (mut written, mut output) = (0u64, std::io::stdout().lock());
    loop {
        for (key, value) in &mut batch {
            let item = order.at(rng.random_range(0..request.existing.max(1)));
            items.key(item, key);
            items.value(item, rng.random(), value);
        }
        store.write(&batch)?;
        written += p.batch;
        writeln!(output, "{written}")?;
    }
}
