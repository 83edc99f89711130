//! A connection to another node that waits: for those who have a thread of their own.

use crate::failure::{Failure, Outcome};
use crate::resp::Output;
use crate::server::Server;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// A connection, and how many replies are to come.
pub struct Wire {
    stream: BufReader<TcpStream>,
    awaited: usize,
}

/// Messages that are under way at most.
const MOST_AWAITED: usize = 3;

impl Wire {
    /// Connects, and says who this node is where the settings have a password.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn connect(server: &Server, host: &str, port: u16, patience: Duration) -> Outcome<Self> {
        let mut addresses = (host, port).to_socket_addrs().map_err(Failure::new)?;
        let address = addresses.next().ok_or_else(|| Failure::new(format!("{host} has no address")))?;
        let stream = TcpStream::connect_timeout(&address, patience).map_err(Failure::new)?;
        stream.set_nodelay(true).map_err(Failure::new)?;
        let mut wire = Self { stream: BufReader::new(stream), awaited: 0 };
        wire.set_patience(patience)?;
        let (user, password) = (server.config.text("masteruser"), server.config.text("masterauth"));
        if !password.is_empty() {
            let words = ["AUTH", &user, &password];
            let words: Vec<&[u8]> =
                words.iter().filter(|word| !word.is_empty()).map(|word| word.as_bytes()).collect();
            wire.ask(&words)?;
        }
        Ok(wire)
    }

    /// Chooses how long to wait for a reply.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn set_patience(&mut self, patience: Duration) -> Outcome {
        let stream = self.stream.get_ref();
        let set =
            stream.set_read_timeout(Some(patience)).and_then(|()| stream.set_write_timeout(Some(patience)));
        set.map_err(Failure::new)
    }

    /// Sends a command whose reply comes later.
    ///
    /// # Errors
    /// Those of the connection, and of commands that were sent before.
    pub fn send(&mut self, words: &[&[u8]]) -> Outcome {
        let mut out = Output::new(false);
        out.request(words);
        self.awaited += 1;
        let sent = self.stream.get_mut().write_all(&out.take());
        sent.map_err(Failure::new)?;
        if self.awaited > MOST_AWAITED { self.reply().map(drop) } else { Ok(()) }
    }

    /// Sends a command, and returns its reply: a line without its first byte.
    ///
    /// # Errors
    /// As [`Wire::send`].
    pub fn ask(&mut self, words: &[&[u8]]) -> Outcome<String> {
        self.send(words)?;
        while self.awaited > 1 {
            self.reply()?;
        }
        self.reply()
    }

    fn reply(&mut self) -> Outcome<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => return Err(Failure::new("the node has ended the connection")),
            Ok(_) => {}
            Err(error) => return Err(Failure::new(error)),
        }
        self.awaited -= 1;
        let line = line.trim_end();
        match line.strip_prefix('-') {
            Some(error) => Err(Failure::new(format!("the node answered: {error}"))),
            None => Ok(line.get(1..).unwrap_or_default().to_owned()),
        }
    }
}
