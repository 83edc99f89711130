//! Predictions beside what stores do: every preset and two mixtures, three histories, three budgets each.
//!
//! Each store is filled and overwritten once, with the largest of its budgets, which says what it writes, and
//! then read with each of them. Points go to a file as they come, one line of JSON each, so that a run that
//! was ended goes on where it was; the table is made from the file.

use super::lines;
use super::points::{Story, stories};
use super::record::{JUDGED, Point};
use super::story_run::{self, predict, run_story};
use crate::kit::sizes;
use crate::kit::table::Table;
use crate::program::failure::Result;
use crate::program::output::{note, print, print_json};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Items of the store that tells what processor time the machine takes.
const CALIBRATION_ITEMS: u64 = 1_000_000;

/// Run stores and set what was predicted of them beside it
///
/// 27 stores (seven presets and two mixtures; grown, overwritten uniformly, overwritten with skew 0.99) are
/// filled, and read with three memory budgets: 81 points. Tables are made so small that the stores have as
/// many levels as large ones. Counts are worth something on any machine; processor time only on one that does
/// nothing else. A run that is ended goes on where it was, by the file --out.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone-lab predictions --items 1M --out points.jsonl\n  \
    siltstone-lab predictions --items 5M --only siltstone --out points.jsonl\n  \
    siltstone-lab predictions --out points.jsonl --table-only")]
pub struct Args {
    /// Items of a store
    #[arg(long, value_name = "COUNT", default_value = "1M", value_parser = sizes::parse_positive)]
    items: u64,
    /// The file of points
    #[arg(long, value_name = "FILE", default_value = "points.jsonl")]
    out: PathBuf,
    /// Where stores are written, one at a time [default: the system's temporary directory]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Only stores whose names begin like this, with their histories: "lean" or "lean, growth"
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Write as fast as one thread can, rather than let merges keep up after each write buffer
    #[arg(long)]
    headlong: bool,
    /// Run nothing, and show what the file has
    #[arg(long)]
    table_only: bool,
    /// Predict again for the points of the file, whose measurements are kept
    #[arg(long)]
    predict_again: bool,
    /// Processor time of this machine as a multiple of that of the one whose steps the model knows [default:
    /// what a store of a million items takes, put and read, is set beside its prediction]
    #[arg(long, value_name = "FACTOR")]
    processor_time: Option<f64>,
    /// Print the points and a summary as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let mut points: Vec<Point> = lines::read(&args.out)?;
    if args.predict_again {
        predict_again(&mut points, args.processor_time.unwrap_or(1.0))?;
    }
    let mut processor_time = args.processor_time;
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let wanted = |story: &Story| args.only.as_deref().is_none_or(|start| story.key().starts_with(start));
    for story in stories(args.items).iter().filter(|story| wanted(story) && !args.table_only) {
        let is_known = |budget: &u64| {
            points.iter().any(|point| {
                point.store == story.key() && point.items == story.items && point.budget_bytes == *budget
            })
        };
        let budgets: Vec<u64> = story.budgets().into_iter().filter(|budget| !is_known(budget)).collect();
        if budgets.is_empty() {
            continue;
        }
        let factor = match processor_time {
            Some(factor) => factor,
            None => *processor_time.insert(story_run::processor_time(&dir, CALIBRATION_ITEMS)?),
        };
        note!("{}, {} items", story.key(), sizes::count(story.items));
        for point in run_story(story, &budgets, &dir, args.headlong, factor)? {
            lines::append(&args.out, &point)?;
            points.push(point);
        }
    }
    if args.json {
        let is_outside = |point: &Point| {
            JUDGED
                .iter()
                .filter(|judged| judged.of(point).is_some_and(|pair| !judged.is_within(pair)))
                .count()
        };
        let outside: usize = points.iter().map(is_outside).sum();
        return print_json(&serde_json::json!({ "points": points, "figures_outside": outside }));
    }
    print(&text(&points))
}

/// Works the predictions of points out again, after the model has changed.
fn predict_again(points: &mut [Point], processor_time: f64) -> Result<()> {
    for point in points {
        let all = stories(point.items);
        if let Some(story) = all.iter().find(|story| story.key() == point.store) {
            point.predicted = predict(story, point.budget_bytes, processor_time)?;
        }
    }
    Ok(())
}

/// The points with measured and predicted figures, and what is to be said of them together.
fn text(points: &[Point]) -> String {
    let mut names = vec!["store", "items", "memory"];
    names.extend(JUDGED.iter().map(|judged| judged.name));
    let mut table = Table::new(names);
    for point in points {
        let mut cells =
            vec![point.store.clone(), sizes::count(point.items), sizes::bytes(point.budget_bytes)];
        for judged in &JUDGED {
            let Some((measured, predicted)) = judged.of(point) else {
                cells.push("–".to_owned());
                continue;
            };
            let mark = if judged.is_within((measured, predicted)) { "" } else { " *" };
            cells.push(if measured > 1e4 {
                format!("{:.1} {:.1}M{mark}", measured / 1e6, predicted / 1e6)
            } else {
                format!("{measured:.3} {predicted:.3}{mark}")
            });
        }
        table.row(cells);
    }
    let mut text = format!("Measured, then predicted; * is beyond what a prediction may be off\n{table}\n");
    let mut summary = Table::new(["", "may be off", "within", "median error", "worst"]);
    for judged in &JUDGED {
        let known: Vec<(f64, f64)> = points.iter().filter_map(|point| judged.of(point)).collect();
        let mut errors: Vec<f64> = known.iter().map(|pair| judged.error(*pair).abs()).collect();
        errors.sort_by(f64::total_cmp);
        let within = known.iter().filter(|pair| judged.is_within(**pair)).count();
        let besides = if judged.besides > 0.0 { format!(" + {}", judged.besides) } else { String::new() };
        let percent = |error: Option<&f64>| error.map_or("–".to_owned(), |e| format!("{:.1} %", e * 100.0));
        summary.row([
            judged.name.to_owned(),
            format!("{:.0} %{besides}", judged.share * 100.0),
            format!("{within} of {}", known.len()),
            percent(errors.get(errors.len() / 2)),
            percent(errors.last()),
        ]);
    }
    // Writing to a string can't fail.
    let _ = write!(text, "{summary}");
    text
}
