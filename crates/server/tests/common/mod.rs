//! A server within the test's process, and a client that waits for each reply.

#![allow(dead_code, reason = "each test uses a part of it")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails should say so")]

pub mod nodes;

use siltstone_server::config::Config;
use siltstone_server::server::{self, Server};
use std::fmt;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A running server; it stops when it is dropped.
pub struct Running {
    pub address: SocketAddr,
    tls_address: Option<SocketAddr>,
    pub server: Option<Arc<Server>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn start(dir: &Path, settings: &[(&str, &str)]) -> Self {
        let config = Config::default();
        let usual = [
            ("dir", dir.to_str().unwrap()),
            ("port", "0"),
            ("bind", "127.0.0.1"),
            ("enable-debug-command", "yes"),
        ];
        for (name, value) in usual.iter().chain(settings) {
            config.set_at_start(name, value).unwrap();
        }
        let (send, receive) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let opened = tokio::task::spawn_blocking(move || Server::open(config, None).unwrap());
                let listening = server::start(opened.await.unwrap()).await.unwrap();
                let tls_address = listening.tls_addresses.first().copied();
                send.send((listening.addresses[0], tls_address, Arc::clone(&listening.server))).unwrap();
                listening.wait().await.unwrap();
            });
        });
        let (address, tls_address, server) = receive.recv().unwrap();
        Self { address, tls_address, server: Some(server), thread: Some(thread) }
    }

    /// Where it takes clients by TLS.
    pub fn tls_address(&self) -> SocketAddr {
        self.tls_address.unwrap()
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A server in a process of its own, and where it takes clients.
pub fn spawn(dir: &Path, settings: &[&str]) -> (Child, SocketAddr) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_siltstone-server"))
        .arg(dir)
        .args(["--port", "0", "--", "--bind", "127.0.0.1"])
        .args(settings)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    said.read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{line}"));
    // What it says later must go somewhere.
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    (child, address)
}

#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Array(Vec<Reply>),
    Map(Vec<Reply>),
    Set(Vec<Reply>),
    Other(String),
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, open: &str, items: &[Self], close: &str| {
            let items: Vec<_> = items.iter().map(ToString::to_string).collect();
            write!(f, "{open}{}{close}", items.join(" "))
        };
        match self {
            Self::Simple(text) => write!(f, "+{text}"),
            Self::Error(text) => write!(f, "-{text}"),
            Self::Integer(number) => write!(f, ":{number}"),
            Self::Bulk(bytes) => write!(f, "\"{}\"", String::from_utf8_lossy(bytes)),
            Self::Null => f.write_str("nil"),
            Self::Array(items) => list(f, "[", items, "]"),
            Self::Map(items) => list(f, "{", items, "}"),
            Self::Set(items) => list(f, "<", items, ">"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

pub struct Client {
    pub stream: BufReader<TcpStream>,
}

pub fn encode(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    pub fn try_reply(&mut self) -> std::io::Result<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let (kind, rest) = line.trim_end().split_at(1);
        let number = || rest.parse::<i64>().unwrap();
        let mut several = |factor: i64| -> std::io::Result<Vec<Reply>> {
            (0..number() * factor).map(|_| self.try_reply()).collect()
        };
        Ok(match kind {
            "+" => Reply::Simple(rest.into()),
            "-" => Reply::Error(rest.into()),
            ":" => Reply::Integer(number()),
            "_" => Reply::Null,
            "$" | "*" if rest == "-1" => Reply::Null,
            "*" => Reply::Array(several(1)?),
            "~" => Reply::Set(several(1)?),
            "%" => Reply::Map(several(2)?),
            "$" | "=" => {
                let mut bytes = vec![0; usize::try_from(number()).unwrap() + 2];
                self.stream.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Reply::Bulk(bytes)
            }
            _ => Reply::Other(line.trim_end().into()),
        })
    }

    pub fn reply(&mut self) -> Reply {
        self.try_reply().unwrap()
    }

    pub fn call(&mut self, words: &[&[u8]]) -> Reply {
        self.send(&encode(words));
        self.reply()
    }

    pub fn ask(&mut self, words: &[&str]) -> Reply {
        self.call(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
    }

    /// Sends words with blanks between them.
    pub fn run(&mut self, line: &str) -> Reply {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.call(&words)
    }

    pub fn pipeline(&mut self, lines: &[String]) -> Vec<Reply> {
        let mut bytes = Vec::new();
        for line in lines {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            bytes.extend_from_slice(&encode(&words));
        }
        self.send(&bytes);
        lines.iter().map(|_| self.reply()).collect()
    }
}
