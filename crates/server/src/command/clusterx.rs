//! CLUSTERX: how Kvrocks' controller tells nodes what they are, and moves slots. Syntax and replies are those
//! of Apache Kvrocks.

use super::arguments::is;
use super::cluster::slot_of;
use super::spec::{Spec, flags::*};
use super::{Context, help, text, unknown_subcommand};
use crate::cluster::{self, Cluster, DepartureState, read_range};
use crate::failure::{Failure, Outcome};
use crate::number;
use crate::resp::{Output, Request};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub const TABLE: &[Spec] =
    &[Spec::new("clusterx", -2, ALONE | WAITS | NO_MULTI | ADMIN | DANGEROUS, clusterx).about(
        "cluster",
        "7.0.0",
        "Lets a controller say what the cluster is, and move slots in bulk.",
    )];

const HELP: &[&str] = &[
    "MIGRATE <slot>|<first>-<last> <id> [ASYNC | SYNC [<seconds>]]",
    "    Hand slots over to another node in bulk.",
    "MYID, VERSION",
    "    Tell this node's name, and the version of what a controller has told it; -1 without one.",
    "SETNODEID <id>",
    "    Name this node.",
    "SETNODES <nodes> <version> [FORCE]",
    "    Say what the cluster is. A line a node: id, host, port, master or slave, its master's id or -, slots.",
    "SETSLOT <slots> NODE <id> <version>",
    "    Give slots to a node.",
];

fn clusterx(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let cluster = Arc::clone(cluster::of(context.server)?);
    match (request.get(1).to_ascii_uppercase().as_slice(), request.len()) {
        (b"VERSION", 2) => {
            let version = cluster.read(|topology| topology.version);
            out.text(&version.map_or("-1".to_owned(), |version| version.to_string()));
            return Ok(());
        }
        (b"MYID", 2) => {
            out.text(&cluster.read(|topology| topology.me.to_string()));
            return Ok(());
        }
        (b"HELP", 2) => {
            help(out, "CLUSTERX", HELP);
            return Ok(());
        }
        (b"SETNODEID", 3) => {
            let id = text(request.get(2));
            if id.len() != 40 {
                return Err(Failure::coded("ERR Invalid cluster node id"));
            }
            cluster.change(|topology| topology.rename(&id))?;
            cluster::settle_role(context.server, &cluster)?;
        }
        (b"SETNODES", 4 | 5) => set_nodes(context, &cluster, request)?,
        (b"SETSLOT", 6) if is(request.get(3), "NODE") => {
            let (slots, version) = (slots(request.get(2))?, version(request.get(5))?);
            let to = text(request.get(4));
            cluster.change(|topology| cluster::set_slots(topology, slots.into_iter(), &to, version))??;
        }
        (b"MIGRATE", 4..=6) => migrate(context, &cluster, request)?,
        _ => return Err(unknown_subcommand(request)),
    }
    out.ok();
    Ok(())
}

fn version(bytes: &[u8]) -> Outcome<u64> {
    let version = number::integer(bytes).and_then(|number| u64::try_from(number).ok());
    version.ok_or(Failure::coded("ERR Invalid version"))
}

/// Reads one slot, or ranges with blanks or commas between them.
fn slots(bytes: &[u8]) -> Outcome<BTreeSet<u16>> {
    let text = text(bytes);
    let words = text.split([' ', ',']).filter(|word| !word.is_empty());
    let ranges: Option<Vec<_>> = words.map(read_range).collect();
    let slots: BTreeSet<u16> = ranges.into_iter().flatten().flatten().collect();
    if slots.is_empty() { slot_of(bytes).map(|slot| BTreeSet::from([slot])) } else { Ok(slots) }
}

fn set_nodes(context: &mut Context, cluster: &Cluster, request: &Request) -> Outcome {
    let version = version(request.get(3))?;
    let is_forced = match request.len() {
        4 => false,
        _ if is(request.get(4), "FORCE") => true,
        _ => return Err(Failure::coded("ERR Invalid setnodes options")),
    };
    let port = context.server.port();
    let local = context
        .session
        .client
        .local_address
        .rsplit_once(':')
        .map_or(String::new(), |(host, _)| host.to_owned());
    let nodes = text(request.get(2));
    cluster.change(|topology| {
        let is_me =
            |node: &cluster::Node| node.port == port && (node.host == local || node.host == "localhost");
        cluster::set_nodes(topology, &nodes, version, is_forced, is_me)
    })??;
    cluster::settle_role(context.server, cluster)
}

fn migrate(context: &mut Context, cluster: &Cluster, request: &Request) -> Outcome {
    let (slots, to) = (slots(request.get(2))?, text(request.get(3)));
    let patience = match (request.get(4).to_ascii_uppercase().as_slice(), request.len()) {
        (b"" | b"ASYNC", 4 | 5) => None,
        (b"ASYNC", _) => return Err(Failure::coded("ERR Async migration does not support timeout")),
        (b"SYNC", 5) => Some(0),
        (b"SYNC", _) => {
            let seconds = number::integer(request.get(5));
            let wrong = Failure::coded("ERR timeout is not an integer or out of range");
            let seconds = u64::try_from(seconds.ok_or(wrong)?);
            Some(seconds.map_err(|_| Failure::coded("ERR timeout is negative"))?)
        }
        _ => return Err(Failure::coded("ERR Invalid sync flag")),
    };
    cluster.depart(slots, &to)?;
    let Some(seconds) = patience else { return Ok(()) };
    let began = Instant::now();
    loop {
        let state =
            cluster.departure.lock().as_ref().map(|departure| (departure.state, departure.reason.clone()));
        match state {
            Some((DepartureState::Done, _)) => return Ok(()),
            Some((DepartureState::Failed, reason)) => return Err(Failure::new_coded(reason)),
            _ => {}
        }
        if seconds > 0 && began.elapsed() >= Duration::from_secs(seconds) || context.server.is_stopping() {
            return Err(Failure::coded("ERR timed out; the migration goes on"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
