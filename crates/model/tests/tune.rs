//! Tuning RocksDB: what real OPTIONS and LOG files of RocksDB 7.8.3 say, and files that are damaged or
//! foreign.
//!
//! The fixtures are cut from real runs (docs/models.md has the commands): beginning, statistics at half time
//! and at the end, and the last events.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

use siltstone_model::tune::ini::OptionsFile;
use siltstone_model::tune::log::{LogReader, LogSummary};
use siltstone_model::tune::settings::{Settings, Style, families};
use siltstone_model::tune::suggest::{Advice, advise};
use siltstone_model::tune::workload::{Given, Reads, Workload, infer_skew};

const UNIFORM: [&str; 2] =
    [include_str!("fixtures/uniform-fixed/OPTIONS"), include_str!("fixtures/uniform-fixed/LOG")];
const DEFAULTS: [&str; 2] =
    [include_str!("fixtures/uniform-defaults/OPTIONS"), include_str!("fixtures/uniform-defaults/LOG")];
const ZIPF: [&str; 2] =
    [include_str!("fixtures/zipf-dynamic/OPTIONS"), include_str!("fixtures/zipf-dynamic/LOG")];

fn settings(options: &str) -> Settings {
    Settings::read(&OptionsFile::parse(options).unwrap(), "default").unwrap()
}

fn log(text: &str) -> LogSummary {
    let mut reader = LogReader::new("default");
    text.lines().for_each(|line| reader.line(line));
    reader.finish().unwrap()
}

fn tuned([options, text]: [&str; 2]) -> (Settings, LogSummary, Workload, Advice) {
    let (settings, log) = (settings(options), log(text));
    let workload = Workload::new(&Given::default(), &settings, Some(&log)).unwrap();
    let advice = advise(&settings, &workload).unwrap();
    (settings, log, workload, advice)
}

fn close(ours: f64, theirs: f64, relative: f64) {
    assert!((ours / theirs - 1.0).abs() <= relative, "{ours} is not {theirs} to {relative}");
}

#[test]
fn predictions_lie_within_15_percent_of_what_real_stores_wrote() {
    for (name, fixture) in [("uniform", UNIFORM), ("defaults", DEFAULTS), ("zipf", ZIPF)] {
        let (_, log, _, advice) = tuned(fixture);
        let measured = log.write_amplification().unwrap();
        let later = log.later_write_amplification().unwrap();
        for measured in [measured, later] {
            let error = advice.now.write_amplification / measured - 1.0;
            assert!(
                error.abs() <= 0.15,
                "{name}: predicted {}, measured {measured}",
                advice.now.write_amplification
            );
        }
        let sum: f64 = advice.now.steps.iter().map(|step| step.write_amplification).sum();
        close(sum, advice.now.write_amplification, 1e-12);
    }
}

#[test]
fn the_log_gives_back_the_workload_that_was_run() {
    // 1 million keys at skew 0.99, 16 + 234 bytes an item, 4 tables per level-0 compaction.
    let (settings, log, workload, _) = tuned(ZIPF);
    close(workload.skew.unwrap(), 0.99, 0.01);
    close(workload.popularity.keys(), 1e6, 0.01);
    close(workload.item.batch, 266.0, 0.01);
    assert_eq!(workload.key_bytes, Some(16.0));
    assert_eq!(workload.reads, None);
    close(workload.requests_per_flush.unwrap(), workload.requests_per_flush(&settings), 0.01);
    close(workload.level0_tables.unwrap(), 4.0, 0.05);
    assert_eq!(log.version.as_deref(), Some("7.8.3"));
    assert_eq!(log.totals.stalled, 0.0);
    // Uniform keys: little skew is seen where there is none.
    for (fixture, keys) in [(UNIFORM, 5e5), (DEFAULTS, 1.6e6)] {
        let (_, _, workload, _) = tuned(fixture);
        assert!(workload.skew.unwrap() < 0.4);
        close(workload.popularity.keys(), keys, 0.01);
    }
}

#[test]
fn gets_are_known_where_the_database_counts_them() {
    let dump = "------- DUMPING STATS -------
        Cumulative writes: 5000K writes, 1000K keys, 5000K commit groups, 1.0 writes per commit group, ingest: 0.12 GB, 8 MB/s
        rocksdb.memtable.hit COUNT : 100000
        rocksdb.get.hit.l0 COUNT : 300000
        rocksdb.get.hit.l1 COUNT : 200000
        rocksdb.get.hit.l2andup COUNT : 1800000
        rocksdb.number.keys.written COUNT : 1000000
        rocksdb.number.keys.read COUNT : 2500000
        rocksdb.number.multiget.keys.read COUNT : 500000";
    let given = Given { keys: Some(1e6), item_bytes: Some(116.0), skew: Some(0.0), ..Given::default() };
    let reads = |text: &str| Workload::new(&given, &settings(ZIPF[0]), Some(&log(text))).unwrap().reads;
    let Reads { share, found } = reads(dump).unwrap();
    close(share, 0.75, 1e-9);
    close(found, 0.8, 1e-9);
    // A later dump counts all since the database was opened.
    let Reads { share, .. } = reads(&format!("{dump}\n{dump}")).unwrap();
    close(share, 0.75, 1e-9);
}

#[test]
fn suggestions_keep_levels_and_memory_and_say_what_they_change() {
    for fixture in [UNIFORM, DEFAULTS, ZIPF] {
        let (settings, _, _, advice) = tuned(fixture);
        assert!(advice.after.write_amplification < advice.now.write_amplification);
        assert_eq!(advice.after.level_bytes.len(), advice.now.level_bytes.len());
        assert_eq!(advice.after.memtable_bytes, advice.now.memtable_bytes);
        // A larger level 1 lets level 0 reach its trigger, which is what its owner allows.
        let allowed = advice.after.level_bytes.len() as f64 + 1.01 * settings.level0_tables / 2.0;
        assert!(advice.after.sorted_runs <= allowed.max(advice.now.sorted_runs));
        assert!(advice.after.space_amplification <= advice.now.space_amplification.max(1.4));
        let mut file = OptionsFile::parse(fixture[0]).unwrap();
        for change in &advice.changes {
            assert!(file.set("CFOptions \"default\"", &change.name, &change.to));
        }
        // What is read back from the changed file is what was predicted for.
        let changed = settings_of(&file);
        assert_eq!(
            changed.level_targets(*advice.after.level_bytes.last().unwrap()),
            advice.after.level_bytes
        );
        let kept = |text: &str| text.lines().filter(|line| !is_changed(line, &advice)).count();
        let lines = fixture[0].lines().count();
        assert_eq!(kept(&file.to_string()), lines - advice.changes.len());
        assert_eq!(changed.dynamic_level_bytes, settings.dynamic_level_bytes);
    }
}

fn settings_of(file: &OptionsFile) -> Settings {
    Settings::read(file, "default").unwrap()
}

fn is_changed(line: &str, advice: &Advice) -> bool {
    advice.changes.iter().any(|change| line.trim() == format!("{}={}", change.name, change.to))
}

#[test]
fn alternatives_cost_memory_or_reads() {
    let (_, _, _, advice) = tuned(UNIFORM);
    assert!(!advice.alternatives.is_empty());
    for other in &advice.alternatives {
        let writes_less = other.prediction.write_amplification < advice.after.write_amplification;
        let dearer = other.prediction.memtable_bytes > advice.after.memtable_bytes
            || other.prediction.sorted_runs > advice.after.sorted_runs;
        assert!(writes_less == dearer, "{}", other.what);
        assert!(!other.changes.is_empty());
    }
}

#[test]
fn level_sizes_are_those_that_rocksdb_computes() {
    let base = "[CFOptions \"default\"]\nmax_bytes_for_level_base=100\nmax_bytes_for_level_multiplier=10\n";
    let fixed = settings(base);
    assert_eq!(fixed.level_targets(50_000.0), [100.0, 1000.0, 10_000.0, 50_000.0]);
    assert_eq!(fixed.level_targets(80.0), [80.0]);
    let additional = settings(&format!("{base}max_bytes_for_level_multiplier_additional=1:2:3:1\n"));
    assert_eq!(additional.level_targets(100_000.0), [100.0, 2000.0, 60_000.0, 100_000.0]);
    // Dynamic: from the last level up by the multiplier; no level's target is below the base.
    let dynamic = settings(&format!("{base}level_compaction_dynamic_level_bytes=true\n"));
    assert_eq!(dynamic.level_targets(50_000.0), [100.0, 500.0, 5000.0, 50_000.0]);
    assert_eq!(dynamic.level_targets(10_000.0), [100.0, 1000.0, 10_000.0]);
    // No more levels than there are: the last takes what is left.
    let few = settings(&format!("{base}num_levels=3\n"));
    assert_eq!(few.level_targets(50_000.0), [100.0, 50_000.0]);
}

#[test]
fn a_full_memtable_is_what_rocksdb_flushes() {
    // Counted in the LOGs: 788,672, 1,034,760 and 66.85 million bytes.
    for ([options, _], bytes) in [(ZIPF, 788_672.0), (UNIFORM, 1_034_760.0), (DEFAULTS, 66_850_000.0)] {
        close(settings(options).full_memtable_bytes(), bytes, 0.005);
    }
}

#[test]
fn skew_is_found_in_what_flushes_keep() {
    use siltstone_model::{Direct, Popularity, Primitives};
    for skew in [0.3, 0.6, 0.9, 0.99, 1.2] {
        let kept = Direct::new(&Popularity::zipf(10_000_000, skew).unwrap()).unique(50_000.0) / 50_000.0;
        assert!((infer_skew(10_000_000, 50_000.0, kept).unwrap() - skew).abs() < 1e-3);
    }
    assert_eq!(infer_skew(1_000_000, 1000.0, 1.0).unwrap(), 0.0);
    assert!(infer_skew(1_000_000, 1000.0, 0.001).unwrap() > 1.99);
    assert_eq!(infer_skew(1000, 0.0, 0.5).unwrap_err().parameter(), "requests");
}

#[test]
fn an_unchanged_file_prints_its_very_bytes() {
    for text in [UNIFORM[0], ZIPF[0], "[A]\r\n x = 1 # one\r\n\r\n# end", "[A]"] {
        assert_eq!(OptionsFile::parse(text).unwrap().to_string(), text);
    }
    let mut file = OptionsFile::parse("# c\n[A]\n x = 1 # one\n[B]\n x=2").unwrap();
    assert!(
        file.set("A", "x", "100")
            && file.set("B", "x", "")
            && file.set("A", "y", "7")
            && file.set("A", "y", "8")
    );
    assert!(file.set("B", "x", "9") && !file.set("C", "x", "1"));
    assert_eq!(file.to_string(), "# c\n[A]\n  y=8\n x = 100 # one\n[B]\n x=9");
    assert_eq!(
        (file.get("A", "x"), file.get("B", "x"), file.get("A", "y")),
        (Some("100"), Some("9"), Some("8"))
    );
    assert_eq!(OptionsFile::parse(&file.to_string()).unwrap().get("A", "x"), Some("100"));
}

#[test]
fn damaged_and_foreign_files_are_named() {
    for (text, expected) in [
        ("", "no [section]"),
        ("{\"a\": 1}", "name=value"),
        ("a=1\n[B]\n", "before the first"),
        ("[Version\n", "closing bracket"),
        ("[A]\n[A]\n", "twice"),
        ("[A]\nx=1\nx=2\n", "line 3: x is set twice"),
        ("\0\0[A]", "binary"),
    ] {
        let error = OptionsFile::parse(text).unwrap_err();
        assert!(error.to_string().contains(expected), "{text:?}: {error}");
    }
    let read =
        |text: &str| Settings::read(&OptionsFile::parse(text).unwrap(), "default").unwrap_err().to_string();
    assert!(read("[DBOptions]\nx=1\n").contains("no [CFOptions"));
    assert!(read("[CFOptions \"users\"]\n").contains("there are: users"));
    for (setting, expected) in [
        ("write_buffer_size=lots", "expected a number"),
        ("write_buffer_size=0", "above 0"),
        ("max_bytes_for_level_multiplier=nan", "expected a number"),
        ("num_levels=7.5", "1 to 64"),
        ("level_compaction_dynamic_level_bytes=maybe", "true or false"),
        ("compaction_style=kCompactionStyleFIFO", "dropped by age"),
        ("compaction_style=kNew", "not known"),
        ("compaction_pri=kNew", "priorities"),
        ("disable_auto_compactions=true", "depends on who asks"),
        ("max_bytes_for_level_multiplier_additional=1:x", "whole numbers"),
    ] {
        let message = read(&format!("[CFOptions \"default\"]\n{setting}\n"));
        assert!(message.contains(expected), "{setting}: {message}");
    }
    assert!(LogReader::new("default").finish().unwrap_err().to_string().contains("RocksDB's own LOG"));
}

#[test]
fn damage_never_panics() {
    let text = ZIPF[0];
    for cut in (0..text.len()).step_by(7) {
        if let Ok(file) = OptionsFile::parse(&text[..cut]) {
            let _ = Settings::read(&file, "default");
        }
    }
    // Every line of a LOG cut, and with its digits made large or odd.
    for line in ZIPF[1].lines().chain(UNIFORM[1].lines().take(60)) {
        let mut reader = LogReader::new("default");
        for part in [&line[..line.len() / 2], &line[line.len() / 2..]] {
            reader.line("------- DUMPING STATS -------");
            reader.line("Level Files Size Write(GB) KeyIn");
            reader.line(part);
            reader.line(&part.replace(['0', '1', '2'], "99999999999999999999"));
            reader.line(&part.replace('.', "-e"));
        }
        if let Ok(log) = reader.finish() {
            let settings = settings(ZIPF[0]);
            if let Ok(workload) = Workload::new(&Given::default(), &settings, Some(&log)) {
                let _ = advise(&settings, &workload);
            }
        }
    }
}

#[test]
fn what_is_left_out_is_named() {
    let text = "[DBOptions]\nmax_total_wal_size=1000\nwal_compression=kZSTD\nmax_subcompactions=4\n\
                [CFOptions \"default\"]\ncompression=kLZ4Compression\nenable_blob_files=true\nttl=86400\n\
                periodic_compaction_seconds=1000\ncompaction_filter=Mine\nmerge_operator=Add\n\
                compaction_pri=kOldestLargestSeqFirst\nmemtable_factory=VectorRepFactory\n";
    let remarks = settings(text).remarks;
    for name in [
        "max_total_wal_size",
        "wal_compression",
        "max_subcompactions",
        "compression=",
        "enable_blob_files",
        "ttl",
        "periodic_compaction_seconds",
        "compaction_filter=",
        "merge_operator",
        "compaction_pri",
        "memtable_factory",
    ] {
        assert_eq!(remarks.iter().filter(|remark| remark.setting.starts_with(name)).count(), 1, "{name}");
    }
    assert!(settings(UNIFORM[0]).remarks.is_empty());
}

#[test]
fn other_column_families_and_missing_figures() {
    let text = "[CFOptions \"default\"]\n[CFOptions \"users\"]\nwrite_buffer_size=1048576\n";
    let file = OptionsFile::parse(text).unwrap();
    assert_eq!(families(&file), ["default", "users"]);
    let users = Settings::read(&file, "users").unwrap();
    let missing = |given: Given| Workload::new(&given, &users, None).unwrap_err().parameter().to_owned();
    assert_eq!(missing(Given::default()), "item-bytes");
    assert_eq!(missing(Given { item_bytes: Some(100.0), ..Given::default() }), "keys");
    let given = Given { item_bytes: Some(100.0), keys: Some(1e6), ..Given::default() };
    let workload = Workload::new(&given, &users, None).unwrap();
    assert!(workload.remarks.iter().any(|remark| remark.effect.contains("uniform")));
}

#[test]
fn universal_compaction_is_simulated() {
    let text = "[CFOptions \"default\"]\ncompaction_style=kCompactionStyleUniversal\nwrite_buffer_size=4194304\n\
                level0_file_num_compaction_trigger=12\narena_block_size=65536\n\
                compaction_options_universal={size_ratio=1;max_size_amplification_percent=200;}\n";
    let universal = settings(text);
    assert_eq!(
        universal.style,
        Style::Universal { size_ratio_percent: 1.0, max_size_amplification_percent: 200.0 }
    );
    // 1 million uniform keys in 1,000-byte items: 4.86 measured (RocksDB 7.8.3, without pacing).
    let given = Given { keys: Some(1e6), item_bytes: Some(982.0), skew: Some(0.0), ..Given::default() };
    let workload = Workload::new(&given, &universal, None).unwrap();
    let advice = advise(&universal, &workload).unwrap();
    close(advice.now.write_amplification, 4.857, 0.15);
    assert!(advice.changes.is_empty());
    assert!(advice.alternatives.iter().any(|other| other.what.contains("write buffers")));
}

#[test]
fn leveldb_is_modelled_from_a_list_and_its_log() {
    use siltstone_model::tune::leveldb::{LevelDbLog, settings};
    let defaults = settings("").unwrap();
    assert_eq!(defaults.level_targets(1e9), [10_485_760.0, 104_857_600.0, 1e9]);
    // LevelDB 1.23, 1 million uniform keys: 12.63 measured, without the first million updates.
    let given = Given { keys: Some(1e6), item_bytes: Some(982.0), skew: Some(0.0), ..Given::default() };
    let workload = Workload::new(&given, &defaults, None).unwrap();
    let advice = advise(&defaults, &workload).unwrap();
    close(advice.now.write_amplification, 12.632, 0.05);
    assert!(advice.after.write_amplification < 0.92 * advice.now.write_amplification);

    let mut log = LevelDbLog::default();
    include_str!("fixtures/leveldb/LOG").lines().for_each(|line| log.line(line));
    let log = log.finish().unwrap();
    assert!(log.flushes > 100.0 && log.level0_compactions > 20.0);
    // LevelDB 1.22, 200,000 uniform keys of 1,000 bytes, which waits for level 0: the tail of that LOG.
    let given = Given { keys: Some(2e5), item_bytes: Some(1000.0), skew: Some(0.0), ..Given::default() };
    let mut workload = Workload::new(&given, &defaults, None).unwrap();
    workload.level0_tables = log.level0_tables_per_compaction();
    let predicted = advise(&defaults, &workload).unwrap().now.write_amplification;
    close(predicted, log.write_amplification().unwrap(), 0.15);
    for (text, expected) in [
        ("write_buffer_size\n", "expected name=value"),
        ("\nwrite_bufer_size=1\n", "line 2: LevelDB has no write_bufer_size"),
        ("max_file_size=-1\n", "above 0"),
    ] {
        assert!(settings(text).unwrap_err().to_string().contains(expected), "{text}");
    }
    assert_eq!(settings("compression=kSnappy # as it comes\n").unwrap().remarks.len(), 1);
    assert!(LevelDbLog::default().finish().unwrap_err().to_string().contains("LevelDB's own LOG"));
}
