//! A cluster: nodes that share the keys by slots, on Redis Cluster's protocol towards clients.
//!
//! | file | holds |
//! |---|---|
//! | `topology.rs` | what a node knows of the others, and how it takes in what they tell |
//! | `owners.rs` | whose each slot is |
//! | `gossip.rs` | nodes telling each other, once in a while |
//! | `failover.rs` | a replica in the place of its primary |
//! | `handover.rs` | slots that go to another node in bulk, `wire.rs` the connection to it |
//! | `arrival.rs` | slots that come |
//! | `controller.rs` | a cluster whose nodes a controller tells what they are |
//! | `sweep.rs` | keys that are left of slots which another node has |
//!
//! `command/cluster.rs` has the commands, `command/migrate.rs` moves keys. A node that is asked for a key of
//! another one names that one (MOVED, ASK); clients remember. Nodes talk to each other at the port at which
//! they take clients, by `CLUSTER GOSSIP` and `CLUSTER VOTE`. What a node knows is in `nodes.conf`.

mod arrival;
mod controller;
mod failover;
mod gossip;
mod handover;
mod owners;
mod sweep;
mod topology;
mod wire;

pub use arrival::{Arrivals, answer as take_in};
pub use controller::{set_nodes, set_slots};
pub use failover::{How, grant, start as fail_over};
pub use gossip::{meet, run};
pub use handover::{Departure, State as DepartureState, supervise as hand_over};
pub use sweep::run as sweep;
pub use topology::{Node, NodeId, Topology};

use crate::command::Spec;
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::now_ms;
use crate::resp::Request;
use crate::server::{Server, Session};
pub use crate::slots::{SLOT_BITS, SLOTS, ranges, read_range, slot, write_ranges};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// This node's part in a cluster.
pub struct Cluster {
    topology: ArcSwap<Topology>,
    file: PathBuf,
    /// What the file says; whoever changes the topology holds it.
    saved: Mutex<String>,
    needs_all_slots: bool,
    /// Whether the cluster takes commands: asked for with each of them.
    is_up: AtomicBool,
    timeout_ms: u64,
    /// Where a walk for the keys of a slot stopped.
    pub walks: Mutex<HashMap<u16, u64>>,
    /// Slots that are coming in bulk.
    pub arrivals: Arrivals,
    /// The slots that go in bulk, or went last.
    pub departure: Mutex<Option<Departure>>,
    /// Asks for a thread that hands them over.
    pub wants_departure: Notify,
}

/// What is to become of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// This node carries it out.
    Here,
    /// This node does, if it has the keys: their slot is moving from here to another node.
    Leaving(u16),
    /// This node does, if it has the keys: their slot is coming here.
    Arriving,
}

/// Who has a key, for work on it that no client has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// This node.
    Me,
    /// Another one.
    Another,
    /// That is open: its slot was handed over, and the new owner has not said that it has it.
    Open,
}

impl Cluster {
    /// Opens the node whose data is in `directory`.
    ///
    /// # Errors
    /// Where the file of nodes can't be read, or makes no sense.
    pub fn open(directory: &Path, config: &Config) -> Outcome<Self> {
        let file = directory.join("nodes.conf");
        let now = now_ms();
        let topology = match std::fs::read_to_string(&file) {
            Ok(text) => read_file(&text, now).ok_or_else(|| {
                let file = file.display();
                Failure::new(format!("{file} is damaged: remove it to begin as a node that knows nobody"))
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Topology::new(&crate::replication::random_id(), now)
            }
            Err(error) => return Err(Failure::new(format!("{}: {error}", file.display()))),
        };
        let cluster = Self {
            topology: ArcSwap::from_pointee(topology),
            file,
            saved: Mutex::default(),
            needs_all_slots: config.is("cluster-require-full-coverage"),
            is_up: AtomicBool::new(false),
            timeout_ms: config.number("cluster-node-timeout"),
            walks: Mutex::default(),
            arrivals: Arrivals::default(),
            departure: Mutex::default(),
            wants_departure: Notify::new(),
        };
        cluster.change(|_| ())?;
        Ok(cluster)
    }

    /// What this node knows, to be read.
    pub fn read<T>(&self, read: impl FnOnce(&Topology) -> T) -> T {
        read(&self.topology.load())
    }

    /// Changes what this node knows, and writes it down before anyone hears of it. Commands go on meanwhile
    /// by what it knew before.
    ///
    /// # Errors
    /// Where the file can't be written; then nothing changes.
    pub fn change<T>(&self, change: impl FnOnce(&mut Topology) -> T) -> Outcome<T> {
        // It may wait for the device, and other tasks need not.
        tokio::task::block_in_place(|| {
            let mut saved = self.saved.lock();
            let mut topology = Topology::clone(&self.topology.load());
            let result = change(&mut topology);
            self.save(&topology, &mut saved)?;
            let is_up = topology.is_up(self.needs_all_slots);
            self.topology.store(Arc::new(topology));
            self.is_up.store(is_up, Ordering::SeqCst);
            Ok(result)
        })
    }

    /// Writes the file where what lasts of it has changed.
    fn save(&self, topology: &Topology, saved: &mut String) -> Outcome {
        let version = topology.version.map_or(String::new(), |version| format!(" version {version}"));
        let mut text = format!("voted {}{version}\n", topology.voted);
        for (to, slots) in by_node(topology.doubtful.iter().chain(&topology.asked)) {
            text.push_str(&format!("doubtful {to} {}\n", write_ranges(slots.into_iter(), ",")));
        }
        text.push_str(&topology.write());
        // How far replicas have come is not worth a write.
        if lasting(&text) == lasting(saved) {
            return Ok(());
        }
        let new = self.file.with_extension("new");
        let written = std::fs::write(&new, &text)
            .and_then(|()| std::fs::File::open(&new)?.sync_all())
            .and_then(|()| std::fs::rename(&new, &self.file))
            .and_then(|()| self.file.parent().map_or(Ok(()), |dir| std::fs::File::open(dir)?.sync_all()));
        written.map_err(|error| Failure::new(format!("{}: {error}", self.file.display())))?;
        *saved = text;
        Ok(())
    }

    /// Milliseconds without a word from a node after which it counts as out of reach.
    pub fn timeout_ms(&self) -> u64 {
        self.timeout_ms
    }

    /// Whether the cluster takes commands, as far as this node sees.
    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::SeqCst)
    }

    /// Says where a request belongs.
    ///
    /// # Errors
    /// The reply that sends the client to another node, or says why no node can do it.
    pub fn route(&self, session: &Session, spec: &Spec, request: &Request) -> Outcome<Route> {
        match slot_of_all(std::iter::once((spec, request)))? {
            Some(slot) => self.route_slot(session, slot, spec.name, spec.writes()),
            None => Ok(Route::Here),
        }
    }

    /// Says where a transaction of these requests belongs, as a whole.
    ///
    /// # Errors
    /// As for [`Cluster::route`].
    pub fn route_all<'a>(
        &self,
        session: &Session,
        requests: impl Iterator<Item = (&'a Spec, &'a Request)> + Clone,
    ) -> Outcome<Route> {
        match slot_of_all(requests.clone())? {
            Some(slot) => {
                let writes = requests.into_iter().any(|(spec, _)| spec.writes());
                self.route_slot(session, slot, "exec", writes)
            }
            None => Ok(Route::Here),
        }
    }

    /// Says where the command `name` on keys of `slot` belongs.
    fn route_slot(&self, session: &Session, slot: u16, name: &str, writes: bool) -> Outcome<Route> {
        let topology = self.topology.load();
        let down = Failure::coded("CLUSTERDOWN Hash slot not served");
        let Some(owner) = topology.owner(slot) else { return Err(down) };
        if !self.is_up() {
            return Err(Failure::coded("CLUSTERDOWN The cluster is down"));
        }
        if topology.doubtful.contains_key(&slot) {
            return Err(Failure::coded(
                "TRYAGAIN The slot was handed over, and the new owner does not answer",
            ));
        }
        if *owner == topology.me {
            let leaves = topology.migrating.contains_key(&slot) && name != "migrate";
            return Ok(if leaves { Route::Leaving(slot) } else { Route::Here });
        }
        if topology.importing.contains_key(&slot) && (session.is_asking || name == "restore") {
            return Ok(Route::Arriving);
        }
        let reads_here = session.reads_replica && !writes && topology.my_primary() == Some(owner);
        if reads_here {
            return Ok(Route::Here);
        }
        match topology.nodes.get(owner) {
            Some(node) => Err(Failure::new_coded(format!("MOVED {slot} {}:{}", node.host, node.port))),
            None => Err(down),
        }
    }

    /// Who has `key`. It stays this node for as long as the caller has the key locked.
    pub fn keeper(&self, key: &[u8]) -> Keeper {
        let slot = slot(key);
        self.read(|topology| {
            let is_mine = topology.owner(slot) == Some(&topology.me);
            if topology.doubtful.contains_key(&slot) {
                Keeper::Open
            } else if is_mine || topology.importing.contains_key(&slot) {
                Keeper::Me
            } else {
                Keeper::Another
            }
        })
    }

    /// The reply that sends a client to where `slot` is moving.
    pub fn ask(&self, slot: u16) -> Failure {
        self.read(|topology| {
            let target = topology.migrating.get(&slot).and_then(|id| topology.nodes.get(id));
            match target {
                Some(node) => Failure::new_coded(format!("ASK {slot} {}:{}", node.host, node.port)),
                None => Failure::coded("TRYAGAIN Multiple keys request during rehashing of slot"),
            }
        })
    }
}

/// The slot of all keys that requests name, if they name any.
///
/// # Errors
/// Where they are in several.
fn slot_of_all<'a>(requests: impl Iterator<Item = (&'a Spec, &'a Request)>) -> Outcome<Option<u16>> {
    let mut wanted = None;
    for (spec, request) in requests {
        for place in spec.keys.places(request) {
            let slot = slot(request.get(place));
            if wanted.is_some_and(|other| other != slot) {
                return Err(Failure::coded("CROSSSLOT Keys in request don't hash to the same slot"));
            }
            wanted = Some(slot);
        }
    }
    Ok(wanted)
}

/// Slots by the node that each is about.
fn by_node<'a>(slots: impl Iterator<Item = (&'a u16, &'a NodeId)>) -> BTreeMap<NodeId, BTreeSet<u16>> {
    let mut by_node = BTreeMap::<NodeId, BTreeSet<u16>>::new();
    for (slot, node) in slots {
        by_node.entry(NodeId::clone(node)).or_default().insert(*slot);
    }
    by_node
}

/// Reads the file of nodes.
fn read_file(text: &str, now: u64) -> Option<Topology> {
    let (first, mut rest) = text.split_once('\n')?;
    let mut doubtful = BTreeMap::new();
    while let Some(line) = rest.strip_prefix("doubtful ") {
        let (line, others) = line.split_once('\n')?;
        let (to, slots) = line.split_once(' ')?;
        let slots = arrival::read_slots(slots).ok()?;
        doubtful.extend(slots.into_iter().map(|slot| (slot, NodeId::from(to))));
        rest = others;
    }
    let words: Vec<&str> = first.split(' ').collect();
    let (voted, version) = match words.as_slice() {
        ["voted", voted] => (voted, None),
        ["voted", voted, "version", version] => (voted, Some(version.parse().ok()?)),
        _ => return None,
    };
    let mut topology = topology::restore(rest, voted.parse().ok()?, now)?;
    (topology.version, topology.doubtful) = (version, doubtful);
    Some(topology)
}

/// What of the file has to last: all but how far replicas have come, and who suspects whom.
fn lasting(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let kept =
            line.split(' ').enumerate().filter(|(at, _)| !line.starts_with("node") || !matches!(at, 6 | 7));
        kept.map(|(_, word)| word).collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect()
}

/// Lets the server follow whom its cluster says, or nobody.
///
/// # Errors
/// Those of following.
pub fn settle_role(server: &Server, cluster: &Cluster) -> Outcome {
    let primary = cluster.read(|topology| {
        let primary = topology.my_primary()?;
        topology.nodes.get(primary).filter(|node| node.port > 0).map(|node| (node.host.clone(), node.port))
    });
    match primary {
        Some((host, port)) => drop(server.follow(&host, port)?),
        None if cluster.read(|topology| topology.my_primary().is_none()) => server.unfollow()?,
        None => {}
    }
    Ok(())
}

/// The cluster of a server that is in one.
///
/// # Errors
/// Where it is in none.
pub fn of(server: &Server) -> Outcome<&Arc<Cluster>> {
    server.cluster.as_ref().ok_or(Failure::coded("ERR This instance has cluster support disabled"))
}
