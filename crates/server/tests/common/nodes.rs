//! Nodes of a cluster, and a client that finds its way among them.

use super::{Client, Reply, Running};
use siltstone_server::cluster::slot;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::process::Child;
use std::time::{Duration, Instant};

pub const PATIENCE: Duration = Duration::from_secs(180);
pub const SETTINGS: [(&str, &str); 2] = [("cluster-enabled", "yes"), ("cluster-node-timeout", "3000")];

pub fn text(reply: Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
        other => other.to_string(),
    }
}

pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "never {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn id(address: SocketAddr) -> String {
    text(Client::connect(address).ask(&["CLUSTER", "MYID"]))
}

pub fn has(address: SocketAddr, words: &[&str], wanted: &str) -> bool {
    text(Client::connect(address).ask(words)).contains(wanted)
}

/// Starts so many nodes in this process, which don't know each other yet.
pub fn start(count: usize) -> (Vec<tempfile::TempDir>, Vec<Running>, Vec<SocketAddr>) {
    let dirs: Vec<_> = (0..count).map(|_| tempfile::tempdir().unwrap()).collect();
    let nodes: Vec<Running> = dirs.iter().map(|dir| Running::start(dir.path(), &SETTINGS)).collect();
    let addresses = nodes.iter().map(|node| node.address).collect();
    (dirs, nodes, addresses)
}

/// A cluster of two, each with half of the slots.
pub fn start_two() -> (Vec<tempfile::TempDir>, Vec<Running>, Vec<SocketAddr>) {
    let (dirs, nodes, addresses) = start(2);
    join(&addresses, 2);
    (dirs, nodes, addresses)
}

/// A key of a slot.
pub fn key_of_slot(wanted: u16) -> String {
    (0..).map(|n: u32| n.to_string()).find(|key| slot(key.as_bytes()) == wanted).unwrap()
}

/// Makes a cluster of the nodes, with slots in equal parts for the first `primaries`.
pub fn join(nodes: &[SocketAddr], primaries: usize) {
    for (at, address) in nodes.iter().enumerate() {
        let mut client = Client::connect(*address);
        if at < primaries {
            let (first, last) = (16_384 * at / primaries, 16_384 * (at + 1) / primaries - 1);
            let range = [first.to_string(), last.to_string()];
            assert_eq!(text(client.ask(&["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]])), "+OK");
            assert_eq!(text(client.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()])), "+OK");
        }
    }
    let port = nodes[0].port().to_string();
    for address in &nodes[1..] {
        let answer = Client::connect(*address).ask(&["CLUSTER", "MEET", "127.0.0.1", &port]);
        assert_eq!(text(answer), "+OK");
    }
    let all = format!("cluster_known_nodes:{}\r\n", nodes.len());
    for address in nodes {
        until("met", || has(*address, &["CLUSTER", "INFO"], &all));
        until("up", || has(*address, &["CLUSTER", "INFO"], "cluster_state:ok"));
    }
}

/// A client that follows MOVED and ASK, and waits while a slot is nobody's.
pub struct Follower {
    pub known: Vec<SocketAddr>,
    open: HashMap<SocketAddr, Client>,
    pub owners: HashMap<u16, SocketAddr>,
}

impl Follower {
    pub fn new(known: &[SocketAddr]) -> Self {
        Self { known: known.to_vec(), open: HashMap::new(), owners: HashMap::new() }
    }

    pub fn try_once(&mut self, address: SocketAddr, asks: bool, words: &[&str]) -> Option<Reply> {
        let client = match self.open.entry(address) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => {
                let stream = std::net::TcpStream::connect(address).ok()?;
                stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
                place.insert(Client { stream: std::io::BufReader::new(stream) })
            }
        };
        let mut once = || {
            if asks {
                std::io::Write::write_all(client.stream.get_mut(), &super::encode(&[b"ASKING"])).ok()?;
                client.try_reply().ok()?;
            }
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            std::io::Write::write_all(client.stream.get_mut(), &super::encode(&words)).ok()?;
            client.try_reply().ok()
        };
        let reply = once();
        if reply.is_none() {
            self.open.remove(&address);
        }
        reply
    }

    pub fn ask(&mut self, key: &str, words: &[&str]) -> Reply {
        let began = Instant::now();
        let slot = slot(key.as_bytes());
        let (mut next, mut asks) = (self.owners.get(&slot).copied(), false);
        for turn in 0.. {
            assert!(began.elapsed() < PATIENCE, "{words:?} found nobody");
            let address = next.unwrap_or(self.known[turn % self.known.len()]);
            let reply = self.try_once(address, asks, words);
            (next, asks) = (None, false);
            match reply {
                Some(Reply::Error(error)) => {
                    let words: Vec<&str> = error.split(' ').collect();
                    match words.as_slice() {
                        ["MOVED", _, to] => {
                            next = to.parse().ok();
                            self.owners.extend(next.map(|next| (slot, next)));
                        }
                        ["ASK", _, to] => (next, asks) = (to.parse().ok(), true),
                        ["TRYAGAIN" | "CLUSTERDOWN" | "READONLY" | "LOADING", ..] => {
                            std::thread::sleep(Duration::from_millis(20));
                        }
                        _ => panic!("{error}"),
                    }
                }
                Some(reply) => return reply,
                None => {
                    self.owners.remove(&slot);
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
        unreachable!("the loop ends by returning")
    }
}

/// A node in a process of its own; it is killed when it is dropped.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

pub fn spawn(dir: &std::path::Path) -> (Process, SocketAddr) {
    let (child, address) = super::spawn(dir, &["--cluster-enabled", "yes", "--cluster-node-timeout", "3000"]);
    (Process(child), address)
}
