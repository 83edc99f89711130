//! Rows of key and value, as `load` reads and `export` writes them.
//!
//! One row a line, in one of three formats ([`tsv`], [`jsonl`], CSV by the crate of that name, where a row
//! may take several lines). A bad row is a value, not an error: the caller decides whether to go on. Blank
//! lines are no rows; a carriage return before the line feed is dropped, unless rows are taken as they are.

mod jsonl;
mod tsv;

use std::io::{self, BufRead, Read};
use std::path::Path;

/// Longest line read, in bytes; a longer one is a bad row, whatever it holds.
pub const MAX_LINE_BYTES: u64 = 1 << 30;

/// How a row is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// key TAB value, with \t \n \\ \xNN for bytes that cannot be printed
    Tsv,
    /// {"key": "…", "value": "…"} a line; bytes that are not UTF-8 as "key_base64", "value_base64"
    Jsonl,
    /// key,value with quotes where needed; any bytes
    Csv,
}

impl Format {
    /// The format that a file's name ends with.
    pub fn of_name(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "tsv" | "tab" => Some(Self::Tsv),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}

/// A format, and how it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The format.
    pub format: Format,
    /// Whether TSV has no escapes: bytes are what they are.
    pub raw: bool,
    /// Whether the first row of a CSV file names its columns.
    pub header: bool,
}

impl From<Format> for Dialect {
    fn from(format: Format) -> Self {
        Self { format, raw: false, header: false }
    }
}

impl Dialect {
    /// Appends one row with its line feed to `out`.
    ///
    /// # Errors
    /// Why the item can't be written so.
    pub fn write(self, key: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        match self.format {
            Format::Tsv if self.raw => tsv::write_raw(key, value, out)?,
            Format::Tsv => tsv::write(key, value, out),
            Format::Jsonl => jsonl::write(key, value, out),
            Format::Csv => {
                let mut writer = csv::Writer::from_writer(&mut *out);
                let written = writer.write_record([key, value]).and_then(|()| Ok(writer.flush()?));
                return written.map_err(|error| error.to_string());
            }
        }
        out.push(b'\n');
        Ok(())
    }

    fn parse(self, line: &[u8], row: &mut Row) -> Result<(), String> {
        match self.format {
            Format::Tsv if self.raw => tsv::parse_raw(line, row),
            Format::Tsv => tsv::parse(line, row),
            Format::Jsonl => jsonl::parse(line, row),
            // Its rows are not lines; see `RowReader`.
            Format::Csv => Err("a row of CSV is no line".to_owned()),
        }
    }
}

/// The JSON form of one item, as `export --format jsonl` and `scan --json` write it.
pub fn json_item(key: &[u8], value: &[u8]) -> serde_json::Value {
    jsonl::item(key, value)
}

/// A key and its value.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The key's bytes.
    pub key: Vec<u8>,
    /// The value's bytes.
    pub value: Vec<u8>,
    /// Fields of which escapes were replaced.
    pub rewritten: u64,
}

impl Row {
    fn clear(&mut self) {
        self.key.clear();
        self.value.clear();
        self.rewritten = 0;
    }
}

/// What a line held.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A row.
    Row,
    /// Something else, and why.
    Bad(String),
}

/// Reads rows one after the other.
pub struct RowReader<R> {
    source: Source<R>,
    line_number: u64,
    bytes_read: u64,
}

enum Source<R> {
    Lines { input: R, dialect: Dialect, line: Vec<u8> },
    Csv { reader: Box<csv::Reader<Quotes<R>>>, record: csv::ByteRecord },
}

/// Counts the quotes of a CSV file as they are read: of an odd number, one was never closed.
struct Quotes<R> {
    input: R,
    count: u64,
    /// Whether the last row was read up to the end of the input, without a line feed.
    has_ended: bool,
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        self.has_ended = length == 0;
        let read = buffer.get(..length).unwrap_or(&[]);
        self.count += read.iter().filter(|byte| **byte == b'"').count() as u64;
        Ok(length)
    }
}

impl<R: BufRead> RowReader<R> {
    /// Reads rows of `dialect` from `input`.
    pub fn new(input: R, dialect: impl Into<Dialect>) -> Self {
        let dialect = dialect.into();
        let source = match dialect.format {
            Format::Csv => {
                let mut builder = csv::ReaderBuilder::new();
                builder.has_headers(dialect.header).flexible(true);
                let reader = builder.from_reader(Quotes { input, count: 0, has_ended: false });
                Source::Csv { reader: Box::new(reader), record: csv::ByteRecord::new() }
            }
            Format::Tsv | Format::Jsonl => Source::Lines { input, dialect, line: Vec::new() },
        };
        Self { source, line_number: 0, bytes_read: 0 }
    }

    /// Number of the line that the row read last began with, from 1.
    pub fn line_number(&self) -> u64 {
        self.line_number
    }

    /// Bytes of input consumed.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Reads the next row into `row`; `None` at the end of the input.
    pub fn next_row(&mut self, row: &mut Row) -> io::Result<Option<Line>> {
        row.clear();
        let (input, dialect, line) = match &mut self.source {
            Source::Lines { input, dialect, line } => (input, *dialect, line),
            Source::Csv { reader, record } => {
                let found = next_record(reader, record, row)?;
                self.bytes_read = reader.position().byte();
                self.line_number = record.position().map_or(self.line_number, csv::Position::line);
                return Ok(found);
            }
        };
        loop {
            line.clear();
            let read = input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', line)? as u64;
            if read == 0 {
                return Ok(None);
            }
            self.line_number += 1;
            self.bytes_read += read;
            if read == MAX_LINE_BYTES && !line.ends_with(b"\n") {
                self.bytes_read += skip_line(input)?;
                return Ok(Some(Line::Bad(format!("the line is longer than {MAX_LINE_BYTES} bytes"))));
            }
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = if dialect.raw { line } else { line.strip_suffix(b"\r").unwrap_or(line) };
            if line.is_empty() {
                continue;
            }
            return Ok(Some(match dialect.parse(line, row) {
                Ok(()) => Line::Row,
                Err(why) => Line::Bad(why),
            }));
        }
    }
}

/// Reads the next row of a CSV file.
fn next_record<R: BufRead>(
    reader: &mut csv::Reader<Quotes<R>>,
    record: &mut csv::ByteRecord,
    row: &mut Row,
) -> io::Result<Option<Line>> {
    if !reader.read_byte_record(record).map_err(io::Error::from)? {
        return Ok(None);
    }
    // The rest of the file is in the last column then.
    let runs_on = record.len() != 2 || record.iter().any(|column| column.ends_with(b"\n"));
    let Quotes { count, has_ended, .. } = reader.get_ref();
    if runs_on && *has_ended && count % 2 == 1 {
        return Ok(Some(Line::Bad("a quote (\") is opened in this row and never closed".to_owned())));
    }
    let (Some(key), Some(value), 2) = (record.get(0), record.get(1), record.len()) else {
        let columns = record.len();
        return Ok(Some(Line::Bad(format!("there are {columns} columns instead of 2, key and value"))));
    };
    row.key.extend_from_slice(key);
    row.value.extend_from_slice(value);
    Ok(Some(Line::Row))
}

/// Skips to just after the next line feed; returns the number of bytes skipped.
fn skip_line(input: &mut impl BufRead) -> io::Result<u64> {
    input.skip_until(b'\n').map(|skipped| skipped as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parsed = Result<(Vec<u8>, Vec<u8>), String>;

    fn read(dialect: impl Into<Dialect>, text: &[u8]) -> Vec<(u64, Parsed)> {
        let mut reader = RowReader::new(text, dialect);
        let mut row = Row::default();
        let mut all = Vec::new();
        while let Some(line) = reader.next_row(&mut row).unwrap() {
            let parsed = match line {
                Line::Row => Ok((row.key.clone(), row.value.clone())),
                Line::Bad(why) => Err(why),
            };
            all.push((reader.line_number(), parsed));
        }
        assert_eq!(reader.bytes_read(), text.len() as u64);
        all
    }

    #[test]
    fn bad_rows_are_reported_with_their_line() {
        let rows = read(Format::Tsv, b"a\t1\n\nno tab\r\nb\t2\tthree\nc\t\\q\nd\t4");
        assert_eq!(rows[0], (1, Ok((b"a".to_vec(), b"1".to_vec()))));
        assert_eq!(rows[1].0, 3);
        assert!(rows[1].1.as_ref().unwrap_err().contains("no tab"));
        assert!(rows[2].1.as_ref().unwrap_err().contains("3 columns"));
        assert_eq!(rows[3].0, 5);
        assert!(rows[3].1.as_ref().unwrap_err().contains("\\q"));
        assert_eq!(rows[4], (6, Ok((b"d".to_vec(), b"4".to_vec()))));
    }

    #[test]
    fn bad_json_is_reported_with_its_line() {
        let text = br#"{"key": "a", "value": "1"}
{"key": "a"
{"key": "a"}
{"key": 7, "value": "x"}
{"key": "a", "value": "x", "colour": 1}
{"key_base64": "//8=", "value_base64": "?"}
{"key_base64": "//8=", "value": "x"}
{"key": "a", "key_base64": "", "value": "x"}
["a"]"#;
        let rows = read(Format::Jsonl, text);
        assert_eq!(rows[0], (1, Ok((b"a".to_vec(), b"1".to_vec()))));
        let bad = |at: usize| rows[at].1.as_ref().unwrap_err().clone();
        assert!(bad(1).contains("column"), "{}", bad(1));
        assert!(bad(2).contains("value"));
        assert!(bad(3).contains("string"), "{}", bad(3));
        assert!(bad(4).contains("colour"));
        assert!(bad(5).contains("base64"));
        assert_eq!(rows[6], (7, Ok((vec![255, 255], b"x".to_vec()))));
        assert!(bad(7).contains("key_base64"));
        assert_eq!(rows[8].0, 9);
    }

    #[test]
    fn rows_round_trip_in_all_formats() {
        let rows: Vec<(Vec<u8>, Vec<u8>)> = vec![
            (b"plain".to_vec(), b"value".to_vec()),
            (b"tab\tline\nback\\slash\r".to_vec(), b"\0\x01\x7f".to_vec()),
            ("東京 🪨\u{85}".as_bytes().to_vec(), Vec::new()),
            ((0..=255).collect(), vec![0xc3, 0x28, 0xff]),
            (b"\\x41".to_vec(), b"\"quoted\"".to_vec()),
        ];
        for format in [Format::Tsv, Format::Jsonl, Format::Csv] {
            let mut text = Vec::new();
            for (key, value) in &rows {
                Dialect::from(format).write(key, value, &mut text).unwrap();
            }
            assert!(format == Format::Csv || std::str::from_utf8(&text).is_ok());
            let back: Vec<_> = read(format, &text).into_iter().map(|(_, row)| row.unwrap()).collect();
            assert_eq!(back, rows);
        }
    }

    #[test]
    fn raw_rows_are_taken_as_they_are() {
        let raw = Dialect { raw: true, ..Format::Tsv.into() };
        let text = b"C:\\temp\\x2d\ta\tb\r\n\nno tab\n";
        let rows = read(raw, text);
        assert_eq!(rows[0], (1, Ok((b"C:\\temp\\x2d".to_vec(), b"a\tb\r".to_vec()))));
        assert!(rows[1].0 == 3 && rows[1].1.as_ref().unwrap_err().contains("no tab"));
        let mut out = Vec::new();
        raw.write(b"C:\\temp\\x2d", b"a\tb\r", &mut out).unwrap();
        assert_eq!(out, &text[..out.len()]);
        assert!(raw.write(b"a\tb", b"", &mut out).is_err() && raw.write(b"a", b"\n", &mut out).is_err());
    }

    #[test]
    fn rewritten_fields_are_counted() {
        let mut reader = RowReader::new(&b"a\\x2d\t\\n\nb\tc\n"[..], Format::Tsv);
        let mut row = Row::default();
        for rewritten in [2, 0] {
            assert_eq!(reader.next_row(&mut row).unwrap(), Some(Line::Row));
            assert_eq!(row.rewritten, rewritten);
        }
    }

    #[test]
    fn rows_of_csv_may_take_several_lines_and_have_a_header() {
        let text = b"key,value\n\"a,\"\"b\",\"two\nlines\"\nc,d,e\nf,g\n";
        let rows = read(Dialect { header: true, ..Format::Csv.into() }, text);
        assert_eq!(rows[0], (2, Ok((b"a,\"b".to_vec(), b"two\nlines".to_vec()))));
        assert!(rows[1].0 == 4 && rows[1].1.as_ref().unwrap_err().contains("3 columns"));
        assert_eq!(rows[2], (5, Ok((b"f".to_vec(), b"g".to_vec()))));
        assert_eq!(read(Format::Csv, text)[0], (1, Ok((b"key".to_vec(), b"value".to_vec()))));
    }

    #[test]
    fn a_quote_that_is_never_closed_is_told() {
        for text in ["a,1\n\"b,2\nc,3\n", "a,1\nb,\"2\nc,3\n", "a,1\n\"b"] {
            let rows = read(Format::Csv, text.as_bytes());
            assert_eq!(rows[0], (1, Ok((b"a".to_vec(), b"1".to_vec()))));
            assert!(rows[1].0 == 2 && rows[1].1.as_ref().unwrap_err().contains("never closed"), "{rows:?}");
            assert_eq!(rows.len(), 2);
        }
        let rows = read(Format::Csv, b"a,\"1\n\"\nb,5\"\nc");
        assert_eq!(rows[0].1, Ok((b"a".to_vec(), b"1\n".to_vec())));
        assert_eq!(rows[1].1, Ok((b"b".to_vec(), b"5\"".to_vec())));
    }

    #[test]
    fn names_of_files_say_their_format() {
        for (name, format) in [
            ("a.tsv", Some(Format::Tsv)),
            ("b.NDJSON", Some(Format::Jsonl)),
            ("c.csv", Some(Format::Csv)),
            ("-", None),
        ] {
            assert_eq!(Format::of_name(Path::new(name)), format);
        }
    }
}
