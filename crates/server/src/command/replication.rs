//! REPLICAOF and what replicas and primaries say to each other.

use super::arguments::{integer, is};
use super::spec::{Spec, flags::*};
use super::{Context, text};
use crate::failure::{Failure, NOT_INTEGER, Outcome, SYNTAX};
use crate::number;
use crate::replication::Wanted;
use crate::resp::{Output, Request};
use std::time::Duration;

const ADM: u32 = ALONE | ADMIN | NO_MULTI;

pub const TABLE: &[Spec] = &[
    Spec::new("replicaof", 3, ADM | WAITS, replicaof).about(
        "server",
        "5.0.0",
        "Follows another server, or no one.",
    ),
    Spec::new("slaveof", 3, ADM | WAITS, replicaof).about("server", "1.0.0", "REPLICAOF by its old name."),
    Spec::new("role", 1, ALONE | FAST | ADMIN | INSTANT, role).about(
        "server",
        "2.8.12",
        "Returns the server's role.",
    ),
    Spec::new("wait", 3, ALONE | WAITS, wait).about(
        "generic",
        "3.0.0",
        "Waits until so many replicas have what was written.",
    ),
    Spec::new("replconf", -1, ADM | INSTANT, replconf).about("server", "3.0.0", "Tells of a replica."),
    Spec::new("psync", 3, ADM | INSTANT, psync).about(
        "server",
        "2.8.0",
        "Makes the connection feed a replica.",
    ),
];

fn replicaof(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let server = context.server;
    if is(request.get(1), "NO") && is(request.get(2), "ONE") {
        server.unfollow()?;
        out.ok();
        return Ok(());
    }
    let port = number::integer(request.get(2)).ok_or(NOT_INTEGER)?;
    let port =
        u16::try_from(port).ok().filter(|port| *port > 0).ok_or(Failure::coded("ERR Invalid master port"))?;
    if server.follow(&text(request.get(1)), port)? {
        out.ok();
    } else {
        out.simple("OK Already connected to specified master");
    }
    Ok(())
}

fn role(context: &mut Context, _request: &Request, out: &mut Output) -> Outcome {
    let replication = &context.server.replication;
    if let Some(link) = replication.link() {
        out.array(5);
        out.text("slave");
        out.text(&link.host);
        out.integer(i64::from(link.port));
        out.text(link.state().name());
        out.integer(i64::try_from(link.position()).unwrap_or(i64::MAX));
        return Ok(());
    }
    let followers = replication.followers();
    out.array(3);
    out.text("master");
    out.integer(i64::try_from(context.server.store().db.log_position()).unwrap_or(i64::MAX));
    out.array(followers.len());
    for follower in followers {
        out.array(3);
        out.text(&follower.address);
        out.text(&follower.port.to_string());
        out.text(&follower.acknowledged().to_string());
    }
    Ok(())
}

fn wait(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let (count, timeout) = (integer(request.get(1))?, integer(request.get(2))?);
    let timeout = u64::try_from(timeout).map_err(|_| Failure::coded("ERR timeout is negative"))?;
    if context.server.replication.is_replica() {
        return Err(Failure::coded(
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is \
             configured to be writable (which is not the default) writes to replicas are just local and are not \
             propagated.",
        ));
    }
    // What was acknowledged is on the device afterwards, here and, if they sync always, there.
    let store = context.server.store();
    let position = store.db.log_position();
    store.db.sync()?;
    let timeout = (timeout > 0).then(|| Duration::from_millis(timeout));
    let count = usize::try_from(count).unwrap_or(0);
    out.count(context.server.replication.wait(position, count, timeout, context.server));
    Ok(())
}

fn replconf(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    if request.len().is_multiple_of(2) {
        return Err(SYNTAX);
    }
    let words: Vec<&[u8]> = request.from(1).collect();
    for [name, value] in words.as_chunks::<2>().0 {
        let announced = &mut context.session.announced;
        match name.to_ascii_lowercase().as_slice() {
            b"listening-port" => {
                announced.port =
                    number::integer(value).and_then(|port| port.try_into().ok()).ok_or(NOT_INTEGER)?;
            }
            b"capa" => announced.is_siltstone |= is(value, "siltstone"),
            b"ip-address" | b"rdb-only" | b"rdb-filter-only" | b"version" | b"getack" => {}
            // Of a connection that feeds no replica: nothing to acknowledge.
            b"ack" => return Ok(()),
            _ => return Err(Failure::new(format!("Unrecognized REPLCONF option: {}", text(name)))),
        }
    }
    out.ok();
    Ok(())
}

fn psync(context: &mut Context, request: &Request, _out: &mut Output) -> Outcome {
    if !context.session.announced.is_siltstone {
        return Err(Failure::coded(
            "ERR replicas of this server are siltstone-servers; copy to others by SCAN and DUMP",
        ));
    }
    let position = number::integer(request.get(2)).and_then(|position| position.try_into().ok()).unwrap_or(0);
    context.session.follows = Some(Wanted { log_id: text(request.get(1)), position });
    Ok(())
}
