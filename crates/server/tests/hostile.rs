//! Clients that mean harm, or are slow, or too many.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails should say so")]

mod common;

use common::{Client, Reply, Running, encode};
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

fn resident_bytes() -> u64 {
    memory_of("self", "VmRSS:")
}

fn memory_of(process: &str, figure: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

/// A server in a process of its own, which is killed in the end.
struct Process(std::process::Child);

impl Process {
    fn memory(&self, figure: &str) -> u64 {
        memory_of(&self.0.id().to_string(), figure)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bytes that are almost a request.
fn malformed(random: &mut StdRng) -> Vec<u8> {
    let mut bytes = encode(&[b"SET", b"key", b"value"]);
    match random.random_range(0..5) {
        0 => random.fill_bytes(&mut bytes),
        1 => {
            let at = random.random_range(0..bytes.len());
            bytes[at] ^= 1 << random.random_range(0..8);
        }
        2 => bytes.truncate(random.random_range(0..bytes.len())),
        3 => bytes = format!("*{}\r\n${}\r\n", random.random::<i64>(), random.random::<i64>()).into_bytes(),
        _ => bytes.splice(4..8, b"$-1\r\n\0\xff".iter().copied()).for_each(drop),
    }
    bytes
}

#[test]
fn malformed_frames_end_their_connection_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path(), &[]);
    let mut good = running.client();
    let mut random = StdRng::seed_from_u64(1);
    let before = resident_bytes();
    let mut frames = 0;
    while frames < 100_000 {
        let mut stream = TcpStream::connect(running.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        // Many frames a connection: the first that is wrong ends it, and so do those that are right before.
        let bytes: Vec<u8> = (0..100).flat_map(|_| malformed(&mut random)).collect();
        frames += 100;
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut sink = Vec::new();
        let _ = stream.read_to_end(&mut sink);
        if frames % 10_000 == 0 {
            assert_eq!(good.run("PING").to_string(), "+PONG");
        }
    }
    assert_eq!(good.run("SET key value").to_string(), "+OK");
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 128 << 20, "the process grew by {grown} bytes");
}

#[test]
fn idle_connections_cost_little_and_too_many_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path(), &[("maxclients", "400")]);
    let before = resident_bytes();
    let mut idle: Vec<TcpStream> = (0..399).map(|_| TcpStream::connect(running.address).unwrap()).collect();
    let mut good = running.client();
    assert_eq!(good.run("PING").to_string(), "+PONG");
    let mut refused = Client::connect(running.address);
    assert_eq!(refused.reply().to_string(), "-ERR max number of clients reached");
    assert!(refused.try_reply().is_err());
    // Half a request each, and then nothing.
    idle.iter_mut().for_each(|stream| stream.write_all(b"*2\r\n$536870912\r\n").unwrap());
    assert_eq!(good.run("PING").to_string(), "+PONG");
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 400 * (64 << 10) + (32 << 20), "the process grew by {grown} bytes");
}

/// The server's files and the test's are counted apart, so each needs one a connection.
#[test]
fn ten_thousand_idle_connections_are_held() {
    let limit = std::fs::read_to_string("/proc/self/limits").unwrap();
    let files = limit.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let files: u64 = files.split_whitespace().nth(3).unwrap().parse().unwrap_or(u64::MAX);
    let wanted = 10_000;
    let count = usize::try_from(files.saturating_sub(1_000)).unwrap_or(wanted).min(wanted);
    if count < wanted {
        println!("{count} connections instead of {wanted}: only {files} files may be open; see ulimit -n");
    }
    let dir = tempfile::tempdir().unwrap();
    let (child, address) = common::spawn(dir.path(), &["--maxclients", "20000"]);
    let process = Process(child);
    let mut good = Client::connect(address);
    assert_eq!(good.run("SET key value").to_string(), "+OK");
    let before = process.memory("VmRSS:");
    let mut idle: Vec<Client> = (0..count).map(|_| Client::connect(address)).collect();
    // All of them are in, some have begun to say something, and others are answered meanwhile.
    assert_eq!(idle.last_mut().unwrap().run("PING").to_string(), "+PONG");
    idle.iter_mut().step_by(10).for_each(|client| client.send(b"*2\r\n$3\r\nGET\r\n$3"));
    for _ in 0..1_000 {
        assert_eq!(good.run("GET key").to_string(), "\"value\"");
    }
    let grown = process.memory("VmRSS:").saturating_sub(before);
    println!("{count} idle connections took {grown} bytes");
    assert!(grown < count as u64 * (16 << 10) + (16 << 20), "{count} connections took {grown} bytes");
    for client in idle.iter_mut().step_by(10) {
        client.send(b"\r\nkey\r\n");
        assert_eq!(client.reply().to_string(), "\"value\"");
    }
}

#[test]
fn a_string_of_512_mebibytes_comes_and_goes() {
    let dir = tempfile::tempdir().unwrap();
    let (child, address) = common::spawn(dir.path(), &[]);
    let process = Process(child);
    let mut other = Client::connect(address);
    assert_eq!(other.run("SET key value").to_string(), "+OK");
    let before = process.memory("VmHWM:");
    let length = 512 << 20;
    let mut client = Client::connect(address);
    client.send(format!("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n${length}\r\n").as_bytes());
    let piece: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 251) as u8).collect();
    for number in 0..512 {
        client.send(&piece);
        if number % 64 == 0 {
            assert_eq!(other.run("GET key").to_string(), "\"value\"");
        }
    }
    client.send(b"\r\n");
    assert_eq!(client.reply().to_string(), "+OK");
    assert_eq!(other.run("STRLEN large"), Reply::Integer(length));
    assert_eq!(other.run("GETRANGE large 251 255").to_string(), "\"\u{0}\u{1}\u{2}\u{3}\u{4}\"");
    client.send(&encode(&[b"GET", b"large"]));
    let Reply::Bulk(value) = client.reply() else { panic!("no string") };
    assert_eq!(value.len() as i64, length);
    assert!(value.chunks(1 << 20).all(|chunk| chunk == piece));
    let grown = process.memory("VmHWM:").saturating_sub(before);
    println!("a string of {length} bytes took {grown} bytes of memory at most");
    assert!(grown < 5 * length as u64, "the process grew by {grown} bytes");
    // One byte more is refused.
    let mut client = Client::connect(address);
    client.send(format!("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n${}\r\n", length + 1).as_bytes());
    assert_eq!(client.reply().to_string(), "-ERR Protocol error: invalid bulk length");
    assert_eq!(other.run("DEL large"), Reply::Integer(1));
}

#[test]
fn a_client_that_never_reads_is_held_to_its_own_replies() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path(), &[]);
    let mut good = running.client();
    let value = vec![b'v'; 1 << 20];
    assert_eq!(good.call(&[b"SET", b"large", &value]).to_string(), "+OK");
    let before = resident_bytes();
    let mut greedy = TcpStream::connect(running.address).unwrap();
    greedy.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let request = encode(&[b"GET", b"large"]);
    // Replies of 20 GiB are asked for; the server stops reading when they are not taken.
    let wanted: Vec<u8> = request.iter().copied().cycle().take(request.len() * 20_000).collect();
    let _ = greedy.write_all(&wanted);
    for _ in 0..50 {
        assert_eq!(good.run("PING").to_string(), "+PONG");
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 96 << 20, "the process grew by {grown} bytes");
}

#[test]
fn output_limits_end_those_who_do_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path(), &[("client-output-buffer-limit", "normal 100000 0 0")]);
    let mut good = running.client();
    good.call(&[b"SET", b"large", &vec![b'v'; 200_000]]);
    let mut greedy = running.client();
    greedy.send(&encode(&[b"GET", b"large"]));
    assert!(greedy.try_reply().is_err());
    assert_eq!(good.run("STRLEN large"), Reply::Integer(200_000));
}

#[test]
fn strings_and_requests_have_limits() {
    let dir = tempfile::tempdir().unwrap();
    let running =
        Running::start(dir.path(), &[("proto-max-bulk-len", "1mb"), ("client-query-buffer-limit", "4mb")]);
    let mut client = running.client();
    assert_eq!(client.call(&[b"SET", b"k", &vec![b'v'; 1 << 20]]).to_string(), "+OK");
    assert!(client.run("APPEND k x").to_string().starts_with("-ERR string exceeds maximum allowed size"));
    assert!(client.run("SETRANGE k 1048576 x").to_string().starts_with("-ERR string exceeds"));
    assert!(client.run("SETBIT k 8388608 1").to_string().starts_with("-ERR bit offset"));
    assert!(
        client.call(&[b"SET", &vec![b'k'; 65_000], b"v"]).to_string().starts_with("-ERR the key has 65000")
    );
    client.send(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", (1 << 20) + 1).as_bytes());
    assert_eq!(client.reply().to_string(), "-ERR Protocol error: invalid bulk length");
    assert!(client.try_reply().is_err());
    let mut client = running.client();
    let mut bytes = b"*100\r\n".to_vec();
    for _ in 0..5 {
        bytes.extend_from_slice(format!("${}\r\n", 1 << 20).as_bytes());
        bytes.resize(bytes.len() + (1 << 20), b'a');
        bytes.extend_from_slice(b"\r\n");
    }
    let _ = client.stream.get_mut().write_all(&bytes);
    assert!(client.try_reply().is_err() || client.try_reply().is_err());
}

#[test]
fn strangers_are_held_to_small_requests() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path(), &[("requirepass", "secret")]);
    let mut client = running.client();
    assert_eq!(client.run("GET k").to_string(), "-NOAUTH Authentication required.");
    assert_eq!(client.run("PING").to_string(), "-NOAUTH Authentication required.");
    assert!(client.run("AUTH wrong").to_string().starts_with("-WRONGPASS"));
    client.send(b"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$17000\r\n");
    assert_eq!(client.reply().to_string(), "-ERR Protocol error: unauthenticated bulk length");
    let mut client = running.client();
    assert_eq!(client.run("AUTH secret").to_string(), "+OK");
    assert_eq!(client.run("SET k v").to_string(), "+OK");
    assert!(running.client().run("HELLO 3 AUTH default secret").to_string().starts_with('{'));
}
