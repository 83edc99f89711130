//! One connection: bytes in, requests to the blocking threads, replies out.
//!
//! Invariants: a client that sends faster than it reads waits, since its next requests are read only once its
//! replies are sent; so what it holds of our memory is one pipeline and its replies. What has been read is
//! carried out in order, by one thread at a time.

use super::pipeline::{self, Stop, Thread};
use super::session::Session;
use super::{Client, Server};
use crate::resp::{Decoder, Output, Request};
use bytes::BytesMut;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::watch;

/// Room that is made for what comes next.
const READ_BYTES: usize = 16 << 10;
/// Requests that are decoded before they are carried out.
const MOST_REQUESTS: usize = 1024;
/// Rounds that another thread works on once memory has not held what one asked for: what was looked up in
/// vain is looked up twice.
const UNLUCKY: u8 = 8;
/// How long a stopping server waits for a client to take its last replies.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// Serves a connection until it ends.
pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(server: Arc<Server>, client: Arc<Client>, stream: S) {
    let mut connection = Connection {
        session: Session::new(&server, Arc::clone(&client)),
        server: Arc::clone(&server),
        client: Arc::clone(&client),
        stream,
        buffer: BytesMut::new(),
        decoder: Decoder::default(),
        unlucky: 0,
    };
    // How a connection ends is the client's business.
    let _ = connection.run().await;
    connection.session.unwatch(&server.store());
    let _ = tokio::time::timeout(LAST_WRITE, connection.stream.shutdown()).await;
    server.clients.remove(client.id);
}

struct Connection<S> {
    session: Session,
    server: Arc<Server>,
    client: Arc<Client>,
    stream: S,
    buffer: BytesMut,
    decoder: Decoder,
    /// Rounds that are left to another thread.
    unlucky: u8,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn run(&mut self) -> io::Result<()> {
        let mut requests = VecDeque::new();
        let mut stopping = self.server.stopping();
        loop {
            let failure = self.decode(&mut requests);
            while !requests.is_empty() && !self.session.closes && self.session.follows.is_none() {
                self.wait_while_paused(&requests).await;
                let replies = self.carry_out(&mut requests).await?;
                self.write(&replies).await?;
                if self.client.is_killed() {
                    return Ok(());
                }
            }
            if let Some(wanted) = self.session.follows.take() {
                let replica = (&self.session.announced, wanted);
                let Self { server, client, stream, buffer, .. } = self;
                return crate::replication::feed(server, client, replica, stream, buffer).await;
            }
            if self.session.closes || *stopping.borrow() {
                return Ok(());
            }
            if let Some(text) = failure {
                self.server.count_error("ERR");
                self.write(format!("-ERR Protocol error: {text}\r\n").as_bytes()).await?;
                return Ok(());
            }
            self.make_room();
            self.client.input_bytes.store(self.buffer.len(), Ordering::Relaxed);
            let ends = Arc::clone(&self.client);
            let idle = self.server.config.idle_seconds();
            let read = tokio::select! {
                read = self.stream.read_buf(&mut self.buffer) => read?,
                () = ends.ends.notified() => return Ok(()),
                () = stopped(&mut stopping) => return Ok(()),
                () = sleep_if(idle) => return Ok(()),
            };
            if read == 0 {
                return Ok(());
            }
            self.server.counters.bytes_in.fetch_add(read as u64, Ordering::Relaxed);
        }
    }

    /// Decodes what has arrived; what is wrong with it, if anything is.
    fn decode(&mut self, requests: &mut VecDeque<Request>) -> Option<String> {
        let limits = self.server.config.limits(self.session.is_authenticated);
        while requests.len() < MOST_REQUESTS {
            match self.decoder.next(&mut self.buffer, &limits) {
                Ok(Some(request)) => {
                    requests.push_back(request);
                    // Who has not said who it is may do so now: the limits after it are others.
                    if !self.session.is_authenticated {
                        return None;
                    }
                }
                Ok(None) => return None,
                Err(error) => {
                    if error.0.contains("limit exceeded") {
                        self.server.counters.oversized.fetch_add(1, Ordering::Relaxed);
                    }
                    return Some(error.0);
                }
            }
        }
        None
    }

    /// Makes room for what comes next: twice what there is, or, for one long argument, all of it at the end,
    /// so that a length that was only announced takes nothing.
    fn make_room(&mut self) {
        let wanted = self.decoder.wanted_bytes();
        let have = self.buffer.len();
        let room = if wanted > have { (wanted - have).min(have.max(READ_BYTES)) } else { READ_BYTES };
        self.buffer.reserve(room);
    }

    async fn wait_while_paused(&mut self, requests: &VecDeque<Request>) {
        const STEP: Duration = Duration::from_millis(5);
        let is_client = |request: &Request| request.get(0).eq_ignore_ascii_case(b"client");
        if !self.server.is_paused(true) || requests.front().is_some_and(is_client) {
            return;
        }
        let writes = pipeline::writes(&self.session, requests);
        while self.server.is_paused(writes) && !*self.server.stopping().borrow() {
            tokio::time::sleep(STEP).await;
        }
    }

    /// Carries out requests: on this thread as far as that takes no waiting, the rest where nothing else
    /// waits for the thread.
    async fn carry_out(&mut self, requests: &mut VecDeque<Request>) -> io::Result<Vec<u8>> {
        let mut out = Output::new(self.session.resp3);
        if self.unlucky == 0 {
            let Self { server, session, .. } = self;
            let work = || pipeline::run(server, session, requests, &mut out, Thread::MustNotWait);
            // A command that panics ends its connection, and no other.
            let stop =
                catch_unwind(AssertUnwindSafe(work)).map_err(|_| io::Error::other("a command panicked"))?;
            match stop {
                None => return Ok(out.take()),
                Some(Stop::Device) => self.unlucky = UNLUCKY,
                Some(Stop::Passing) => {}
            }
        } else {
            self.unlucky -= 1;
        }
        let placeholder = Session::new(&self.server, Arc::clone(&self.client));
        let mut session = std::mem::replace(&mut self.session, placeholder);
        let mut taken = std::mem::take(requests);
        let server = Arc::clone(&self.server);
        let work = tokio::task::spawn_blocking(move || {
            pipeline::run(&server, &mut session, &mut taken, &mut out, Thread::MayWait);
            (session, taken, out)
        });
        let (session, left, mut out) = work.await.map_err(io::Error::other)?;
        (self.session, *requests) = (session, left);
        Ok(out.take())
    }

    /// Sends replies. A client that does not take them is ended as `client-output-buffer-limit` says.
    async fn write(&mut self, replies: &[u8]) -> io::Result<()> {
        if replies.is_empty() {
            return Ok(());
        }
        let limits = self.server.config.output_limits();
        if limits.hard_bytes > 0 && replies.len() > limits.hard_bytes {
            self.server.counters.unread.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let patience =
            if limits.soft_bytes > 0 && replies.len() > limits.soft_bytes { limits.soft_seconds } else { 0 };
        self.client.output_bytes.store(replies.len(), Ordering::Relaxed);
        let ends = Arc::clone(&self.client);
        let mut stopping = self.server.stopping();
        let gives_up = async {
            stopped(&mut stopping).await;
            tokio::time::sleep(LAST_WRITE).await;
        };
        tokio::select! {
            written = self.stream.write_all(replies) => written?,
            () = ends.ends.notified() => return Err(io::ErrorKind::ConnectionAborted.into()),
            () = gives_up => return Err(io::ErrorKind::TimedOut.into()),
            () = sleep_if(patience) => {
                self.server.counters.unread.fetch_add(1, Ordering::Relaxed);
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        // Encrypted streams keep what they were given until they are told to send it.
        self.stream.flush().await?;
        self.client.output_bytes.store(0, Ordering::Relaxed);
        self.server.counters.bytes_out.fetch_add(replies.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Waits until the server stops, or is gone.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    drop(stopping.wait_for(|stops| *stops).await);
}

/// Sleeps for so many seconds; for ever where that is 0.
async fn sleep_if(seconds: u64) {
    if seconds == 0 {
        return std::future::pending().await;
    }
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
