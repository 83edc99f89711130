//! `siltstone model figures`: the papers' figures that models and simulations draw, drawn again from ours.
//!
//! Figures of measured engines (FAST 2016: 3, 13, 16, 17) are left out; `siltstone tune` and docs/models.md
//! hold models against real engines. Each figure is an SVG and a line on how it compares with what the paper
//! prints: most of its numbers are only in the drawings, and where the text has none the line says so.

mod fast;
mod others;

use crate::kit::plot::Chart;
use crate::program::failure::refused;
use crate::program::failure::{Failure, Result};
use crate::program::output::{note, print, print_json};
use crate::program::progress;
use indicatif::ProgressBar;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Draw the papers' figures again: FAST 2016 (4, 8-12, 14, 15, Table 1), SlimDB 9, SILT 8
///
/// Writes an SVG per figure and says how each compares with what its paper prints. Models run at the papers'
/// size; simulations are miniatures (one key in ten) of up to 3.3 million keys unless --full is given.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone model figures --out figures\n  \
    siltstone model figures --only fast16-table1\n  \
    siltstone model figures --full --out figures      simulations of up to 10 million keys; some ten minutes")]
pub struct Args {
    /// Directory for the files, made if missing
    #[arg(long, value_name = "DIR", default_value = "figures")]
    out: PathBuf,
    /// Only figures whose names begin like this
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Small simulations: about a minute in all; the default
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Simulate every key, and larger stores
    #[arg(long)]
    full: bool,
    /// Print {"figures": [{"name": …, "files": […], "comparison": …}]}
    #[arg(long)]
    json: bool,
}

/// A figure drawn again.
pub struct Figure {
    /// Charts with the ends of their files' names.
    charts: Vec<(&'static str, Chart)>,
    /// How it compares with the printed one.
    comparison: String,
}

impl Figure {
    fn one(chart: Chart, comparison: String) -> Self {
        Self { charts: vec![("", chart)], comparison }
    }
}

/// How large simulations are, and who hears of their progress.
pub struct Scale {
    full: bool,
    bar: ProgressBar,
}

type Draw = fn(&Scale) -> Result<Figure>;

const FIGURES: [(&str, Draw); 11] = [
    ("fast16-figure4", fast::figure_4),
    ("fast16-figure8", fast::figure_8),
    ("fast16-figure9", fast::figure_9),
    ("fast16-figure10", fast::figure_10),
    ("fast16-figure11", fast::figure_11),
    ("fast16-figure12", fast::figure_12),
    ("fast16-figure14", fast::figure_14),
    ("fast16-figure15", fast::figure_15),
    ("fast16-table1", fast::table_1),
    ("slimdb-figure9", others::slimdb_figure_9),
    ("silt-figure8", others::silt_figure_8),
];

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let wanted = |name: &str| args.only.as_deref().is_none_or(|start| name.starts_with(start));
    let chosen: Vec<_> = FIGURES.iter().filter(|(name, _)| wanted(name)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = FIGURES.iter().map(|(name, _)| *name).collect();
        return Err(Failure::Usage(format!("--only: no such figure; there are {}", names.join(", "))));
    }
    std::fs::create_dir_all(&args.out).map_err(|e| Failure::at(&args.out, e))?;
    let scale = Scale { full: args.full, bar: progress::count_bar(Some(chosen.len() as u64), "figures") };
    let (mut text, mut listed) = (String::new(), Vec::new());
    for (name, draw) in chosen {
        scale.bar.set_message((*name).to_owned());
        let figure = draw(&scale)?;
        let mut files = Vec::new();
        for (end, chart) in &figure.charts {
            let path = args.out.join(format!("{name}{end}.svg"));
            chart.save(&path)?;
            files.push(path.display().to_string());
        }
        note!("{name}: {}", files.join(", "));
        let _ = writeln!(text, "{name}: {}\n", figure.comparison);
        listed.push(serde_json::json!({"name": name, "files": files, "comparison": figure.comparison}));
        scale.bar.inc(1);
    }
    scale.bar.finish_and_clear();
    if args.json { print_json(&serde_json::json!({"figures": listed})) } else { print(&text) }
}
