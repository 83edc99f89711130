//! What is due by time: syncing the log, counting out expired keys, clearing expired collections away,
//! checkpoints, rates.

use super::{Rates, Server};
use crate::cluster::{Keeper, slot};
use crate::failure::Outcome;
use crate::keyspace::{Database, Durability, Unit};
use siltstone::{Batch, WriteOptions};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_blocking};

/// Begins all of it.
pub fn start(server: &Arc<Server>) -> Vec<JoinHandle<()>> {
    vec![
        tokio::spawn(sync(Arc::clone(server))),
        tokio::spawn(expire(Arc::clone(server))),
        tokio::spawn(save(Arc::clone(server))),
        tokio::spawn(measure(Arc::clone(server))),
    ]
}

fn complain(what: &str, error: &dyn std::fmt::Display) {
    crate::say(format_args!("{what}: {error}"));
}

/// Syncs the log once a second, if anything was written to it that asks for that.
async fn sync(server: Arc<Server>) {
    let mut synced = 0;
    let mut ticks = tokio::time::interval(Duration::from_millis(1000));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let changes = server.store().changes.load(Ordering::Relaxed);
        if changes == synced || server.store().durability() != Durability::EverySecond {
            continue;
        }
        let worker = Arc::clone(&server);
        match spawn_blocking(move || worker.store().db.sync()).await {
            Ok(Ok(())) => synced = changes,
            Ok(Err(error)) => complain("sync", &error),
            Err(error) => complain("sync", &error),
        }
    }
}

/// Counts expired keys out, and clears away collections that have expired, or fields of them.
async fn expire(server: Arc<Server>) {
    let mut ticks = tokio::time::interval(Duration::from_millis(1000));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // A replica is told by its primary what has expired.
        if !server.expires_actively.load(Ordering::Relaxed) || server.replication.is_replica() {
            continue;
        }
        let worker = Arc::clone(&server);
        match spawn_blocking(move || expire_now(&worker)).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => complain("expiry", &failure),
            Err(error) => complain("expiry", &error),
        }
    }
}

fn expire_now(server: &Server) -> Outcome {
    let gone = server.store().fold_tallies(crate::now_ms())?;
    server.counters.expired.fetch_add(gone, Ordering::Relaxed);
    for number in 0..server.store().count() {
        if let Some(database) = server.store().database(number) {
            clear_due(server, number, &database)?;
        }
    }
    Ok(())
}

/// Looks at the collections of a database whose time has come.
fn clear_due(server: &Server, number: usize, database: &Database) -> Outcome {
    let store = &*server.store();
    let (keys, slots) = {
        // Against FLUSHALL, which drops the keyspace.
        let _held = store.locks.keys(std::iter::empty());
        if !store.database(number).is_some_and(|open| std::ptr::eq(&*open, database)) {
            return Ok(());
        }
        database.due_keys(crate::now_ms())?
    };
    let mut batch = Batch::new();
    for key in &keys {
        if clear_key(server, number, key)? == Keeper::Open {
            batch.put(&database.due, Database::due_key(crate::now_ms(), key), b"")?;
        }
    }
    for slot in slots {
        batch.delete_prefix(&database.due, slot.to_be_bytes())?;
    }
    let _held = store.locks.keys(std::iter::empty());
    if !batch.is_empty() && store.database(number).is_some_and(|open| std::ptr::eq(&*open, database)) {
        store.db.write(&batch, &WriteOptions::default())?;
    }
    Ok(())
}

/// Clears what has expired of a key away, if it is this node's: of a key that is another's, that one knows
/// when it expires. Returns whose it is; where that is open, it is to be looked at again.
fn clear_key(server: &Server, number: usize, key: &[u8]) -> Outcome<Keeper> {
    let cluster = server.cluster.as_ref();
    // Not with the key locked: what arrives is written by those who hold this lock first.
    if cluster.is_some_and(|cluster| cluster.arrivals.lock().has(slot(key))) {
        return Ok(Keeper::Open);
    }
    let store = &*server.store();
    let _held = store.locks.keys(std::iter::once((number, key, true)));
    let keeper = cluster.map_or(Keeper::Me, |cluster| cluster.keeper(key));
    if keeper == Keeper::Me {
        let mut unit = Unit::new(store, server.config.pack_limits());
        let state = unit.key(number, key)?;
        // Reading it has removed the fields that are gone; where it is gone itself, so are its items.
        state.clear_expired();
        unit.commit()?;
    }
    Ok(keeper)
}

/// Makes checkpoints when BGSAVE asks for them.
async fn save(server: Arc<Server>) {
    loop {
        server.wants_save.notified().await;
        let worker = Arc::clone(&server);
        match spawn_blocking(move || worker.checkpoint()).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => complain("checkpoint", &failure),
            Err(error) => complain("checkpoint", &error),
        }
        server.is_saving.store(false, Ordering::SeqCst);
    }
}

/// Keeps the rates of the last second.
async fn measure(server: Arc<Server>) {
    let read = || {
        let counters = &server.counters;
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        [load(&counters.commands), load(&counters.bytes_in), load(&counters.bytes_out)]
    };
    let mut before = read();
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        let now = read();
        let [commands, bytes_in, bytes_out] = std::array::from_fn(|at| {
            now.get(at).copied().unwrap_or(0).saturating_sub(before.get(at).copied().unwrap_or(0))
        });
        *server.rates.lock() = Rates { commands, bytes_in, bytes_out };
        before = now;
    }
}
