//! MIGRATE: keys go to another server by DUMP and RESTORE, and are deleted here once they are there.
//!
//! The keys are locked meanwhile, so that no write between the two is lost.

use super::arguments::{Options, integer, is};
use super::spec::{Keys, Spec, flags::*};
use super::{Context, text};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::number;
use crate::rdb;
use crate::resp::{Output, Request};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

pub const TABLE: &[Spec] =
    &[Spec::on("migrate", -6, WRITE | ALONE | NO_MULTI | DANGEROUS, Keys::Migrated, migrate).about(
        "generic",
        "2.6.0",
        "Moves keys to another server.",
    )];

struct Wish<'a> {
    copies: bool,
    replaces: bool,
    credentials: Vec<&'a [u8]>,
    database: i64,
    keys: Vec<&'a [u8]>,
}

fn read(request: &Request) -> Outcome<Wish<'_>> {
    let mut wish = Wish {
        copies: false,
        replaces: false,
        credentials: Vec::new(),
        database: integer(request.get(4))?,
        keys: Keys::Migrated.places(request).map(|place| request.get(place)).collect(),
    };
    let mut options = Options::new(request.from(6));
    while let Some(option) = options.next() {
        match option.as_str() {
            "COPY" => wish.copies = true,
            "REPLACE" => wish.replaces = true,
            "AUTH" => wish.credentials = vec![options.value()?],
            "AUTH2" => wish.credentials = vec![options.value()?, options.value()?],
            "KEYS" if request.get(3).is_empty() => break,
            _ => return Err(SYNTAX),
        }
    }
    Ok(wish)
}

fn connect(request: &Request) -> Outcome<BufReader<TcpStream>> {
    let failed = |_| Failure::coded("IOERR error or timeout connecting to the client");
    let timeout = u64::try_from(integer(request.get(5))?).unwrap_or(0);
    let patience = Duration::from_millis(if timeout == 0 { 1_000 } else { timeout });
    let port = number::integer(request.get(2)).and_then(|port| u16::try_from(port).ok()).ok_or(SYNTAX)?;
    let host = text(request.get(1));
    let address = (host.as_str(), port).to_socket_addrs().map_err(failed)?.next();
    let address = address.ok_or(Failure::coded("IOERR error or timeout connecting to the client"))?;
    let stream = TcpStream::connect_timeout(&address, patience).map_err(failed)?;
    stream.set_read_timeout(Some(patience)).map_err(failed)?;
    stream.set_write_timeout(Some(patience)).map_err(failed)?;
    Ok(BufReader::new(stream))
}

/// A key that goes: its name, its time to live in milliseconds, its value.
type Going<'a> = (&'a [u8], u64, Vec<u8>);

/// What is sent to the other server, and how many replies come before those to RESTORE.
fn commands(wish: &Wish, present: &[Going], in_cluster: bool) -> (Vec<u8>, usize) {
    let (mut out, mut before) = (Output::new(false), 0);
    if !wish.credentials.is_empty() {
        out.request(&[&[b"AUTH".as_slice()], wish.credentials.as_slice()].concat());
        before += 1;
    }
    if !in_cluster {
        out.request(&[b"SELECT", wish.database.to_string().as_bytes()]);
        before += 1;
    }
    for (key, ttl, payload) in present {
        if in_cluster {
            out.request(&[b"ASKING"]);
        }
        let ttl = ttl.to_string();
        let mut words: Vec<&[u8]> = vec![b"RESTORE", key, ttl.as_bytes(), payload];
        if wish.replaces {
            words.push(b"REPLACE");
        }
        out.request(&words);
    }
    (out.take(), before)
}

fn migrate(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let wish = read(request)?;
    let mut present = Vec::new();
    for key in &wish.keys {
        let now = context.unit.now;
        let state = context.key(key)?;
        if state.is_live() {
            let ttl = if state.expires_at == 0 { 0 } else { state.expires_at.saturating_sub(now).max(1) };
            present.push((*key, ttl, rdb::payload(state)?.unwrap_or_default()));
        }
    }
    if present.is_empty() {
        out.simple("NOKEY");
        return Ok(());
    }
    let in_cluster = context.server.cluster.is_some();
    let (bytes, before) = commands(&wish, &present, in_cluster);
    let failed = |_| Failure::coded("IOERR error or timeout writing to target instance");
    let mut target = connect(request)?;
    target.get_mut().write_all(&bytes).map_err(failed)?;
    let mut reply = || -> Outcome<Option<String>> {
        let mut line = String::new();
        let count = target
            .read_line(&mut line)
            .map_err(|_| Failure::coded("IOERR error or timeout reading from target instance"))?;
        if count == 0 {
            return Err(Failure::coded("IOERR error or timeout reading from target instance"));
        }
        Ok(line.trim_end().strip_prefix('-').map(str::to_owned))
    };
    for _ in 0..before {
        if let Some(error) = reply()? {
            return Err(Failure::new(format!("Target instance replied with error: {error}")));
        }
    }
    let mut refused = None;
    for (key, _, _) in &present {
        let mut error = if in_cluster { reply()? } else { None };
        error = reply()?.or(error);
        match error {
            None if !wish.copies => context.key(key)?.remove(),
            None => {}
            Some(error) => refused = Some(error),
        }
    }
    match refused {
        None => out.ok(),
        // What has arrived is deleted here all the same: the reply must not undo that.
        Some(error) => out.error(&format!("ERR Target instance replied with error: {error}")),
    }
    Ok(())
}

/// Places of the keys: argument 3, or, where that is empty, what stands behind `KEYS`.
pub fn places(request: &Request) -> std::ops::Range<usize> {
    if !request.get(3).is_empty() {
        return 3..4.min(request.len());
    }
    let at = (6..request.len()).find(|at| is(request.get(*at), "KEYS"));
    at.map_or(0..0, |at| at + 1..request.len())
}
