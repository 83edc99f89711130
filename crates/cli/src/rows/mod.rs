//! Rows of key and value, as `load` reads and `export` writes them.
//!
//! One row a line, in one of two formats ([`tsv`], [`jsonl`]). A bad row is a value, not an error: the caller
//! decides whether to go on. Blank lines are no rows; a carriage return before the line feed is dropped.

mod jsonl;
mod tsv;

use std::io::{self, BufRead, Read};

/// Longest line read, in bytes; a longer one is a bad row, whatever it holds.
pub const MAX_LINE_BYTES: u64 = 1 << 30;

/// How a row is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// key TAB value, with \t \n \\ \xNN for bytes that cannot be printed
    Tsv,
    /// {"key": "…", "value": "…"} a line; bytes that are not UTF-8 as "key_base64", "value_base64"
    Jsonl,
}

impl Format {
    /// Appends one row with its line feed to `out`.
    pub fn write(self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Tsv => tsv::write(key, value, out),
            Self::Jsonl => jsonl::write(key, value, out),
        }
        out.push(b'\n');
    }

    fn parse(self, line: &[u8], row: &mut Row) -> Result<(), String> {
        row.key.clear();
        row.value.clear();
        match self {
            Self::Tsv => tsv::parse(line, row),
            Self::Jsonl => jsonl::parse(line, row),
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
}

/// What a line held.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A row.
    Row,
    /// Something else, and why.
    Bad(String),
}

/// Reads rows line by line.
pub struct RowReader<R> {
    input: R,
    format: Format,
    line: Vec<u8>,
    line_number: u64,
    bytes_read: u64,
}

impl<R: BufRead> RowReader<R> {
    /// Reads rows of `format` from `input`.
    pub fn new(input: R, format: Format) -> Self {
        Self { input, format, line: Vec::new(), line_number: 0, bytes_read: 0 }
    }

    /// Number of the line read last, from 1.
    pub fn line_number(&self) -> u64 {
        self.line_number
    }

    /// Bytes of input consumed.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Reads the next row into `row`; `None` at the end of the input.
    pub fn next_row(&mut self, row: &mut Row) -> io::Result<Option<Line>> {
        loop {
            self.line.clear();
            let read = (&mut self.input).take(MAX_LINE_BYTES).read_until(b'\n', &mut self.line)? as u64;
            if read == 0 {
                return Ok(None);
            }
            self.line_number += 1;
            self.bytes_read += read;
            if read == MAX_LINE_BYTES && !self.line.ends_with(b"\n") {
                self.bytes_read += skip_line(&mut self.input)?;
                return Ok(Some(Line::Bad(format!("the line is longer than {MAX_LINE_BYTES} bytes"))));
            }
            let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            return Ok(Some(match self.format.parse(line, row) {
                Ok(()) => Line::Row,
                Err(why) => Line::Bad(why),
            }));
        }
    }
}

/// Skips to just after the next line feed; returns the number of bytes skipped.
fn skip_line(input: &mut impl BufRead) -> io::Result<u64> {
    input.skip_until(b'\n').map(|skipped| skipped as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parsed = Result<(Vec<u8>, Vec<u8>), String>;

    fn read(format: Format, text: &[u8]) -> Vec<(u64, Parsed)> {
        let mut reader = RowReader::new(text, format);
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
    fn rows_round_trip_in_both_formats() {
        let rows: Vec<(Vec<u8>, Vec<u8>)> = vec![
            (b"plain".to_vec(), b"value".to_vec()),
            (b"tab\tline\nback\\slash\r".to_vec(), b"\0\x01\x7f".to_vec()),
            ("東京 🪨\u{85}".as_bytes().to_vec(), Vec::new()),
            ((0..=255).collect(), vec![0xc3, 0x28, 0xff]),
            (b"\\x41".to_vec(), b"\"quoted\"".to_vec()),
        ];
        for format in [Format::Tsv, Format::Jsonl] {
            let mut text = Vec::new();
            for (key, value) in &rows {
                format.write(key, value, &mut text);
            }
            assert!(std::str::from_utf8(&text).is_ok());
            let back: Vec<_> = read(format, &text).into_iter().map(|(_, row)| row.unwrap()).collect();
            assert_eq!(back, rows);
        }
    }
}
