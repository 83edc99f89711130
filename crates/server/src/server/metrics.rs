//! Prometheus' metrics, and a page for browsers, over as little HTTP as that takes.

use super::Server;
use crate::command::{resident_bytes, table};
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

/// What the model predicts, beside what was measured of it.
fn predictions(keyspaces: &[siltstone::KeyspaceStats], page: &mut Page) {
    type Of = fn(&siltstone::Figures) -> Option<f64>;
    let figures: [(&str, &str, Of); 5] = [
        ("write_amplification", "Bytes written into tables per byte put", |f| f.write_amplification),
        ("reads_per_hit", "Reads of the device per get that finds an item", |f| f.reads_per_hit),
        ("reads_per_miss", "Reads of the device per get that finds none", |f| f.reads_per_miss),
        ("filter_and_index_bytes", "Bytes of filters and indexes", |f| f.memory_bytes),
        ("space_amplification", "Bytes of tables per byte of items", |f| f.space_amplification),
    ];
    for (name, help, of) in figures {
        for (kind, word) in [("measured", "measured"), ("predicted", "as the model predicts")] {
            let rows: Vec<(String, f64)> = keyspaces
                .iter()
                .filter_map(|keyspace| {
                    let figures = if kind == "measured" { &keyspace.measured } else { &keyspace.predicted };
                    Some((format!("{{keyspace=\"{}\"}}", keyspace.name), of(figures)?))
                })
                .collect();
            let rows: Vec<(String, &dyn Display)> =
                rows.iter().map(|(labels, value)| (labels.clone(), value as &dyn Display)).collect();
            if !rows.is_empty() {
                page.add(&format!("{kind}_{name}"), "gauge", &format!("{help}, {word}."), &rows);
            }
        }
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
    let title = |keyspace: &siltstone::KeyspaceStats| store.title(&keyspace.name);
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
    let figures = |of: &siltstone::Figures| {
        serde_json::json!({
            "write_amplification": of.write_amplification, "reads_per_hit": of.reads_per_hit,
            "reads_per_miss": of.reads_per_miss, "memory_bytes": of.memory_bytes,
            "space_amplification": of.space_amplification,
        })
    };
    let predictions: Vec<_> = stats
        .keyspaces
        .iter()
        .filter(|keyspace| keyspace.levels.iter().any(|level| level.bytes + level.bytes_written > 0))
        .map(|keyspace| {
            serde_json::json!({
                "keyspace": title(keyspace), "measured": figures(&keyspace.measured),
                "predicted": figures(&keyspace.predicted),
            })
        })
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
    });
    value.to_string()
}
