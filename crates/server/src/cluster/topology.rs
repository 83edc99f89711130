//! What a node knows of its cluster: nodes, whose slots are whose, who follows whom.
//!
//! Nodes tell each other all they know, as text, and each takes in what is newer. What is newer, epochs say:
//! a node's epoch grows whenever it takes slots, and of two that claim a slot the one of the higher epoch has
//! it. The epoch of the cluster is the highest that anyone has seen; votes are cast in it, once each. Source:
//! Redis Cluster's specification; the messages are ours.
//!
//! ```text
//! from <id> <epoch of the cluster>
//! node <id> <host> <port> <primary or -> <epoch> <position> <ok, suspect or fail> <slots or ->
//! ```
//!
//! Invariant: what was voted for, and the epochs, never go back, not even over a restart.

use super::owners::Owners;
use crate::slots::{SLOTS, read_range};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// A node's name: 40 hexadecimal digits.
pub type NodeId = Arc<str>;

/// What is known of one node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it takes clients.
    pub host: String,
    /// The port there; 0 where it is not known.
    pub port: u16,
    /// The node that it follows.
    pub primary: Option<NodeId>,
    /// Its epoch.
    pub epoch: u64,
    /// How far it has followed its primary.
    pub position: u64,
    /// When this node heard of it itself, in milliseconds since 1970.
    pub heard_ms: u64,
    /// Whether it ever did.
    pub is_met: bool,
    /// Whether most primaries could not reach it.
    pub has_failed: bool,
    /// Who can't reach it.
    pub suspected_by: BTreeSet<NodeId>,
}

impl Node {
    /// A node of which only the place is known.
    pub fn at(host: &str, port: u16, now: u64) -> Self {
        Self {
            host: host.to_owned(),
            port,
            primary: None,
            epoch: 0,
            position: 0,
            heard_ms: now,
            is_met: false,
            has_failed: false,
            suspected_by: BTreeSet::new(),
        }
    }
}

/// What a node knows.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Its own name.
    pub me: NodeId,
    /// The cluster's epoch.
    pub epoch: u64,
    /// The last epoch in which it has voted.
    pub voted: u64,
    /// All nodes, itself included.
    pub nodes: BTreeMap<NodeId, Node>,
    owners: Owners,
    /// Slots that are moving away, and where to.
    pub migrating: BTreeMap<u16, NodeId>,
    /// Slots that are coming, and where from.
    pub importing: BTreeMap<u16, NodeId>,
    /// Who took a slot last from whom.
    pub successors: BTreeMap<NodeId, NodeId>,
    /// Nodes that are not taken in again before a time.
    pub forgotten: BTreeMap<NodeId, u64>,
    /// Slots that were handed over and may or may not have been taken, and by whom.
    pub doubtful: BTreeMap<u16, NodeId>,
    /// Slots that a node is being asked to take. Should this one end before the answer comes, they are
    /// doubtful when it is back.
    pub asked: BTreeMap<u16, NodeId>,
    /// The version of what a controller has told; none where the nodes decide for themselves.
    pub version: Option<u64>,
}

impl Topology {
    /// A cluster of one node, which has no slots.
    pub fn new(me: &str, now: u64) -> Self {
        let me: NodeId = me.into();
        Self {
            nodes: BTreeMap::from([(Arc::clone(&me), Node::at("", 0, now))]),
            me,
            epoch: 0,
            voted: 0,
            owners: Owners::default(),
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
            successors: BTreeMap::new(),
            forgotten: BTreeMap::new(),
            doubtful: BTreeMap::new(),
            asked: BTreeMap::new(),
            version: None,
        }
    }

    /// Gives slots that have arrived to a node, and forgets that they were on their way. `epoch` is the other
    /// side's: that of who gives them to this node, or of who has them from this one by now. So what either
    /// said before is known to be older, whenever it comes.
    pub fn hand_over(&mut self, slots: impl Iterator<Item = u16>, to: &NodeId, epoch: u64) {
        for slot in slots {
            self.give(slot, Some(Arc::clone(to)));
            self.importing.remove(&slot);
            self.migrating.remove(&slot);
            self.doubtful.remove(&slot);
            self.asked.remove(&slot);
        }
        self.epoch = self.epoch.max(epoch);
        if *to != self.me {
            if let Some(node) = self.nodes.get_mut(to) {
                node.epoch = node.epoch.max(epoch);
            }
        } else if self.version.is_none() {
            self.raise_epoch();
        }
    }

    /// Gives this node another name.
    pub fn rename(&mut self, id: &str) {
        let (old, new) = (Arc::clone(&self.me), NodeId::from(id));
        let slots: Vec<u16> = self.slots_of(&old).collect();
        let known = self.nodes.remove(&old);
        if let Some(known) = known {
            self.nodes.entry(Arc::clone(&new)).or_insert(known);
        }
        slots.into_iter().for_each(|slot| self.give(slot, Some(Arc::clone(&new))));
        self.me = new;
    }

    /// Whose slot it is.
    pub fn owner(&self, slot: u16) -> Option<&NodeId> {
        self.owners.owner(slot)
    }

    /// Gives a slot to a node, or to nobody.
    pub fn give(&mut self, slot: u16, to: Option<NodeId>) {
        self.owners.give(slot, to);
    }

    /// The slots of a node, in order.
    pub fn slots_of<'a>(&'a self, id: &str) -> impl Iterator<Item = u16> + use<'a> {
        self.owners.slots_of(id)
    }

    /// Whether a node has any slot.
    pub fn has_slots(&self, id: &str) -> bool {
        self.owners.counts().any(|(owner, _)| **owner == *id)
    }

    /// How many slots somebody has.
    pub fn assigned(&self) -> usize {
        self.owners.counts().map(|(_, count)| count).sum()
    }

    /// What is known of this node itself.
    pub fn myself(&mut self) -> &mut Node {
        self.nodes.entry(Arc::clone(&self.me)).or_insert_with(|| Node::at("", 0, 0))
    }

    /// This node's own epoch.
    pub fn my_epoch(&self) -> u64 {
        self.nodes.get(&self.me).map_or(0, |node| node.epoch)
    }

    /// The node that this one follows.
    pub fn my_primary(&self) -> Option<&NodeId> {
        self.nodes.get(&self.me)?.primary.as_ref()
    }

    /// Nodes that have slots: those whose word counts.
    pub fn voters(&self) -> BTreeSet<NodeId> {
        self.owners.counts().map(|(owner, _)| Arc::clone(owner)).collect()
    }

    /// Makes this node's epoch higher than any.
    pub fn raise_epoch(&mut self) {
        self.epoch += 1;
        self.myself().epoch = self.epoch;
    }

    /// Whether so many voters are a majority.
    pub fn is_majority(&self, count: usize) -> bool {
        count > self.voters().len() / 2
    }

    /// What this node tells others.
    pub fn write(&self) -> String {
        let mut text = format!("from {} {}\n", self.me, self.epoch);
        let owned = self.owners.written();
        for (id, node) in &self.nodes {
            let primary = node.primary.as_deref().unwrap_or("-");
            let state = match (node.has_failed, node.suspected_by.contains(&self.me)) {
                (true, _) => "fail",
                (false, true) => "suspect",
                (false, false) => "ok",
            };
            let slots = owned.get(id).map_or("-", String::as_str);
            let Node { host, port, epoch, position, .. } = node;
            // Writing to a string can't fail.
            let _ = writeln!(text, "node {id} {host} {port} {primary} {epoch} {position} {state} {slots}");
        }
        text
    }

    /// Takes in what another node has told; its name. `host` is where it was reached, for a node that does
    /// not know its own address.
    pub fn merge(&mut self, text: &str, host: &str, now: u64) -> Option<NodeId> {
        let mut lines = text.lines();
        let (from, epoch) = match lines.next()?.split(' ').collect::<Vec<_>>().as_slice() {
            ["from", id, epoch] if id.len() == 40 => (NodeId::from(*id), epoch.parse::<u64>().ok()?),
            _ => return None,
        };
        let told: Vec<Told> = lines.map(Told::read).collect::<Option<_>>()?;
        self.epoch = self.epoch.max(epoch);
        let is_voter = self.has_slots(&from);
        let mut has_lost_epoch = false;
        for told in told {
            let is_self = told.id == from;
            has_lost_epoch |= told.id == self.me && told.epoch > self.my_epoch();
            if told.id == self.me || self.forgotten.get(&told.id).is_some_and(|until| *until > now) {
                continue;
            }
            let host = if told.host.is_empty() && is_self { host } else { &told.host };
            let known =
                self.nodes.entry(Arc::clone(&told.id)).or_insert_with(|| Node::at(host, told.port, now));
            // Each knows best what it is itself, if that was not said before what is known of it already; of
            // others, the newest counts.
            let is_late = is_self && told.epoch < known.epoch;
            if (is_self && !is_late) || told.epoch > known.epoch {
                known.epoch = known.epoch.max(told.epoch);
                known.primary = told.primary.clone();
                if !host.is_empty() {
                    (known.host, known.port) = (host.to_owned(), told.port);
                }
            }
            if is_self {
                (known.position, known.heard_ms, known.is_met) = (told.position, now, true);
                known.has_failed = false;
                known.suspected_by.clear();
            } else if told.is_suspect && is_voter {
                known.suspected_by.insert(Arc::clone(&from));
            } else {
                known.suspected_by.remove(&from);
            }
            // Of nodes that it hears itself, this one need not hear from others, who may be late.
            let is_met = known.is_met;
            if is_self && !is_late {
                self.drop_claims(&told);
            }
            if !is_late && (is_self || !is_met) {
                self.note_claims(&told);
            }
        }
        if has_lost_epoch {
            // It is believed again with a new one: for the slots that nobody else claims by now.
            self.raise_epoch();
        }
        self.tell_apart(&from);
        Some(from)
    }

    /// Of two that have slots and the same epoch one takes another.
    fn tell_apart(&mut self, from: &NodeId) {
        let epoch = self.nodes.get(from).map(|node| node.epoch);
        if epoch == Some(self.my_epoch())
            && self.me < *from
            && self.has_slots(from)
            && self.has_slots(&self.me.clone())
        {
            self.raise_epoch();
        }
    }

    /// Takes slots from a node that it no longer has.
    fn drop_claims(&mut self, told: &Told) {
        let is_claimed = |slot: &u16| told.slots.iter().any(|range| range.contains(slot));
        let gone: Vec<u16> = self.slots_of(&told.id).filter(|slot| !is_claimed(slot)).collect();
        gone.into_iter().for_each(|slot| self.give(slot, None));
    }

    /// Gives a node the slots that it has by its epoch.
    fn note_claims(&mut self, told: &Told) {
        for slot in told.slots.iter().cloned().flatten() {
            let Some(owner) = self.owner(slot) else {
                self.give(slot, Some(Arc::clone(&told.id)));
                continue;
            };
            let known = self.nodes.get(owner).map_or(0, |node| node.epoch);
            // What is coming here is not given away again by who has it still.
            if *owner != told.id && told.epoch > known && !self.importing.contains_key(&slot) {
                self.successors.insert(Arc::clone(owner), Arc::clone(&told.id));
                self.give(slot, Some(Arc::clone(&told.id)));
                self.migrating.remove(&slot);
            }
        }
    }

    /// Notes whom this node can't reach, and who has failed as most voters say; returns whether that is new.
    pub fn judge(&mut self, now: u64, timeout_ms: u64) -> bool {
        let (voters, me) = (self.voters(), Arc::clone(&self.me));
        let mut is_new = false;
        for (id, node) in &mut self.nodes {
            if *id == me {
                continue;
            }
            if now.saturating_sub(node.heard_ms) > timeout_ms {
                node.suspected_by.insert(Arc::clone(&me));
            } else {
                node.suspected_by.remove(&me);
            }
            let count = node.suspected_by.iter().filter(|by| voters.contains(*by)).count();
            if !node.has_failed && node.suspected_by.contains(&me) && count > voters.len() / 2 {
                node.has_failed = true;
                is_new = true;
            }
        }
        is_new
    }

    /// Whether the cluster takes commands: every slot is somebody's who has not failed, unless that is not
    /// asked for, and this node reaches a majority.
    pub fn is_up(&self, needs_all: bool) -> bool {
        if self.version.is_some() {
            return self.nodes.contains_key(&self.me);
        }
        let is_served = |id: &NodeId| self.nodes.get(id).is_some_and(|node| !node.has_failed);
        // After a restart others may have this node's slots by now: it hears from them first.
        let is_reached = |id: &&NodeId| {
            let is_heard = |node: &Node| node.is_met && !node.suspected_by.contains(&self.me);
            **id == self.me || self.nodes.get(*id).is_some_and(is_heard)
        };
        let voters = self.voters();
        let reached = voters.iter().filter(is_reached).count();
        let all_served = || self.assigned() == SLOTS && voters.iter().all(is_served);
        (!needs_all || all_served()) && reached > voters.len() / 2
    }
}

/// A line about a node.
struct Told {
    id: NodeId,
    host: String,
    port: u16,
    primary: Option<NodeId>,
    epoch: u64,
    position: u64,
    is_suspect: bool,
    slots: Vec<std::ops::RangeInclusive<u16>>,
}

impl Told {
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, id, host, port, primary, epoch, position, state, slots] = words.as_slice() else {
            return None;
        };
        if *kind != "node" || id.len() != 40 {
            return None;
        }
        let slots = match *slots {
            "-" => Vec::new(),
            slots => slots.split(',').map(read_range).collect::<Option<_>>()?,
        };
        Some(Self {
            id: (*id).into(),
            host: (*host).to_owned(),
            port: port.parse().ok()?,
            primary: Some(*primary).filter(|primary| *primary != "-").map(Into::into),
            epoch: epoch.parse().ok()?,
            position: position.parse().ok()?,
            is_suspect: *state != "ok",
            slots,
        })
    }
}

/// Reads what [`Topology::write`] wrote for a file of its own; `voted` is the last epoch voted in.
pub fn restore(text: &str, voted: u64, now: u64) -> Option<Topology> {
    let (_, rest) = text.split_once("from ")?;
    let me = rest.split(' ').next()?;
    let mut topology = Topology::new(me, now);
    topology.voted = voted;
    // Its own line would be left out: others may not tell a node what it is, but its own file may.
    let told: Vec<Told> = text.lines().skip(1).map(Told::read).collect::<Option<_>>()?;
    let own = told.iter().find(|told| &*told.id == me)?;
    let myself = topology.myself();
    (myself.host, myself.port) = (own.host.clone(), own.port);
    (myself.primary, myself.epoch) = (own.primary.clone(), own.epoch);
    topology.note_claims(own);
    topology.merge(text, "", now)?;
    Some(topology)
}

#[cfg(test)]
mod tests;
