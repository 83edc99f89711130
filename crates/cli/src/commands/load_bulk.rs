//! `siltstone load --bulk`: all rows become tables, and part of the store at once.

use super::load::{Built, Loader, Rows};
use crate::failure::{Failure, Result};
use crate::rows::{Line, Row};
use crate::sizes;
use siltstone::{ErrorKind, IngestOptions, IngestProgress};
use std::sync::Arc;

/// Rows after which the bar moves.
const ROWS_PER_SHOW: u64 = 10_000;

/// Loads all rows, or none.
pub(super) fn load(loader: &mut Loader<'_>, mut rows: Rows) -> Result<Built> {
    let bar = loader.bar.clone();
    let progress = move |progress: IngestProgress| {
        if progress.placed_bytes > 0 {
            let (placed, all) = (sizes::bytes(progress.placed_bytes), sizes::bytes(progress.user_bytes));
            bar.set_message(format!("{} rows, {placed} of {all} in tables", sizes::count(progress.items)));
        }
    };
    let options = IngestOptions { progress: Some(Arc::new(progress)), ..IngestOptions::default() };
    let report = loader.keyspace.ingest_with(&options, |ingest| {
        let mut row = Row::default();
        loop {
            let bad = match rows.next(loader.args, &mut row)? {
                None => return Ok::<_, Failure>(()),
                Some(Line::Bad(why)) => Some(why),
                Some(Line::Row) => match ingest.put(&row.key, &row.value) {
                    Ok(()) => None,
                    Err(error) if matches!(error.kind(), ErrorKind::BadKey | ErrorKind::InvalidInput) => {
                        Some(without_number(&error.to_string()))
                    }
                    Err(error) => return Err(error.into()),
                },
            };
            match bad {
                Some(why) => loader.bad_row_of_all(rows.reader.line_number(), &why)?,
                None => {
                    loader.rows += 1;
                    loader.note_row(&row);
                    loader.bytes += (row.key.len() + row.value.len()) as u64;
                }
            }
            if loader.rows.is_multiple_of(ROWS_PER_SHOW) {
                loader.show(rows.reader.bytes_read());
            }
        }
    })?;
    Ok(Built {
        entries: report.entries,
        tables: report.tables,
        table_bytes: report.table_bytes,
        temporary_bytes: report.temporary_bytes,
    })
}

/// The sentence without the item's number: lines have numbers of their own.
fn without_number(sentence: &str) -> String {
    match sentence.split_once(": ") {
        Some((item, why)) if item.starts_with("item ") => why.to_owned(),
        _ => sentence.to_owned(),
    }
}
