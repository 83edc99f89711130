//! A cluster under a controller, as Kvrocks' nodes are: it tells each node all of what the cluster is, with a
//! version, and the nodes decide nothing themselves. They don't talk to one another then, and nobody stands
//! for election. Source: Apache Kvrocks, `CLUSTERX`.

use super::topology::{Node, NodeId, Topology};
use crate::failure::{Failure, Outcome};
use crate::now_ms;
use crate::slots::{SLOTS, read_range};
use std::collections::BTreeMap;
use std::sync::Arc;

const WRONG_VERSION: Failure = Failure::coded("ERR Invalid cluster version");

/// A line about a node: name, host, port, role, its primary's name or `-`, and its slots.
fn read_node(line: &str, now: u64) -> Outcome<(NodeId, Node, Vec<u16>)> {
    let wrong = || Failure::new(format!("Invalid cluster nodes info: {line}"));
    let mut words = line.split_whitespace();
    let mut next = || words.next().ok_or_else(wrong);
    let (id, host, port, role, primary) = (next()?, next()?, next()?, next()?, next()?);
    if id.len() != 40 {
        return Err(Failure::coded("ERR Invalid cluster node id"));
    }
    let mut node = Node::at(host, port.parse().map_err(|_| wrong())?, now);
    node.is_met = true;
    node.primary = match (role.to_ascii_lowercase().as_str(), primary) {
        ("master", "-") => None,
        ("slave" | "replica", primary) if primary.len() == 40 => Some(primary.into()),
        _ => return Err(wrong()),
    };
    let mut slots = Vec::new();
    for word in words {
        let range = read_range(word).ok_or(Failure::coded("ERR Invalid slot range"))?;
        slots.extend(range);
    }
    if node.primary.is_some() && !slots.is_empty() {
        return Err(wrong());
    }
    Ok((id.into(), node, slots))
}

/// Takes in what a controller says of all nodes. `is_me` tells this node where its name is not among them.
///
/// # Errors
/// Where the text makes no sense, or the version is older than what is known.
pub fn set_nodes(
    topology: &mut Topology,
    text: &str,
    version: u64,
    is_forced: bool,
    is_me: impl Fn(&Node) -> bool,
) -> Outcome {
    match topology.version {
        Some(known) if !is_forced && known > version => return Err(WRONG_VERSION),
        Some(known) if !is_forced && known == version => return Ok(()),
        _ => {}
    }
    let now = now_ms();
    let (mut nodes, mut given) = (BTreeMap::new(), BTreeMap::new());
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (id, mut node, slots) = read_node(line, now)?;
        node.epoch = version;
        for slot in slots {
            if given.insert(slot, Arc::clone(&id)).is_some() {
                return Err(Failure::coded("ERR Slot is assigned to two nodes"));
            }
        }
        nodes.insert(id, node);
    }
    if !nodes.contains_key(&topology.me) {
        let found = nodes.iter().find(|(_, node)| is_me(node)).map(|(id, _)| Arc::clone(id));
        topology.me = found.unwrap_or_else(|| Arc::clone(&topology.me));
    }
    topology.nodes = nodes;
    for slot in 0..SLOTS as u16 {
        topology.give(slot, given.get(&slot).cloned());
    }
    topology.importing.clear();
    topology.migrating.clear();
    topology.doubtful.clear();
    (topology.version, topology.epoch) = (Some(version), topology.epoch.max(version));
    Ok(())
}

/// Gives slots to a node, by a version that must follow the known one.
///
/// # Errors
/// Where it does not; where there is no such node, or it is a replica.
pub fn set_slots(
    topology: &mut Topology,
    slots: impl Iterator<Item = u16>,
    to: &str,
    version: u64,
) -> Outcome {
    if topology.version.is_none_or(|known| known + 1 != version) {
        return Err(WRONG_VERSION);
    }
    let node = topology.nodes.get_key_value(to).ok_or(Failure::coded("ERR No this node in the cluster"))?;
    if node.1.primary.is_some() {
        return Err(Failure::coded("ERR The node isn't a master"));
    }
    let to = Arc::clone(node.0);
    topology.version = Some(version);
    topology.hand_over(slots, &to, version);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(digit: char) -> String {
        digit.to_string().repeat(40)
    }

    fn told(slots: &str) -> String {
        let (a, b, c) = (id('a'), id('b'), id('c'));
        format!("{a} h 1 master - {slots}\n{b} h 2 master - 100-200\n{c} h 3 slave {a}\n")
    }

    #[test]
    fn versions_only_go_up() {
        let mut topology = Topology::new(&id('a'), 0);
        let mut set =
            |text: &str, version, forced| set_nodes(&mut topology, text, version, forced, |_| false);
        set(&told("0-99 300"), 3, false).unwrap();
        assert!(set(&told("0-50"), 2, false).is_err());
        set(&told("0-50"), 3, false).unwrap();
        set(&told("0-70"), 1, true).unwrap();
        assert!(set(&told("0-100"), 9, false).is_err(), "slot 100 is another's");
        assert!(set("x h 1 master - 0", 9, false).is_err());
        assert_eq!(topology.slots_of(&id('a')).count(), 71);
        assert!(topology.is_up(true));
        assert!(set_slots(&mut topology, 71..=72, &id('b'), 3).is_err());
        assert!(set_slots(&mut topology, 71..=72, &id('c'), 2).is_err());
        set_slots(&mut topology, 70..=72, &id('b'), 2).unwrap();
        assert_eq!(topology.slots_of(&id('b')).next(), Some(70));
    }

    #[test]
    fn a_node_without_a_name_is_known_by_its_place() {
        let mut topology = Topology::new(&id('f'), 0);
        set_nodes(&mut topology, &told("0"), 1, false, |node| node.port == 2).unwrap();
        assert_eq!(*topology.me, id('b'));
        topology.rename(&id('e'));
        assert!(topology.nodes.contains_key(&*id('e')) && topology.slots_of(&id('e')).count() == 101);
    }
}
