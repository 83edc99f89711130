//! `siltstone bench slimdb`: the tables and figures of SlimDB's evaluation (Ren et al., VLDB 2017, §5), with the paper's
//! figure beside ours.
//!
//! The paper measured on an SSD of 4,000 random reads a second and a processor of 2008; what it printed is shown for its
//! shape, not to be beaten. Where it compares with LevelDB and RocksDB, this command has the designs of Siltstone that are
//! laid out like them; measurements beside the engines themselves are another program's business.

mod filters;
mod index;
mod system;

use crate::failure::{Failure, Result};
use crate::output::{note, print, print_json};
use crate::plot::Chart;
use crate::table::Table;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Redo the tables and figures of SlimDB (VLDB 2017)
///
/// Tables 3 and 4 (page indexes), 5 and 6 and Figure 10 (filters), Figures 11 to 14 and Table 7 (whole stores). Prints a
/// table for each and draws it into --out. The stores are written below --dir and removed afterwards.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone bench slimdb --quick\n  \
    siltstone bench slimdb --only filters --out ./figures\n  \
    siltstone bench slimdb --dir /mnt/ssd/bench --items 50M")]
pub struct Args {
    /// A scale that ends within a minute or two
    #[arg(long)]
    quick: bool,
    /// Only this part
    #[arg(long, value_enum, value_name = "PART")]
    only: Option<Part>,
    /// Where the stores are written, in a directory of their own [default: the system's temporary directory]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where the SVG plots go
    #[arg(long, value_name = "DIR", default_value = "bench-slimdb")]
    out: PathBuf,
    /// Items of the stores [default: 20M, with --quick 500K]
    #[arg(long, value_name = "COUNT", value_parser = crate::sizes::parse_positive)]
    items: Option<u64>,
    /// How long each workload of a store runs [default: 20 s, with --quick 2 s]
    #[arg(long, value_name = "TIME", value_parser = crate::sizes::parse_duration)]
    seconds: Option<Duration>,
    /// Print the results as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Tables 3 and 4
    Index,
    /// Tables 5 and 6, Figure 10
    Filters,
    /// Figures 11 to 14, Table 7
    System,
}

impl Args {
    fn items(&self) -> u64 {
        self.items.unwrap_or(if self.quick { 500_000 } else { 20_000_000 })
    }

    /// Keys of each of the eight levels of a filter; the paper has 10 million.
    fn keys_per_level(&self) -> u64 {
        if self.quick { 500_000 } else { 4_000_000 }
    }

    /// How long each workload of a store runs.
    fn seconds(&self) -> Duration {
        self.seconds.unwrap_or(Duration::from_secs(if self.quick { 2 } else { 20 }))
    }
}

/// One figure of ours, and the paper's where it printed one.
#[derive(Serialize)]
struct Figure {
    /// Table or figure of the paper.
    source: &'static str,
    /// Row or series.
    row: String,
    /// Column or point.
    column: String,
    unit: &'static str,
    ours: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    paper: Option<f64>,
}

/// A row of a table: its name, our figures by column, and the paper's where it printed any.
type Row = (String, Vec<f64>, Vec<Option<f64>>);

/// All that was measured, as it comes.
struct Results<'a> {
    args: &'a Args,
    figures: Vec<Figure>,
    text: String,
}

impl Results<'_> {
    /// Adds rows of one table or figure, and a terminal table of them: each cell ours, then the paper's in parentheses.
    fn add(
        &mut self,
        source: &'static str,
        title: &str,
        unit: &'static str,
        columns: &[String],
        rows: &[Row],
    ) {
        use std::fmt::Write;
        let mut table = Table::new(std::iter::once(String::new()).chain(columns.iter().cloned()));
        for (row, ours, paper) in rows {
            let mut cells = vec![row.clone()];
            for (place, (value, column)) in ours.iter().zip(columns).enumerate() {
                let paper = paper.get(place).copied().flatten();
                cells.push(match paper {
                    Some(paper) => format!("{} ({})", number(*value), number(paper)),
                    None => number(*value),
                });
                let (row, column) = (row.clone(), column.clone());
                self.figures.push(Figure { source, row, column, unit, ours: *value, paper });
            }
            table.row(cells);
        }
        // Writing to a string can't fail.
        let _ = writeln!(self.text, "{source}: {title} [{unit}; the paper's in parentheses]\n{table}");
    }

    fn draw(&self, name: &str, chart: &Chart) -> Result<()> {
        chart.save(&self.args.out.join(name))
    }
}

/// A figure with three significant digits or so.
fn number(value: f64) -> String {
    match value.abs() {
        a if a >= 1000.0 => format!("{value:.0}"),
        a if a >= 10.0 => format!("{value:.1}"),
        a if a >= 0.1 || a == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.5}"),
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    std::fs::create_dir_all(&args.out).map_err(|e| Failure::at(&args.out, e))?;
    let started = Instant::now();
    let mut results = Results { args, figures: Vec::new(), text: String::new() };
    let wants = |part: Part| args.only.is_none_or(|only| only == part);
    if wants(Part::Index) {
        index::run(&mut results)?;
    }
    if wants(Part::Filters) {
        filters::run(&mut results)?;
    }
    if wants(Part::System) {
        let scratch = Scratch::new(args.dir.as_deref())?;
        system::run(&mut results, &scratch.0)?;
    }
    note!("plots in {}; {:.0} s in all", args.out.display(), started.elapsed().as_secs_f64());
    if args.json { print_json(&results.figures_by_name()) } else { print(&results.text) }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    figures: &'a [Figure],
}

impl Results<'_> {
    fn figures_by_name(&self) -> Printed<'_> {
        Printed { figures: &self.figures }
    }
}

/// A directory for stores that goes when the command ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: Option<&Path>) -> Result<Self> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let path = parent.join(format!("siltstone-bench-slimdb-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|e| Failure::at(&path, e))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What can't be removed is left to the user, who chose the place.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
