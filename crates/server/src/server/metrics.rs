//! Prometheus' metrics, and a page for browsers, over as little HTTP as that takes.

use super::Server;
use crate::command::{resident_bytes, table};
use siltstone::{Figures, KeyspaceStats, RedesignStats};
use std::fmt::{Display, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const PAGE: &str = include_str!("page.html");
/// What a request's head may take.
const MOST_BYTES: usize = 8 << 10;
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers one request.
pub async fn serve(server: Arc<Server>, mut stream: TcpStream) {
    // Who sends nothing, or takes nothing, is not waited for.
    let _ = tokio::time::timeout(PATIENCE, async {
        let mut head = Vec::new();
        while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") && head.len() < MOST_BYTES {
            if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let path = head.split_whitespace().nth(1).unwrap_or("/").to_owned();
        let answer = tokio::task::spawn_blocking(move || match path.as_str() {
            "/metrics" => ("200 OK", "text/plain; version=0.0.4", metrics(&server)),
            "/stats.json" => ("200 OK", "application/json", stats(&server)),
            "/" => ("200 OK", "text/html; charset=utf-8", PAGE.to_owned()),
            _ => ("404 Not Found", "text/plain", "There are /, /metrics and /stats.json.\n".to_owned()),
        });
        let Ok((status, kind, body)) = answer.await else { return };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        let _ = stream.write_all(answer.as_bytes()).await;
    })
    .await;
}

/// Writes metrics in Prometheus' text format.
struct Page {
    text: String,
}

impl Page {
    fn add(&mut self, name: &str, kind: &str, help: &str, rows: &[(String, &dyn Display)]) {
        // Writing to a string can't fail.
        let _ = write!(self.text, "# HELP siltstone_{name} {help}\n# TYPE siltstone_{name} {kind}\n");
        for (labels, value) in rows {
            let _ = writeln!(self.text, "siltstone_{name}{labels} {value}");
        }
    }

    /// Adds gauges of one name, if there are any.
    fn gauges(&mut self, name: &str, help: &str, rows: Vec<(String, f64)>) {
        let rows: Vec<(String, &dyn Display)> =
            rows.iter().map(|(labels, value)| (labels.clone(), value as &dyn Display)).collect();
        if !rows.is_empty() {
            self.add(name, "gauge", help, &rows);
        }
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.add(name, kind, help, &[(String::new(), &value)]);
    }
}

fn metrics(server: &Server) -> String {
    let mut page = Page { text: String::new() };
    let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let counters = &server.counters;
    for (name, help, counter) in [
        ("commands_total", "Commands carried out.", &counters.commands),
        ("connections_total", "Connections taken in.", &counters.connections),
        ("rejected_connections_total", "Connections refused.", &counters.rejected),
        ("keyspace_hits_total", "Keys found.", &counters.hits),
        ("keyspace_misses_total", "Keys not found.", &counters.misses),
        ("expired_keys_total", "Keys that expired.", &counters.expired),
        ("received_bytes_total", "Bytes received from clients.", &counters.bytes_in),
        ("sent_bytes_total", "Bytes sent to clients.", &counters.bytes_out),
        ("error_replies_total", "Errors sent.", &counters.errors),
        ("units_total", "Units of work.", &counters.units),
        ("joined_commands_total", "Commands that shared a unit with others.", &counters.joined),
        ("units_from_memory_total", "Units of work that took no other thread.", &counters.at_once),
    ] {
        page.one(name, "counter", help, load(counter));
    }
    page.one("connected_clients", "gauge", "Connections that are open.", server.clients.len());
    page.one("uptime_seconds", "gauge", "Seconds since the start.", server.started.elapsed().as_secs());
    page.one("resident_bytes", "gauge", "Memory of the process.", resident_bytes().0);
    let now = crate::now_ms();
    let sizes: Vec<(String, u64)> = (0..server.store().count())
        .map(|number| (format!("{{db=\"{number}\"}}"), server.store().keys(number, now)))
        .filter(|(_, keys)| *keys > 0)
        .collect();
    let rows: Vec<(String, &dyn Display)> =
        sizes.iter().map(|(labels, keys)| (labels.clone(), keys as &dyn Display)).collect();
    page.add("keys", "gauge", "Keys of a database.", &rows);
    let calls: Vec<(String, u64, f64)> = table()
        .zip(&server.commands)
        .filter(|(_, stats)| load(&stats.calls) > 0)
        .map(|(spec, stats)| {
            let seconds = Duration::from_micros(load(&stats.us)).as_secs_f64();
            (format!("{{command=\"{}\"}}", spec.name), load(&stats.calls), seconds)
        })
        .collect();
    let rows: Vec<(String, &dyn Display)> =
        calls.iter().map(|(labels, calls, _)| (labels.clone(), calls as &dyn Display)).collect();
    page.add("command_calls_total", "counter", "Times that a command was carried out.", &rows);
    let rows: Vec<(String, &dyn Display)> =
        calls.iter().map(|(labels, _, seconds)| (labels.clone(), seconds as &dyn Display)).collect();
    page.add("command_seconds_total", "counter", "Time that a command took.", &rows);
    store_metrics(server, &mut page);
    page.text
}

fn store_metrics(server: &Server, page: &mut Page) {
    let stats = server.store().db.stats();
    page.one("store_space_bytes", "gauge", "Bytes of the store's files.", stats.space_bytes);
    page.one("store_log_bytes", "gauge", "Bytes of the log's files.", stats.wal_bytes);
    page.one(
        "user_bytes_written_total",
        "counter",
        "Bytes that writers handed in.",
        stats.user_bytes_written,
    );
    page.one(
        "device_bytes_written_total",
        "counter",
        "Bytes written to the device.",
        stats.device_bytes_written,
    );
    page.one("device_reads_total", "counter", "Reads of the device by gets and scans.", stats.device_reads);
    page.one("stalls_total", "counter", "Times that writers were stopped.", stats.stalls.count);
    let memory = stats.memory;
    let rows: [(String, &dyn Display); 5] = [
        ("{holder=\"write_buffer\"}".into(), &memory.memtable),
        ("{holder=\"filter\"}".into(), &memory.filter),
        ("{holder=\"index\"}".into(), &memory.index),
        ("{holder=\"cache\"}".into(), &memory.cache),
        ("{holder=\"compaction\"}".into(), &memory.compaction),
    ];
    page.add("memory_bytes", "gauge", "Memory of the store by holder.", &rows);
    page.one("memory_budget_bytes", "gauge", "The budget that they share.", memory.budget);
    predictions(&stats.keyspaces, page);
    redesigns(&stats.keyspaces, page);
    let mut levels: Vec<(String, u64, u64)> = Vec::new();
    for keyspace in &stats.keyspaces {
        for level in &keyspace.levels {
            let labels = format!("{{keyspace=\"{}\",level=\"{}\"}}", keyspace.name, level.level);
            levels.push((labels, level.bytes, level.bytes_written));
        }
    }
    let rows: Vec<(String, &dyn Display)> =
        levels.iter().map(|(labels, bytes, _)| (labels.clone(), bytes as &dyn Display)).collect();
    page.add("level_bytes", "gauge", "Bytes of a level's tables.", &rows);
    let rows: Vec<(String, &dyn Display)> =
        levels.iter().map(|(labels, _, written)| (labels.clone(), written as &dyn Display)).collect();
    page.add("level_written_bytes_total", "counter", "Bytes written into a level.", &rows);
}

/// A figure that is predicted as well as measured: what statistics call it, what metrics do, what it is, and
/// where it stands.
type Figure = (&'static str, &'static str, &'static str, fn(&Figures) -> Option<f64>);

#[rustfmt::skip]
const FIGURES: [Figure; 6] = [
    ("write_amplification", "write_amplification", "Bytes written into tables per byte put", |f| f.write_amplification),
    ("reads_per_hit", "reads_per_hit", "Reads of the device per get that finds an item", |f| f.reads_per_hit),
    ("reads_per_miss", "reads_per_miss", "Reads of the device per get that finds none", |f| f.reads_per_miss),
    ("reads_per_scan", "reads_per_scan", "Reads of the device per scan of one group", |f| f.reads_per_scan),
    ("memory_bytes", "filter_and_index_bytes", "Bytes of filters and indexes", |f| f.memory_bytes),
    ("space_amplification", "space_amplification", "Bytes of tables per byte of items", |f| f.space_amplification),
];

fn label(keyspace: &KeyspaceStats) -> String {
    format!("{{keyspace=\"{}\"}}", keyspace.name)
}

/// What the model predicts, beside what was measured of it, and where the two are far from each other.
fn predictions(keyspaces: &[KeyspaceStats], page: &mut Page) {
    for (_, name, help, of) in FIGURES {
        for (kind, word) in [("measured", "measured"), ("predicted", "as the model predicts")] {
            let figures = |keyspace: &KeyspaceStats| match kind {
                "measured" => of(&keyspace.measured),
                _ => of(&keyspace.predicted),
            };
            let rows = keyspaces.iter().filter_map(|keyspace| Some((label(keyspace), figures(keyspace)?)));
            page.gauges(&format!("{kind}_{name}"), &format!("{help}, {word}."), rows.collect());
        }
    }
    let drifts =
        keyspaces.iter().flat_map(|keyspace| keyspace.drift.iter().map(move |drift| (keyspace, drift)));
    let drifts = drifts.map(|(keyspace, drift)| {
        let figure = FIGURES.iter().find(|figure| figure.0 == drift.field).map_or("other", |figure| figure.1);
        let (keyspace, cause) = (&keyspace.name, drift.cause.name());
        let labels = format!("{{keyspace=\"{keyspace}\",figure=\"{figure}\",cause=\"{cause}\"}}");
        (labels, drift.measured - drift.predicted)
    });
    page.gauges(
        "drift",
        "Measured less predicted, of figures that are far from what is predicted.",
        drifts.collect(),
    );
}

/// How far the last redesigns are.
fn redesigns(keyspaces: &[KeyspaceStats], page: &mut Page) {
    type Of = fn(&RedesignStats) -> f64;
    let figures: [(&str, &str, Of); 3] = [
        ("done_ratio", "Share of the tables' bytes that are as the last redesign has them.", |last| {
            last.done
        }),
        ("remaining_bytes", "Bytes of tables that are still to be rewritten.", |last| {
            last.remaining_bytes as f64
        }),
        ("remaining_seconds", "Time of device and processor that this takes.", |last| {
            last.remaining_us / 1e6
        }),
    ];
    for (name, help, of) in figures {
        let rows = keyspaces.iter().filter_map(|k| Some((label(k), of(k.redesign.as_ref()?))));
        page.gauges(&format!("redesign_{name}"), help, rows.collect());
    }
}

/// What the page shows.
fn stats(server: &Server) -> String {
    let stats = server.store().db.stats();
    let rates = server.rates.lock().clone();
    let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let now = crate::now_ms();
    let databases: Vec<_> = (0..server.store().count())
        .map(|number| (number, server.store().keys(number, now)))
        .filter(|(_, keys)| *keys > 0)
        .map(|(number, keys)| serde_json::json!({ "number": number, "keys": keys }))
        .collect();
    let store = server.store();
    let title = |keyspace: &KeyspaceStats| store.title(&keyspace.name);
    let levels: Vec<_> = stats
        .keyspaces
        .iter()
        .flat_map(|keyspace| keyspace.levels.iter().map(move |level| (keyspace, level)))
        .filter(|(_, level)| level.bytes + level.bytes_written > 0)
        .map(|(keyspace, level)| {
            serde_json::json!({
                "keyspace": title(keyspace), "level": level.level, "regions": level.regions, "runs": level.runs,
                "bytes": level.bytes, "entries": level.entries, "written": level.bytes_written,
                "write_amplification": level.write_amplification,
            })
        })
        .collect();
    let predictions: Vec<_> = stats
        .keyspaces
        .iter()
        .filter(|keyspace| keyspace.levels.iter().any(|level| level.bytes + level.bytes_written > 0))
        .map(|keyspace| {
            serde_json::json!({
                "keyspace": title(keyspace), "measured": keyspace.measured, "predicted": keyspace.predicted,
                "drift": keyspace.drift,
            })
        })
        .collect();
    let redesigns: Vec<_> = stats
        .keyspaces
        .iter()
        .filter_map(|keyspace| Some((keyspace, keyspace.redesign.as_ref().filter(|last| last.done < 1.0)?)))
        .map(|(keyspace, last)| serde_json::json!({ "keyspace": title(keyspace), "redesign": last }))
        .collect();
    let value = serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"), "uptime_s": server.started.elapsed().as_secs(),
        "clients": server.clients.len(), "commands": load(&server.counters.commands),
        "commands_per_s": rates.commands, "in_per_s": rates.bytes_in, "out_per_s": rates.bytes_out,
        "hits": load(&server.counters.hits), "misses": load(&server.counters.misses),
        "expired": load(&server.counters.expired), "resident_bytes": resident_bytes().0,
        "memory": stats.memory, "space_bytes": stats.space_bytes, "log_bytes": stats.wal_bytes,
        "user_bytes_written": stats.user_bytes_written, "device_bytes_written": stats.device_bytes_written,
        "write_amplification": stats.write_amplification, "device_reads": stats.device_reads,
        "stalls": stats.stalls, "background_error": stats.background_error,
        "databases": databases, "levels": levels, "predictions": predictions,
        "redesigns": redesigns,
    });
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone::{Db, Design, KeyspaceOptions, Options, Schema};

    const DASHBOARD: &str = include_str!("../../operations/grafana.json");

    /// A store whose redesign has begun, and whose background work is held.
    fn redesigning(dir: &std::path::Path) -> Db {
        let small = |name: &str| Some(Design::preset(name).unwrap().scaled_to(64 << 10));
        let options = Options { memory_budget_bytes: 4 << 20, ..Options::default() };
        let db = Db::open(dir.join("db"), options.clone()).unwrap();
        let design = small("stepped-merge");
        let given = KeyspaceOptions { schema: Schema::fixed(3), design, ..KeyspaceOptions::default() };
        let items = db.create_keyspace("items", given).unwrap();
        for number in 0..20_000u32 {
            items.put(number.to_be_bytes(), [7; 100]).unwrap();
        }
        db.wait_until_idle().unwrap();
        // Something of every kind, so that all there is to measure is measured.
        for number in 0..300u32 {
            assert!(items.get((number * 50).to_be_bytes()).unwrap().is_some());
            assert!(items.get((30_000 + number).to_be_bytes()).unwrap().is_none());
        }
        assert_eq!(items.prefix([0, 0, 7]).unwrap().count(), 256);
        db.close().unwrap();
        let db = Db::open(dir.join("db"), Options { background_threads: 0, ..options }).unwrap();
        db.get_keyspace("items").unwrap().redesign(small("lean").unwrap()).unwrap();
        db
    }

    fn value_of(text: &str, name: &str) -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    #[test]
    fn drift_has_its_cause_and_a_redesign_what_is_left_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let keyspaces = redesigning(dir.path()).stats().keyspaces;
        let mut page = Page { text: String::new() };
        predictions(&keyspaces, &mut page);
        redesigns(&keyspaces, &mut page);
        let left = keyspaces[0].redesign.as_ref().unwrap();
        assert!(left.done < 1.0 && left.remaining_bytes > 1 << 20, "{left:?}");
        let of = |name: &str| value_of(&page.text, &format!("siltstone_{name}{{keyspace=\"items\"}}"));
        assert_eq!(of("redesign_done_ratio"), left.done);
        assert_eq!(of("redesign_remaining_bytes"), left.remaining_bytes as f64);
        assert_eq!(of("redesign_remaining_seconds"), left.remaining_us / 1e6);
        assert!(!keyspaces[0].drift.is_empty());
        for drift in &keyspaces[0].drift {
            let figure =
                FIGURES.iter().find(|figure| figure.0 == drift.field).expect("a figure of its own").1;
            let labels = format!("keyspace=\"items\",figure=\"{figure}\",cause=\"redesign\"");
            let apart = value_of(&page.text, &format!("siltstone_drift{{{labels}}}"));
            assert_eq!(apart, drift.measured - drift.predicted);
            let both = of(&format!("measured_{figure}")) - of(&format!("predicted_{figure}"));
            assert!((apart - both).abs() <= 1e-9 * both.abs(), "{apart} {both}");
        }
    }

    /// The names of metrics that the dashboard asks for.
    fn asked_for() -> Vec<&'static str> {
        let starts = DASHBOARD.match_indices("siltstone_").map(|(at, _)| &DASHBOARD[at..]);
        let names = starts.map(|rest| {
            rest.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().expect("there is a first part")
        });
        names.collect()
    }

    #[test]
    fn the_dashboard_asks_for_metrics_that_there_are() {
        let dir = tempfile::tempdir().unwrap();
        let keyspaces = redesigning(dir.path()).stats().keyspaces;
        let mut page = Page { text: String::new() };
        predictions(&keyspaces, &mut page);
        redesigns(&keyspaces, &mut page);
        let source = include_str!("metrics.rs");
        let (source, _) = source.split_once("mod tests").expect("these tests");
        let asked = asked_for();
        assert!(asked.len() > 20 && asked.iter().any(|name| name.starts_with("siltstone_predicted_")));
        for name in asked {
            let bare = name.strip_prefix("siltstone_").expect("they begin so");
            // What any server has stands in the source; what is predicted takes a store.
            let is_there =
                source.contains(&format!("\"{bare}\"")) || page.text.contains(&format!("# TYPE {name} "));
            assert!(is_there, "{name}");
        }
        for (_, name, _, _) in FIGURES {
            for kind in ["measured", "predicted"] {
                assert!(
                    DASHBOARD.contains(&format!("siltstone_{kind}_{name}")),
                    "no panel shows {kind} {name}"
                );
            }
        }
    }
}
