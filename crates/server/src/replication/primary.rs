//! The side that is followed: a checkpoint where one is needed, and then the tail of the log.

use super::{Announced, Wanted, count};
use crate::failure::{Failure, Outcome};
use crate::keyspace::Store;
use crate::resp::{Decoder, Limits, Output};
use crate::server::{Client, Server};
use bytes::BytesMut;
use siltstone::{Change, Tail, TailOperation};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

/// Bytes of a file that are sent in one message.
const PIECE_BYTES: u64 = 1 << 20;
/// Bytes of changes after which a message is sent.
const MESSAGE_BYTES: usize = 256 << 10;
/// How long the feed waits for a change before it looks after the rest.
const LOOK: Duration = Duration::from_millis(20);
/// How often a replica hears from its primary.
const PING: Duration = Duration::from_secs(1);

/// One who follows this server.
#[derive(Debug)]
pub struct Follower {
    /// Where it is.
    pub address: String,
    /// The port at which it takes clients.
    pub port: u16,
    position: AtomicU64,
    heard_ms: AtomicU64,
    is_online: AtomicBool,
    has_ended: AtomicBool,
}

impl Follower {
    fn new(client: &Client, announced: &Announced) -> Self {
        let address = client.address.rsplit_once(':').map_or(client.address.as_str(), |(host, _)| host);
        Self {
            address: address.to_owned(),
            port: announced.port,
            position: AtomicU64::new(0),
            heard_ms: AtomicU64::new(crate::now_ms()),
            is_online: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        }
    }

    pub(super) fn acknowledge(&self, position: u64) {
        self.position.store(position, Ordering::SeqCst);
        self.heard_ms.store(crate::now_ms(), Ordering::SeqCst);
    }

    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
    }

    /// The position before which it has everything.
    pub fn acknowledged(&self) -> u64 {
        self.position.load(Ordering::SeqCst)
    }

    /// Milliseconds since it was heard of.
    pub fn silent_ms(&self) -> u64 {
        crate::now_ms().saturating_sub(self.heard_ms.load(Ordering::SeqCst))
    }

    /// Whether it has the checkpoint and takes changes.
    pub fn is_online(&self) -> bool {
        self.is_online.load(Ordering::SeqCst)
    }
}

/// Feeds the replica behind a connection until one of them ends.
///
/// # Errors
/// Those of the connection.
pub async fn feed<S: AsyncRead + AsyncWrite + Unpin>(
    server: &Arc<Server>,
    client: &Client,
    (announced, wanted): (&Announced, Wanted),
    stream: &mut S,
    buffer: &mut BytesMut,
) -> io::Result<()> {
    let follower = Arc::new(Follower::new(client, announced));
    server.replication.add(&follower);
    client.set_replica();
    let (send, mut receive) = mpsc::channel::<Vec<u8>>(4);
    let (worker, fed) = (Arc::clone(server), Arc::clone(&follower));
    let spawned = std::thread::Builder::new().name("feed".into()).spawn(move || {
        if let Err(failure) = produce(&worker, &fed, &wanted, &send)
            && !worker.is_stopping()
        {
            crate::say(format_args!("feeding the replica {}:{}: {failure}", fed.address, fed.port));
        }
    });
    let (mut reading, mut writing) = tokio::io::split(stream);
    let writes = async {
        while let Some(bytes) = receive.recv().await {
            writing.write_all(&bytes).await?;
            writing.flush().await?;
            server.counters.bytes_out.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    };
    let mut stopping = server.stopping();
    let result = tokio::select! {
        result = writes => result,
        result = acknowledgements(server, &follower, &mut reading, buffer) => result,
        () = client.ends.notified() => Ok(()),
        _ = stopping.wait_for(|stops| *stops) => Ok(()),
    };
    server.replication.remove(&follower);
    spawned.map(drop).and(result)
}

/// Takes the replica's acknowledgements.
async fn acknowledgements<R: AsyncRead + Unpin>(
    server: &Server,
    follower: &Follower,
    stream: &mut R,
    buffer: &mut BytesMut,
) -> io::Result<()> {
    let mut decoder = Decoder::default();
    loop {
        while let Some(request) =
            decoder.next(buffer, &Limits::default()).map_err(|error| io::Error::other(error.0))?
        {
            if request.get(0).eq_ignore_ascii_case(b"replconf") && request.get(1).eq_ignore_ascii_case(b"ack")
            {
                let position = std::str::from_utf8(request.get(2)).ok().and_then(|text| text.parse().ok());
                server.replication.acknowledge(follower, position.unwrap_or(0));
            }
        }
        buffer.reserve(4 << 10);
        if stream.read_buf(buffer).await? == 0 {
            return Ok(());
        }
    }
}

/// What goes to one replica.
struct Feed<'a> {
    send: &'a mpsc::Sender<Vec<u8>>,
    follower: &'a Follower,
}

impl Feed<'_> {
    /// Sends bytes; an error where nobody takes them.
    fn send(&self, bytes: Vec<u8>) -> Outcome {
        let ended = || Failure::new("the connection has ended");
        if self.follower.has_ended.load(Ordering::SeqCst) {
            return Err(ended());
        }
        self.send.blocking_send(bytes).map_err(|_| ended())
    }
}

fn message(arguments: &[&[u8]]) -> Vec<u8> {
    let mut out = Output::new(false);
    out.request(arguments);
    out.take()
}

/// Sends what the replica lacks, and then what happens, until the connection ends.
fn produce(server: &Server, follower: &Follower, wanted: &Wanted, send: &mpsc::Sender<Vec<u8>>) -> Outcome {
    let (store, feed) = (server.store(), Feed { send, follower });
    let mut tail = match begin(server, &store, wanted) {
        Some(tail) => {
            count(&server.replication.continued_syncs);
            feed.send(format!("+CONTINUE {}\r\n", server.replication.log_id()).into_bytes())?;
            tail
        }
        None => {
            if wanted.log_id != "?" {
                count(&server.replication.refused_syncs);
            }
            count(&server.replication.full_syncs);
            full(server, &store, &feed)?
        }
    };
    follower.is_online.store(true, Ordering::SeqCst);
    let (mut told, mut heard) = (0, Instant::now());
    while !follower.has_ended.load(Ordering::SeqCst) {
        if let Some(batch) = tail.next_batch(LOOK)? {
            let mut operations = batch.operations;
            let mut bytes: usize = operations.iter().map(size).sum();
            while bytes < MESSAGE_BYTES {
                let Some(next) = tail.next_batch(Duration::ZERO)? else { break };
                bytes += next.operations.iter().map(size).sum::<usize>();
                operations.extend(next.operations);
            }
            told = tail.position();
            feed.send(changes(told, &operations))?;
            heard = Instant::now();
            continue;
        }
        // Nothing that is on the device: what has been written since shall not wait for the next sync.
        if store.db.log_position() > tail.position() {
            store.db.sync()?;
        }
        if tail.position() != told || heard.elapsed() >= PING {
            told = tail.position();
            feed.send(message(&[b"ping", told.to_string().as_bytes()]))?;
            heard = Instant::now();
        }
    }
    Ok(())
}

/// The tail from where the replica is, if it can go on there.
fn begin(server: &Server, store: &Store, wanted: &Wanted) -> Option<Tail> {
    if wanted.log_id != server.replication.log_id() {
        return None;
    }
    store.db.tail(wanted.position).ok()
}

/// Sends a checkpoint, and returns the tail that goes on behind it.
fn full(server: &Server, store: &Store, feed: &Feed) -> Outcome<Tail> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| Failure::new(format!("{path}: {error}"))
    };
    let number = crate::now_ms();
    let directory = server.directory().join(format!("for-replica-{number}-{}", feed.follower.port));
    let cleared = Cleared(directory.clone());
    let (tail, position) = {
        // Nothing is committed meanwhile, so that no counter is added to twice.
        let _held = store.locks.all();
        store.db.sync()?;
        let position = store.db.log_position();
        // It keeps the log from there on.
        let tail = store.db.tail(position)?;
        store.db.checkpoint(&directory)?;
        (tail, position)
    };
    feed.send(format!("+FULLRESYNC {} {position}\r\n", server.replication.log_id()).into_bytes())?;
    for path in files(&directory).map_err(failed(&directory))? {
        let name = path.strip_prefix(&directory).unwrap_or(&path).to_string_lossy().into_owned();
        let mut file = File::open(&path).map_err(failed(&path))?;
        loop {
            let mut piece = Vec::new();
            file.by_ref().take(PIECE_BYTES).read_to_end(&mut piece).map_err(failed(&path))?;
            let is_last = (piece.len() as u64) < PIECE_BYTES;
            feed.send(message(&[b"file", name.as_bytes(), &piece]))?;
            if is_last {
                break;
            }
        }
    }
    drop(cleared);
    feed.send(message(&[b"opened"]))?;
    Ok(tail)
}

/// A directory that is removed when it is no longer needed.
struct Cleared(PathBuf);

impl Drop for Cleared {
    fn drop(&mut self) {
        // What stays is removed when the server starts.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// All files below `directory`.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut found, mut open) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let list = if entry.file_type()?.is_dir() { &mut open } else { &mut found };
            list.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn size(operation: &TailOperation) -> usize {
    let value = match &operation.change {
        Change::Put { value, .. } => value.len(),
        Change::Merge { operand } => operand.len(),
        _ => 0,
    };
    operation.key.len() + value + 64
}

/// The message that hands on `operations`.
fn changes(next: u64, operations: &[TailOperation]) -> Vec<u8> {
    let mut out = Output::new(false);
    out.array(2 + operations.len() * 5);
    out.text("changes");
    out.text(&next.to_string());
    for TailOperation { keyspace, key, change, .. } in operations {
        let (kind, value, expires) = match change {
            Change::Put { value, expires_at_ms } => ("put", value.as_slice(), *expires_at_ms),
            Change::Merge { operand } => ("merge", operand.as_slice(), None),
            Change::DeletePrefix => ("delete-prefix", &[][..], None),
            Change::Delete => ("delete", &[][..], None),
            // No server replaces a keyspace's contents. A replica does not know the word, and stops with an
            // error rather than go on with other contents.
            _ => ("replaced", &[][..], None),
        };
        let expires = expires.map_or(String::new(), |at| at.to_string());
        for argument in [kind.as_bytes(), keyspace.as_bytes(), key, value, expires.as_bytes()] {
            out.bulk(argument);
        }
    }
    out.take()
}

/// Reads an operation from the five arguments that `changes` wrote.
pub(super) fn operation(arguments: [&[u8]; 5]) -> Option<TailOperation> {
    let [kind, keyspace, key, value, expires] = arguments;
    let change = match kind {
        b"put" => {
            let expires = std::str::from_utf8(expires).ok()?;
            let expires_at_ms = if expires.is_empty() { None } else { Some(expires.parse().ok()?) };
            Change::Put { value: value.to_vec(), expires_at_ms }
        }
        b"merge" => Change::Merge { operand: value.to_vec() },
        b"delete" => Change::Delete,
        b"delete-prefix" => Change::DeletePrefix,
        _ => return None,
    };
    Some(TailOperation::new(std::str::from_utf8(keyspace).ok()?, key, change))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_arrive_as_they_were() {
        let sent = vec![
            TailOperation::new("0", "k", Change::Put { value: b"v\r\n".to_vec(), expires_at_ms: Some(7) }),
            TailOperation::new("0", "", Change::Put { value: Vec::new(), expires_at_ms: None }),
            TailOperation::new("0.n", "n", Change::Merge { operand: vec![0, 255] }),
            TailOperation::new("0", "d", Change::Delete),
            TailOperation::new("0", "p", Change::DeletePrefix),
        ];
        let mut buffer = BytesMut::from(&changes(9, &sent)[..]);
        let request = Decoder::default().next(&mut buffer, &Limits::default()).unwrap().unwrap();
        let arguments: Vec<&[u8]> = request.from(2).collect();
        let got: Vec<_> = arguments.as_chunks::<5>().0.iter().map(|five| operation(*five).unwrap()).collect();
        assert_eq!(got, sent);
        assert_eq!(request.get(1), b"9");
        assert!(operation([b"put", b"0", b"k", b"v", b"soon"]).is_none());
        assert!(operation([b"puts", b"0", b"k", b"v", b""]).is_none());
    }
}
