//! Replication: a server that follows another one.
//!
//! A replica begins with a checkpoint of the primary's store and goes on with the tail of its log. Both come
//! over one connection of Redis' protocol:
//!
//! ```text
//! replica                                    primary
//! REPLCONF listening-port P capa siltstone   +OK
//! PSYNC <log id> <position>                  +CONTINUE <log id>
//!                                            or +FULLRESYNC <log id> <position>, and then
//!                                               file <path> <bytes>        in pieces, in order
//!                                               opened                     that was the last
//!                                            changes <next position> <operation>*
//!                                            ping <position>
//! REPLCONF ACK <position>
//!
//! operation      <kind> <keyspace> <key> <value> <expires>
//! ```
//!
//! A position is one of the primary's log (`Db::log_position`); the log's id tells whose. A replica writes
//! its position in the batch that it belongs to, so that it is right after any crash. Only what a power cut
//! can't take back from the primary is handed on: a replica never has what its primary has lost.
//!
//! `primary.rs` hands on, `replica.rs` takes in; `keyspace/apply.rs` carries changes out.

mod primary;
mod replica;

pub use primary::{Follower, feed};
pub use replica::{Link, LinkState};

use crate::failure::{Failure, Outcome};
use crate::server::Server;
use parking_lot::{Condvar, Mutex};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// What a connection has said of the replica behind it.
#[derive(Clone, Debug, Default)]
pub struct Announced {
    /// The port at which the replica takes clients.
    pub port: u16,
    /// Whether it speaks what `mod.rs` describes.
    pub is_siltstone: bool,
}

/// Where a replica wants to go on.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The id of the log that its position is of; `?` where it has none.
    pub log_id: String,
    /// The position.
    pub position: u64,
}

/// The server's part in replication.
pub struct Replication {
    /// The id of this server's own log.
    log_id: Mutex<String>,
    /// The link to the primary, of a replica.
    link: Mutex<Option<Arc<Link>>>,
    /// Asks for a thread for a new link.
    changed: Notify,
    followers: Mutex<Vec<Arc<Follower>>>,
    acknowledged: Condvar,
    /// Full and continued synchronisations, and wishes to continue that could not be met.
    pub full_syncs: AtomicU64,
    /// Those that went on where the replica was.
    pub continued_syncs: AtomicU64,
    /// Those that could not.
    pub refused_syncs: AtomicU64,
}

/// A name of 40 hexadecimal digits.
pub fn random_id() -> String {
    (0..40).map(|_| char::from_digit(rand::random_range(0..16), 16).unwrap_or('0')).collect()
}

impl Replication {
    /// Opens the part of the server whose data is in `directory`.
    ///
    /// # Errors
    /// Where the log's id can't be read or written.
    pub fn open(directory: &Path) -> Outcome<Self> {
        let path = directory.join("replication-id");
        let log_id = match std::fs::read_to_string(&path) {
            Ok(text) if text.trim().len() == 40 => text.trim().to_owned(),
            _ => write_id(directory)?,
        };
        Ok(Self {
            log_id: Mutex::new(log_id),
            link: Mutex::default(),
            changed: Notify::new(),
            followers: Mutex::default(),
            acknowledged: Condvar::new(),
            full_syncs: AtomicU64::new(0),
            continued_syncs: AtomicU64::new(0),
            refused_syncs: AtomicU64::new(0),
        })
    }

    /// The id of this server's own log.
    pub fn log_id(&self) -> String {
        self.log_id.lock().clone()
    }

    /// Takes a new id, since the log is another one now.
    ///
    /// # Errors
    /// Where it can't be written.
    pub fn renew_log_id(&self, directory: &Path) -> Outcome {
        *self.log_id.lock() = write_id(directory)?;
        Ok(())
    }

    /// The link to the primary; none of a server that is no replica.
    pub fn link(&self) -> Option<Arc<Link>> {
        self.link.lock().clone()
    }

    /// Whether the server follows another one.
    pub fn is_replica(&self) -> bool {
        self.link.lock().is_some()
    }

    /// Follows the server at `host` and `port` from now on; returns whether that is something new.
    pub fn follow(&self, host: &str, port: u16) -> bool {
        let mut link = self.link.lock();
        if link.as_ref().is_some_and(|link| link.host == host && link.port == port) {
            return false;
        }
        let old = link.replace(Arc::new(Link::new(host, port)));
        drop(link);
        if let Some(old) = old {
            old.end();
        }
        self.changed.notify_one();
        true
    }

    /// Follows nobody from now on; returns whether it did.
    pub fn unfollow(&self) -> bool {
        let old = self.link.lock().take();
        old.map(|old| old.end()).is_some()
    }

    /// Those who follow this server.
    pub fn followers(&self) -> Vec<Arc<Follower>> {
        self.followers.lock().clone()
    }

    fn add(&self, follower: &Arc<Follower>) {
        self.followers.lock().push(Arc::clone(follower));
    }

    fn remove(&self, follower: &Arc<Follower>) {
        follower.end();
        self.followers.lock().retain(|other| !Arc::ptr_eq(other, follower));
        self.acknowledged.notify_all();
    }

    fn acknowledge(&self, follower: &Follower, position: u64) {
        let _followers = self.followers.lock();
        follower.acknowledge(position);
        self.acknowledged.notify_all();
    }

    /// How many followers have everything before `position`; waits until `count` do, or `timeout` is over.
    pub fn wait(&self, position: u64, count: usize, timeout: Option<Duration>, server: &Server) -> usize {
        // Not longer at once, so that a server that stops is not kept.
        const LOOK: Duration = Duration::from_millis(100);
        let began = Instant::now();
        let mut followers = self.followers.lock();
        loop {
            let have = followers.iter().filter(|follower| follower.acknowledged() >= position).count();
            let is_over = timeout.is_some_and(|timeout| began.elapsed() >= timeout);
            if have >= count || is_over || server.is_stopping() {
                return have;
            }
            let left = timeout.map_or(LOOK, |timeout| timeout.saturating_sub(began.elapsed()).min(LOOK));
            self.acknowledged.wait_for(&mut followers, left);
        }
    }

    /// Whether there are enough followers for writes, as `min-replicas-to-write` and `min-replicas-max-lag`
    /// say.
    pub fn has_enough_followers(&self, least: u64, lag_seconds: u64) -> bool {
        let is_good = |follower: &&Arc<Follower>| follower.silent_ms() <= lag_seconds.saturating_mul(1000);
        least == 0 || self.followers.lock().iter().filter(is_good).count() as u64 >= least
    }

    /// Ends every link.
    pub fn stop(&self) {
        if let Some(link) = self.link() {
            link.end();
        }
        self.followers().iter().for_each(|follower| follower.end());
    }
}

fn write_id(directory: &Path) -> Outcome<String> {
    let id = random_id();
    let path = directory.join("replication-id");
    std::fs::write(&path, &id).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    Ok(id)
}

/// Gives each new link a thread.
pub async fn supervise(server: Arc<Server>) {
    loop {
        if let Some(link) = server.replication.link().filter(|link| link.begin()) {
            let worker = Arc::clone(&server);
            let thread = std::thread::Builder::new().name("replica".into());
            if let Err(error) = thread.spawn(move || replica::run(&worker, &link)) {
                crate::say(format_args!("replication: {error}"));
            }
        }
        server.replication.changed.notified().await;
    }
}

/// Counts one more.
fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
