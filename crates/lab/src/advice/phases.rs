//! A workload that changes: five phases on one store, with designs that stay, one that is chosen by the store
//! itself, and a schedule that knows what comes.
//!
//! Each phase is run by each design that stays: all presets that can list groups, and what is advised for
//! each phase alone. From what the phases cost of each, and what rewriting the store would, follows the
//! schedule of designs that a clairvoyant would choose, which is then really run. All costs are measured:
//! device reads, bytes and processor time, redesigns included. Records go to a file as they come.

use super::lines;
use super::regret::{contents, presets_for};
use super::stage::{Stage, directory};
use crate::kit::sizes;
use crate::kit::table::Table;
use crate::program::failure::{Result, refused};
use crate::program::output::{note, print};
use serde::{Deserialize, Serialize};
use siltstone::{AutoDesign, Design, Options};
use siltstone_model::advise::{Request, advise, rewriting_us, strata};
use siltstone_model::price::{Device, Mix, Workload};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Bytes of memory an item.
const BYTES_PER_ITEM: u64 = 6;
/// Parts of a phase, between which merges may keep up. Most take no longer than the quarter second of
/// operations after which a store looks for another design, so that it has its chance when it would have had
/// it.
const ROUNDS: u64 = 128;
/// What is waited after each of these at most.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Measure five phases with a store that redesigns itself, beside presets and a clairvoyant's schedule
///
/// The phases: load, read mostly (95 % gets), overwrite with skew 0.99, list groups, gets of absent keys. A
/// run that is ended goes on where it was, by the file --out.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone-lab phases --items 1M --out phases.jsonl\n  \
    siltstone-lab phases --items 1M --out phases.jsonl --table-only")]
pub struct Args {
    /// Items of a store
    #[arg(long, value_name = "COUNT", default_value = "1M", value_parser = sizes::parse_positive)]
    items: u64,
    /// Operations of a phase for each item; scans are a thirty-second of that
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    length: u64,
    /// The file of records
    #[arg(long, value_name = "FILE", default_value = "phases.jsonl")]
    out: PathBuf,
    /// Where stores are written, one at a time [default: the system's temporary directory]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// How often the store that redesigns itself is run: when it changes is never quite the same
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    runs: usize,
    /// Only rows whose names begin like this, such as "by itself"
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Run nothing, and show what the file has
    #[arg(long)]
    table_only: bool,
}

/// A phase after the load.
struct Phase {
    name: &'static str,
    mix: Mix,
    skew: f64,
    /// One operation for so many of the phase's length.
    per: u64,
}

const fn mix(hits: f64, misses: f64, scans: f64, puts: f64) -> Mix {
    Mix { hits, misses, scans, puts }
}

const PHASES: [Phase; 4] = [
    Phase { name: "read mostly", mix: mix(0.95, 0.0, 0.0, 0.05), skew: 0.0, per: 1 },
    Phase { name: "overwrite", mix: mix(0.0, 0.0, 0.0, 1.0), skew: 0.99, per: 1 },
    Phase { name: "scan groups", mix: mix(0.0, 0.0, 1.0, 0.0), skew: 0.0, per: 32 },
    Phase { name: "misses", mix: mix(0.0, 1.0, 0.0, 0.0), skew: 0.0, per: 1 },
];
const LOADED: usize = 1 + PHASES.len();
/// The share of operations that are so rare that they cost nothing.
const RARE: f64 = 1e-4;

/// The name of a phase, the load included.
fn name_of(number: usize) -> &'static str {
    number.checked_sub(1).and_then(|number| PHASES.get(number)).map_or("load", |phase| phase.name)
}

/// How the design of a store is chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Course {
    Stays(Design),
    ByItself(Design),
    /// A design for each phase.
    Schedule(Vec<Design>),
}

/// What the phases cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    items: u64,
    length: u64,
    name: String,
    course: Course,
    /// Microseconds of device and processor of each phase, the redesigns in it included.
    cost_us: Vec<f64>,
    changes: usize,
}

impl Record {
    fn total(&self) -> f64 {
        self.cost_us.iter().sum()
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let mut records: Vec<Record> = lines::read(&args.out)?;
    records.retain(|record| record.items == args.items && record.length == args.length);
    if !args.table_only {
        let presets = presets_for(args.items, budget_bytes(args));
        let mut courses: Vec<(String, Course)> = presets
            .iter()
            .map(|(name, design)| ((*name).to_owned(), Course::Stays(design.clone())))
            .collect();
        for (name, design) in advised(args)? {
            courses.push((format!("for {name}"), Course::Stays(design)));
        }
        for (name, course) in courses {
            run_course(args, &mut records, &name, course, 1)?;
        }
        let begins = presets.into_iter().find(|(name, _)| *name == "siltstone");
        if let Some((_, design)) = begins {
            run_course(args, &mut records, "by itself", Course::ByItself(design), args.runs)?;
        }
        let schedule = clairvoyant(args, &records);
        run_course(args, &mut records, "clairvoyant", Course::Schedule(schedule), 1)?;
    }
    print(&text(&records))
}

fn budget_bytes(args: &Args) -> u64 {
    BYTES_PER_ITEM * args.items
}

/// What is advised for each phase alone.
fn advised(args: &Args) -> Result<Vec<(&'static str, Design)>> {
    let contents = contents(args.items);
    let load = Workload { mix: mix(0.0, 0.0, 0.0, 1.0), batch_items: 100.0, ..contents.workload(0.0) };
    // A store that is written at other times keeps memory for that.
    let mix = |phase: &Phase| Mix { puts: phase.mix.puts.max(RARE), ..phase.mix };
    let of_phase = |phase: &Phase| Workload { mix: mix(phase), skew: phase.skew, ..contents.workload(1.0) };
    let workloads = std::iter::once(("load", load)).chain(PHASES.iter().map(|p| (p.name, of_phase(p))));
    workloads
        .map(|(name, workload)| {
            let advice = advise(&Request::new(workload, budget_bytes(args))).map_err(refused)?;
            Ok((name, advice.best.design))
        })
        .collect()
}

/// Runs a course as often as is missing of so many times.
fn run_course(
    args: &Args,
    records: &mut Vec<Record>,
    name: &str,
    course: Course,
    times: usize,
) -> Result<()> {
    if args.only.as_ref().is_some_and(|only| !name.starts_with(only.as_str())) {
        return Ok(());
    }
    let known = records.iter().filter(|record| record.course == course).count();
    for _ in known..times {
        note!("{name}");
        let record = play(args, name, course.clone())?;
        lines::append(&args.out, &record)?;
        records.push(record);
    }
    Ok(())
}

/// Runs all phases.
fn play(args: &Args, name: &str, course: Course) -> Result<Record> {
    let (begins, auto_design) = match &course {
        Course::Stays(design) => (design.clone(), AutoDesign::Off),
        Course::ByItself(design) => (design.clone(), AutoDesign::Apply),
        Course::Schedule(designs) => (designs.first().cloned().unwrap_or_default(), AutoDesign::Off),
    };
    let options = Options { memory_budget_bytes: budget_bytes(args), auto_design, ..Options::default() };
    let mut stage =
        Stage::new(&directory(args.dir.as_ref(), "phases"), Some(&begins), contents(args.items), options)?;
    let (mut cost_us, mut changes) = (Vec::new(), 0);
    for number in 0..LOADED {
        let then = stage.now();
        if let (Course::Schedule(designs), true) = (&course, number > 0)
            && let Some(design) = designs.get(number).filter(|design| **design != stage.keyspace.design())
        {
            stage.keyspace.redesign(design.clone())?;
            // Who knows what comes is ready for it; the redesign costs what it does either way.
            stage.settle()?;
        }
        match number.checked_sub(1).and_then(|number| PHASES.get(number)) {
            None => stage.fill(true)?,
            Some(phase) => run_phase(args, &mut stage, phase)?,
        }
        stage.settle()?;
        cost_us.push(stage.since(&then, 1).cost_us(&Device::default()));
        let changed = stage.keyspace.design_history().len();
        if changed > changes {
            changes = changed;
            let design = strata(&stage.keyspace.design()).join("; ");
            note!("  {}: {changes} changes so far, now {design}", name_of(number));
        }
    }
    let (items, length, name) = (args.items, args.length, name.to_owned());
    Ok(Record { items, length, name, course, cost_us, changes })
}

fn run_phase(args: &Args, stage: &mut Stage, phase: &Phase) -> Result<()> {
    stage.set_skew(phase.skew);
    let operations = args.items * args.length / phase.per;
    for _ in 0..ROUNDS {
        let (then, began) = (stage.now(), Instant::now());
        stage.work_mixed(phase.mix.shares(), operations / ROUNDS)?;
        // Most reads come from the system's cache here, in a tenth of the time that they are priced at. What
        // goes on in the background has the rest; designs that suit a phase so little that it would be long
        // are done with what there is by then.
        let priced = Duration::from_secs_f64(stage.since(&then, 1).cost_us(&Device::default()) / 1e6);
        std::thread::sleep(priced.saturating_sub(began.elapsed()).min(LONGEST_WAIT));
        stage.db.wait_until_idle()?;
    }
    stage.set_skew(0.0);
    Ok(())
}

/// The cheapest design for each phase by what was measured of those that stay, where changing costs what
/// rewriting all items does.
fn clairvoyant(args: &Args, records: &[Record]) -> Vec<Design> {
    let stays: Vec<(&Design, &[f64])> = records
        .iter()
        .filter_map(|record| match &record.course {
            Course::Stays(design) => Some((design, record.cost_us.as_slice())),
            Course::ByItself(_) | Course::Schedule(_) => None,
        })
        .collect();
    let bytes = contents(args.items).bytes() as f64;
    let change = rewriting_us(&Device::default(), (args.items as f64, bytes));
    let costs: Vec<Vec<f64>> = stays.iter().map(|(_, costs)| costs.to_vec()).collect();
    let places = cheapest_schedule(&costs, change);
    places.into_iter().filter_map(|at| stays.get(at).map(|(design, _)| (*design).clone())).collect()
}

/// The place of a row for each column, so that the sum of what is there and of `change` for every change of
/// row is the least.
fn cheapest_schedule(costs: &[Vec<f64>], change: f64) -> Vec<usize> {
    let at = |row: usize, column: usize| {
        costs.get(row).and_then(|row| row.get(column)).copied().unwrap_or(f64::INFINITY)
    };
    // The cheapest way to each row so far, with the rows before it.
    let mut ways: Vec<(f64, Vec<usize>)> = (0..costs.len()).map(|row| (at(row, 0), vec![row])).collect();
    for column in 1..LOADED {
        let next = |row: usize| {
            let step =
                |(cost, way): &(f64, Vec<usize>)| cost + if way.last() == Some(&row) { 0.0 } else { change };
            let best = ways.iter().min_by(|a, b| step(a).total_cmp(&step(b)))?;
            let way = best.1.iter().copied().chain([row]).collect();
            Some((step(best) + at(row, column), way))
        };
        ways = (0..costs.len()).filter_map(next).collect();
    }
    ways.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, way)| way).unwrap_or_default()
}

fn text(records: &[Record]) -> String {
    let names = PHASES.iter().map(|phase| phase.name);
    let header =
        ["design", "load"].into_iter().chain(names).chain(["all", "of the clairvoyant's", "changes"]);
    let mut table = Table::new(header);
    let clairvoyant = records.iter().find(|record| matches!(record.course, Course::Schedule(_)));
    for record in records {
        let seconds = |us: f64| format!("{:.2}", us / 1e6);
        let mut cells = vec![record.name.clone()];
        cells.extend(record.cost_us.iter().map(|us| seconds(*us)));
        cells.push(seconds(record.total()));
        cells.push(clairvoyant.map_or("–".to_owned(), |c| format!("{:.3}", record.total() / c.total())));
        cells.push(record.changes.to_string());
        table.row(cells);
    }
    format!("Seconds of device and processor of each phase\n{table}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_changes_where_that_pays() {
        let costs = vec![vec![1.0, 9.0, 9.0, 1.0, 1.0], vec![9.0, 1.0, 1.0, 2.0, 2.0]];
        assert_eq!(cheapest_schedule(&costs, 1.5), [0, 1, 1, 0, 0]);
        assert_eq!(cheapest_schedule(&costs, 3.0), [0, 1, 1, 1, 1]);
        assert_eq!(cheapest_schedule(&costs, 100.0), [1, 1, 1, 1, 1]);
        assert!(cheapest_schedule(&[], 1.0).is_empty());
    }
}
