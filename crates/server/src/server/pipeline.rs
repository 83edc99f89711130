//! Requests into units of work.
//!
//! The idea: what a client sent together is worked on together. Requests on keys that follow one another are
//! one unit (`keyspace/unit.rs`): their keys are locked and read at once, and what they change is one write.
//! What concerns the connection or whole databases stands alone between them, and a transaction is a unit
//! that the client asked for. The order of replies is that of requests, whatever the units are.
//!
//! Invariants: a unit's replies are seen only after its commit; if that fails, all of them are errors.

use super::Server;
use super::read_ahead::{are_short, keys, named, read_ahead, read_cached};
use super::session::{ReplyMode, Session, Transaction};
use crate::cluster::{Cluster, Route};
use crate::command::{Context, Denied, Spec, flags, lookup, text, wrong_arity};
use crate::failure::{Failure, Outcome};
use crate::keyspace::Unit;
use crate::resp::{Output, Request};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Requests of one unit, at most.
const MOST_JOINED: usize = 512;
/// Bytes of them.
const MOST_JOINED_BYTES: usize = 4 << 20;
/// Requests of it whose keys are read together: what they hold is in memory at the same time.
const MOST_READ_AHEAD: usize = 128;
/// How long a thread that must not wait does so for locks: mostly another such thread has them, and lets go
/// within a fraction of that, or, where the system lets others run, within a few milliseconds.
const PATIENCE: Duration = Duration::from_millis(4);
/// Bytes of replies after which the rest waits until they are sent.
const MOST_OUTPUT_BYTES: usize = 4 << 20;

/// A request that is allowed, and its place in the table.
pub(super) type Checked = (usize, &'static Spec);

fn unknown(request: &Request) -> Failure {
    const MOST_BYTES: usize = 128;
    let mut shown = String::new();
    for argument in request.from(1) {
        if shown.len() >= MOST_BYTES {
            break;
        }
        let part = argument.get(..argument.len().min(MOST_BYTES - shown.len())).unwrap_or_default();
        shown.push_str(&format!("'{}' ", text(part)));
    }
    let name = text(request.get(0).get(..request.get(0).len().min(MOST_BYTES)).unwrap_or_default());
    Failure::new(format!("unknown command '{name}', with args beginning with: {shown}"))
}

/// Checks that there is such a command, and that the client may run it.
fn check(server: &Server, session: &Session, request: &Request) -> Outcome<Checked> {
    match lookup(request.get(0)) {
        Some(found) => check_found(server, session, request, found),
        None => Err(unknown(request)),
    }
}

/// The same for a command that has been looked up.
fn check_found(server: &Server, session: &Session, request: &Request, found: Checked) -> Outcome<Checked> {
    let (_, spec) = found;
    may_run(server, session, request, spec)?;
    if let Some(cluster) = server.cluster.as_ref().filter(|_| session.is_authenticated) {
        cluster.route(session, spec, request)?;
    }
    if spec.writes() {
        check_writes(server)?;
    }
    Ok(found)
}

/// Checks that the client may run a command, wherever its keys are.
fn may_run(server: &Server, session: &Session, request: &Request, spec: &Spec) -> Outcome {
    if !spec.takes(request) {
        return Err(wrong_arity(spec.name));
    }
    if !session.is_authenticated {
        let may = spec.is(flags::NO_AUTH);
        return if may { Ok(()) } else { Err(Failure::coded("NOAUTH Authentication required.")) };
    }
    let Err(denied) = session.user.check(spec, request) else { return Ok(()) };
    let name = &session.user.name;
    let (reason, object) = match denied {
        Denied::Command => ("command", spec.name.to_owned()),
        Denied::Key(place) => ("key", text(request.get(place))),
    };
    server.acl.note(session, reason, &object, name);
    Err(match denied {
        Denied::Command => {
            let refusal = format!("NOPERM User {name} has no permissions to run the '{}' command", spec.name);
            Failure::Reply(refusal.into())
        }
        Denied::Key(_) => Failure::coded("NOPERM No permissions to access a key"),
    })
}

/// Checks that the server takes writes: that it is no replica, and has as many as it wants to have.
fn check_writes(server: &Server) -> Outcome {
    if server.replication.is_replica() {
        return Err(Failure::coded("READONLY You can't write against a read only replica."));
    }
    let (least, lag) = server.config.least_replicas();
    if !server.replication.has_enough_followers(least, lag) {
        return Err(Failure::coded("NOREPLICAS Not enough good replicas to write."));
    }
    Ok(())
}

/// Whether any of `requests` may change data.
pub fn writes(session: &Session, requests: &VecDeque<Request>) -> bool {
    let queued = session.transaction.iter().flat_map(|transaction| &transaction.queue);
    requests.iter().chain(queued).any(|request| lookup(request.get(0)).is_some_and(|(_, spec)| spec.writes()))
}

/// What a thread may do that carries out requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    /// Whatever it takes.
    MayWait,
    /// Only what takes neither the device nor another thread: it has other connections to serve.
    MustNotWait,
}

/// Why a thread that must not wait has not carried out all requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Memory does not hold what they ask for.
    Device,
    /// For the time being: a lock is held, writing is slowed, or a request takes long.
    Passing,
}

/// Carries out `requests` from the front, until none is left, the connection is to end, there are so many
/// replies that they had better be sent, or this thread can't go on, and why.
pub fn run(
    server: &Server,
    session: &mut Session,
    requests: &mut VecDeque<Request>,
    out: &mut Output,
    thread: Thread,
) -> Option<Stop> {
    while !session.closes && out.len() < MOST_OUTPUT_BYTES {
        let Some(first) = requests.front() else { break };
        if first.is_empty() {
            requests.pop_front();
            continue;
        }
        let last = first.clone();
        if let Some(changed) = server.acl.changed(&session.user) {
            session.user = changed;
        }
        let joined =
            if session.transaction.is_none() { join(server, session, requests, thread) } else { Vec::new() };
        if joined.is_empty() {
            let is_queued = |spec: &Spec| session.transaction.is_some() && !spec.is(flags::UNQUEUED);
            let is_instant = |spec| is_queued(spec) || spec.is(flags::INSTANT);
            if thread == Thread::MustNotWait && lookup(last.get(0)).is_some_and(|(_, s)| !is_instant(s)) {
                return Some(Stop::Passing);
            }
            requests.pop_front();
            alone(server, session, &last, out);
        } else {
            let unit = requests.make_contiguous().get(..joined.len()).unwrap_or_default();
            match together(server, session, unit, &joined, out, thread) {
                Ok(done) => drop(requests.drain(..done)),
                Err(stop) => return Some(stop),
            }
        }
        session.publish(&last);
    }
    None
}

/// Whether a request's keys are in no slot that is on its way.
fn is_settled(server: &Server, session: &Session, spec: &Spec, request: &Request) -> bool {
    let route = server.cluster.as_ref().map(|cluster| cluster.route(session, spec, request));
    route.is_none_or(|route| matches!(route, Ok(Route::Here)))
}

/// Checks that a request's keys are here.
fn check_keys(context: &mut Context, request: &Request) -> Outcome {
    let Some(cluster) = &context.server.cluster else { return Ok(()) };
    let route = cluster.route(context.session, context.spec, request)?;
    let asked = std::iter::once((context.spec, request));
    check_moving(cluster, route, context.unit, context.session.database, asked)
}

/// Checks that keys whose slot is on its way are here: those that are not, the other node has.
fn check_moving<'a>(
    cluster: &Cluster,
    route: Route,
    unit: &mut Unit,
    database: usize,
    asked: impl Iterator<Item = (&'a Spec, &'a Request)>,
) -> Outcome {
    if route == Route::Here {
        return Ok(());
    }
    let mut first = None;
    let (mut is_one, mut is_any_here, mut is_any_missing) = (true, false, false);
    for (spec, request) in asked {
        for key in spec.keys.places(request).map(|place| request.get(place)) {
            is_one &= *first.get_or_insert(key) == key;
            let is_here = unit.key(database, key)?.is_live();
            is_any_here |= is_here;
            is_any_missing |= !is_here;
        }
    }
    match route {
        Route::Leaving(slot) if is_any_missing && !is_any_here => Err(cluster.ask(slot)),
        Route::Leaving(_) | Route::Arriving if is_any_missing && !is_one => {
            Err(Failure::coded("TRYAGAIN Multiple keys request during rehashing of slot"))
        }
        _ => Ok(()),
    }
}

/// The requests from the front that can be one unit, which a thread that must not wait reads all at once.
fn join(server: &Server, session: &Session, requests: &VecDeque<Request>, thread: Thread) -> Vec<Checked> {
    let most = match thread {
        Thread::MayWait => MOST_JOINED,
        Thread::MustNotWait => MOST_READ_AHEAD,
    };
    let mut bytes = 0;
    let mut joined = Vec::new();
    for request in requests.iter().take(most) {
        bytes += request.bytes();
        let can_join = !request.is_empty() && (joined.is_empty() || bytes <= MOST_JOINED_BYTES);
        // Looked up first, so that a refusal is noted once, when the request is carried out.
        let found = lookup(request.get(0)).filter(|(_, spec)| can_join && spec.is_joinable());
        let Some(found) = found else { break };
        match check_found(server, session, request, found) {
            Ok(checked) if is_settled(server, session, checked.1, request) => joined.push(checked),
            _ => break,
        }
    }
    joined
}

/// Carries out a request that has been `checked`, and writes a reply into `out`, or why there is none; work
/// on it began then. Returns when it ended.
fn answer(
    context: &mut Context,
    number: usize,
    request: &Request,
    checked: Outcome,
    out: &mut Output,
    began: Instant,
) -> Instant {
    let (server, mark) = (context.server, out.len());
    let spec = context.spec;
    let result = checked.and_then(|()| (spec.run)(context, request, out));
    if context.session.transaction.is_none() && spec.name != "asking" {
        context.session.is_asking = false;
    }
    let ended = Instant::now();
    let took_us = u64::try_from(ended.duration_since(began).as_micros()).unwrap_or(u64::MAX);
    server.counters.commands.fetch_add(1, Ordering::Relaxed);
    if let Some(stats) = server.commands.get(number) {
        stats.calls.fetch_add(1, Ordering::Relaxed);
        stats.us.fetch_add(took_us, Ordering::Relaxed);
        stats.failed.fetch_add(u64::from(result.is_err()), Ordering::Relaxed);
    }
    if took_us >= server.config.slow_us() && spec.name != "exec" {
        let most = usize::try_from(server.config.number("slowlog-max-len")).unwrap_or(usize::MAX);
        server.slow_log.note(request, took_us, &context.session.client, most);
    }
    if let Err(failure) = result {
        out.truncate(mark);
        refuse(server, &failure, out);
    }
    quiet(context.session, mark, out);
    ended
}

/// Drops a reply that the client does not want.
fn quiet(session: &mut Session, mark: usize, out: &mut Output) {
    match session.reply {
        ReplyMode::On => {}
        ReplyMode::Off => out.truncate(mark),
        ReplyMode::SkipNext => {
            out.truncate(mark);
            session.reply = ReplyMode::Skip;
        }
        ReplyMode::Skip => {
            out.truncate(mark);
            session.reply = ReplyMode::On;
        }
    }
}

fn refuse(server: &Server, failure: &Failure, out: &mut Output) {
    let text = failure.to_string();
    server.count_error(&text);
    out.error(&text);
}

/// Carries out requests on keys as one unit, and returns how many: fewer than there are where their replies
/// had better be sent first. An error, with nothing done, where the thread would have to wait and must not.
fn together(
    server: &Server,
    session: &mut Session,
    requests: &[Request],
    specs: &[Checked],
    out: &mut Output,
    thread: Thread,
) -> Result<usize, Stop> {
    let store = &*server.store();
    let database = session.database;
    let named = || named(database, requests, specs);
    let writes = specs.iter().any(|(_, spec)| spec.writes());
    let _held = match thread {
        Thread::MayWait => store.locks.keys(named()),
        Thread::MustNotWait if !are_short(store, writes, requests, specs) => return Err(Stop::Passing),
        Thread::MustNotWait => store.locks.try_keys(named(), PATIENCE).ok_or(Stop::Passing)?,
    };
    let mut unit = Unit::new(store, server.config.pack_limits());
    unit.is_read_only = !writes;
    if thread == Thread::MustNotWait {
        read_cached(server, &mut unit, database, requests, specs)?;
    }
    server.counters.units.fetch_add(1, Ordering::Relaxed);
    if requests.len() > 1 {
        server.counters.joined.fetch_add(requests.len() as u64, Ordering::Relaxed);
    }
    let (mark, mut done) = (out.len(), 0);
    let mut result = Ok(());
    'unit: for (requests, specs) in requests.chunks(MOST_READ_AHEAD).zip(specs.chunks(MOST_READ_AHEAD)) {
        if thread == Thread::MayWait {
            result = read_ahead(&mut unit, database, requests, specs);
        }
        if result.is_err() {
            break;
        }
        let mut now = Instant::now();
        for (request, (number, spec)) in requests.iter().zip(specs) {
            let mut context = Context { server, session, unit: &mut unit, spec };
            let checked = check_keys(&mut context, request);
            now = answer(&mut context, *number, request, checked, out, now);
            done += 1;
            if out.len() >= MOST_OUTPUT_BYTES {
                break 'unit;
            }
        }
    }
    if let Err(failure) = result.and_then(|()| unit.commit()) {
        out.truncate(mark);
        requests.iter().for_each(|_| refuse(server, &failure, out));
        return Ok(requests.len());
    }
    Ok(done)
}

/// Carries out a request that is no part of a unit of several.
fn alone(server: &Server, session: &mut Session, request: &Request, out: &mut Output) {
    let mark = out.len();
    let (number, spec) = match check(server, session, request) {
        Ok(checked) => checked,
        Err(failure) => {
            if let Some(transaction) = &mut session.transaction {
                transaction.has_failed = true;
            }
            if let Some(stats) = lookup(request.get(0)).and_then(|(number, _)| server.commands.get(number)) {
                stats.rejected.fetch_add(1, Ordering::Relaxed);
            }
            refuse(server, &failure, out);
            return quiet(session, mark, out);
        }
    };
    if let Some(transaction) = &mut session.transaction {
        if spec.name == "exec" {
            exec(server, session, number, out);
            return quiet(session, mark, out);
        }
        if !spec.is(flags::UNQUEUED) {
            if spec.is(flags::NO_MULTI) {
                transaction.has_failed = true;
                refuse(server, &Failure::coded("ERR Command not allowed inside a transaction"), out);
            } else {
                transaction.queue.push(request.clone());
                out.simple("QUEUED");
            }
            return quiet(session, mark, out);
        }
    }
    let store = &*server.store();
    let _held = if spec.is(flags::WAITS) {
        None
    } else if spec.is(flags::ALL_KEYS) {
        Some(store.locks.all())
    } else {
        Some(store.locks.keys(keys(session.database, request, spec)))
    };
    let mut unit = Unit::new(store, server.config.pack_limits());
    unit.is_read_only = !spec.writes();
    let mut context = Context { server, session, unit: &mut unit, spec };
    let (now, checked) = (Instant::now(), check_keys(&mut context, request));
    answer(&mut context, number, request, checked, out, now);
    if let Err(failure) = unit.commit() {
        out.truncate(mark);
        refuse(server, &failure, out);
    }
}

/// Checks that this node is the one for a transaction as a whole; a part of it is never done.
fn check_transaction(
    server: &Server,
    session: &mut Session,
    unit: &mut Unit,
    queue: &[Request],
    specs: &[Checked],
) -> Outcome {
    if let Some(cluster) = &server.cluster {
        let asked = || specs.iter().map(|(_, spec)| *spec).zip(queue);
        let route = cluster.route_all(session, asked());
        session.is_asking = false;
        check_moving(cluster, route?, unit, session.database, asked())?;
    }
    if unit.is_read_only {
        return Ok(());
    }
    check_writes(server)
        .map_err(|why| Failure::new_coded(format!("EXECABORT Transaction discarded because of: {why}")))
}

/// Carries out a transaction.
fn exec(server: &Server, session: &mut Session, number: usize, out: &mut Output) {
    let Some(Transaction { queue, has_failed }) = session.transaction.take() else { return };
    if let Some(stats) = server.commands.get(number) {
        stats.calls.fetch_add(1, Ordering::Relaxed);
    }
    if has_failed {
        session.unwatch(&server.store());
        let failure = Failure::coded("EXECABORT Transaction discarded because of previous errors.");
        return refuse(server, &failure, out);
    }
    let specs: Vec<Checked> = queue.iter().filter_map(|request| lookup(request.get(0))).collect();
    let store = &*server.store();
    // A database that is selected on the way is not known before; nor are keys that no argument names.
    let needs_all = specs.iter().any(|(_, spec)| spec.is(flags::ALL_KEYS) || !spec.is_joinable());
    let database = session.database;
    let seen = std::mem::take(&mut session.watched);
    let _held = if needs_all {
        store.locks.all()
    } else {
        let watched = seen.keys.iter().map(|key| (key.database, key.key.as_slice(), false));
        let named = queue.iter().zip(&specs).flat_map(|(request, (_, spec))| keys(database, request, spec));
        store.locks.keys(named.chain(watched))
    };
    let mut unit = Unit::new(store, server.config.pack_limits());
    unit.is_read_only = !specs.iter().any(|(_, spec)| spec.writes());
    if let Err(failure) = check_transaction(server, session, &mut unit, &queue, &specs) {
        session.watched = seen;
        session.unwatch(store);
        return refuse(server, &failure, out);
    }
    let is_broken = crate::command::is_broken(&seen, unit.now);
    session.watched = seen;
    session.unwatch(store);
    if is_broken {
        return out.null_array();
    }
    let mark = out.len();
    let mut result = if needs_all { Ok(()) } else { read_ahead(&mut unit, database, &queue, &specs) };
    if result.is_ok() {
        out.array(queue.len());
        for (request, (number, spec)) in queue.iter().zip(&specs) {
            // What the client may do can have changed since it asked.
            let checked = may_run(server, session, request, spec);
            let mut context = Context { server, session, unit: &mut unit, spec };
            answer(&mut context, *number, request, checked, out, Instant::now());
        }
        result = unit.commit();
    }
    if let Err(failure) = result {
        out.truncate(mark);
        refuse(server, &failure, out);
    }
}
