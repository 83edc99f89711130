//! LOGs of stores that are being loaded, and LOGs without statistics, as short runs leave them.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

use siltstone_model::tune::course::Course;
use siltstone_model::tune::ini::OptionsFile;
use siltstone_model::tune::log::{LogReader, LogSummary};
use siltstone_model::tune::settings::Settings;
use siltstone_model::tune::suggest::advise;
use siltstone_model::tune::workload::{Given, Workload};
use siltstone_model::{Direct, Popularity, Primitives};
use std::fmt::Write as _;

const OPTIONS: &str = "[Version]\nrocksdb_version=7.8.3\n[CFOptions \"default\"]\nwrite_buffer_size=4194304\n\
                       arena_block_size=524288\nmax_bytes_for_level_base=10485760\ntarget_file_size_base=2097152\n\
                       compression=kNoCompression\n";
/// Bytes of an item in tables.
const ITEM: f64 = 115.0;
const PER_FLUSH: f64 = 28_015.0;

fn settings() -> Settings {
    Settings::read(&OptionsFile::parse(OPTIONS).unwrap(), "default").unwrap()
}

fn read(text: &str) -> LogSummary {
    let mut reader = LogReader::new("default");
    text.lines().for_each(|line| reader.line(line));
    reader.finish().unwrap()
}

fn event(text: &mut String, json: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "2026/01/01-00:00:00.1 7 EVENT_LOG_v1 {{\"time_micros\": 1, {json}}}");
}

/// The LOG of a load: flushes that keep what `keys` would let them, a level 0 of four tables each time, and
/// one table at the end that holds what is there then.
fn load_log(keys: &Direct, requests: f64, first_state: &str) -> String {
    let mut text = String::from(
        "2026/01/01-00:00:00.0 7 [db_impl.cc:1] ------- DUMPING STATS -------\n\
         Cumulative writes: 0 writes, 0 keys, 0 commit groups, 0.0 writes per commit group, ingest: 0.00 GB, 0.00 MB/s\n",
    );
    let flushes = (requests / PER_FLUSH).round() as u64;
    let kept = keys.unique(PER_FLUSH).round();
    for job in 1..=flushes {
        event(
            &mut text,
            format_args!(
                "\"job\": {job}, \"event\": \"flush_started\", \"num_entries\": {PER_FLUSH}, \"num_deletes\": 0, \
                 \"total_data_size\": {}, \"memory_usage\": 4065560, \"flush_reason\": \"Write Buffer Full\"",
                126.0 * PER_FLUSH
            ),
        );
        event(
            &mut text,
            format_args!(
                "\"cf_name\": \"default\", \"job\": {job}, \"event\": \"table_file_creation\", \"file_number\": {job}, \
                 \"file_size\": {}, \"table_properties\": {{\"num_entries\": {kept}}}",
                kept * ITEM
            ),
        );
        let state = if job == 1 { first_state } else { "2, 0, 0" };
        event(
            &mut text,
            format_args!("\"job\": {job}, \"event\": \"flush_finished\", \"lsm_state\": [{state}]"),
        );
        if job > 1 {
            event(
                &mut text,
                format_args!("\"event\": \"table_file_deletion\", \"file_number\": {}", job - 1),
            );
        }
    }
    let held = keys.unique(requests) - kept;
    event(
        &mut text,
        format_args!("\"job\": 9999, \"event\": \"compaction_started\", \"files_L0\": [1, 2, 3, 4]"),
    );
    event(
        &mut text,
        format_args!(
            "\"cf_name\": \"default\", \"job\": 9999, \"event\": \"table_file_creation\", \"file_number\": 9999, \
             \"file_size\": {}, \"table_properties\": {{\"num_entries\": {held}}}",
            held * ITEM
        ),
    );
    event(
        &mut text,
        format_args!(
            "\"job\": 9999, \"event\": \"compaction_finished\", \"output_level\": 2, \"lsm_state\": [1, 0, 1]"
        ),
    );
    let _ =
        writeln!(text, "2026/01/01-00:00:01.0 7 [file.cc:1] [default] Moving #{flushes} to level-1 1 bytes");
    text
}

#[test]
fn events_stand_in_for_statistics() {
    let keys = Direct::new(&Popularity::uniform(2_000_000).unwrap());
    let log = read(&load_log(&keys, 2e6, "1, 0, 0"));
    assert!(log.from_events && log.events.began_empty == Some(true));
    // 126 bytes as a memtable counts, 131 in a batch of its own.
    assert_eq!(log.totals.ingest_bytes, 131.0 * log.events.flush_requests);
    let written = log.totals.ingest_bytes + log.events.table_bytes;
    assert!((log.write_amplification().unwrap() - written / log.totals.ingest_bytes).abs() < 1e-12);
    assert!(log.later_write_amplification().is_some());
    // What the last flush wrote was moved to level 1; all else is in level 2.
    let bytes: Vec<f64> = log.levels.iter().map(|level| level.bytes).collect();
    assert_eq!((bytes.len(), bytes[0]), (3, 0.0));
    assert_eq!(log.events.moved_bytes, bytes[1]);
    assert!((bytes[1] + bytes[2] - ITEM * keys.unique(2e6)).abs() < 0.01 * bytes[2]);
    // Statistics of most of the writes go before events.
    let dumped = format!(
        "{}------- DUMPING STATS -------\nCumulative writes: 2000K writes, 2000K keys, 9 commit groups, 1.0 writes per \
         commit group, ingest: 0.25 GB, 1.00 MB/s\n",
        load_log(&keys, 2e6, "1, 0, 0")
    );
    assert!(!read(&dumped).from_events);
}

#[test]
fn a_load_is_told_from_updates_and_predicted_as_one() {
    let keys = Direct::new(&Popularity::uniform(2_000_000).unwrap());
    let log = read(&load_log(&keys, 2e6, "1, 0, 0"));
    let settings = settings();
    let predicted = |load: Option<bool>| {
        let given = Given { load, ..Given::default() };
        let workload = Workload::new(&given, &settings, Some(&log)).unwrap();
        let advice = advise(&settings, &workload).unwrap();
        (workload, advice)
    };
    let (workload, advice) = predicted(None);
    assert!(matches!(workload.course, Course::Load { requests } if (requests / 2e6 - 1.0).abs() < 0.01));
    assert!((workload.popularity.keys() / 2e6 - 1.0).abs() < 0.05, "{}", workload.popularity.keys());
    assert!(workload.remarks.iter().any(|remark| remark.setting == "load"));
    // RocksDB 7.8.3 with these options and this load, waiting for its compactions: 5.42 measured.
    assert!((advice.now.write_amplification / 5.42 - 1.0).abs() < 0.15, "{}", advice.now.write_amplification);
    let steps: f64 = advice.now.steps.iter().map(|step| step.write_amplification).sum();
    assert!((steps - advice.now.write_amplification).abs() < 1e-9);
    let later = advice.updates.unwrap();
    assert!(later.now > advice.now.write_amplification && later.after < later.now);
    let (workload, updates) = predicted(Some(false));
    assert_eq!(workload.course, Course::Updates);
    assert!(updates.updates.is_none() && updates.now.write_amplification > advice.now.write_amplification);
    // A store that held something before is not being loaded.
    let log = read(&load_log(&keys, 2e6, "1, 3, 7"));
    let workload = Workload::new(&Given::default(), &settings, Some(&log)).unwrap();
    assert_eq!(workload.course, Course::Updates);
    // Without a LOG, a load writes as often as there are keys.
    let given = Given { keys: Some(1e6), item_bytes: Some(116.0), load: Some(true), ..Given::default() };
    let workload = Workload::new(&given, &settings, None).unwrap();
    assert_eq!(workload.course, Course::Load { requests: 1e6 });
}

#[test]
fn what_repeats_in_a_load_gives_keys_and_skew() {
    for (count, skew) in [(2_000_000u64, 0.0), (1_000_000, 0.7), (3_000_000, 0.9)] {
        let keys = Direct::new(&Popularity::zipf(count, skew).unwrap());
        // Fewer requests than three times what they leave.
        let requests = 1.2e6;
        let log = read(&load_log(&keys, requests, "1, 0, 0"));
        assert!(log.events.flush_requests < 3.0 * keys.unique(requests), "{skew}");
        let workload = Workload::new(&Given::default(), &settings(), Some(&log)).unwrap();
        assert!((workload.skew.unwrap() - skew).abs() < 0.03, "{skew}: {:?}", workload.skew);
        let found = workload.popularity.keys();
        assert!((found / count as f64 - 1.0).abs() < 0.15, "{skew}: {found}");
    }
    // Keys that never repeat: far more than were written.
    let keys = Direct::new(&Popularity::uniform(1_000_000_000_000).unwrap());
    let log = read(&load_log(&keys, 1e6, "1, 0, 0"));
    let workload = Workload::new(&Given::default(), &settings(), Some(&log)).unwrap();
    assert!(workload.popularity.keys() > 5e7);
}

#[test]
fn universal_compaction_is_loaded_too() {
    let universal = format!("{OPTIONS}compaction_style=kCompactionStyleUniversal\n");
    let universal = Settings::read(&OptionsFile::parse(&universal).unwrap(), "default").unwrap();
    let predicted = |load: bool| {
        let given = Given {
            keys: Some(2e6),
            item_bytes: Some(116.0),
            skew: Some(0.0),
            load: Some(load),
            ..Given::default()
        };
        let workload = Workload::new(&given, &universal, None).unwrap();
        advise(&universal, &workload).unwrap().now.write_amplification
    };
    let (load, updates) = (predicted(true), predicted(false));
    assert!(load > 2.0 && load < updates, "{load} {updates}");
}
