//! What a node says of its cluster: INFO, NODES, REPLICAS, SLOTS and SHARDS, in the forms that clients and
//! `redis-cli --cluster` read.

use super::cluster::node_of;
use crate::cluster::{self, Cluster, DepartureState, Node, NodeId, Topology, write_ranges};
use crate::failure::Outcome;
use crate::resp::Output;
use std::sync::Arc;

/// The text of CLUSTER INFO.
pub fn info(cluster: &Cluster) -> String {
    let is_up = cluster.is_up();
    cluster.read(|topology| {
        let assigned = topology.assigned();
        let of_failed: usize = topology
            .nodes
            .iter()
            .filter(|(_, node)| node.has_failed)
            .map(|(id, _)| topology.slots_of(id).count())
            .sum();
        let my_epoch = topology.nodes.get(&topology.me).map_or(0, |node| node.epoch);
        let lines = [
            ("cluster_state", if is_up { "ok".to_owned() } else { "fail".to_owned() }),
            ("cluster_slots_assigned", assigned.to_string()),
            ("cluster_slots_ok", (assigned - of_failed).to_string()),
            ("cluster_slots_pfail", "0".to_owned()),
            ("cluster_slots_fail", of_failed.to_string()),
            ("cluster_known_nodes", topology.nodes.len().to_string()),
            ("cluster_size", topology.voters().len().to_string()),
            ("cluster_current_epoch", topology.version.unwrap_or(topology.epoch).to_string()),
            ("cluster_my_epoch", my_epoch.to_string()),
        ];
        lines.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect::<String>()
    }) + &moving(cluster)
}

/// Lines about slots that go or come in bulk, as Kvrocks writes them; none where none has.
fn moving(cluster: &Cluster) -> String {
    let mut text = String::new();
    if let Some(departure) = &*cluster.departure.lock() {
        let state = match departure.state {
            DepartureState::Running => "start",
            DepartureState::Done => "success",
            DepartureState::Failed => "fail",
        };
        let slots = write_ranges(departure.slots.iter().copied(), ",");
        text = format!(
            "migrating_slot(s): {slots}\r\ndestination_node: {}\r\nmigrating_state: {state}\r\n\
             migrating_items:{}\r\nmigrating_paused_ms:{}\r\n",
            departure.to, departure.items, departure.paused_ms
        );
        if !departure.reason.is_empty() {
            // A colon more would make the line one of another field.
            text.push_str(&format!(
                "migrating_reason:{}\r\n",
                departure.reason.replace([':', '\r', '\n'], " ")
            ));
        }
    }
    let coming = cluster.arrivals.slots();
    if !coming.is_empty() {
        let slots = write_ranges(coming.into_iter(), ",");
        text.push_str(&format!("importing_slot(s): {slots}\r\nimport_state: start\r\n"));
    }
    text
}

fn flags_of(topology: &Topology, id: &NodeId, node: &Node) -> String {
    let mut flags = Vec::new();
    if *id == topology.me {
        flags.push("myself");
    }
    flags.push(if node.primary.is_some() { "slave" } else { "master" });
    if node.has_failed {
        flags.push("fail");
    } else if node.suspected_by.contains(&topology.me) {
        flags.push("fail?");
    }
    flags.join(",")
}

/// The lines of CLUSTER NODES about those that `takes` lets through.
pub fn nodes(cluster: &Cluster, takes: impl Fn(&Node) -> bool) -> String {
    cluster.read(|topology| {
        let line = |(id, node): (&NodeId, &Node)| {
            let Node { host, port, epoch, heard_ms, .. } = node;
            let flags = flags_of(topology, id, node);
            let primary = node.primary.as_deref().unwrap_or("-");
            let link = if node.suspected_by.contains(&topology.me) { "disconnected" } else { "connected" };
            let heard = if *id == topology.me { 0 } else { *heard_ms };
            let bus = u32::from(*port) + 10_000;
            let mut line = format!("{id} {host}:{port}@{bus} {flags} {primary} 0 {heard} {epoch} {link}");
            let slots = write_ranges(topology.slots_of(id), " ");
            if !slots.is_empty() {
                line.push(' ');
                line.push_str(&slots);
            }
            if *id == topology.me {
                for (slot, to) in &topology.migrating {
                    line.push_str(&format!(" [{slot}->-{to}]"));
                }
                for (slot, from) in &topology.importing {
                    line.push_str(&format!(" [{slot}-<-{from}]"));
                }
            }
            line.push('\n');
            line
        };
        topology.nodes.iter().filter(|(_, node)| takes(node)).map(line).collect()
    })
}

/// CLUSTER REPLICAS.
pub fn replicas(cluster: &Cluster, name: &[u8], out: &mut Output) -> Outcome {
    let primary = node_of(cluster, name)?;
    let lines = nodes(cluster, |node| node.primary.as_ref() == Some(&primary));
    out.array(lines.lines().count());
    lines.lines().for_each(|line| out.bulk(line.as_bytes()));
    Ok(())
}

/// Nodes that have `id`'s slots: itself, and its replicas that have not failed.
fn group<'a>(topology: &'a Topology, id: &'a NodeId) -> Vec<(&'a NodeId, &'a Node)> {
    let replicas =
        topology.nodes.iter().filter(|(_, node)| node.primary.as_ref() == Some(id) && !node.has_failed);
    topology.nodes.get_key_value(id).into_iter().chain(replicas).collect()
}

/// CLUSTER SLOTS.
pub fn slots(cluster: &Cluster, out: &mut Output) {
    cluster.read(|topology| {
        let mut all = Vec::new();
        for id in topology.voters() {
            all.extend(
                cluster::ranges(topology.slots_of(&id)).into_iter().map(|range| (range, Arc::clone(&id))),
            );
        }
        all.sort();
        out.array(all.len());
        for ((first, last), id) in all {
            let members = group(topology, &id);
            out.array(2 + members.len());
            out.integer(i64::from(first));
            out.integer(i64::from(last));
            for (id, node) in members {
                out.array(4);
                out.text(&node.host);
                out.integer(i64::from(node.port));
                out.text(id);
                out.array(0);
            }
        }
    });
}

/// CLUSTER SHARDS.
pub fn shards(cluster: &Cluster, out: &mut Output) {
    cluster.read(|topology| {
        let primaries: Vec<&NodeId> =
            topology.nodes.iter().filter(|(_, node)| node.primary.is_none()).map(|(id, _)| id).collect();
        out.array(primaries.len());
        for primary in primaries {
            let ranges = cluster::ranges(topology.slots_of(primary));
            out.map(2);
            out.text("slots");
            out.array(ranges.len() * 2);
            for (first, last) in ranges {
                out.integer(i64::from(first));
                out.integer(i64::from(last));
            }
            let members = group(topology, primary);
            out.text("nodes");
            out.array(members.len());
            for (id, node) in members {
                out.map(7);
                let role = if node.primary.is_some() { "replica" } else { "master" };
                let health = if node.has_failed { "fail" } else { "online" };
                for (name, value) in [
                    ("id", &**id),
                    ("ip", &node.host),
                    ("endpoint", &node.host),
                    ("role", role),
                    ("health", health),
                ] {
                    out.text(name);
                    out.text(value);
                }
                out.text("port");
                out.integer(i64::from(node.port));
                out.text("replication-offset");
                out.integer(i64::try_from(node.position).unwrap_or(i64::MAX));
            }
        }
    });
}
