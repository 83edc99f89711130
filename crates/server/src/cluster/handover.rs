//! The side of a hand-over that gives slots: all of a range's keys to another node, in bulk and under load.
//!
//! Keys lie by slot, so the keys of a range are one scan. A page of it is read and sent, and before the next
//! one what clients have changed of the part that is sent already, from the log. When all pages are there and
//! little is new, writes wait for as long as the rest takes; the other node says that it has everything on
//! its device and its replicas and that the slots are its own, and from then on clients are sent there
//! (MOVED). Until then this node is the owner and answers for all of it, so no client is ever told ASK. The
//! items are deleted here afterwards.
//!
//! Where that last answer does not come, nobody knows whether the other node has the slots. Nobody answers
//! for them then until it is found out, so that no write is lost in either place.
//!
//! Differences from Redis: keys don't go one by one, and large collections go in parts; it resembles the slot
//! migration of Apache Kvrocks and of Redis 8.4. Invariant: at every moment at most one node takes writes to
//! a slot.

use super::wire::Wire;
use super::{Cluster, NodeId, sweep, write_ranges};
use crate::failure::{Failure, Outcome};
use crate::keyspace::{Database, Layout, Store};
use crate::server::Server;
use siltstone::{Change, Tail};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of changes that are sent in one message.
const MESSAGE_BYTES: usize = 256 << 10;
/// Bytes of the log that may be left when writes are made to wait.
const LITTLE_BYTES: u64 = 64 << 10;
/// How long the other node may take for an answer, and for its last one.
const PATIENCE: Duration = Duration::from_secs(30);
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// How far a hand-over is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is under way.
    Running,
    /// The slots are the other node's.
    Done,
    /// They are still this node's.
    Failed,
}

/// Slots that go to another node, or went there.
#[derive(Clone, Debug)]
pub struct Departure {
    /// Which.
    pub slots: BTreeSet<u16>,
    /// Where to.
    pub to: NodeId,
    /// How far it is.
    pub state: State,
    /// Items sent, those that were changed included.
    pub items: u64,
    /// Milliseconds for which writes waited.
    pub paused_ms: u64,
    /// Why it failed.
    pub reason: String,
    /// Whether a thread has taken it up.
    has_begun: bool,
}

impl Cluster {
    /// Begins to hand slots over; what becomes of it is in [`Cluster::departure`].
    ///
    /// # Errors
    /// Where the slots are not this node's, or it can't give them to that node.
    pub fn depart(&self, slots: BTreeSet<u16>, to: &str) -> Outcome {
        let to = self.read(|topology| {
            let found = topology.nodes.get_key_value(to);
            let (id, node) = found.ok_or(Failure::coded("ERR Can't find the destination node id"))?;
            if *id == topology.me {
                return Err(Failure::coded("ERR Can't migrate slot to myself"));
            }
            if node.primary.is_some() {
                return Err(Failure::coded("ERR Can't migrate slot to a slave"));
            }
            if topology.my_primary().is_some() {
                return Err(Failure::coded("ERR Slave can't migrate slot"));
            }
            if !slots.iter().all(|slot| topology.owner(*slot) == Some(&topology.me)) {
                return Err(Failure::coded("ERR Can't migrate slot which doesn't belong to me"));
            }
            if slots.iter().any(|slot| topology.migrating.contains_key(slot)) {
                return Err(Failure::coded("ERR A slot is being moved key by key already"));
            }
            Ok(NodeId::clone(id))
        })?;
        if self.arrivals.lock().has_from(&to) {
            return Err(Failure::coded("ERR That node hands slots over to this one just now"));
        }
        let mut departure = self.departure.lock();
        if departure.as_ref().is_some_and(|departure| departure.state == State::Running) {
            return Err(Failure::coded("ERR There is already a migrating job"));
        }
        let (state, reason) = (State::Running, String::new());
        let (items, paused_ms, has_begun) = (0, 0, false);
        *departure = Some(Departure { slots, to, state, items, paused_ms, reason, has_begun });
        self.wants_departure.notify_one();
        Ok(())
    }

    /// Whether this node is handing slots over just now, in a way of which `is` holds.
    pub fn hands_over(&self, is: impl FnOnce(&Departure) -> bool) -> bool {
        self.departure
            .lock()
            .as_ref()
            .is_some_and(|departure| departure.state == State::Running && is(departure))
    }

    fn note(&self, note: impl FnOnce(&mut Departure)) {
        if let Some(departure) = self.departure.lock().as_mut() {
            note(departure);
        }
    }
}

/// Gives each hand-over that is asked for a thread; first those of which it was open how they ended when the
/// server did.
pub async fn supervise(server: Arc<Server>, cluster: Arc<Cluster>) {
    for (to, slots) in cluster.read(|topology| super::by_node(topology.doubtful.iter())) {
        let (worker, known) = (Arc::clone(&server), Arc::clone(&cluster));
        let spawned = std::thread::Builder::new().name("hand-over".into()).spawn(move || {
            let (count, token) = (slots.len(), crate::replication::random_id());
            let settled = resolve(&worker, &known, &token, &slots, &to);
            match settled.and_then(|()| sweep::clear(&worker, &known, &slots)) {
                Ok(_) => crate::say(format_args!("{count} slots have gone to {to}")),
                Err(failure) => crate::say(format_args!("handing {count} slots over to {to}: {failure}")),
            }
        });
        if let Err(error) = spawned {
            crate::say(format_args!("finding out whose slots are: {error}"));
        }
    }
    loop {
        cluster.wants_departure.notified().await;
        let (worker, known) = (Arc::clone(&server), Arc::clone(&cluster));
        let thread = std::thread::Builder::new().name("hand-over".into());
        if let Err(error) = thread.spawn(move || carry_out(&worker, &known)) {
            cluster
                .note(|departure| (departure.state, departure.reason) = (State::Failed, error.to_string()));
        }
    }
}

/// Carries out the hand-over that is asked for.
fn carry_out(server: &Server, cluster: &Cluster) {
    let begun = cluster.departure.lock().as_mut().filter(|departure| !departure.has_begun).map(|departure| {
        departure.has_begun = true;
        (departure.slots.clone(), NodeId::clone(&departure.to))
    });
    let Some((slots, to)) = begun else { return };
    let result = give(server, cluster, &slots, &to);
    let swept = if result.is_ok() { sweep::clear(server, cluster, &slots).map(drop) } else { Ok(()) };
    match result.and(swept) {
        Ok(()) => {
            crate::say(format_args!("handed {} slots over to {to}", slots.len()));
            cluster.note(|departure| departure.state = State::Done);
        }
        Err(failure) => {
            crate::say(format_args!("handing {} slots over to {to}: {failure}", slots.len()));
            let is_theirs =
                cluster.read(|topology| slots.iter().all(|slot| topology.owner(*slot) == Some(&to)));
            let state = if is_theirs { State::Done } else { State::Failed };
            cluster.note(|departure| (departure.state, departure.reason) = (state, failure.to_string()));
        }
    }
}

/// What is on its way.
struct Giving<'a> {
    store: &'a Store,
    database: Arc<Database>,
    slots: &'a BTreeSet<u16>,
    token: String,
    wire: Wire,
    tail: Tail,
    /// Up to where items have been sent; none before the first page.
    reached: Option<u64>,
    /// Kind, key and value, one after the other, of what is to be sent.
    waiting: Vec<Vec<u8>>,
    waiting_bytes: usize,
    items: u64,
}

fn give(server: &Server, cluster: &Cluster, slots: &BTreeSet<u16>, to: &NodeId) -> Outcome {
    let place = cluster.read(|topology| {
        let node = topology.nodes.get(to)?;
        Some((node.host.clone(), node.port, topology.me.to_string()))
    });
    let (host, port, me) = place.ok_or(Failure::coded("ERR Can't find the destination node id"))?;
    let mut wire = Wire::connect(server, &host, port, PATIENCE)?;
    let token = crate::replication::random_id();
    let ranges = write_ranges(slots.iter().copied(), ",");
    let begin: [&[u8]; 6] =
        [b"CLUSTER", b"HANDOVER", b"BEGIN", token.as_bytes(), me.as_bytes(), ranges.as_bytes()];
    wire.ask(&begin)?;
    let store = &*server.store();
    let database = store.by_slot()?;
    let tail = store.db.tail(store.db.log_position())?.unsynced();
    let (waiting, waiting_bytes, reached, items) = (Vec::new(), 0, None, 0);
    let mut giving =
        Giving { store, database, slots, token, wire, tail, reached, waiting, waiting_bytes, items };
    if let Err(failure) = giving.send_pages(cluster).and_then(|()| giving.catch_up(cluster)) {
        return giving.give_up(server, cluster, to, failure);
    }
    let began = Instant::now();
    let asked = {
        // Nothing is written from here on until clients are sent to the other node.
        let _held = store.locks.all();
        let asked = giving.finish(cluster).and_then(|()| {
            // From here on nobody knows whose they are, should this be the last that is heard of it.
            let to = || slots.iter().map(|slot| (*slot, NodeId::clone(to)));
            cluster.change(|topology| topology.asked.extend(to()))
        });
        if asked.is_ok() {
            let handed = giving.take(cluster).and_then(|epoch| {
                cluster.change(|topology| topology.hand_over(slots.iter().copied(), to, epoch))
            });
            if handed.is_err() {
                // The file says so already: this writes nothing, and does not fail.
                cluster.change(|topology| {
                    let asked = std::mem::take(&mut topology.asked);
                    topology.doubtful.extend(asked);
                })?;
            }
        }
        asked
    };
    let paused_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    cluster.note(|departure| departure.paused_ms = paused_ms);
    match asked {
        Ok(()) => resolve(server, cluster, &giving.token, slots, to),
        Err(failure) => giving.give_up(server, cluster, to, failure),
    }
}

/// Asks a node that may have taken slots whether it has, and sees to it that it does not take them any more:
/// its epoch where it has.
fn cancel(
    server: &Server,
    cluster: &Cluster,
    token: &str,
    slots: &BTreeSet<u16>,
    to: &NodeId,
) -> Outcome<Option<u64>> {
    let place = cluster.read(|topology| topology.nodes.get(to).map(|node| (node.host.clone(), node.port)));
    let (host, port) = place.ok_or(Failure::coded("ERR the node was forgotten"))?;
    let mut wire = Wire::connect(server, &host, port, LAST_PATIENCE)?;
    let ranges = write_ranges(slots.iter().copied(), ",");
    let answer = wire.ask(&[b"CLUSTER", b"HANDOVER", b"CANCEL", token.as_bytes(), ranges.as_bytes()])?;
    match answer.split_once(' ') {
        Some(("TAKEN", epoch)) => epoch.parse().map(Some).map_err(Failure::new),
        None if answer == "CANCELLED" => Ok(None),
        _ => Err(Failure::new("the node answered what makes no sense")),
    }
}

/// Finds out whose slots are that the other node may have taken; fails where they are this node's.
fn resolve(server: &Server, cluster: &Cluster, token: &str, slots: &BTreeSet<u16>, to: &NodeId) -> Outcome {
    let is_doubtful = || {
        cluster.change(|topology| {
            // Of slots that somebody else claims by now nobody asks.
            let mine: BTreeSet<u16> = topology.slots_of(&topology.me).collect();
            topology.doubtful.retain(|slot, _| mine.contains(slot));
            slots.iter().any(|slot| topology.doubtful.contains_key(slot))
        })
    };
    // Where the file of nodes can't be written nothing is settled yet.
    while is_doubtful().unwrap_or(true) && !server.is_stopping() {
        let answer = cancel(server, cluster, token, slots, to);
        let settled = answer.and_then(|taken| match taken {
            Some(epoch) => {
                cluster.change(|topology| topology.hand_over(slots.iter().copied(), to, epoch))?;
                Ok(true)
            }
            None => {
                cluster.change(|topology| topology.doubtful.retain(|slot, _| !slots.contains(slot)))?;
                Ok(false)
            }
        });
        match settled {
            Ok(true) => {}
            Ok(false) => return Err(Failure::new("the other node has not taken the slots")),
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
    Ok(())
}

impl Giving<'_> {
    /// Sends all items, page by page.
    fn send_pages(&mut self, cluster: &Cluster) -> Outcome {
        for (first, last) in super::ranges(self.slots.iter().copied()) {
            let mut after: Option<Vec<u8>> = None;
            loop {
                self.send_changes()?;
                let page = self.store.page_of_slots(first..=last, after.as_deref())?;
                for (key, value) in &page.items {
                    self.push(b"put", key, value)?;
                }
                self.flush()?;
                if let Some((key, _)) = page.items.last() {
                    self.reached = Some(self.database.items.position(key)?);
                    after = Some(key.clone());
                }
                cluster.note(|departure| departure.items = self.items);
                if page.is_last {
                    break;
                }
            }
            // Behind it nothing of this range is to come.
            self.reached = Some(last.checked_add(1).map_or(u64::MAX, |next| Layout::place_of_slot(next) - 1));
        }
        self.reached = Some(u64::MAX);
        Ok(())
    }

    /// Sends what changes until that is little, or hardly less than a round ago: a round takes as long as the
    /// other node's device, and what clients write meanwhile may be more than a little on a slow one.
    fn catch_up(&mut self, cluster: &Cluster) -> Outcome {
        let mut before = u64::MAX;
        loop {
            self.send_changes()?;
            self.command(b"SETTLE")?;
            cluster.note(|departure| departure.items = self.items);
            let left = self.store.db.log_position().saturating_sub(self.tail.position());
            if left < LITTLE_BYTES || left > before / 2 {
                return Ok(());
            }
            before = left;
        }
    }

    /// Lets the other node forget what has arrived: it may be handed over again at once.
    fn give_up(&self, server: &Server, cluster: &Cluster, to: &NodeId, failure: Failure) -> Outcome {
        // If it does not hear this, it forgets the slots by itself, later.
        let _ = cancel(server, cluster, &self.token, self.slots, to);
        Err(failure)
    }

    /// Sends the last changes. Nobody writes meanwhile.
    fn finish(&mut self, cluster: &Cluster) -> Outcome {
        self.wire.set_patience(LAST_PATIENCE)?;
        while self.tail.position() < self.store.db.log_position() {
            let before = self.tail.position();
            self.send_changes()?;
            if self.tail.position() == before {
                return Err(Failure::new("the last writes failed, and the log can't be read to its end"));
            }
        }
        let is_mine = cluster
            .read(|topology| self.slots.iter().all(|slot| topology.owner(*slot) == Some(&topology.me)));
        if !is_mine {
            return Err(Failure::new("the slots are another node's by now"));
        }
        self.command(b"SETTLE")
    }

    /// Lets the other node take the slots; its epoch then. Any failure leaves open whether it has.
    fn take(&mut self, cluster: &Cluster) -> Outcome<u64> {
        let epoch = cluster.read(|topology| topology.epoch).to_string();
        let take: [&[u8]; 5] = [b"CLUSTER", b"HANDOVER", b"TAKE", self.token.as_bytes(), epoch.as_bytes()];
        let answer = self.wire.ask(&take)?;
        let epoch = answer.strip_prefix("OK ").and_then(|epoch| epoch.parse().ok());
        epoch.ok_or_else(|| Failure::new("the node answered what makes no sense"))
    }

    fn command(&mut self, name: &[u8]) -> Outcome {
        let words: [&[u8]; 4] = [b"CLUSTER", b"HANDOVER", name, self.token.as_bytes()];
        self.wire.ask(&words)?;
        Ok(())
    }

    /// Sends what clients have changed until now of what is sent already.
    fn send_changes(&mut self) -> Outcome {
        let until = self.store.db.log_position();
        while self.tail.position() < until {
            let Some(batch) = self.tail.next_batch(Duration::ZERO)? else { break };
            for operation in &batch.operations {
                if &*operation.keyspace == Store::DIRECTORY {
                    return Err(Failure::new("the database was emptied meanwhile"));
                }
                if *operation.keyspace != *self.database.items.name() {
                    continue;
                }
                let key = operation.key.as_slice();
                let is_of_these = Layout::slot_of(key).is_some_and(|slot| self.slots.contains(&slot));
                let Some(reached) = self.reached.filter(|_| is_of_these) else { continue };
                if self.database.items.position(key)? > reached {
                    // A page that is to come brings it.
                    continue;
                }
                match &operation.change {
                    Change::Put { value, .. } => self.push(b"put", key, value)?,
                    Change::Delete => self.push(b"delete", key, b"")?,
                    Change::DeletePrefix => self.push(b"delete-prefix", key, b"")?,
                    _ => return Err(Failure::new("the database was replaced meanwhile")),
                }
            }
        }
        self.flush()
    }

    fn push(&mut self, kind: &[u8], key: &[u8], value: &[u8]) -> Outcome {
        self.waiting_bytes += key.len() + value.len();
        self.items += 1;
        self.waiting.extend([kind.to_vec(), key.to_vec(), value.to_vec()]);
        if self.waiting_bytes >= MESSAGE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Outcome {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        let mut words: Vec<&[u8]> = vec![b"CLUSTER", b"HANDOVER", b"ITEMS", self.token.as_bytes()];
        words.extend(waiting.iter().map(Vec::as_slice));
        self.wire.send(&words)?;
        Ok(())
    }
}
