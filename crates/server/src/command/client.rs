//! CLIENT: who is connected.

use super::arguments::{Options, integer, is};
use super::connection::{check_name, switch};
use super::spec::{Spec, flags::*};
use super::{Context, help, text, unknown_subcommand};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::resp::{Output, Request};
use crate::server::{Client, ReplyMode};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub const TABLE: &[Spec] = &[Spec::new("client", -2, ALONE | INSTANT, client).about(
    "connection",
    "2.4.0",
    "Tells of connections and ends them.",
)];

fn client(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let length = request.len();
    match (request.get(1).to_ascii_uppercase().as_slice(), length) {
        (b"ID", 2) => out.integer(i64::try_from(context.session.client.id).unwrap_or(0)),
        (b"INFO", 2) => out.verbatim(&format!("{}\n", context.session.client.describe())),
        (b"LIST", _) => list(context, request, out)?,
        (b"GETNAME", 2) => {
            let name = context.session.client.text.lock().name.clone();
            out.bulk_or_null(Some(name.as_bytes()).filter(|name| !name.is_empty()));
        }
        (b"SETNAME", 3) => {
            check_name(request.get(2), "Client names")?;
            context.session.client.text.lock().name = text(request.get(2));
            out.ok();
        }
        (b"SETINFO", 4) => set_info(context, request, out)?,
        (b"KILL", 3..) => kill(context, request, out)?,
        (b"PAUSE", 3 | 4) => pause(context, request, out)?,
        (b"UNPAUSE", 2) => {
            context.server.unpause();
            out.ok();
        }
        (b"REPLY", 3) => {
            context.session.reply = match request.get(2).to_ascii_uppercase().as_slice() {
                b"ON" => {
                    out.ok();
                    ReplyMode::On
                }
                b"OFF" => ReplyMode::Off,
                b"SKIP" => ReplyMode::SkipNext,
                _ => return Err(SYNTAX),
            };
        }
        (b"NO-EVICT" | b"NO-TOUCH", 3) => {
            switch(request.get(2))?;
            out.ok();
        }
        (b"UNBLOCK", 3 | 4) => {
            integer(request.get(2))?;
            out.integer(0);
        }
        (b"GETREDIR", 2) => out.integer(-1),
        (b"TRACKING", 3..) => {
            if switch(request.get(2))? {
                return Err(Failure::coded("ERR this server does not track what clients cache"));
            }
            out.ok();
        }
        (b"TRACKINGINFO", 2) => tracking_info(out),
        (b"HELP", 2) => help(out, "CLIENT", HELP),
        _ => return Err(unknown_subcommand(request)),
    }
    Ok(())
}

const HELP: &[&str] = &[
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections by ID, ADDR, LADDR, USER, TYPE or SKIPME.",
    "LIST [options ...]",
    "    Return information about client connections.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Suspend all, or just write, clients for <timeout> milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETINFO <option> <value>",
    "    Set client meta attr: LIB-NAME, LIB-VER.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "UNPAUSE",
    "    Stop the current client pause, resuming traffic.",
];

fn tracking_info(out: &mut Output) {
    out.map(3);
    out.text("flags");
    out.set(1);
    out.text("off");
    out.text("redirect");
    out.integer(-1);
    out.text("prefixes");
    out.array(0);
}

fn set_info(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let value = request.get(3);
    let mut described = context.session.client.text.lock();
    if is(request.get(2), "LIB-NAME") {
        check_name(value, "lib-name")?;
        described.library = text(value);
    } else if is(request.get(2), "LIB-VER") {
        check_name(value, "lib-ver")?;
        described.library_version = text(value);
    } else {
        return Err(Failure::new(format!("Unrecognized option '{}'", text(request.get(2)))));
    }
    out.ok();
    Ok(())
}

/// Which clients are of a type: those that are replicas, those that are not, or none.
fn type_of(name: &[u8]) -> Outcome<Option<bool>> {
    match name.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(Some(false)),
        b"replica" | b"slave" => Ok(Some(true)),
        b"master" | b"pubsub" => Ok(None),
        _ => Err(Failure::new(format!("Unknown client type '{}'", text(name)))),
    }
}

fn list(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let mut clients = context.server.clients.all();
    let mut options = Options::new(request.from(2));
    match options.next().as_deref() {
        None => {}
        Some("TYPE") => {
            let replicas = type_of(options.value()?)?;
            clients.retain(|client| replicas == Some(client.is_replica()));
        }
        Some("ID") if request.len() > 3 => {
            let bad = |_| Failure::coded("ERR Invalid client ID");
            let ids: Result<Vec<i64>, _> = request.from(3).map(|id| integer(id).map_err(bad)).collect();
            let ids = ids?;
            clients.retain(|client| ids.iter().any(|id| u64::try_from(*id) == Ok(client.id)));
        }
        Some(_) => return Err(SYNTAX),
    }
    let lines: String = clients.iter().map(|client| client.describe() + "\n").collect();
    out.verbatim(&lines);
    Ok(())
}

/// Whom CLIENT KILL is to end: all that every filter lets through.
struct Filter<'a> {
    id: Option<u64>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    user: Option<&'a [u8]>,
    max_age_s: Option<u64>,
    /// The type, as `type_of` says it; the outer `None` takes all.
    replicas: Option<Option<bool>>,
    skips_me: bool,
}

impl Filter<'_> {
    fn takes(&self, client: &Client, me: u64) -> bool {
        self.replicas.is_none_or(|replicas| replicas == Some(client.is_replica()))
            && self.id.is_none_or(|id| id == client.id)
            && self.address.is_none_or(|address| address == client.address.as_bytes())
            && self.local_address.is_none_or(|address| address == client.local_address.as_bytes())
            && self.user.is_none_or(|user| user == client.text.lock().user.as_bytes())
            && self.max_age_s.is_none_or(|age| client.age_s() >= age)
            && !(self.skips_me && client.id == me)
    }
}

fn end(context: &mut Context, clients: &[Arc<Client>]) {
    for client in clients {
        if client.id == context.session.client.id {
            context.session.closes = true;
        } else {
            client.kill();
        }
    }
}

fn kill(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let me = context.session.client.id;
    let mut filter = Filter {
        id: None,
        address: None,
        local_address: None,
        user: None,
        max_age_s: None,
        replicas: None,
        skips_me: true,
    };
    if request.len() == 3 {
        (filter.address, filter.skips_me) = (Some(request.get(2)), false);
        let found: Vec<_> =
            context.server.clients.all().into_iter().filter(|c| filter.takes(c, me)).collect();
        if found.is_empty() {
            return Err(Failure::coded("ERR No such client"));
        }
        end(context, &found);
        out.ok();
        return Ok(());
    }
    if !request.len().is_multiple_of(2) {
        return Err(SYNTAX);
    }
    let mut options = Options::new(request.from(2));
    while let Some(option) = options.next() {
        let value = options.value()?;
        match option.as_str() {
            "ID" => {
                let id = integer(value).ok().and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
                filter.id = Some(id.ok_or(Failure::coded("ERR client-id should be greater than 0"))?);
            }
            "ADDR" => filter.address = Some(value),
            "LADDR" => filter.local_address = Some(value),
            "USER" => {
                if context.server.acl.user(&text(value)).is_none() {
                    return Err(Failure::new(format!("No such user '{}'", text(value))));
                }
                filter.user = Some(value);
            }
            "TYPE" => filter.replicas = Some(type_of(value)?),
            "MAXAGE" => filter.max_age_s = u64::try_from(integer(value)?).ok(),
            "SKIPME" => {
                filter.skips_me = match value {
                    word if is(word, "YES") => true,
                    word if is(word, "NO") => false,
                    _ => return Err(SYNTAX),
                }
            }
            _ => return Err(SYNTAX),
        }
    }
    let found: Vec<_> = context.server.clients.all().into_iter().filter(|c| filter.takes(c, me)).collect();
    end(context, &found);
    out.count(found.len());
    Ok(())
}

fn pause(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let ms = integer(request.get(2)).ok().and_then(|ms| u64::try_from(ms).ok());
    let ms = ms.ok_or(Failure::coded("ERR timeout is not an integer or out of range"))?;
    let only_writes = match request.get(3) {
        b"" => false,
        word if is(word, "ALL") => false,
        word if is(word, "WRITE") => true,
        _ => return Err(Failure::coded("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    context.server.pause(ms, only_writes);
    out.ok();
    Ok(())
}

/// Counts for INFO: connections, and those that watch or are in a transaction.
pub fn totals(clients: &[Arc<Client>]) -> (usize, usize) {
    let watching = clients.iter().filter(|client| client.watched.load(Ordering::Relaxed) > 0).count();
    (clients.len(), watching)
}
