//! MULTI, EXEC and WATCH. A transaction is a unit of work of its own; see `server/pipeline.rs`, which carries
//! EXEC out, since it has to lock the keys of all commands first.

use super::Context;
use super::spec::{Keys, Spec, flags::*};
use crate::failure::{Failure, Outcome};
use crate::resp::{Output, Request};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const CF: u32 = ALONE | FAST;

pub const TABLE: &[Spec] = &[
    Spec::new("multi", 1, CF | INSTANT | UNQUEUED, multi).about(
        "transactions",
        "1.2.0",
        "Begins a transaction.",
    ),
    Spec::new("exec", 1, ALONE | UNQUEUED, exec).about(
        "transactions",
        "1.2.0",
        "Carries out the commands of a transaction.",
    ),
    Spec::new("discard", 1, CF | UNQUEUED, discard).about("transactions", "2.0.0", "Gives a transaction up."),
    Spec::on("watch", -2, CF | UNQUEUED, Keys::ALL, watch).about(
        "transactions",
        "2.2.0",
        "Lets EXEC fail if a key changes before.",
    ),
    Spec::new("unwatch", 1, CF, unwatch).about("transactions", "2.2.0", "Forgets all watched keys."),
];

fn multi(context: &mut Context, _request: &Request, out: &mut Output) -> Outcome {
    if context.session.transaction.is_some() {
        return Err(Failure::coded("ERR MULTI calls can not be nested"));
    }
    context.session.transaction = Some(Default::default());
    out.ok();
    Ok(())
}

fn exec(_context: &mut Context, _request: &Request, _out: &mut Output) -> Outcome {
    Err(Failure::coded("ERR EXEC without MULTI"))
}

fn discard(context: &mut Context, _request: &Request, out: &mut Output) -> Outcome {
    if context.session.transaction.take().is_none() {
        return Err(Failure::coded("ERR DISCARD without MULTI"));
    }
    context.session.unwatch(&context.server.store());
    out.ok();
    Ok(())
}

fn watch(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    if context.session.transaction.is_some() {
        return Err(Failure::coded("ERR WATCH inside MULTI is not allowed"));
    }
    let database = context.session.database;
    let flag =
        Arc::clone(context.session.watched.flag.get_or_insert_with(|| Arc::new(AtomicBool::new(false))));
    for key in request.from(1) {
        if context
            .session
            .watched
            .keys
            .iter()
            .any(|watched| watched.database == database && watched.key == key)
        {
            continue;
        }
        // Watched first and read afterwards, so that no change goes unseen.
        context.server.store().watchers.watch(database, key, &flag);
        let expires_at = context.key(key)?.expires_at;
        context.session.watched.keys.push(crate::server::WatchedKey {
            database,
            key: key.to_vec(),
            expires_at,
        });
    }
    out.ok();
    Ok(())
}

fn unwatch(context: &mut Context, _request: &Request, out: &mut Output) -> Outcome {
    context.session.unwatch(&context.server.store());
    out.ok();
    Ok(())
}

/// Whether a watched key has changed, or has expired, since it was watched.
pub fn is_broken(watched: &crate::server::Watched, now: u64) -> bool {
    let has_changed = watched.flag.as_ref().is_some_and(|flag| flag.load(Ordering::SeqCst));
    has_changed || watched.keys.iter().any(|key| key.expires_at > 0 && key.expires_at <= now)
}
