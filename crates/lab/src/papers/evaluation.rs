//! What commands share that redo a paper's tables and figures: figures beside the paper's, as text, JSON and
//! plots, and a directory for the stores.

use crate::kit::plot::Chart;
use crate::kit::sizes;
use crate::kit::table::Table;
use crate::program::failure::{Failure, Result, fail};
use crate::program::interrupt;
use crate::program::output::{note, print, print_json};
use serde::Serialize;
use siltstone::io::Disk;
use siltstone::io::direct::DirectDisk;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The options that all of these commands have, with the same meaning.
#[derive(clap::Args, Debug)]
pub struct Common {
    /// A scale that ends within a few minutes; its stores are too small to be compared with the papers'
    #[arg(long)]
    pub quick: bool,
    /// Where the stores are written, in a directory of their own [default: the system's temporary directory]
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Print the results as one JSON object
    #[arg(long)]
    pub json: bool,
}

impl Common {
    /// `quick` for a quick run, else `full`.
    pub fn scale<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Refuses a directory where no stores can be written, or no `bytes` of them, before there is any work to
    /// lose.
    pub fn check_dir(&self, bytes: u64) -> Result<()> {
        Scratch::new(self.dir.as_deref(), "check")?.with_room_for(bytes).map(drop)
    }

    /// A directory for the stores of `name`, below the one that was asked for.
    pub fn scratch(&self, name: &str) -> Result<Scratch> {
        Scratch::new(self.dir.as_deref(), name)
    }
}

/// One figure of ours, and the paper's where it printed one.
#[derive(Serialize)]
struct Figure {
    /// Table or figure of the paper.
    source: &'static str,
    /// What the table shows; with source, row and column it tells figures apart.
    title: String,
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
pub type Row = (String, Vec<f64>, Vec<Option<f64>>);

/// All that was measured, as it comes.
pub struct Results {
    out: Out,
    quick: bool,
    started: Instant,
    figures: Vec<Figure>,
    text: String,
}

impl Results {
    /// No results yet; plots will go to `out`, which is made, unless nothing can be written there.
    pub fn new(out: &Path, common: &Common) -> Result<Self> {
        let (out, started, quick) = (Out::new(out)?, Instant::now(), common.quick);
        Ok(Self { out, quick, started, figures: Vec::new(), text: String::new() })
    }

    /// Adds rows of one table or figure, and a terminal table of them: each cell ours, then the paper's in
    /// parentheses where it printed one.
    pub fn add(
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
                let (title, row, column) = (title.to_owned(), row.clone(), column.clone());
                self.figures.push(Figure { source, title, row, column, unit, ours: *value, paper });
            }
            table.row(cells);
        }
        // Writing to a string can't fail.
        let printed = rows.iter().any(|(.., paper)| paper.iter().any(Option::is_some));
        let printed = if printed { "; the paper's in parentheses" } else { "" };
        let _ = writeln!(self.text, "{source}: {title} [{unit}{printed}]\n{table}");
    }

    /// Saves a chart under this name.
    pub fn draw(&self, name: &str, chart: &Chart) -> Result<()> {
        Ok(chart.save(&self.out.path.join(name))?)
    }

    /// Prints everything: as text, or as one JSON object.
    pub fn print(&self, json: bool) -> Result<()> {
        #[derive(Serialize)]
        struct Printed<'a> {
            quick: bool,
            figures: &'a [Figure],
        }
        let has_plots = std::fs::read_dir(&self.out.path).is_ok_and(|mut entries| entries.next().is_some());
        let plots = if has_plots { format!("plots in {}; ", self.out.path.display()) } else { String::new() };
        note!("{plots}{:.0} s in all", self.started.elapsed().as_secs_f64());
        if self.quick {
            note!("a quick run: too small to be held against the papers' figures");
        }
        let printed = Printed { quick: self.quick, figures: &self.figures };
        if json { print_json(&printed) } else { print(&self.text) }
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

/// The directory of plots. What was made for it goes again where no plot came of it.
struct Out {
    path: PathBuf,
    /// Directories that were made, innermost first.
    made: Vec<PathBuf>,
}

impl Out {
    fn new(path: &Path) -> Result<Self> {
        let missing = path.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists());
        let out = Self { path: path.to_owned(), made: missing.map(Path::to_path_buf).collect() };
        std::fs::create_dir_all(path).map_err(|e| Failure::at(path, e))?;
        out.made.iter().rev().for_each(|dir| interrupt::removes_empty(dir));
        let probe = path.join(format!(".siltstone-{}", std::process::id()));
        std::fs::write(&probe, b"")
            .and_then(|()| std::fs::remove_file(&probe))
            .map_err(|e| Failure::at(path, e))?;
        Ok(out)
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        for dir in &self.made {
            // A directory that has something in it stays.
            let _ = std::fs::remove_dir(dir);
            interrupt::spares(dir);
        }
    }
}

/// A directory for stores that goes when the command ends, or is interrupted.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A directory below `parent`, or below the system's for temporary files, named after what it is for.
    fn new(parent: Option<&Path>, name: &str) -> Result<Self> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        if !parent.is_dir() {
            fail!(
                "{} is not a directory; name an existing one on the device to be measured",
                parent.display()
            );
        }
        let path = parent.join(format!("siltstone-bench-{name}-{}", std::process::id()));
        interrupt::removes(&path);
        let scratch = Self(path);
        std::fs::create_dir(&scratch.0).map_err(|e| Failure::at(&scratch.0, e))?;
        Ok(scratch)
    }

    /// The same directory, where it has room for so many bytes; an error says how much is missing.
    pub fn with_room_for(self, bytes: u64) -> Result<Self> {
        let free = DirectDisk::default().free_bytes(&self.0).map_err(|e| Failure::at(&self.0, e))?;
        if free < bytes {
            fail!(
                "{} has {} free, and the stores may take {}; choose fewer with --items, or another place with --dir",
                self.0.display(),
                sizes::bytes(free),
                sizes::bytes(bytes)
            );
        }
        Ok(self)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What can't be removed is left to the user, who chose the place.
        let _ = std::fs::remove_dir_all(&self.0);
        interrupt::spares(&self.0);
    }
}
