//! The side that follows: a thread that takes in what the primary sends, and connects again when it must.

use super::Wanted;
use super::primary::operation;
use crate::failure::{Failure, Outcome};
use crate::keyspace::Position;
use crate::resp::{Decoder, Limits, Output, Request};
use crate::say;
use crate::server::Server;
use bytes::BytesMut;
use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long the replica waits before it connects again.
const AGAIN: Duration = Duration::from_secs(1);
/// How often it looks whether it has been ended while it waits.
const LOOK: Duration = Duration::from_millis(50);

/// How far a link has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// There is no connection.
    Connecting,
    /// A checkpoint is arriving.
    Syncing,
    /// Changes arrive.
    Connected,
}

impl LinkState {
    /// The state as ROLE names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connect",
            Self::Syncing => "sync",
            Self::Connected => "connected",
        }
    }
}

/// The link of a replica to its primary.
#[derive(Debug)]
pub struct Link {
    /// Where the primary is.
    pub host: String,
    /// Its port.
    pub port: u16,
    state: Mutex<LinkState>,
    position: AtomicU64,
    heard_ms: AtomicU64,
    has_begun: AtomicBool,
    has_ended: AtomicBool,
    socket: Mutex<Option<TcpStream>>,
    /// Held while something is taken in: after `end` nothing is.
    taking: Mutex<()>,
}

impl Link {
    pub(super) fn new(host: &str, port: u16) -> Self {
        Self {
            host: host.to_owned(),
            port,
            state: Mutex::new(LinkState::Connecting),
            position: AtomicU64::new(0),
            heard_ms: AtomicU64::new(crate::now_ms()),
            has_begun: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            socket: Mutex::default(),
            taking: Mutex::default(),
        }
    }

    /// Whether the link has no thread yet and needs one; only once.
    pub(super) fn begin(&self) -> bool {
        !self.has_begun.swap(true, Ordering::SeqCst)
    }

    /// Ends it: when this returns, nothing more is taken in.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        if let Some(socket) = &*self.socket.lock() {
            // Where it has been closed already, that is as well.
            let _ = socket.shutdown(Shutdown::Both);
        }
        drop(self.taking.lock());
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// How far it has come.
    pub fn state(&self) -> LinkState {
        *self.state.lock()
    }

    fn set(&self, state: LinkState) {
        *self.state.lock() = state;
    }

    /// The position of the primary's log before which everything is here.
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::SeqCst)
    }

    /// Seconds since the primary was heard of.
    pub fn silent_s(&self) -> u64 {
        crate::now_ms().saturating_sub(self.heard_ms.load(Ordering::SeqCst)) / 1000
    }
}

/// Follows the primary until the link is ended.
pub(super) fn run(server: &Server, link: &Link) {
    let mut last_said = String::new();
    while !link.has_ended() && !server.is_stopping() {
        if let Err(failure) = follow(server, link) {
            let text = failure.to_string();
            if !link.has_ended() && text != last_said {
                say(format_args!("following {}:{}: {text}", link.host, link.port));
                last_said = text;
            }
        }
        link.set(LinkState::Connecting);
        *link.socket.lock() = None;
        let mut waited = Duration::ZERO;
        while waited < AGAIN && !link.has_ended() && !server.is_stopping() {
            std::thread::sleep(LOOK);
            waited += LOOK;
        }
    }
}

/// A connection to the primary.
struct Primary {
    socket: TcpStream,
    buffer: BytesMut,
    decoder: Decoder,
}

fn failed(error: io::Error) -> Failure {
    Failure::new(error)
}

impl Primary {
    fn connect(server: &Server, link: &Link) -> Outcome<Self> {
        let patience = Duration::from_secs(server.config.number("repl-timeout").max(1));
        let mut last = Failure::new("there is no such address");
        for address in (link.host.as_str(), link.port).to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&address, patience) {
                Ok(socket) => {
                    socket.set_read_timeout(Some(patience)).map_err(failed)?;
                    socket.set_nodelay(true).map_err(failed)?;
                    *link.socket.lock() = Some(socket.try_clone().map_err(failed)?);
                    return Ok(Self { socket, buffer: BytesMut::new(), decoder: Decoder::default() });
                }
                Err(error) => last = failed(error),
            }
        }
        Err(last)
    }

    fn send(&mut self, words: &[&str]) -> Outcome {
        let mut out = Output::new(false);
        out.request(words);
        self.socket.write_all(&out.take()).map_err(failed)
    }

    fn receive(&mut self) -> Outcome {
        let mut bytes = vec![0; 256 << 10];
        let count = self.socket.read(&mut bytes).map_err(failed)?;
        if count == 0 {
            return Err(Failure::new("the primary has ended the connection"));
        }
        self.buffer.extend_from_slice(bytes.get(..count).unwrap_or_default());
        Ok(())
    }

    /// The next line, which is a simple reply.
    fn line(&mut self) -> Outcome<String> {
        const LONGEST: usize = 64 << 10;
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            if self.buffer.len() > LONGEST {
                return Err(Failure::new("the primary answered what is no reply"));
            }
            self.receive()?;
        }
    }

    /// Sends a command and takes its reply, which must be none of an error.
    fn ask(&mut self, words: &[&str]) -> Outcome<String> {
        self.send(words)?;
        let line = self.line()?;
        match line.strip_prefix('-') {
            Some(error) => Err(Failure::new(format!("{}: {error}", words.first().unwrap_or(&"")))),
            None => Ok(line),
        }
    }

    /// The next message.
    fn message(&mut self) -> Outcome<Request> {
        let limits = Limits { arguments: i64::MAX, request_bytes: usize::MAX, ..Limits::default() };
        loop {
            let next = self.decoder.next(&mut self.buffer, &limits);
            if let Some(request) = next.map_err(|error| Failure::new(error.0))? {
                return Ok(request);
            }
            self.buffer.reserve(self.decoder.wanted_bytes().saturating_sub(self.buffer.len()).min(1 << 20));
            self.receive()?;
        }
    }
}

fn number(bytes: &[u8]) -> Outcome<u64> {
    let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Failure::new("the primary sent what is no number"))
}

/// One connection's time.
fn follow(server: &Server, link: &Link) -> Outcome {
    let mut primary = Primary::connect(server, link)?;
    let (user, password) = (server.config.text("masteruser"), server.config.text("masterauth"));
    match (user.is_empty(), password.is_empty()) {
        (_, true) => {}
        (true, false) => drop(primary.ask(&["AUTH", &password])?),
        (false, false) => drop(primary.ask(&["AUTH", &user, &password])?),
    }
    primary.ask(&["PING"])?;
    let port = server.port().to_string();
    primary.ask(&["REPLCONF", "listening-port", &port, "capa", "siltstone"])?;
    let wanted = match server.store().position()? {
        Some(Position { log_id, next }) => Wanted { log_id, position: next },
        None => Wanted { log_id: "?".to_owned(), position: 0 },
    };
    let reply = primary.ask(&["PSYNC", &wanted.log_id, &wanted.position.to_string()])?;
    let words: Vec<&str> = reply.split(' ').collect();
    let log_id = match words.as_slice() {
        ["+CONTINUE", log_id] => {
            link.position.store(wanted.position, Ordering::SeqCst);
            (*log_id).to_owned()
        }
        ["+FULLRESYNC", log_id, position] => {
            link.set(LinkState::Syncing);
            let position = Position { log_id: (*log_id).to_owned(), next: number(position.as_bytes())? };
            take_checkpoint(server, link, &mut primary, &position)?;
            link.position.store(position.next, Ordering::SeqCst);
            position.log_id
        }
        _ => return Err(Failure::new(format!("the primary answered PSYNC by {reply}"))),
    };
    link.set(LinkState::Connected);
    say(format_args!("follows {}:{} from position {}", link.host, link.port, link.position()));
    loop {
        primary.send(&["REPLCONF", "ACK", &link.position().to_string()])?;
        let message = primary.message()?;
        link.heard_ms.store(crate::now_ms(), Ordering::SeqCst);
        let next = number(message.get(1))?;
        if message.get(0) == b"changes" {
            take_changes(server, link, &message, &Position { log_id: log_id.clone(), next })?;
        }
        link.position.store(next, Ordering::SeqCst);
    }
}

fn take_changes(server: &Server, link: &Link, message: &Request, position: &Position) -> Outcome {
    let arguments: Vec<&[u8]> = message.from(2).collect();
    let (operations, rest) = arguments.as_chunks::<5>();
    let operations: Option<Vec<_>> = operations.iter().map(|five| operation(*five)).collect();
    let operations = operations
        .filter(|_| rest.is_empty())
        .ok_or_else(|| Failure::new("the primary sent changes that make no sense"))?;
    let _taking = link.taking.lock();
    if link.has_ended() {
        return Err(Failure::new("the link was ended"));
    }
    server.store().apply(&operations, position)
}

/// Takes in the primary's checkpoint, in the place of the store.
fn take_checkpoint(server: &Server, link: &Link, primary: &mut Primary, position: &Position) -> Outcome {
    let directory = server.directory().join("store.arriving");
    if directory.exists() {
        std::fs::remove_dir_all(&directory).map_err(failed)?;
    }
    std::fs::create_dir_all(&directory).map_err(failed)?;
    let mut open: Option<(PathBuf, File)> = None;
    loop {
        let message = primary.message()?;
        link.heard_ms.store(crate::now_ms(), Ordering::SeqCst);
        match message.get(0) {
            b"file" => {
                let path = inside(&directory, message.get(1))?;
                if open.as_ref().is_none_or(|(known, _)| *known != path) {
                    close(open.take())?;
                    if let Some(parent) = path.parent() {
                        std::fs::create_dir_all(parent).map_err(failed)?;
                    }
                    let file =
                        OpenOptions::new().create_new(true).append(true).open(&path).map_err(failed)?;
                    open = Some((path, file));
                }
                if let Some((_, file)) = &mut open {
                    file.write_all(message.get(2)).map_err(failed)?;
                }
            }
            b"opened" => break,
            _ => return Err(Failure::new("the primary sent what is no part of a checkpoint")),
        }
    }
    close(open)?;
    let _taking = link.taking.lock();
    if link.has_ended() {
        return Err(Failure::new("the link was ended"));
    }
    server.adopt(&directory, position)
}

fn close(open: Option<(PathBuf, File)>) -> Outcome {
    match open {
        Some((_, file)) => file.sync_all().map_err(failed),
        None => Ok(()),
    }
}

/// The path `name` below `directory`; an error where it would leave it.
fn inside(directory: &Path, name: &[u8]) -> Outcome<PathBuf> {
    let name = Path::new(std::str::from_utf8(name).unwrap_or_default());
    let is_inside = name.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_inside || name.as_os_str().is_empty() {
        return Err(Failure::new(format!("the primary sent a file {}", name.display())));
    }
    Ok(directory.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_inside_their_directory() {
        let directory = Path::new("/data/x");
        assert_eq!(inside(directory, b"a/b").unwrap(), Path::new("/data/x/a/b"));
        for name in ["", "../a", "/etc/passwd", "a/../../b", "."] {
            assert!(inside(directory, name.as_bytes()).is_err(), "{name}");
        }
    }
}
