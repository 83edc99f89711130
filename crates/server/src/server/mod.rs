//! The server: what connections share, and how they are served.
//!
//! `listen.rs` takes connections in, `connection.rs` serves one, `pipeline.rs` makes units of work of its
//! requests, `session.rs` is its state; `background.rs` does what is due by time, `metrics.rs` answers
//! Prometheus and browsers, `tls.rs` encrypts, `store_files.rs` has the directories of stores and
//! checkpoints.
//!
//! Connections live on the reactor's threads, which never wait for the store: a pipeline is handed to one of
//! a bounded number of blocking threads, whole, and its replies come back.

mod background;
mod connection;
mod listen;
mod metrics;
mod pipeline;
mod read_ahead;
mod session;
mod store_files;
#[cfg(feature = "tls")]
mod tls;

pub use listen::{Listening, start};
pub use session::{Client, Clients, ReplyMode, Session, Transaction, Watched, WatchedKey};
pub use store_files::{convert, open as open_store};

use crate::cluster::{self, Cluster};
use crate::command::{Acl, SlowLog, table};
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::keyspace::{Durability, Position, Store};
use crate::replication::{Replication, random_id};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::{Notify, watch};

/// Counters since the start, or since CONFIG RESETSTAT.
#[derive(Debug, Default)]
pub struct Counters {
    /// Commands carried out.
    pub commands: AtomicU64,
    /// Connections taken in.
    pub connections: AtomicU64,
    /// Connections refused.
    pub rejected: AtomicU64,
    /// Keys found.
    pub hits: AtomicU64,
    /// Keys not found.
    pub misses: AtomicU64,
    /// Keys that expired.
    pub expired: AtomicU64,
    /// Bytes received.
    pub bytes_in: AtomicU64,
    /// Bytes sent.
    pub bytes_out: AtomicU64,
    /// Errors sent.
    pub errors: AtomicU64,
    /// Clients ended for a request that was too long.
    pub oversized: AtomicU64,
    /// Clients ended for not reading their replies.
    pub unread: AtomicU64,
    /// Units of work.
    pub units: AtomicU64,
    /// Commands that shared a unit with others.
    pub joined: AtomicU64,
    /// Units of which memory held all, so that no other thread was asked.
    pub at_once: AtomicU64,
}

/// Counters of one command.
#[derive(Debug, Default)]
pub struct CommandStats {
    /// Times that it was carried out.
    pub calls: AtomicU64,
    /// Microseconds that this took.
    pub us: AtomicU64,
    /// Times that it was refused.
    pub rejected: AtomicU64,
    /// Times that it failed.
    pub failed: AtomicU64,
}

/// Rates of the last second.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    /// Commands.
    pub commands: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
}

/// Until when clients wait.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    until_ms: u64,
    only_writes: bool,
}

/// A server.
pub struct Server {
    /// Its data; a replica gets another store when it takes in its primary's.
    store: ArcSwap<Store>,
    /// Whom it follows, and who follows it.
    pub replication: Replication,
    /// Its part in a cluster, if it is in one.
    pub cluster: Option<Arc<Cluster>>,
    /// Its settings.
    pub config: Config,
    /// The file that they came from.
    pub config_file: Option<PathBuf>,
    /// Its users.
    pub acl: Acl,
    /// Its connections.
    pub clients: Clients,
    /// What it has done.
    pub counters: Counters,
    /// What each command has done, in the order of the table.
    pub commands: Vec<CommandStats>,
    /// How often each error was sent.
    pub errors: Mutex<BTreeMap<String, u64>>,
    /// Slow commands.
    pub slow_log: SlowLog,
    /// Rates of the last second.
    pub rates: Mutex<Rates>,
    /// When it began.
    pub started: Instant,
    /// A name for this run, of 40 hexadecimal digits.
    pub run_id: String,
    /// Whether expired keys are looked for.
    pub expires_actively: AtomicBool,
    /// Whether a checkpoint is being made.
    pub is_saving: AtomicBool,
    /// Whether the last one failed.
    pub save_failed: AtomicBool,
    /// When the last one was made.
    pub last_save_ms: AtomicU64,
    /// How many were made.
    pub saves: AtomicU64,
    /// Changes of which the last one knows.
    pub saved_changes: AtomicU64,
    /// Asks for one in the background.
    pub wants_save: Notify,
    /// The port that the system chose, where it was to choose one.
    bound_port: AtomicU16,
    pause: Mutex<Pause>,
    stops: watch::Sender<bool>,
}

impl Server {
    /// Opens the store that the settings name.
    ///
    /// # Errors
    /// Those of opening it; settings that make no sense together.
    pub fn open(config: Config, config_file: Option<PathBuf>) -> Outcome<Self> {
        let directory = PathBuf::from(config.text("dir"));
        std::fs::create_dir_all(&directory)
            .map_err(|error| Failure::new(format!("dir {}: {error}", directory.display())))?;
        let replication = Replication::open(&directory)?;
        let cluster = match config.is("cluster-enabled") {
            true => Some(Arc::new(Cluster::open(&directory, &config)?)),
            false => None,
        };
        store_files::settle(&directory)?;
        let store = store_files::open(&config)?;
        let acl = Acl::default();
        acl.require(&config.text("requirepass"));
        for words in &config.users {
            if let Some((name, rules)) = words.split_first() {
                let rules: Vec<&[u8]> = rules.iter().map(|rule| rule.as_bytes()).collect();
                acl.set_user(name, &rules).map_err(Failure::new)?;
            }
        }
        let server = Self {
            store: ArcSwap::from_pointee(store),
            replication,
            cluster,
            config,
            config_file,
            acl,
            clients: Clients::default(),
            counters: Counters::default(),
            commands: table().map(|_| CommandStats::default()).collect(),
            errors: Mutex::default(),
            slow_log: SlowLog::default(),
            rates: Mutex::default(),
            started: Instant::now(),
            run_id: random_id(),
            expires_actively: AtomicBool::new(true),
            is_saving: AtomicBool::new(false),
            save_failed: AtomicBool::new(false),
            last_save_ms: AtomicU64::new(crate::now_ms()),
            saves: AtomicU64::new(0),
            saved_changes: AtomicU64::new(0),
            wants_save: Notify::new(),
            bound_port: AtomicU16::new(0),
            pause: Mutex::default(),
            stops: watch::Sender::new(false),
        };
        server.settings_changed(&["appendfsync"]);
        if let Some(cluster) = &server.cluster {
            cluster::settle_role(&server, cluster)?;
        }
        let primary = server.config.text("replicaof");
        if !primary.is_empty() {
            let (host, port) = primary.split_once(' ').unwrap_or((&primary, ""));
            server.follow(
                host,
                port.trim().parse().map_err(|_| Failure::new("replicaof takes a host and a port"))?,
            )?;
        }
        Ok(server)
    }

    /// Its data.
    pub fn store(&self) -> Arc<Store> {
        self.store.load_full()
    }

    /// The port at which clients come in.
    pub fn port(&self) -> u16 {
        match self.bound_port.load(Ordering::Relaxed) {
            0 => u16::try_from(self.config.number("port")).unwrap_or(0),
            port => port,
        }
    }

    /// Follows another server from now on.
    ///
    /// # Errors
    /// Where that can't be noted in the settings.
    pub fn follow(&self, host: &str, port: u16) -> Outcome<bool> {
        self.config.set_at_start("replicaof", &format!("{host} {port}")).map_err(Failure::new)?;
        self.store().set_replica(true);
        Ok(self.replication.follow(host, port))
    }

    /// Follows nobody from now on, and takes writes.
    ///
    /// # Errors
    /// Where that can't be noted in the settings.
    pub fn unfollow(&self) -> Outcome {
        self.config.set_at_start("replicaof", "").map_err(Failure::new)?;
        if self.replication.unfollow() {
            self.store().set_replica(false);
        }
        Ok(())
    }

    /// Takes the store in `arrived` in the place of its own, as a replica at `position`.
    ///
    /// # Errors
    /// Those of closing and opening, and of the file system; the store is the old one then, if it can be.
    pub fn adopt(&self, arrived: &Path, position: &Position) -> Outcome {
        let (directory, old) = (self.directory(), self.store());
        {
            let _held = old.locks.all();
            old.watchers.all_changed();
            old.db.clone().close()?;
        }
        let moved = store_files::replace(&directory, arrived);
        let store = store_files::open(&self.config)?;
        store.set_replica(true);
        store.set_durability(old.durability());
        if moved.is_ok() {
            store.set_position(position)?;
            self.replication.renew_log_id(&directory)?;
        }
        self.store.store(Arc::new(store));
        moved
    }

    /// The directory of its data.
    pub fn directory(&self) -> PathBuf {
        PathBuf::from(self.config.text("dir"))
    }

    /// Carries out what follows from settings that were changed.
    pub fn settings_changed(&self, names: &[&'static str]) {
        for name in names {
            match *name {
                "appendfsync" => self.store().set_durability(match self.config.text(name).as_str() {
                    "always" => Durability::Always,
                    "no" => Durability::No,
                    _ => Durability::EverySecond,
                }),
                "requirepass" => self.acl.require(&self.config.text(name)),
                _ => {}
            }
        }
    }

    /// Makes a checkpoint of the store in the directory `checkpoint` beside it, in the place of the last one.
    ///
    /// # Errors
    /// Those of the checkpoint; the last one is still there then.
    pub fn checkpoint(&self) -> Outcome {
        let directory = self.directory();
        let store = self.store();
        let changes = store.changes.load(Ordering::Relaxed);
        let made = store_files::checkpoint(&store, &directory);
        self.save_failed.store(made.is_err(), Ordering::Relaxed);
        made?;
        self.saves.fetch_add(1, Ordering::Relaxed);
        self.saved_changes.store(changes, Ordering::Relaxed);
        self.last_save_ms.store(crate::now_ms(), Ordering::Relaxed);
        Ok(())
    }

    /// Forgets what was counted.
    pub fn reset_statistics(&self) {
        let Counters {
            commands,
            connections,
            rejected,
            hits,
            misses,
            expired,
            bytes_in,
            bytes_out,
            errors,
            oversized,
            unread,
            units,
            joined,
            at_once,
        } = &self.counters;
        let all = [
            commands,
            connections,
            rejected,
            hits,
            misses,
            expired,
            bytes_in,
            bytes_out,
            errors,
            oversized,
            unread,
            units,
            joined,
            at_once,
        ];
        all.into_iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        for CommandStats { calls, us, rejected, failed } in &self.commands {
            [calls, us, rejected, failed].into_iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        }
        self.errors.lock().clear();
    }

    /// Counts an error that is sent, by its code.
    pub fn count_error(&self, text: &str) {
        const MOST_CODES: usize = 128;
        self.counters.errors.fetch_add(1, Ordering::Relaxed);
        let code = text.split(' ').next().unwrap_or_default();
        let mut errors = self.errors.lock();
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else if errors.len() < MOST_CODES {
            errors.insert(code.to_owned(), 1);
        }
    }

    /// Lets clients wait for so long, or those that write.
    pub fn pause(&self, ms: u64, only_writes: bool) {
        let mut pause = self.pause.lock();
        let now = crate::now_ms();
        let until_ms = now.saturating_add(ms);
        // A pause of all is not made shorter, or a pause of some, by another.
        let is_paused = pause.until_ms > now;
        pause.only_writes = only_writes && (!is_paused || pause.only_writes);
        pause.until_ms = if is_paused { until_ms.max(pause.until_ms) } else { until_ms };
    }

    /// Lets clients go on.
    pub fn unpause(&self) {
        *self.pause.lock() = Pause::default();
    }

    /// Whether a client has to wait, one that writes or one that does not.
    pub fn is_paused(&self, writes: bool) -> bool {
        let pause = *self.pause.lock();
        pause.until_ms > crate::now_ms() && (writes || !pause.only_writes)
    }

    /// Begins to stop: no more connections are taken in, and open ones end when their replies are sent.
    pub fn stop(&self) {
        self.stops.send_replace(true);
        self.replication.stop();
    }

    /// Whether it has been told to stop.
    pub fn is_stopping(&self) -> bool {
        *self.stops.borrow()
    }

    /// Hears of [`Server::stop`].
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stops.subscribe()
    }
}
