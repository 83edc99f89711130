//! A connection as commands see it, and as other connections do.

use super::Server;
use crate::command::User;
use crate::keyspace::Store;
use crate::replication::{Announced, Wanted};
use crate::resp::Request;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// Which replies a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMode {
    /// All.
    On,
    /// None.
    Off,
    /// Not that of the next command.
    SkipNext,
    /// Not that of this command.
    Skip,
}

/// Commands that wait for EXEC.
#[derive(Debug, Default)]
pub struct Transaction {
    /// The commands.
    pub queue: Vec<Request>,
    /// Whether one of them could not be queued.
    pub has_failed: bool,
}

/// A key that EXEC depends on.
#[derive(Debug)]
pub struct WatchedKey {
    /// Its database.
    pub database: usize,
    /// The key.
    pub key: Vec<u8>,
    /// When it expires; 0 = never, or it was not there.
    pub expires_at: u64,
}

/// What a client watches.
#[derive(Debug, Default)]
pub struct Watched {
    /// Raised when one of the keys changes.
    pub flag: Option<Arc<AtomicBool>>,
    /// The keys.
    pub keys: Vec<WatchedKey>,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Session {
    /// What other connections see of it.
    pub client: Arc<Client>,
    /// The database that it has selected.
    pub database: usize,
    /// Whether it speaks RESP3.
    pub resp3: bool,
    /// Who it is.
    pub user: Arc<User>,
    /// Whether it has said so, or need not.
    pub is_authenticated: bool,
    /// The transaction that it is in.
    pub transaction: Option<Transaction>,
    /// What it watches.
    pub watched: Watched,
    /// Which replies it wants.
    pub reply: ReplyMode,
    /// Whether the connection is to end once the replies are sent.
    pub closes: bool,
    /// Whether the next command may find a slot that arrives.
    pub is_asking: bool,
    /// Whether a replica may answer its reads.
    pub reads_replica: bool,
    /// What it has said of the replica behind it.
    pub announced: Announced,
    /// Where that replica wants to go on; from then on the connection feeds it.
    pub follows: Option<Wanted>,
}

impl Session {
    /// A new connection.
    pub fn new(server: &Server, client: Arc<Client>) -> Self {
        Self {
            client,
            database: 0,
            resp3: false,
            user: server.acl.default_user(),
            is_authenticated: server.acl.default_needs_no_password(),
            transaction: None,
            watched: Watched::default(),
            reply: ReplyMode::On,
            closes: false,
            is_asking: false,
            reads_replica: false,
            announced: Announced::default(),
            follows: None,
        }
    }

    /// Forgets what is watched.
    pub fn unwatch(&mut self, store: &Store) {
        let watched = std::mem::take(&mut self.watched);
        drop(watched.flag);
        if !watched.keys.is_empty() {
            store.watchers.forget(watched.keys.into_iter().map(|key| (key.database, key.key)));
        }
    }

    /// Makes the connection as new.
    pub fn reset(&mut self, server: &Server) {
        self.unwatch(&server.store());
        let client = Arc::clone(&self.client);
        client.text.lock().name.clear();
        *self = Self::new(server, client);
        self.client.text.lock().user = "default".into();
    }

    /// Shows other connections what has become of this one.
    pub fn publish(&self, request: &Request) {
        let client = &self.client;
        client.database.store(self.database, Ordering::Relaxed);
        client.resp.store(if self.resp3 { 3 } else { 2 }, Ordering::Relaxed);
        client.watched.store(self.watched.keys.len(), Ordering::Relaxed);
        let queued = self.transaction.as_ref().map_or(-1, |t| i64::try_from(t.queue.len()).unwrap_or(0));
        client.queued.store(queued, Ordering::Relaxed);
        client.last_active_ms.store(crate::now_ms(), Ordering::Relaxed);
        let mut text = client.text.lock();
        text.command.clear();
        text.command.push_str(&String::from_utf8_lossy(request.get(0)).to_lowercase());
        if matches!(text.command.as_str(), "client" | "config" | "acl" | "memory" | "object" | "command") {
            text.command.push('|');
            text.command.push_str(&String::from_utf8_lossy(request.get(1)).to_lowercase());
        }
    }
}

/// What is said of a client in words.
#[derive(Debug, Default)]
pub struct ClientText {
    /// The name that it has given itself.
    pub name: String,
    /// Its library.
    pub library: String,
    /// That library's version.
    pub library_version: String,
    /// Its user.
    pub user: String,
    /// The command that it sent last.
    pub command: String,
}

/// A connection as others see it.
#[derive(Debug)]
pub struct Client {
    /// Its number.
    pub id: u64,
    /// Where it comes from.
    pub address: String,
    /// Where it came to.
    pub local_address: String,
    created_at_ms: u64,
    /// What is said of it in words.
    pub text: Mutex<ClientText>,
    database: AtomicUsize,
    resp: AtomicUsize,
    /// Keys that it watches.
    pub watched: AtomicUsize,
    queued: AtomicI64,
    last_active_ms: AtomicU64,
    /// Bytes of its requests that have not been carried out.
    pub input_bytes: AtomicUsize,
    /// Bytes of replies that it has not read.
    pub output_bytes: AtomicUsize,
    is_killed: AtomicBool,
    is_replica: AtomicBool,
    /// Wakes the connection when it is to end.
    pub ends: Notify,
}

impl Client {
    /// Ends the connection.
    pub fn kill(&self) {
        self.is_killed.store(true, Ordering::SeqCst);
        self.ends.notify_one();
    }

    /// Whether the connection is to end.
    pub fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::SeqCst)
    }

    /// Notes that a replica is behind it.
    pub fn set_replica(&self) {
        self.is_replica.store(true, Ordering::SeqCst);
    }

    /// Whether a replica is behind it.
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Ordering::SeqCst)
    }

    /// Seconds since it connected.
    pub fn age_s(&self) -> u64 {
        crate::now_ms().saturating_sub(self.created_at_ms) / 1000
    }

    /// Milliseconds since its last command.
    pub fn idle_ms(&self) -> u64 {
        crate::now_ms().saturating_sub(self.last_active_ms.load(Ordering::Relaxed))
    }

    /// Its line in CLIENT LIST.
    pub fn describe(&self) -> String {
        let load = |number: &AtomicUsize| number.load(Ordering::Relaxed);
        let text = self.text.lock();
        let (queued, watched) = (self.queued.load(Ordering::Relaxed), load(&self.watched));
        let flags = match (self.is_replica(), queued >= 0) {
            (true, _) => "S",
            (false, true) => "x",
            (false, false) => "N",
        };
        let (input, output) = (load(&self.input_bytes), load(&self.output_bytes));
        format!(
            "id={} addr={} laddr={} fd=0 name={} age={} idle={} flags={flags} db={} sub=0 psub=0 ssub=0 multi={queued} \
             watch={watched} qbuf={input} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl={output} oll=0 omem=0 \
             tot-mem={} events=r cmd={} user={} redir=-1 resp={} lib-name={} lib-ver={}",
            self.id,
            self.address,
            self.local_address,
            text.name,
            self.age_s(),
            self.idle_ms() / 1000,
            load(&self.database),
            input + output,
            if text.command.is_empty() { "NULL" } else { &text.command },
            text.user,
            load(&self.resp).max(2),
            text.library,
            text.library_version,
        )
    }
}

/// All connections.
#[derive(Debug, Default)]
pub struct Clients {
    next: AtomicU64,
    all: Mutex<BTreeMap<u64, Arc<Client>>>,
}

impl Clients {
    /// Takes a connection in.
    pub fn add(&self, address: String, local_address: String) -> Arc<Client> {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let now = crate::now_ms();
        let text = Mutex::new(ClientText { user: "default".into(), ..ClientText::default() });
        let client = Arc::new(Client {
            id,
            address,
            local_address,
            created_at_ms: now,
            text,
            database: AtomicUsize::new(0),
            resp: AtomicUsize::new(2),
            watched: AtomicUsize::new(0),
            queued: AtomicI64::new(-1),
            last_active_ms: AtomicU64::new(now),
            input_bytes: AtomicUsize::new(0),
            output_bytes: AtomicUsize::new(0),
            is_killed: AtomicBool::new(false),
            is_replica: AtomicBool::new(false),
            ends: Notify::new(),
        });
        self.all.lock().insert(id, Arc::clone(&client));
        client
    }

    /// Forgets a connection that has ended.
    pub fn remove(&self, id: u64) {
        self.all.lock().remove(&id);
    }

    /// All connections, the oldest first.
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.all.lock().values().cloned().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the connections of a user.
    pub fn kill_user(&self, name: &str) {
        self.all().iter().filter(|client| client.text.lock().user == name).for_each(|client| client.kill());
    }
}
