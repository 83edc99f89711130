//! CLUSTER and what clients of a cluster send: how operators change what a node knows, and what nodes tell
//! one another. What a node says of itself is in `cluster_view.rs`.

use super::arguments::{integer, is};
use super::cluster_view::{info, nodes, replicas, shards, slots};
use super::spec::{Spec, flags::*};
use super::{Context, help, text, unknown_subcommand};
use crate::cluster::{self, Cluster, How, NodeId, SLOTS, Topology, read_range, slot};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::now_ms;
use crate::number;
use crate::resp::{Output, Request};
use std::sync::Arc;
use tokio::runtime::Handle;

const FA: u32 = ALONE | FAST | INSTANT;

pub const TABLE: &[Spec] = &[
    Spec::new("cluster", -2, ALONE | WAITS | NO_MULTI, cluster).about(
        "cluster",
        "3.0.0",
        "Tells of the cluster, or changes it.",
    ),
    Spec::new("asking", 1, FA, asking).about(
        "cluster",
        "3.0.0",
        "Lets the next command find a slot that arrives.",
    ),
    Spec::new("readonly", 1, FA, readonly).about("cluster", "3.0.0", "Lets a replica answer reads."),
    Spec::new("readwrite", 1, FA, readwrite).about("cluster", "3.0.0", "Sends reads to primaries again."),
];

/// How long a node that was forgotten is not taken in again.
const FORGOTTEN_MS: u64 = 60_000;

fn asking(context: &mut Context, _request: &Request, out: &mut Output) -> Outcome {
    cluster::of(context.server)?;
    context.session.is_asking = true;
    out.ok();
    Ok(())
}

fn readonly(context: &mut Context, _request: &Request, out: &mut Output) -> Outcome {
    context.session.reads_replica = true;
    out.ok();
    Ok(())
}

fn readwrite(context: &mut Context, _request: &Request, out: &mut Output) -> Outcome {
    context.session.reads_replica = false;
    out.ok();
    Ok(())
}

fn cluster(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let cluster = Arc::clone(cluster::of(context.server)?);
    match (request.get(1).to_ascii_uppercase().as_slice(), request.len()) {
        (b"MYID", 2) => out.bulk(cluster.read(|topology| topology.me.to_string()).as_bytes()),
        (b"INFO", 2) => out.verbatim(&info(&cluster)),
        (b"NODES", 2) => out.verbatim(&nodes(&cluster, |_| true)),
        (b"REPLICAS" | b"SLAVES", 3) => replicas(&cluster, request.get(2), out)?,
        (b"SLOTS", 2) => slots(&cluster, out),
        (b"SHARDS", 2) => shards(&cluster, out),
        (b"LINKS", 2) => out.array(0),
        (b"KEYSLOT", 3) => out.integer(i64::from(slot(request.get(2)))),
        (b"COUNTKEYSINSLOT", 3) => count_keys(context, request, out)?,
        (b"GETKEYSINSLOT", 4) => get_keys(context, &cluster, request, out)?,
        (b"COUNT-FAILURE-REPORTS", 3) => count_reports(&cluster, request.get(2), out)?,
        (b"GOSSIP", 3) => gossip(context, &cluster, request, out)?,
        (b"VOTE", 5) => vote(&cluster, request, out)?,
        (b"HANDOVER", 4..) => out.simple(&cluster::take_in(context.server, &cluster, request)?),
        (b"HELP", 2) => help(out, "CLUSTER", HELP),
        _ => {
            change(context, &cluster, request)?;
            out.ok();
        }
    }
    Ok(())
}

const HELP: &[&str] = &[
    "ADDSLOTS <slot> ..., ADDSLOTSRANGE <first> <last> ..., DELSLOTS, DELSLOTSRANGE, FLUSHSLOTS",
    "    Give slots to this node, or take them from it.",
    "COUNTKEYSINSLOT <slot>, GETKEYSINSLOT <slot> <count>",
    "    Tell of the keys of a slot.",
    "FAILOVER [FORCE|TAKEOVER]",
    "    Let this replica take the place of its primary.",
    "FORGET <id>, MEET <host> <port>, REPLICATE <id>, RESET [HARD|SOFT]",
    "    Change whom this node knows, and whom it follows.",
    "INFO, MYID, NODES, REPLICAS <id>, SHARDS, SLOTS",
    "    Tell of the cluster.",
    "KEYSLOT <key>",
    "    Returns the slot of a key.",
    "SETSLOT <slot> (MIGRATING|IMPORTING|NODE <id> | STABLE)",
    "    Move a slot.",
];

/// Subcommands that answer OK.
fn change(context: &mut Context, cluster: &Cluster, request: &Request) -> Outcome {
    let me = cluster.read(|topology| Arc::clone(&topology.me));
    match (request.get(1).to_ascii_uppercase().as_slice(), request.len()) {
        (b"ADDSLOTS", 3..) => give(cluster, &listed(request)?, Some(&me)),
        (b"ADDSLOTSRANGE", 4..) => give(cluster, &listed_ranges(request)?, Some(&me)),
        (b"DELSLOTS", 3..) => give(cluster, &listed(request)?, None),
        (b"DELSLOTSRANGE", 4..) => give(cluster, &listed_ranges(request)?, None),
        (b"FLUSHSLOTS", 2) => {
            let own: Vec<u16> = cluster.read(|topology| topology.slots_of(&me).collect());
            give(cluster, &own, None)
        }
        (b"FORGET" | b"MEET" | b"REPLICATE" | b"FAILOVER" | b"SETSLOT", _)
            if cluster.read(|topology| topology.version.is_some()) =>
        {
            Err(Failure::coded("ERR A controller has told this node what its cluster is: use CLUSTERX"))
        }
        (b"MEET", 4 | 5) => meet(context, cluster, request),
        (b"FORGET", 3) => forget(cluster, request.get(2)),
        (b"REPLICATE", 3) => replicate(context, cluster, request.get(2)),
        (b"SETSLOT", 4 | 5) => set_slot(cluster, request),
        (b"FAILOVER", 2 | 3) => fail_over(context, cluster, request),
        (b"RESET", 2 | 3) => reset(context, cluster, request),
        (b"SET-CONFIG-EPOCH", 3) => set_epoch(cluster, integer(request.get(2))?),
        (b"BUMPEPOCH", 2) => cluster.change(Topology::raise_epoch),
        (b"SAVECONFIG", 2) => cluster.change(|_| ()),
        _ => Err(unknown_subcommand(request)),
    }
}

/// Reads a slot.
pub fn slot_of(bytes: &[u8]) -> Outcome<u16> {
    let number = number::integer(bytes).and_then(|number| u16::try_from(number).ok());
    number.filter(|slot| usize::from(*slot) < SLOTS).ok_or(Failure::coded("ERR Invalid or out of range slot"))
}

/// The node of that name.
pub fn node_of(cluster: &Cluster, name: &[u8]) -> Outcome<NodeId> {
    let name = text(name);
    let known = cluster.read(|topology| topology.nodes.get_key_value(&*name).map(|(id, _)| Arc::clone(id)));
    known.ok_or_else(|| Failure::new(format!("Unknown node {name}")))
}

fn listed(request: &Request) -> Outcome<Vec<u16>> {
    request.from(2).map(slot_of).collect()
}

fn listed_ranges(request: &Request) -> Outcome<Vec<u16>> {
    let words: Vec<&[u8]> = request.from(2).collect();
    let (pairs, rest) = words.as_chunks::<2>();
    let mut slots = Vec::new();
    for [first, last] in pairs {
        let range = read_range(&format!("{}-{}", slot_of(first)?, slot_of(last)?));
        slots.extend(range.ok_or(Failure::coded("ERR start slot number is greater than end slot number"))?);
    }
    if rest.is_empty() { Ok(slots) } else { Err(SYNTAX) }
}

/// Gives slots to this node, or takes them from whose they are.
fn give(cluster: &Cluster, slots: &[u16], to: Option<&NodeId>) -> Outcome {
    cluster.change(|topology| {
        for slot in slots {
            if to.is_some() && topology.owner(*slot).is_some() {
                return Err(Failure::new(format!("Slot {slot} is already busy")));
            }
            if to.is_none() && topology.owner(*slot).is_none() {
                return Err(Failure::new(format!("Slot {slot} is already unassigned")));
            }
        }
        for slot in slots {
            topology.give(*slot, to.cloned());
            topology.migrating.remove(slot);
            topology.importing.remove(slot);
        }
        Ok(())
    })?
}

fn set_slot(cluster: &Cluster, request: &Request) -> Outcome {
    let slot = slot_of(request.get(2))?;
    let how = request.get(3).to_ascii_uppercase();
    if how == b"STABLE" {
        return cluster.change(|topology| {
            topology.migrating.remove(&slot);
            topology.importing.remove(&slot);
            topology.doubtful.remove(&slot);
        });
    }
    let node = node_of(cluster, request.get(4))?;
    // One way at a time: what is handed over in bulk would be deleted where it goes key by key.
    if how == b"MIGRATING" && cluster.hands_over(|departure| departure.slots.contains(&slot)) {
        return Err(Failure::new(format!("Hash slot {slot} is being handed over in bulk")));
    }
    if how == b"IMPORTING" && cluster.arrivals.lock().has(slot) {
        return Err(Failure::new(format!("Hash slot {slot} is arriving in bulk")));
    }
    cluster.change(|topology| {
        let is_mine = topology.owner(slot) == Some(&topology.me);
        match how.as_slice() {
            b"MIGRATING" if !is_mine => {
                return Err(Failure::new(format!("I'm not the owner of hash slot {slot}")));
            }
            b"MIGRATING" => drop(topology.migrating.insert(slot, node)),
            b"IMPORTING" if is_mine => {
                return Err(Failure::new(format!("I'm already the owner of hash slot {slot}")));
            }
            b"IMPORTING" => drop(topology.importing.insert(slot, node)),
            b"NODE" => {
                topology.migrating.remove(&slot);
                let is_arriving = topology.importing.remove(&slot).is_some() && node == topology.me;
                topology.give(slot, Some(node));
                if is_arriving {
                    topology.raise_epoch();
                }
            }
            _ => return Err(Failure::coded("ERR Invalid CLUSTER SETSLOT action or number of arguments")),
        }
        Ok(())
    })?
}

fn meet(context: &mut Context, cluster: &Cluster, request: &Request) -> Outcome {
    let port = number::integer(request.get(3)).and_then(|port| u16::try_from(port).ok());
    let port =
        port.ok_or_else(|| Failure::new(format!("Invalid base port specified: {}", text(request.get(3)))))?;
    let host = text(request.get(2));
    Handle::current().block_on(cluster::meet(context.server, cluster, &host, port))?;
    Ok(())
}

fn forget(cluster: &Cluster, name: &[u8]) -> Outcome {
    let node = node_of(cluster, name)?;
    cluster.change(|topology| {
        if node == topology.me {
            return Err(Failure::coded("ERR I tried hard but I can't forget myself..."));
        }
        if topology.my_primary() == Some(&node) {
            return Err(Failure::coded("ERR Can't forget my master!"));
        }
        let slots: Vec<u16> = topology.slots_of(&node).collect();
        slots.into_iter().for_each(|slot| topology.give(slot, None));
        topology.nodes.remove(&node);
        topology.forgotten.insert(node, now_ms() + FORGOTTEN_MS);
        Ok(())
    })?
}

fn replicate(context: &mut Context, cluster: &Cluster, name: &[u8]) -> Outcome {
    let node = node_of(cluster, name)?;
    cluster.change(|topology| {
        if node == topology.me {
            return Err(Failure::coded("ERR Can't replicate myself"));
        }
        if topology.nodes.get(&node).is_some_and(|node| node.primary.is_some()) {
            return Err(Failure::coded("ERR I can only replicate a master, not a replica."));
        }
        if topology.has_slots(&topology.me) {
            return Err(Failure::coded(
                "ERR To set a master the node must be empty and without assigned slots.",
            ));
        }
        topology.myself().primary = Some(node);
        Ok(())
    })??;
    cluster::settle_role(context.server, cluster)
}

fn fail_over(context: &mut Context, cluster: &Cluster, request: &Request) -> Outcome {
    let how = match request.get(2).to_ascii_uppercase().as_slice() {
        b"" => How::Together,
        b"FORCE" => How::Force,
        b"TAKEOVER" => How::Takeover,
        _ => return Err(SYNTAX),
    };
    Handle::current().block_on(cluster::fail_over(context.server, cluster, how))
}

fn reset(context: &mut Context, cluster: &Cluster, request: &Request) -> Outcome {
    let is_hard = match request.get(2).to_ascii_uppercase().as_slice() {
        b"" | b"SOFT" => false,
        b"HARD" => true,
        _ => return Err(SYNTAX),
    };
    let has_slots = cluster.read(|topology| topology.has_slots(&topology.me));
    if has_slots && context.server.store().keys(0, now_ms()) > 0 {
        return Err(Failure::coded("ERR CLUSTER RESET can't be called with master nodes containing keys"));
    }
    cluster.change(|topology| {
        let me = if is_hard { crate::replication::random_id() } else { topology.me.to_string() };
        let kept = (topology.epoch, topology.voted, topology.my_epoch());
        *topology = Topology::new(&me, now_ms());
        if !is_hard {
            (topology.epoch, topology.voted, topology.myself().epoch) = kept;
        }
    })?;
    cluster::settle_role(context.server, cluster)
}

fn set_epoch(cluster: &Cluster, epoch: i64) -> Outcome {
    let epoch =
        u64::try_from(epoch).map_err(|_| Failure::new(format!("Invalid config epoch specified: {epoch}")))?;
    cluster.change(|topology| {
        if topology.nodes.len() > 1 {
            return Err(Failure::coded(
                "ERR The user can assign a config epoch only when the node does not know any other node.",
            ));
        }
        if topology.myself().epoch != 0 {
            return Err(Failure::coded("ERR Node config epoch is already non-zero"));
        }
        topology.myself().epoch = epoch;
        topology.epoch = topology.epoch.max(epoch);
        Ok(())
    })?
}

fn gossip(context: &mut Context, cluster: &Cluster, request: &Request, out: &mut Output) -> Outcome {
    let host = |address: &str| address.rsplit_once(':').map_or("", |(host, _)| host).to_owned();
    let client = &context.session.client;
    let (theirs, mine) = (host(&client.address), host(&client.local_address));
    let port = context.server.port();
    let position = context.server.replication.link().map_or(0, |link| link.position());
    let answer = cluster.change(|topology| {
        let myself = topology.myself();
        if myself.host.is_empty() {
            myself.host = mine;
        }
        (myself.port, myself.position) = (port, position);
        if topology.version.is_some() {
            return None;
        }
        topology.merge(&text(request.get(2)), &theirs, now_ms()).map(|_| topology.write())
    })?;
    out.bulk(answer.ok_or(SYNTAX)?.as_bytes());
    Ok(())
}

fn vote(cluster: &Cluster, request: &Request, out: &mut Output) -> Outcome {
    let epoch = number::integer(request.get(3)).and_then(|epoch| u64::try_from(epoch).ok()).ok_or(SYNTAX)?;
    let (candidate, is_asked_for) = (text(request.get(2)), is(request.get(4), "FORCE"));
    let granted = cluster.change(|topology| cluster::grant(topology, &candidate, epoch, is_asked_for))?;
    out.integer(i64::from(granted));
    Ok(())
}

fn count_keys(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let wanted = slot_of(request.get(2))?;
    let mut count = 0;
    super::scan::keys_of_slot(context, wanted, None, |_, _| {
        count += 1;
        true
    })?;
    out.count(count);
    Ok(())
}

/// Keys of a slot. A walk goes on where the last one stopped, and begins anew once if it finds nothing, so
/// that moving a slot key by key does not walk over what it has deleted for each of them.
fn get_keys(context: &mut Context, cluster: &Cluster, request: &Request, out: &mut Output) -> Outcome {
    let wanted = slot_of(request.get(2))?;
    let most = usize::try_from(integer(request.get(3))?)
        .map_err(|_| Failure::coded("ERR Invalid number of keys"))?;
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut from = cluster.walks.lock().get(&wanted).copied();
    while found.len() < most {
        let began = from;
        from = super::scan::keys_of_slot(context, wanted, began, |_, key| {
            found.push(key.to_vec());
            found.len() < most
        })?;
        if !found.is_empty() || began.is_none() {
            break;
        }
    }
    let mut walks = cluster.walks.lock();
    match from {
        // The key that the walk stopped at may stay: it is looked at again.
        Some(from) => drop(walks.insert(wanted, from)),
        None => drop(walks.remove(&wanted)),
    }
    out.array(found.len());
    found.iter().for_each(|key| out.bulk(key));
    Ok(())
}

fn count_reports(cluster: &Cluster, name: &[u8], out: &mut Output) -> Outcome {
    let node = node_of(cluster, name)?;
    out.count(cluster.read(|topology| topology.nodes.get(&node).map_or(0, |node| node.suspected_by.len())));
    Ok(())
}
