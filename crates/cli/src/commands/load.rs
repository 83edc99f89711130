//! `siltstone load`: write many rows from a file.

use super::{compact, load_bulk};
use crate::failure::{Failure, Result, fail, usage};
use crate::output::{note, print, print_json};
use crate::progress;
use crate::rows::{Dialect, Format, Line, Row, RowReader};
use crate::sizes;
use crate::store::{self, CreateArgs, DEFAULT_KEYSPACE};
use crate::text;
use indicatif::ProgressBar;
use serde::Serialize;
use siltstone::{Batch, Db, ErrorKind, Keyspace, Options, WriteOptions};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A batch is written early when it holds this many bytes.
const MAX_BATCH_BYTES: usize = 4 << 20;
/// Bad rows that are reported one by one before only their number is kept.
const MAX_REPORTED: u64 = 20;

/// Write many rows from a file, creating the store where there is none
///
/// A row that cannot be read, or whose key the keyspace does not take, is reported with its line number. With
/// --on-error fail (the default) it ends the load: the rows before it stay loaded. Rows replace items of the
/// same key. All rows are on the disk when the command returns, in tables, and the background work that they
/// made due is done; after a crash, a load can simply be repeated.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone load ./store cities.tsv\n  \
    siltstone load ./store cities.csv --header --bulk\n  \
    siltstone load ./store paths.txt --format tsv --raw\n  \
    zcat features.jsonl.gz | siltstone load ./store - --format jsonl --on-error skip\n  \
    siltstone load ./store paths.tsv --keyspace files --schema delim:/ --suffix ordered")]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// File to read, or - for standard input
    file: PathBuf,
    /// How the rows are written [default: as the file's name says: .tsv, .jsonl or .csv]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// TSV without escapes: the key is what precedes the first tab, the value what follows it, byte by byte
    #[arg(long)]
    raw: bool,
    /// The first row of a CSV file names its columns, and is passed over
    #[arg(long)]
    header: bool,
    /// Keyspace to write to; created where it does not exist
    #[arg(long, value_name = "NAME", default_value = DEFAULT_KEYSPACE)]
    keyspace: String,
    #[command(flatten)]
    create: CreateArgs,
    /// What to do with a bad row
    #[arg(long, value_enum, default_value = "fail")]
    on_error: OnError,
    /// Rows written at once
    #[arg(long, value_name = "ROWS", default_value = "1000", value_parser = sizes::parse_positive)]
    batch: u64,
    /// Build tables of all rows and make them part of the store at once: faster, and all or nothing
    #[arg(long, conflicts_with = "batch")]
    bulk: bool,
    /// Memory of the store
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::parse_size)]
    memory_budget: u64,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OnError {
    /// Report it and go on
    Skip,
    /// Report it and stop
    Fail,
}

/// What a load with --bulk wrote.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Built {
    /// Entries of tables; rows with one key are one entry.
    pub entries: u64,
    pub tables: u64,
    pub table_bytes: u64,
    pub temporary_bytes: u64,
}

#[derive(Serialize)]
struct Summary {
    rows: u64,
    bad_rows: u64,
    /// Fields of TSV rows in which escapes were replaced.
    rewritten_fields: u64,
    key_and_value_bytes: u64,
    seconds: f64,
    rows_per_second: f64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    built: Option<Built>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let options = Options { memory_budget_bytes: args.memory_budget, ..Options::default() };
    let new = args.create.check(&options)?;
    let dialect = args.dialect()?;
    // The input first: a mistyped file name, or a first row that ends the load, must not leave an empty store
    // behind.
    let (input, bytes) = open_input(&args.file)?;
    let mut rows = Rows { reader: RowReader::new(input, dialect), first: None };
    if args.on_error == OnError::Fail {
        rows.check_first(args)?;
    }
    let db = store::open_or_create(&args.dir, options)?;
    let is_new = db.get_keyspace(&args.keyspace).is_none();
    let keyspace = args.create.open_keyspace(&db, &args.keyspace, new)?;
    let bar = progress::bytes_bar(bytes);
    let started = Instant::now();
    let mut loader = Loader::new(&db, &keyspace, args, &bar);
    let outcome = if args.bulk {
        load_bulk::load(&mut loader, rows).map(Some)
    } else {
        loader.load(rows).map(|()| None)
    };
    bar.finish_and_clear();
    let Loader { rows, bad_rows, rewritten_fields, bytes, groups, .. } = loader;
    if args.bulk && outcome.is_err() && is_new {
        // Nothing is loaded: it can be tried again, also with another schema.
        db.drop_keyspace(&args.keyspace)?;
    }
    // Even after a bad row, what the message calls loaded has to last.
    db.sync()?;
    if outcome.is_ok()
        && let Err(error) = compact::wait(&db)
    {
        note!("the rows are loaded, but background work could not be finished: {error}");
    }
    db.close()?;
    let built = outcome?;
    let seconds = started.elapsed().as_secs_f64();
    let rows_per_second = rows as f64 / seconds.max(1e-9);
    let key_and_value_bytes = bytes;
    groups.warn(&keyspace);
    let summary =
        Summary { rows, bad_rows, rewritten_fields, key_and_value_bytes, seconds, rows_per_second, built };
    if args.json {
        return print_json(&summary);
    }
    let skipped =
        if bad_rows > 0 { format!(", {} bad rows skipped", sizes::count(bad_rows)) } else { String::new() };
    print(&format!(
        "loaded {} rows ({}) in {}, {}{skipped}\n",
        sizes::count(rows),
        sizes::bytes(bytes),
        sizes::seconds(seconds),
        sizes::rate(rows_per_second),
    ))?;
    if rewritten_fields > 0 {
        note!(
            "escapes such as \\t and \\x2d were replaced in {} fields; --raw takes fields as they are",
            sizes::count(rewritten_fields)
        );
    }
    Ok(())
}

impl Args {
    /// How the rows are written.
    fn dialect(&self) -> Result<Dialect> {
        let named = self.format.or_else(|| Format::of_name(&self.file));
        let format = match named {
            Some(format) => format,
            None if self.raw => Format::Tsv,
            None => usage!(
                "the name of {} does not say how its rows are written; add --format tsv, jsonl or csv",
                input_name(&self.file)
            ),
        };
        if self.raw && format != Format::Tsv {
            usage!("--raw is a form of TSV; leave it out, or add --format tsv");
        }
        if self.header && format != Format::Csv {
            usage!("--header is for CSV; leave it out, or add --format csv");
        }
        Ok(Dialect { format, raw: self.raw, header: self.header })
    }
}

fn open_input(file: &Path) -> Result<(Box<dyn BufRead>, Option<u64>)> {
    if file.as_os_str() == "-" {
        return Ok((Box::new(BufReader::with_capacity(1 << 20, std::io::stdin())), None));
    }
    let opened = File::open(file).map_err(|e| Failure::at(file, e))?;
    let metadata = opened.metadata().map_err(|e| Failure::at(file, e))?;
    if metadata.is_dir() {
        return Err(Failure::at(file, "is a directory; give a file of rows, or - for standard input"));
    }
    let bytes = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(BufReader::with_capacity(1 << 20, opened)), bytes))
}

/// The rows of the input, of which the first may have been looked at.
pub(super) struct Rows {
    pub reader: RowReader<Box<dyn BufRead>>,
    first: Option<(Option<Line>, Row)>,
}

impl Rows {
    /// The next row, in `row`.
    pub fn next(&mut self, args: &Args, row: &mut Row) -> Result<Option<Line>> {
        if let Some((line, first)) = self.first.take() {
            *row = first;
            return Ok(line);
        }
        self.reader.next_row(row).map_err(|e| {
            Failure::Failed(format!("{}: line {}: {e}", args.file.display(), self.reader.line_number() + 1))
        })
    }

    /// Refuses a first row that no keyspace as asked for takes.
    fn check_first(&mut self, args: &Args) -> Result<()> {
        let mut row = Row::default();
        let line = self.next(args, &mut row)?;
        let refused = |why: &str| -> Result<()> {
            fail!(
                "{}: line {}: {why}\nnothing is loaded; --on-error skip goes on past bad rows",
                input_name(&args.file),
                self.reader.line_number()
            )
        };
        match &line {
            Some(Line::Bad(why)) => refused(why)?,
            Some(Line::Row) => match args.create.check_key(&row.key) {
                Err(Failure::Failed(why)) => refused(&why)?,
                checked => checked?,
            },
            None => {}
        }
        self.first = Some((line, row));
        Ok(())
    }
}

/// The prefix that most rows have, if one has: a vote (Boyer and Moore, 1981), with its winner's votes
/// counted since it leads, so that what is said holds.
#[derive(Default)]
pub(super) struct Majority {
    prefix: Vec<u8>,
    lead: u64,
    votes: u64,
    rows: u64,
}

impl Majority {
    /// Rows from which on it is worth a word.
    const LEAST_ROWS: u64 = 1000;

    fn note(&mut self, prefix: &[u8]) {
        self.rows += 1;
        if self.lead == 0 && self.prefix != prefix {
            prefix.clone_into(&mut self.prefix);
            self.votes = 0;
        }
        if self.prefix == prefix {
            (self.lead, self.votes) = (self.lead + 1, self.votes + 1);
        } else {
            self.lead -= 1;
        }
    }

    /// Says so where most rows are one group.
    fn warn(&self, keyspace: &Keyspace) {
        if self.rows >= Self::LEAST_ROWS && self.votes > self.rows / 2 {
            note!(
                "{} of {} rows have the prefix {}, so the schema {} hardly divides these keys; a keyspace with last-delim:C \
                 would group paths by their directories",
                sizes::count(self.votes),
                sizes::count(self.rows),
                text::escape(&self.prefix),
                keyspace.schema()
            );
        }
    }
}

/// What messages call the input.
fn input_name(file: &Path) -> String {
    match file.as_os_str() {
        name if name == "-" => "standard input".to_owned(),
        name => name.to_string_lossy().into_owned(),
    }
}

/// A load under way.
pub(super) struct Loader<'a> {
    db: &'a Db,
    pub keyspace: &'a Keyspace,
    pub args: &'a Args,
    pub bar: &'a ProgressBar,
    batch: Batch,
    batch_bytes: usize,
    started: Instant,
    /// Rows written; those in `batch` are not.
    pub rows: u64,
    bad_rows: u64,
    pub rewritten_fields: u64,
    pub bytes: u64,
    groups: Majority,
}

impl<'a> Loader<'a> {
    fn new(db: &'a Db, keyspace: &'a Keyspace, args: &'a Args, bar: &'a ProgressBar) -> Self {
        let started = Instant::now();
        Self {
            db,
            keyspace,
            args,
            bar,
            batch: Batch::new(),
            batch_bytes: 0,
            started,
            rows: 0,
            bad_rows: 0,
            rewritten_fields: 0,
            bytes: 0,
            groups: Majority::default(),
        }
    }

    fn load(&mut self, mut rows: Rows) -> Result<()> {
        let mut row = Row::default();
        loop {
            let line = rows.next(self.args, &mut row)?;
            let bad = match line {
                None => break,
                Some(Line::Bad(why)) => Some(why),
                Some(Line::Row) => self.add(&row)?,
            };
            if let Some(why) = bad {
                self.bad_row(rows.reader.line_number(), &why)?;
            }
            if self.batch.len() as u64 >= self.args.batch || self.batch_bytes >= MAX_BATCH_BYTES {
                self.write(rows.reader.bytes_read())?;
            }
        }
        self.write(rows.reader.bytes_read())
    }

    /// Adds a row to the batch; says why if the keyspace does not take it.
    fn add(&mut self, row: &Row) -> Result<Option<String>> {
        match self.batch.put(self.keyspace, &row.key, &row.value) {
            Ok(()) => {
                self.batch_bytes += row.key.len() + row.value.len();
                self.note_row(row);
                Ok(None)
            }
            Err(error) if matches!(error.kind(), ErrorKind::BadKey | ErrorKind::InvalidInput) => {
                Ok(Some(error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Notes what warnings at the end need to know of a row that is taken.
    pub fn note_row(&mut self, row: &Row) {
        self.rewritten_fields += row.rewritten;
        let schema = self.keyspace.schema();
        if let (Some(_), Ok(length)) = (schema.prefix_rule(), schema.prefix_len(&row.key)) {
            self.groups.note(row.key.get(..length).unwrap_or(&row.key));
        }
    }

    fn write(&mut self, bytes_read: u64) -> Result<()> {
        if !self.batch.is_empty() {
            if let Err(error) = self.db.write(&self.batch, &WriteOptions::default()) {
                fail!("{error} ({} rows were loaded)", sizes::count(self.rows));
            }
            self.rows += self.batch.len() as u64;
            self.bytes += self.batch_bytes as u64;
            self.batch.clear();
            self.batch_bytes = 0;
        }
        self.show(bytes_read);
        Ok(())
    }

    /// Shows how far the load is.
    pub fn show(&self, bytes_read: u64) {
        self.bar.set_position(bytes_read);
        let rate = self.rows as f64 / self.started.elapsed().as_secs_f64().max(1e-9);
        self.bar.set_message(format!("{} rows, {}", sizes::count(self.rows), sizes::rate(rate)));
    }

    fn bad_row(&mut self, line: u64, why: &str) -> Result<()> {
        let file = input_name(&self.args.file);
        if self.args.on_error == OnError::Fail {
            self.write(0)?;
            fail!(
                "{file}: line {line}: {why}\nthe {} rows before it are loaded; --on-error skip goes on past bad rows",
                sizes::count(self.rows)
            );
        }
        self.skip_row(line, why);
        Ok(())
    }

    /// Ends a load that is all or nothing, or goes on without the row.
    pub fn bad_row_of_all(&mut self, line: u64, why: &str) -> Result<()> {
        let file = input_name(&self.args.file);
        if self.args.on_error == OnError::Fail {
            fail!("{file}: line {line}: {why}\nnothing is loaded; --on-error skip goes on past bad rows");
        }
        self.skip_row(line, why);
        Ok(())
    }

    /// Reports a row that is passed over.
    fn skip_row(&mut self, line: u64, why: &str) {
        let file = input_name(&self.args.file);
        self.bad_rows += 1;
        self.bar.suspend(|| match self.bad_rows {
            ..=MAX_REPORTED => note!("{file}: line {line}: {why}; skipped"),
            n if n == MAX_REPORTED + 1 => note!("more bad rows are skipped and counted, but not shown"),
            _ => {}
        });
    }
}
