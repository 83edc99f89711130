//! A manifest or a segment of the write-ahead log, record by record.

use super::Inspection;
use crate::activity::Count;
use crate::codec::Decoder;
use crate::entry::Item;
use crate::error::{Error, Result};
use crate::operation;
use crate::record::{LOG_HEADER_BYTES, LogHeader, LogReader, ManifestEnd, Replaced};
use crate::version::edit::{Edit, OLDEST, Step};
use crate::version::manifest;
use crate::wal;
use serde::Serialize;
use std::path::Path;

/// A log's records.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct LogInspection {
    /// Its number.
    pub number: u64,
    /// Position of its first record.
    pub first_position: u64,
    /// Position after its last good record.
    pub end_position: u64,
    /// Whether a later record proves that a bad one had been synced: the file is damaged, not torn.
    pub damaged: bool,
    /// Records in it.
    pub records: u64,
    /// Each record in words, as far as they were asked for.
    pub contents: Vec<String>,
    /// Records whose words were left out.
    pub left_out: u64,
}

/// Records put into words at most.
const MAX_RECORDS: u64 = 1000;

/// What the log holds that `bytes` are.
pub(super) fn inspect(path: &Path, bytes: &[u8]) -> Result<Inspection> {
    let is_manifest = bytes.starts_with(manifest::MAGIC);
    let magic = if is_manifest { manifest::MAGIC } else { wal::MAGIC };
    let header = LogHeader::decode(magic, bytes, path)?
        .ok_or_else(|| Error::corruption(path, 0, "a log header", "something else"))?;
    let records = bytes.get(LOG_HEADER_BYTES as usize..).unwrap_or(&[]);
    let mut reader = LogReader::new(records, header.first_lsn, header.epoch);
    let (mut count, mut contents) = (0, Vec::new());
    while let Some((position, payload)) = reader.next_record() {
        count += 1;
        if count <= MAX_RECORDS {
            let words = match payload {
                [] => "a mark that everything before it is synced".to_owned(),
                _ if is_manifest => describe_edit(payload),
                _ => describe_batch(payload),
            };
            contents.push(format!("{position}: {words}"));
        }
    }
    let end = reader.end();
    let inspection = LogInspection {
        number: header.number,
        first_position: header.first_lsn,
        end_position: end.position,
        damaged: end.proven_synced > end.position,
        records: count,
        left_out: count.saturating_sub(MAX_RECORDS),
        contents,
    };
    Ok(if is_manifest { Inspection::Manifest(inspection) } else { Inspection::Wal(inspection) })
}

fn describe_edit(payload: &[u8]) -> String {
    let Some(edit) = Edit::decode(payload) else { return "an edit this program can't read".into() };
    let steps = edit.steps.iter().map(|step| match step {
        Step::AddRun { level, path, run, replaces } => {
            let (tables, bytes) = (run.tables.len(), run.tables.iter().map(|t| t.bytes).sum::<u64>());
            let place = match replaces {
                None => String::new(),
                Some(OLDEST) => " below its other runs".to_owned(),
                Some(old) => format!(" in place of run {old}"),
            };
            format!(
                "add run {} ({tables} tables, {bytes} bytes) to region {path} of level {level}{place}",
                run.id
            )
        }
        Step::RemoveRun { level, path, run } => {
            format!("remove run {run} from region {path} of level {level}")
        }
        Step::Pushed { level, path, pushes } => {
            format!("region {path} of level {level} pushed {pushes} times")
        }
        Step::Flushed { start, user_bytes } => {
            format!("flushed up to log segment {} ({user_bytes} user bytes in all)", start.segment)
        }
        Step::Created { name, schema, design } => format!("create keyspace {name:?}: {schema}, {design}"),
        Step::MergeOperator(name) => format!("its merge operator is {name:?}"),
        Step::Redesigned { design, sequence, at_ms, first_run, chosen } => {
            let by_itself = chosen.map_or_else(String::new, |chosen| {
                let saved = chosen.saved_share() * 100.0;
                let pushed = if chosen.pushes_down { " and are pushed down" } else { "" };
                format!("{pushed}; the store chose it, to save {saved:.1} % of an operation's time")
            });
            format!(
                "another design since write {sequence}, at {at_ms} ms: {design}; runs of before have numbers below \
                 {first_run}{by_itself}"
            )
        }
        Step::Settled { at_ms } => format!("nothing is left of earlier designs, at {at_ms} ms"),
        Step::Gathered { level, path } => {
            format!("nothing is left below region {path} of level {level}")
        }
        Step::Dropped => "drop the keyspace".into(),
        Step::Replaced { by } => format!("replace what it holds by what keyspace {by} holds, which is gone"),
        Step::Cleared => "clear the keyspace".into(),
        Step::SchemaChange { schema, design, at_ms } => {
            format!("the keyspace is to have schema {schema} and design {design}, as asked at {at_ms} ms")
        }
        Step::SchemaKept => "the keyspace keeps its schema".into(),
        Step::SchemaChanged { schema, design, sequence, at_ms } => format!(
            "the keyspace has schema {schema} and design {design} from position {sequence} on, at {at_ms} ms, and holds what \
             follows"
        ),
        Step::Activity(activity) => {
            format!("{} operations of late, of which {} put", activity.operations(), activity.of(Count::Puts))
        }
        Step::Written { level, bytes } => format!("{bytes} bytes written into level {level} in all"),
        Step::NextId(id) => format!("next number {id}"),
        Step::Secret(_) => "the hash secret".into(),
        Step::Clock(ms) => format!("the store's clock came to {ms} ms"),
        Step::MemoryBudget(bytes) => format!("the memory budget is {bytes} bytes"),
        Step::LogEnd(lsn) => format!("the log is synced up to position {lsn} at least"),
        Step::LogStart(start) => format!("the log starts at segment {}", start.segment),
    });
    format!("keyspace {}: {}", edit.keyspace, steps.collect::<Vec<_>>().join("; "))
}

fn describe_batch(payload: &[u8]) -> String {
    if let Some(ManifestEnd { number, position }) = ManifestEnd::decode(payload) {
        return format!("a note that manifest {number} is synced up to position {position}");
    }
    if let Some(Replaced { keyspace }) = Replaced::decode(payload) {
        return format!("keyspace {keyspace} gets contents that do not stand in the log");
    }
    let (mut puts, mut merges, mut deletes, mut prefixes, mut bytes) = (0u64, 0u64, 0u64, 0u64, 0usize);
    let mut from = Decoder::new(payload);
    while !from.is_empty() {
        let Some(operation) = operation::decode(&mut from) else {
            return "a batch this program can't read".into();
        };
        match operation.item {
            Some(Item::Put { value, .. }) => {
                puts += 1;
                bytes += operation.key.len() + value.len();
            }
            Some(Item::Operands(_)) => merges += 1,
            Some(Item::Deleted) => deletes += 1,
            None => prefixes += 1,
        }
    }
    let merges = if merges > 0 { format!("{merges} merges, ") } else { String::new() };
    format!("{puts} puts ({bytes} bytes), {merges}{deletes} deletes, {prefixes} prefix deletes")
}
