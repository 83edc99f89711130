//! From a server that runs: SCAN names its keys, DUMP and PTTL bring them, a page at a time.
//!
//! ```text
//! redis://[[user]:password@]host[:port][/database]
//! ```
//!
//! How far it is stands in `import.progress` beside the store, written once in a while, when what was read
//! before is on the device. An import that broke off goes on there, if it is the same run of the same server:
//! SCAN shows all keys that are there all the time, whatever becomes of others. What is written at the source
//! meanwhile may be missing: stop writing there, or run the import again.

use super::{Report, Sink};
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::rdb;
use crate::resp::Output;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
/// Keys of a page.
const PAGE: &str = "500";
/// Pages after which it is noted how far the import is.
const PAGES_AT_ONCE: u64 = 16;
/// The longest value that is taken: Redis' own limit, and what a dump adds.
const LONGEST: usize = (512 << 20) + (1 << 20);

/// A server as somebody writes it.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    user: String,
    password: String,
    address: String,
    /// One database, or all.
    database: Option<usize>,
}

fn read_place(url: &str) -> Option<Place> {
    let rest = url.strip_prefix("redis://")?;
    let (rest, database) = match rest.split_once('/') {
        Some((rest, "")) => (rest, None),
        Some((rest, database)) => (rest, Some(database.parse().ok()?)),
        None => (rest, None),
    };
    let (credentials, host) = rest.rsplit_once('@').unwrap_or(("", rest));
    let (user, password) = credentials.split_once(':').unwrap_or(("", credentials));
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let address = if has_port { host.to_owned() } else { format!("{host}:6379") };
    (!host.is_empty()).then(|| Place { user: user.into(), password: password.into(), address, database })
}

enum Reply {
    Line(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Nothing,
    Array(Vec<Reply>),
}

struct Source(BufReader<TcpStream>);

impl Source {
    fn send(&mut self, commands: &[&[&[u8]]]) -> Outcome {
        let mut out = Output::new(false);
        commands.iter().for_each(|words| out.request(words));
        self.0.get_mut().write_all(&out.take()).map_err(Failure::new)
    }

    fn reply(&mut self) -> Outcome<Reply> {
        let mut line = String::new();
        if self.0.read_line(&mut line).map_err(Failure::new)? == 0 {
            return Err(Failure::new("the server has ended the connection"));
        }
        let line = line.trim_end();
        let wrong = || Failure::new(format!("the server answered what makes no sense: {line}"));
        let (kind, rest) = line.split_at_checked(1).ok_or_else(wrong)?;
        let number = || rest.parse::<i64>().map_err(|_| wrong());
        Ok(match kind {
            "+" => Reply::Line(rest.to_owned()),
            "-" => return Err(Failure::new(format!("the server answered: {rest}"))),
            ":" => Reply::Integer(number()?),
            "$" => match usize::try_from(number()?) {
                Ok(length) if length <= LONGEST => {
                    let mut bytes = vec![0; length + 2];
                    self.0.read_exact(&mut bytes).map_err(Failure::new)?;
                    bytes.truncate(length);
                    Reply::Bulk(bytes)
                }
                Ok(_) => return Err(wrong()),
                Err(_) => Reply::Nothing,
            },
            "*" => {
                let count = usize::try_from(number()?).unwrap_or(0);
                Reply::Array((0..count).map(|_| self.reply()).collect::<Outcome<_>>()?)
            }
            _ => return Err(wrong()),
        })
    }

    fn ask(&mut self, words: &[&[u8]]) -> Outcome<Reply> {
        self.send(&[words])?;
        self.reply()
    }

    fn text(&mut self, words: &[&[u8]]) -> Outcome<String> {
        match self.ask(words)? {
            Reply::Bulk(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Reply::Line(line) => Ok(line),
            _ => Err(Failure::new("the server answered what is no text")),
        }
    }

    fn connect(place: &Place) -> Outcome<Self> {
        let stream = TcpStream::connect(&place.address)
            .map_err(|error| Failure::new(format!("{}: {error}", place.address)))?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(Failure::new)?;
        stream.set_nodelay(true).map_err(Failure::new)?;
        let mut source = Self(BufReader::with_capacity(1 << 20, stream));
        if !place.password.is_empty() {
            let words = ["AUTH", &place.user, &place.password];
            let words: Vec<&[u8]> =
                words.iter().filter(|word| !word.is_empty()).map(|word| word.as_bytes()).collect();
            source.ask(&words)?;
        }
        Ok(source)
    }

    /// A page of keys from `cursor` on, and the cursor to go on with.
    fn scan(&mut self, cursor: &str) -> Outcome<(String, Vec<Vec<u8>>)> {
        let wrong = || Failure::new("the server answered SCAN with what makes no sense");
        let Reply::Array(parts) = self.ask(&[b"SCAN", cursor.as_bytes(), b"COUNT", PAGE.as_bytes()])? else {
            return Err(wrong());
        };
        let mut parts = parts.into_iter();
        let (Some(Reply::Bulk(next)), Some(Reply::Array(keys))) = (parts.next(), parts.next()) else {
            return Err(wrong());
        };
        let bulk = |reply| match reply {
            Reply::Bulk(key) => Ok(key),
            _ => Err(wrong()),
        };
        Ok((
            String::from_utf8(next).map_err(|_| wrong())?,
            keys.into_iter().map(bulk).collect::<Outcome<_>>()?,
        ))
    }
}

/// How far an import is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Progress {
    file: PathBuf,
    /// Which run of which server.
    source: String,
    database: usize,
    cursor: String,
}

impl Progress {
    /// Where an import from `source` goes on, if it has begun.
    fn read(file: PathBuf, source: &str) -> Self {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let words: Vec<&str> = text.split_whitespace().collect();
        let (database, cursor) = match words.as_slice() {
            [known, database, cursor] if *known == source => (database.parse().unwrap_or(0), *cursor),
            _ => (0, "0"),
        };
        Self { file, source: source.to_owned(), database, cursor: cursor.to_owned() }
    }

    fn write(&self) -> Outcome {
        let new = self.file.with_extension("new");
        let text = format!("{} {} {}\n", self.source, self.database, self.cursor);
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &self.file));
        written.map_err(|error| Failure::new(format!("{}: {error}", self.file.display())))
    }
}

/// Databases that have keys, and how many.
fn databases(source: &mut Source) -> Outcome<Vec<(usize, u64)>> {
    let text = source.text(&[b"INFO", b"keyspace"])?;
    let database = |line: &str| {
        let (number, rest) = line.strip_prefix("db")?.split_once(":keys=")?;
        Some((number.parse().ok()?, rest.split(',').next()?.parse().ok()?))
    };
    Ok(text.lines().filter_map(database).collect())
}

/// Imports what the server at `url` holds into the store that the settings describe.
///
/// # Errors
/// Those of the connection, after which it can be repeated and goes on; those of writing.
pub fn import(url: &str, config: &Config) -> Outcome<Report> {
    let place = read_place(url).ok_or_else(|| {
        Failure::new(format!("{url}: write redis://[[user]:password@]host[:port][/database]"))
    })?;
    let mut source = Source::connect(&place)?;
    let info = source.text(&[b"INFO", b"server"])?;
    let run = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or("?").trim().to_owned();
    let mut found = databases(&mut source)?;
    found.retain(|(number, _)| place.database.is_none_or(|wanted| wanted == *number));
    let all: u64 = found.iter().map(|(_, keys)| keys).sum();
    let store = crate::server::open_store(config)?;
    let mut sink = Sink::new(&store, config.pack_limits());
    let file = PathBuf::from(config.text("dir")).join("import.progress");
    let mut progress = Progress::read(file, &run);
    if progress.database > 0 || progress.cursor != "0" {
        crate::say(format_args!("goes on in database {} at cursor {}", progress.database, progress.cursor));
    }
    for (number, _) in
        found.into_iter().filter(|(number, _)| *number >= progress.database).collect::<Vec<_>>()
    {
        if number > progress.database {
            (progress.database, progress.cursor) = (number, "0".to_owned());
        }
        source.ask(&[b"SELECT", number.to_string().as_bytes()])?;
        for pages in 1u64.. {
            let (next, keys) = source.scan(&progress.cursor)?;
            page(&mut source, &mut sink, number, &keys)?;
            progress.cursor = next;
            if progress.cursor == "0" {
                break;
            }
            if pages.is_multiple_of(PAGES_AT_ONCE) {
                sink.commit()?;
                store.db.sync()?;
                progress.write()?;
            }
            sink.tell(sink.report.keys, all, "all");
        }
        sink.commit()?;
        store.db.sync()?;
        (progress.database, progress.cursor) = (number + 1, "0".to_owned());
        progress.write()?;
    }
    let report = sink.finish()?;
    store.db.close()?;
    // All is there: the next import begins anew.
    std::fs::remove_file(&progress.file).map_err(Failure::new)?;
    Ok(report)
}

/// Brings a page of keys.
fn page(source: &mut Source, sink: &mut Sink<'_>, database: usize, keys: &[Vec<u8>]) -> Outcome {
    let words: Vec<[&[u8]; 2]> = keys.iter().flat_map(|key| [[&b"PTTL"[..], key], [b"DUMP", key]]).collect();
    let commands: Vec<&[&[u8]]> = words.iter().map(<[&[u8]; 2]>::as_slice).collect();
    source.send(&commands)?;
    for key in keys {
        let (ttl, dump) = (source.reply()?, source.reply()?);
        let (Reply::Integer(ttl), Reply::Bulk(dump)) = (ttl, dump) else {
            // Gone since SCAN named it.
            continue;
        };
        let expires_at = u64::try_from(ttl).map_or(0, |ttl| crate::now_ms() + ttl);
        let value = rdb::checked(&dump).and_then(rdb::read);
        let value = value.ok_or_else(|| {
            let key = String::from_utf8_lossy(key).into_owned();
            Failure::new(format!("what the server dumped of {key:?} can't be read"))
        })?;
        sink.put(database, key, expires_at, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let place = |user: &str, password: &str, address: &str, database| {
            let [user, password, address] = [user, password, address].map(str::to_owned);
            Some(Place { user, password, address, database })
        };
        assert_eq!(read_place("redis://h"), place("", "", "h:6379", None));
        assert_eq!(read_place("redis://:pw@h:1/3"), place("", "pw", "h:1", Some(3)));
        assert_eq!(read_place("redis://u:p@w@h:1/"), place("u", "p@w", "h:1", None));
        for wrong in ["h:1", "rediss://h", "redis://", "redis://h/x"] {
            assert_eq!(read_place(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn progress_is_of_one_run() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("import.progress");
        let mut progress = Progress::read(file.clone(), "run1");
        (progress.database, progress.cursor) = (2, "77".to_owned());
        progress.write().unwrap();
        assert_eq!(Progress::read(file.clone(), "run1"), progress);
        assert_eq!(Progress::read(file, "run2").cursor, "0");
    }
}
