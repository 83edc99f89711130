//! The handshake, and what else concerns one connection.

use super::Context;
use super::arguments::{Options, is};
use super::keys::database;
use super::spec::{Spec, flags::*};
use super::{text, wrong_arity};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::number;
use crate::resp::{Output, Request};

const CI: u32 = ALONE | FAST | INSTANT;

pub const TABLE: &[Spec] = &[
    Spec::new("ping", -1, CI, ping).about("connection", "1.0.0", "Answers PONG."),
    Spec::new("echo", 2, CI, echo).about("connection", "1.0.0", "Answers what it is given."),
    Spec::new("auth", -2, CI | NO_AUTH, auth).about("connection", "1.0.0", "Says who the client is."),
    Spec::new("hello", -1, CI | NO_AUTH, hello).about(
        "connection",
        "6.0.0",
        "Chooses the protocol's version.",
    ),
    Spec::new("select", 2, CI, select).about("connection", "1.0.0", "Chooses the database."),
    Spec::new("quit", -1, CI | NO_AUTH | UNQUEUED, quit).about(
        "connection",
        "1.0.0",
        "Closes the connection.",
    ),
    Spec::new("reset", 1, CI | NO_AUTH | UNQUEUED, reset).about(
        "connection",
        "6.2.0",
        "Makes the connection as new.",
    ),
];

fn ping(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    match request.len() {
        1 => out.simple("PONG"),
        2 => out.bulk(request.get(1)),
        _ => return Err(wrong_arity(context.spec.name)),
    }
    Ok(())
}

fn echo(_context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    out.bulk(request.get(1));
    Ok(())
}

fn log_in(context: &mut Context, name: &[u8], password: &[u8]) -> Outcome {
    let user = context.server.acl.log_in(&text(name), password);
    let Some(user) = user else {
        context.server.acl.note(context.session, "auth", "AUTH", &text(name));
        return Err(Failure::coded("WRONGPASS invalid username-password pair or user is disabled."));
    };
    context.session.client.text.lock().user = user.name.clone();
    context.session.user = user;
    context.session.is_authenticated = true;
    Ok(())
}

fn auth(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    match request.len() {
        2 => {
            if context.server.acl.default_needs_no_password() {
                return Err(Failure::coded(
                    "ERR AUTH <password> called without any password configured for the default user. Are you sure \
                     your configuration is correct?",
                ));
            }
            log_in(context, b"default", request.get(1))?;
        }
        3 => log_in(context, request.get(1), request.get(2))?,
        _ => return Err(SYNTAX),
    }
    out.ok();
    Ok(())
}

/// A name that CLIENT LIST can show.
pub fn check_name(name: &[u8], what: &str) -> Outcome {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(());
    }
    Err(Failure::new(format!("{what} cannot contain spaces, newlines or special characters.")))
}

fn hello(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let mut resp3 = context.session.resp3;
    if request.len() > 1 {
        resp3 = match number::integer(request.get(1)) {
            Some(2) => false,
            Some(3) => true,
            Some(_) => return Err(Failure::coded("NOPROTO unsupported protocol version")),
            None => {
                return Err(Failure::coded("ERR Protocol version is not an integer or out of range"));
            }
        };
    }
    let (mut name, mut login) = (None, None);
    let mut options = Options::new(request.from(2));
    while let Some(option) = options.next() {
        match option.as_str() {
            "AUTH" => login = Some((options.value()?, options.value()?)),
            "SETNAME" => name = Some(options.value()?),
            other => {
                return Err(Failure::new(format!("Syntax error in HELLO option '{}'", other.to_lowercase())));
            }
        }
    }
    if let Some(name) = name {
        check_name(name, "Client names")?;
    }
    if let Some((user, password)) = login {
        log_in(context, user, password)?;
    }
    if !context.session.is_authenticated {
        return Err(Failure::coded(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
             the same time",
        ));
    }
    if let Some(name) = name {
        context.session.client.text.lock().name = text(name);
    }
    context.session.resp3 = resp3;
    out.resp3 = resp3;
    out.map(7);
    for (key, value) in [("server", "redis"), ("version", crate::REDIS_VERSION)] {
        out.text(key);
        out.text(value);
    }
    out.text("proto");
    out.integer(if resp3 { 3 } else { 2 });
    out.text("id");
    out.integer(i64::try_from(context.session.client.id).unwrap_or(0));
    let mode = if context.server.cluster.is_some() { "cluster" } else { "standalone" };
    let role = if context.server.replication.is_replica() { "replica" } else { "master" };
    for (key, value) in [("mode", mode), ("role", role)] {
        out.text(key);
        out.text(value);
    }
    out.text("modules");
    out.array(0);
    Ok(())
}

fn select(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let number = number::integer(request.get(1)).ok_or(Failure::coded("ERR invalid DB index"))?;
    if number > 0 && context.server.cluster.is_some() {
        return Err(Failure::coded("ERR SELECT is not allowed in cluster mode"));
    }
    context.session.database = database(context, request.get(1))?;
    out.ok();
    Ok(())
}

fn quit(context: &mut Context, _request: &Request, out: &mut Output) -> Outcome {
    context.session.closes = true;
    out.ok();
    Ok(())
}

fn reset(context: &mut Context, _request: &Request, out: &mut Output) -> Outcome {
    context.session.reset(context.server);
    out.resp3 = false;
    out.simple("RESET");
    Ok(())
}

/// `yes` or `no`, as CLIENT's switches take it.
pub fn switch(bytes: &[u8]) -> Outcome<bool> {
    match bytes {
        word if is(word, "ON") => Ok(true),
        word if is(word, "OFF") => Ok(false),
        _ => Err(SYNTAX),
    }
}
