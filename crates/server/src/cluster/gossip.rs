//! Nodes telling each other what they know: each asks each other, a few times within the time after which one
//! counts as out of reach.
//!
//! What a node sends is its whole view, and what it gets back is the other's; so two nodes that have met
//! agree after one exchange, and all that any of them knows has gone round after two.

use super::failover;
use super::{Cluster, NodeId, settle_role};
use crate::failure::{Failure, Outcome};
use crate::now_ms;
use crate::resp::Output;
use crate::server::Server;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A connection to another node.
pub struct Peer {
    stream: BufReader<TcpStream>,
    local: String,
    remote: String,
}

impl Peer {
    /// Connects, and says who it is where the settings have a password.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn connect(server: &Server, host: &str, port: u16) -> Outcome<Self> {
        let stream = TcpStream::connect((host, port)).await.map_err(Failure::new)?;
        let local = stream.local_addr().map_err(Failure::new)?.ip().to_string();
        let remote = stream.peer_addr().map_err(Failure::new)?.ip().to_string();
        let mut peer = Self { stream: BufReader::new(stream), local, remote };
        let (user, password) = (server.config.text("masteruser"), server.config.text("masterauth"));
        if !password.is_empty() {
            let words: &[&str] =
                if user.is_empty() { &["AUTH", &password] } else { &["AUTH", &user, &password] };
            peer.ask(words).await?;
        }
        Ok(peer)
    }

    /// Sends a command, and returns its reply: a line, or what a bulk string holds.
    ///
    /// # Errors
    /// Those of the connection, and replies that are errors.
    pub async fn ask(&mut self, words: &[&str]) -> Outcome<String> {
        const LONGEST: usize = 16 << 20;
        let mut out = Output::new(false);
        out.request(words);
        self.stream.write_all(&out.take()).await.map_err(Failure::new)?;
        self.stream.flush().await.map_err(Failure::new)?;
        let mut line = String::new();
        if self.stream.read_line(&mut line).await.map_err(Failure::new)? == 0 {
            return Err(Failure::new("the node has ended the connection"));
        }
        let line = line.trim_end();
        if let Some(error) = line.strip_prefix('-') {
            return Err(Failure::new(error));
        }
        let Some(length) = line.strip_prefix('$') else {
            return Ok(line.get(1..).unwrap_or_default().to_owned());
        };
        let length = length.parse::<usize>().ok().filter(|length| *length <= LONGEST);
        let length = length.ok_or_else(|| Failure::new("the node answered what is no text"))?;
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes).await.map_err(Failure::new)?;
        bytes.truncate(length);
        String::from_utf8(bytes).map_err(Failure::new)
    }
}

/// Tells a node what this one knows, and takes in what it answers; its name.
pub(super) async fn exchange(server: &Server, cluster: &Cluster, peer: &mut Peer) -> Outcome<NodeId> {
    let port = server.port();
    let position = server.replication.link().map_or(0, |link| link.position());
    let announced = server.config.text("cluster-announce-ip");
    let local = if announced.is_empty() { &peer.local } else { &announced };
    let text = cluster.change(|topology| {
        let myself = topology.myself();
        (myself.host, myself.port, myself.position) = (local.clone(), port, position);
        topology.write()
    })?;
    let answer = peer.ask(&["CLUSTER", "GOSSIP", &text]).await?;
    let merged = cluster.change(|topology| topology.merge(&answer, &peer.remote, now_ms()))?;
    merged.ok_or_else(|| Failure::new("the node answered what makes no sense"))
}

/// Meets a node, of which only the place is known.
///
/// # Errors
/// Those of the connection.
pub async fn meet(server: &Server, cluster: &Cluster, host: &str, port: u16) -> Outcome<NodeId> {
    let mut peer = Peer::connect(server, host, port).await?;
    exchange(server, cluster, &mut peer).await
}

/// Tells all nodes but one at once what this one knows, as far as they answer.
pub(super) async fn tell_all(server: &Server, cluster: &Cluster, but: &str) {
    let patience = Duration::from_millis(cluster.timeout_ms().min(1_000));
    let others = cluster.read(|topology| {
        let others =
            topology.nodes.iter().filter(|(id, node)| **id != topology.me && ***id != *but && node.port > 0);
        others.map(|(_, node)| (node.host.clone(), node.port)).collect::<Vec<_>>()
    });
    at_once(others.iter().map(|(host, port)| timeout(patience, meet(server, cluster, host, *port)))).await;
}

/// Awaits all, and returns what they came to, in the order in which they ended. One after the other they
/// would take as long as all that don't answer together.
pub(super) async fn at_once<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = all.map(Box::pin).collect();
    let mut done = Vec::with_capacity(waiting.len());
    std::future::poll_fn(|context| {
        waiting.retain_mut(|future| match future.as_mut().poll(context) {
            Poll::Ready(output) => {
                done.push(output);
                false
            }
            Poll::Pending => true,
        });
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done
}

/// What follows from what was heard.
fn settle(server: &Server, cluster: &Cluster) -> Outcome {
    if cluster.read(|topology| topology.version.is_some()) {
        return settle_role(server, cluster);
    }
    cluster.change(|topology| {
        let now = now_ms();
        topology.judge(now, cluster.timeout_ms());
        topology.forgotten.retain(|_, until| *until > now);
        failover::step_aside(topology);
    })?;
    settle_role(server, cluster)
}

/// Exchanges views with one node, as often as `every` says, until the node is forgotten or the server stops.
async fn follow_node(server: Arc<Server>, cluster: Arc<Cluster>, id: NodeId, every: Duration) {
    let patience = Duration::from_millis(cluster.timeout_ms());
    let mut peer: Option<Peer> = None;
    while !server.is_stopping() {
        let place = cluster.read(|topology| {
            let node = topology.nodes.get(&id).filter(|_| topology.version.is_none())?;
            Some((node.host.clone(), node.port))
        });
        let Some((host, port)) = place else { return };
        let once = async {
            let mut open = match peer.take() {
                Some(open) => open,
                None => Peer::connect(&server, &host, port).await?,
            };
            exchange(&server, &cluster, &mut open).await?;
            Outcome::Ok(open)
        };
        if let Ok(Ok(open)) = timeout(patience, once).await {
            peer = Some(open);
        }
        tokio::time::sleep(every).await;
    }
}

/// Keeps a node in its cluster until the server stops.
pub async fn run(server: Arc<Server>, cluster: Arc<Cluster>) {
    let every = Duration::from_millis((cluster.timeout_ms() / 8).clamp(20, 1_000));
    let mut followed = BTreeMap::new();
    while !server.is_stopping() {
        let others = cluster.read(|topology| {
            // A controller tells the nodes what they are: they have nothing to tell one another.
            let others = topology.nodes.keys().filter(|id| **id != topology.me && topology.version.is_none());
            others.cloned().collect::<Vec<_>>()
        });
        for id in others {
            let is_running =
                followed.get(&id).is_some_and(|task: &tokio::task::JoinHandle<()>| !task.is_finished());
            if !is_running {
                let task = follow_node(Arc::clone(&server), Arc::clone(&cluster), Arc::clone(&id), every);
                followed.insert(id, tokio::spawn(task));
            }
        }
        if let Err(failure) = settle(&server, &cluster) {
            crate::say(format_args!("cluster: {failure}"));
        }
        if let Err(failure) = failover::replace_failed(&server, &cluster).await {
            crate::say(format_args!("failover: {failure}"));
        }
        tokio::time::sleep(every).await;
    }
}
