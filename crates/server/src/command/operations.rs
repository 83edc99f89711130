//! What operators use: INFO, backups, the slow log, stopping.

use super::arguments::is;
use super::spec::{Keys, Spec, flags::*};
use super::{Context, help, info, text, unknown_subcommand};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::resp::{Output, Request};
use std::sync::atomic::Ordering;

const ADM: u32 = ALONE | ADMIN;

pub const TABLE: &[Spec] = &[
    Spec::new("info", -1, ALONE, show_info).about("server", "1.0.0", "Returns facts and counters."),
    Spec::new("time", 1, ALONE | FAST | INSTANT, time).about("server", "2.6.0", "Returns the server's time."),
    Spec::on("memory", -2, READONLY, Keys::Range { first: 2, last: 2, step: 1 }, super::memory::memory)
        .about("server", "4.0.0", "Says who holds how much memory."),
    Spec::new("slowlog", -2, ADM | INSTANT, super::slowlog::slowlog).about(
        "server",
        "2.2.12",
        "Returns the slowest commands of late.",
    ),
    Spec::new("latency", -2, ADM | INSTANT, super::slowlog::latency).about(
        "server",
        "2.8.13",
        "Tells of latency.",
    ),
    Spec::new("debug", -2, ADM, super::debug::debug).about("server", "1.0.0", "Helps to test the server."),
    Spec::new("save", 1, ADM | NO_MULTI, save).about("server", "1.0.0", "Makes a checkpoint of the store."),
    Spec::new("bgsave", -1, ADM, bgsave).about("server", "1.0.0", "Makes a checkpoint in the background."),
    Spec::new("bgrewriteaof", 1, ADM, rewrite).about(
        "server",
        "1.0.0",
        "Does nothing: compaction does it all the time.",
    ),
    Spec::new("lastsave", 1, ALONE | FAST | ADMIN | INSTANT, last_save).about(
        "server",
        "1.0.0",
        "Returns when the last checkpoint was made.",
    ),
    Spec::new("shutdown", -1, ADM | NO_MULTI, shutdown).about("server", "1.0.0", "Stops the server."),
    Spec::new("function", -2, ALONE | INSTANT, function).about(
        "scripting",
        "7.0.0",
        "Says that there are none.",
    ),
    Spec::new("lolwut", -1, ALONE | FAST | INSTANT, lolwut).about("server", "5.0.0", "Returns the version."),
];

fn show_info(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let sections: Vec<String> = request.from(1).map(|name| text(name).to_lowercase()).collect();
    out.verbatim(&info(context.server, &sections));
    Ok(())
}

fn time(_context: &mut Context, _request: &Request, out: &mut Output) -> Outcome {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    out.array(2);
    out.text(&since.as_secs().to_string());
    out.text(&since.subsec_micros().to_string());
    Ok(())
}

fn save(context: &mut Context, _request: &Request, out: &mut Output) -> Outcome {
    context.server.checkpoint()?;
    out.ok();
    Ok(())
}

fn bgsave(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    match request.len() {
        1 => {}
        2 if is(request.get(1), "SCHEDULE") => {}
        _ => return Err(SYNTAX),
    }
    if context.server.is_saving.swap(true, Ordering::SeqCst) {
        return Err(Failure::coded("ERR Background save already in progress"));
    }
    context.server.wants_save.notify_one();
    out.simple("Background saving started");
    Ok(())
}

fn rewrite(_context: &mut Context, _request: &Request, out: &mut Output) -> Outcome {
    out.simple("Background append only file rewriting started");
    Ok(())
}

fn last_save(context: &mut Context, _request: &Request, out: &mut Output) -> Outcome {
    let at = context.server.last_save_ms.load(Ordering::Relaxed) / 1000;
    out.integer(i64::try_from(at).unwrap_or(0));
    Ok(())
}

fn shutdown(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    for option in request.from(1) {
        match option.to_ascii_uppercase().as_slice() {
            b"NOSAVE" | b"SAVE" | b"NOW" | b"FORCE" => {}
            b"ABORT" => return Err(Failure::coded("ERR No shutdown in progress.")),
            _ => return Err(SYNTAX),
        }
    }
    context.session.closes = true;
    context.server.stop();
    // Who asked sees the connection end.
    out.truncate(0);
    Ok(())
}

fn function(_context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    match (request.get(1).to_ascii_uppercase().as_slice(), request.len()) {
        (b"FLUSH", 2 | 3) => out.ok(),
        (b"LIST", _) => out.array(0),
        (b"HELP", 2) => help(out, "FUNCTION", &["FLUSH", "    Does nothing, since there are no functions."]),
        (b"LOAD" | b"DELETE" | b"STATS" | b"DUMP" | b"RESTORE" | b"KILL", _) => {
            return Err(Failure::coded("ERR this server runs no functions"));
        }
        _ => return Err(unknown_subcommand(request)),
    }
    Ok(())
}

fn lolwut(_context: &mut Context, _request: &Request, out: &mut Output) -> Outcome {
    out.verbatim(&format!(
        "Siltstone {}, as Redis ver. {}\n",
        env!("CARGO_PKG_VERSION"),
        crate::REDIS_VERSION
    ));
    Ok(())
}
