//! INFO: what Redis' exporters and clients look for, and what is ours in a section of its own.

use super::spec::table;
use crate::replication::LinkState;
use crate::server::Server;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes a section.
type Show = fn(&Server, &mut String);

/// Sections in their order, and whether they are shown unasked.
const SECTIONS: [(&str, bool, Show); 13] = [
    ("server", true, server),
    ("clients", true, clients),
    ("memory", true, memory),
    ("persistence", true, persistence),
    ("stats", true, stats),
    ("replication", true, replication),
    ("cpu", true, cpu),
    ("modules", true, |_, _| {}),
    ("commandstats", false, commands),
    ("errorstats", true, errors),
    ("cluster", true, |server, out| line(out, "cluster_enabled", u8::from(server.cluster.is_some()))),
    ("keyspace", true, keyspace),
    ("siltstone", true, siltstone),
];

/// Returns the sections that are named, or the usual ones.
pub fn info(server: &Server, wanted: &[String]) -> String {
    let is_wanted = |name: &str, is_usual: bool| {
        let asked = |word: &str| wanted.iter().any(|other| other == word);
        asked(name)
            || asked("all")
            || asked("everything")
            || (is_usual && (wanted.is_empty() || asked("default")))
    };
    let mut out = String::new();
    for (name, is_usual, write) in SECTIONS {
        if is_wanted(name, is_usual) {
            if !out.is_empty() {
                out.push_str("\r\n");
            }
            let mut title = name.to_owned();
            if let Some(first) = title.get_mut(..1) {
                first.make_ascii_uppercase();
            }
            let title = if name == "cpu" { "CPU".into() } else { title };
            // Writing to a string can't fail.
            let _ = write!(out, "# {title}\r\n");
            write(server, &mut out);
        }
    }
    out
}

fn line(out: &mut String, name: &str, value: impl std::fmt::Display) {
    // Writing to a string can't fail.
    let _ = write!(out, "{name}:{value}\r\n");
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn server(server: &Server, out: &mut String) {
    line(out, "redis_version", crate::REDIS_VERSION);
    line(out, "redis_git_sha1", "00000000");
    line(out, "redis_git_dirty", 0);
    line(out, "redis_build_id", "0");
    line(out, "redis_mode", if server.cluster.is_some() { "cluster" } else { "standalone" });
    line(out, "siltstone_version", env!("CARGO_PKG_VERSION"));
    line(out, "os", std::env::consts::OS);
    line(out, "arch_bits", usize::BITS);
    line(out, "multiplexing_api", "tokio");
    line(out, "process_id", std::process::id());
    line(out, "process_supervised", "no");
    line(out, "run_id", &server.run_id);
    line(out, "tcp_port", server.config.text("port"));
    line(out, "server_time_usec", crate::now_ms() * 1000);
    let uptime = server.started.elapsed().as_secs();
    line(out, "uptime_in_seconds", uptime);
    line(out, "uptime_in_days", uptime / 86_400);
    line(out, "hz", server.config.text("hz"));
    line(out, "configured_hz", server.config.text("hz"));
    line(out, "executable", std::env::current_exe().unwrap_or_default().display());
    let file = server.config_file.as_ref();
    line(out, "config_file", file.map(|path| path.display().to_string()).unwrap_or_default());
}

fn clients(server: &Server, out: &mut String) {
    let (connected, watching) = super::client::totals(&server.clients.all());
    line(out, "connected_clients", connected);
    line(out, "cluster_connections", 0);
    line(out, "maxclients", server.config.text("maxclients"));
    line(out, "client_recent_max_input_buffer", 0);
    line(out, "client_recent_max_output_buffer", 0);
    line(out, "blocked_clients", 0);
    line(out, "tracking_clients", 0);
    line(out, "watching_clients", watching);
    line(out, "clients_in_timeout_table", 0);
}

/// Bytes of memory that the process has, now and at most.
pub fn resident_bytes() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    (field("VmRSS:").unwrap_or(0) << 10, field("VmHWM:").unwrap_or(0) << 10)
}

fn human(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let bytes_f = bytes as f64;
    match bytes {
        0..0x400 => format!("{bytes}B"),
        0x400..0x10_0000 => format!("{:.2}K", bytes_f / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.2}M", bytes_f / 1_048_576.0),
        _ => format!("{:.2}G", bytes_f / 1_073_741_824.0),
    }
}

fn memory(server: &Server, out: &mut String) {
    let (resident, peak) = resident_bytes();
    let recent = server.store().recent.bytes();
    let store = server.store().db.stats().memory;
    let maximum = server.config.number("maxmemory");
    for (name, bytes) in [
        ("used_memory", store.total + recent),
        ("used_memory_rss", resident),
        ("used_memory_peak", peak),
        ("maxmemory", maximum),
    ] {
        line(out, name, bytes);
        line(out, &format!("{name}_human"), human(bytes));
    }
    line(out, "used_memory_overhead", store.filter + store.index);
    line(out, "used_memory_startup", 0);
    line(out, "used_memory_dataset", store.cache + store.memtable + recent);
    line(out, "used_memory_lua", 0);
    line(out, "used_memory_scripts", 0);
    line(out, "allocator_allocated", store.total);
    line(out, "allocator_active", resident);
    line(out, "allocator_resident", resident);
    line(out, "total_system_memory", 0);
    line(out, "maxmemory_policy", server.config.text("maxmemory-policy"));
    line(out, "mem_fragmentation_ratio", "1.00");
    line(out, "mem_fragmentation_bytes", 0);
    line(out, "mem_not_counted_for_evict", 0);
    line(out, "mem_clients_normal", 0);
    line(out, "mem_clients_slaves", 0);
    line(out, "mem_aof_buffer", 0);
    line(out, "mem_allocator", "system");
    line(out, "active_defrag_running", 0);
    line(out, "lazyfree_pending_objects", 0);
}

fn persistence(server: &Server, out: &mut String) {
    line(out, "loading", 0);
    line(out, "async_loading", 0);
    line(
        out,
        "rdb_changes_since_last_save",
        count(&server.store().changes).saturating_sub(count(&server.saved_changes)),
    );
    line(out, "rdb_bgsave_in_progress", u8::from(server.is_saving.load(Ordering::Relaxed)));
    line(out, "rdb_last_save_time", count(&server.last_save_ms) / 1000);
    line(
        out,
        "rdb_last_bgsave_status",
        if server.save_failed.load(Ordering::Relaxed) { "err" } else { "ok" },
    );
    line(out, "rdb_last_bgsave_time_sec", 0);
    line(out, "rdb_current_bgsave_time_sec", -1);
    line(out, "rdb_saves", count(&server.saves));
    line(out, "aof_enabled", 1);
    line(out, "aof_rewrite_in_progress", 0);
    line(out, "aof_rewrite_scheduled", 0);
    line(out, "aof_last_rewrite_time_sec", -1);
    line(out, "aof_current_rewrite_time_sec", -1);
    line(out, "aof_last_bgrewrite_status", "ok");
    line(out, "aof_last_write_status", "ok");
}

fn stats(server: &Server, out: &mut String) {
    let counters = &server.counters;
    let rate = server.rates.lock().clone();
    line(out, "total_connections_received", count(&counters.connections));
    line(out, "total_commands_processed", count(&counters.commands));
    line(out, "instantaneous_ops_per_sec", rate.commands);
    line(out, "total_net_input_bytes", count(&counters.bytes_in));
    line(out, "total_net_output_bytes", count(&counters.bytes_out));
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    for (name, bytes) in [("input", rate.bytes_in), ("output", rate.bytes_out)] {
        line(out, &format!("instantaneous_{name}_kbps"), format!("{:.2}", bytes as f64 / 1024.0));
    }
    line(out, "rejected_connections", count(&counters.rejected));
    line(out, "sync_full", count(&server.replication.full_syncs));
    line(out, "sync_partial_ok", count(&server.replication.continued_syncs));
    line(out, "sync_partial_err", count(&server.replication.refused_syncs));
    line(out, "expired_keys", count(&counters.expired));
    line(out, "expired_stale_perc", "0.00");
    line(out, "expired_time_cap_reached_count", 0);
    line(out, "evicted_keys", 0);
    line(out, "evicted_clients", 0);
    line(out, "keyspace_hits", count(&counters.hits));
    line(out, "keyspace_misses", count(&counters.misses));
    line(out, "pubsub_channels", 0);
    line(out, "pubsub_patterns", 0);
    line(out, "latest_fork_usec", 0);
    line(out, "total_forks", 0);
    line(out, "migrate_cached_sockets", 0);
    line(out, "slave_expires_tracked_keys", 0);
    line(out, "active_defrag_hits", 0);
    line(out, "total_error_replies", count(&counters.errors));
    line(out, "client_query_buffer_limit_disconnections", count(&counters.oversized));
    line(out, "client_output_buffer_limit_disconnections", count(&counters.unread));
    line(out, "pipeline_units", count(&counters.units));
    line(out, "pipeline_commands_joined", count(&counters.joined));
    line(out, "pipeline_units_from_memory", count(&counters.at_once));
}

fn replication(server: &Server, out: &mut String) {
    let replication = &server.replication;
    if let Some(link) = replication.link() {
        let state = link.state();
        line(out, "role", "slave");
        line(out, "master_host", &link.host);
        line(out, "master_port", link.port);
        line(out, "master_link_status", if state == LinkState::Connected { "up" } else { "down" });
        line(out, "master_last_io_seconds_ago", link.silent_s());
        line(out, "master_sync_in_progress", u8::from(state == LinkState::Syncing));
        line(out, "slave_read_repl_offset", link.position());
        line(out, "slave_repl_offset", link.position());
        line(out, "slave_priority", 100);
        line(out, "slave_read_only", 1);
        line(out, "replica_announced", 1);
    } else {
        line(out, "role", "master");
    }
    let followers = replication.followers();
    line(out, "connected_slaves", followers.len());
    for (number, follower) in followers.iter().enumerate() {
        let (host, port, offset) = (&follower.address, follower.port, follower.acknowledged());
        let state = if follower.is_online() { "online" } else { "send_bulk" };
        let lag = follower.silent_ms() / 1000;
        line(
            out,
            &format!("slave{number}"),
            format!("ip={host},port={port},state={state},offset={offset},lag={lag}"),
        );
    }
    let db = &server.store().db;
    let (first, last) = (db.oldest_log_position(), db.log_position());
    line(out, "master_failover_state", "no-failover");
    line(out, "master_replid", replication.log_id());
    line(out, "master_repl_offset", last);
    line(out, "second_repl_offset", -1);
    line(out, "repl_backlog_active", 1);
    line(out, "repl_backlog_size", server.config.number("repl-backlog-size"));
    line(out, "repl_backlog_first_byte_offset", first);
    line(out, "repl_backlog_histlen", last.saturating_sub(first));
}

/// Seconds of processor time: of the process in the kernel and outside of it.
fn cpu_seconds() -> (f64, f64) {
    // Fields 14 and 15, in hundredths of a second; the second field may hold blanks and ends with a bracket.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse().ok())
        .collect();
    let at = |number: usize| fields.get(number).copied().unwrap_or(0.0) / 100.0;
    (at(1), at(0))
}

fn cpu(_server: &Server, out: &mut String) {
    let (kernel, user) = cpu_seconds();
    line(out, "used_cpu_sys", format!("{kernel:.6}"));
    line(out, "used_cpu_user", format!("{user:.6}"));
    line(out, "used_cpu_sys_children", "0.000000");
    line(out, "used_cpu_user_children", "0.000000");
}

fn commands(server: &Server, out: &mut String) {
    for (spec, stats) in table().zip(&server.commands) {
        let calls = count(&stats.calls);
        if calls + count(&stats.rejected) == 0 {
            continue;
        }
        let us = count(&stats.us);
        #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
        let mean = us as f64 / calls.max(1) as f64;
        let (rejected, failed) = (count(&stats.rejected), count(&stats.failed));
        let value = format!(
            "calls={calls},usec={us},usec_per_call={mean:.2},rejected_calls={rejected},failed_calls={failed}"
        );
        line(out, &format!("cmdstat_{}", spec.name), value);
    }
}

fn errors(server: &Server, out: &mut String) {
    for (code, count) in server.errors.lock().iter() {
        line(out, &format!("errorstat_{code}"), format!("count={count}"));
    }
}

fn keyspace(server: &Server, out: &mut String) {
    let now = crate::now_ms();
    for number in 0..server.store().count() {
        let Some(database) = server.store().database(number) else { continue };
        let tally = database.tally.lock();
        let (keys, (expires, mean)) = (tally.keys(now), tally.expiring(now));
        if keys > 0 {
            line(out, &format!("db{number}"), format!("keys={keys},expires={expires},avg_ttl={mean}"));
        }
    }
}

fn siltstone(server: &Server, out: &mut String) {
    let stats = server.store().db.stats();
    line(out, "store_space_bytes", stats.space_bytes);
    line(out, "store_log_bytes", stats.wal_bytes);
    line(out, "store_user_bytes_written", stats.user_bytes_written);
    line(out, "store_device_bytes_written", stats.device_bytes_written);
    line(out, "store_write_amplification", format!("{:.2}", stats.write_amplification));
    line(out, "store_device_reads", stats.device_reads);
    line(out, "store_memory_budget", stats.memory.budget);
    line(out, "store_memory_filter", stats.memory.filter);
    line(out, "store_memory_index", stats.memory.index);
    line(out, "store_memory_cache", stats.memory.cache);
    line(out, "store_stalls", stats.stalls.count);
    line(out, "store_background_error", stats.background_error.unwrap_or_default());
    for keyspace in &stats.keyspaces {
        if let Some(proposed) = &keyspace.proposed {
            let name = format!("store_proposed_design_{}", keyspace.name);
            line(out, &name, format!("design={},saved_share={:.2}", proposed.name, proposed.saved_share));
        }
    }
}
