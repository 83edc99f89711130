//! Stores filled from Redis, from its files and from a server that runs. They are compared with a real
//! `redis-server` (Debian's package redis-server); without one the tests say so and pass.

#![expect(clippy::unwrap_used, reason = "a test that fails should say so")]

mod common;

use common::nodes::{text, until};
use common::{Client, Reply, Running, encode};
use std::collections::BTreeSet;
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A Redis; it is killed when it is dropped.
struct Redis {
    child: Child,
    address: SocketAddr,
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Redis {
    /// Starts one; none where there is no such program.
    fn start(dir: &Path, settings: &[&str]) -> Option<Self> {
        // A port that was free may be taken before Redis has it.
        for _ in 0..10 {
            match Self::start_somewhere(dir, settings) {
                Ok(None) => {}
                Ok(redis) => return redis,
                Err(_) => break,
            }
        }
        eprintln!("skipped: there is no redis-server");
        None
    }

    /// Starts one at some port; none where the port was taken.
    fn start_somewhere(dir: &Path, settings: &[&str]) -> std::io::Result<Option<Self>> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("redis-server")
            .args([
                "--port",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--enable-debug-command",
                "yes",
            ])
            .arg("--dir")
            .arg(dir)
            .args(settings)
            .stdout(Stdio::null())
            .spawn()?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut redis = Self { child, address };
        let mut is_gone = false;
        until("up", || {
            is_gone = redis.child.try_wait().unwrap().is_some();
            is_gone || answers(address)
        });
        Ok((!is_gone).then_some(redis))
    }

    fn client(&self) -> Client {
        Client::connect(self.address)
    }
}

/// Whether somebody there answers a PING.
fn answers(address: SocketAddr) -> bool {
    let Ok(stream) = TcpStream::connect(address) else { return false };
    let mut client = Client { stream: BufReader::new(stream) };
    let is_sent = client.stream.get_mut().write_all(&encode(&[b"PING"])).is_ok();
    // Or it wants a password first.
    let is_redis = |reply: Reply| ["+PONG", "-NOAUTH"].iter().any(|word| reply.to_string().starts_with(word));
    is_sent && client.try_reply().is_ok_and(is_redis)
}

fn program(words: &[&str]) -> (bool, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_siltstone-server")).args(words).output().unwrap();
    (out.status.success(), String::from_utf8(out.stderr).unwrap())
}

/// Keys of all kinds and encodings, in databases 0 and 3.
fn fill(client: &mut Client) {
    let mut run = |words: &[&str]| {
        let reply = client.ask(words);
        assert!(!matches!(reply, Reply::Error(_)), "{words:?}: {reply}");
    };
    let long = "abcdefgh".repeat(2_000);
    for (key, value) in
        [("plain", "value"), ("number", "12345"), ("small", "-7"), ("packed", &long), ("", "empty key")]
    {
        run(&["SET", key, value]);
    }
    run(&["SET", "brief", "v", "PX", "1"]);
    run(&["SET", "later", "v", "EX", "5000"]);
    run(&["HSET", "hash", "f", "v", "number", "77", "negative", "-70000", "big", "123456789012"]);
    run(&["EXPIRE", "hash", "4000"]);
    run(&["SADD", "integers", "1", "-5", "70000", "5000000000"]);
    run(&["SADD", "words", "a", "b", "12"]);
    let names: Vec<String> = (0..2_000).map(|n| format!("name{n}")).collect();
    let mut words = vec!["SADD", "large set"];
    words.extend(names.iter().map(String::as_str));
    run(&words);
    let mut words = vec!["HSET", "large hash"];
    words.extend(names.iter().flat_map(|name| [name.as_str(), "a value"]));
    run(&words);
    run(&["RPUSH", "list", "a", "b"]);
    run(&["ZADD", "sorted", "1.5", "a"]);
    run(&["XADD", "stream", "*", "f", "v"]);
    run(&["XGROUP", "CREATE", "stream", "group", "0"]);
    run(&["XREADGROUP", "GROUP", "group", "me", "STREAMS", "stream", ">"]);
    run(&["SELECT", "3"]);
    run(&["SET", "plain", "of database 3"]);
    run(&["DEBUG", "POPULATE", "3000", "many", "50"]);
    run(&["SELECT", "0"]);
    std::thread::sleep(std::time::Duration::from_millis(20));
}

fn sorted(reply: &Reply) -> BTreeSet<String> {
    let Reply::Array(items) = reply else { panic!("{reply}") };
    items.iter().cloned().map(text).collect()
}

/// Sends commands together, and returns their replies.
fn together(client: &mut Client, commands: &[Vec<&str>]) -> Vec<Reply> {
    let words = |command: &Vec<&str>| encode(&command.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
    client.send(&commands.iter().flat_map(words).collect::<Vec<u8>>());
    commands.iter().map(|_| client.reply()).collect()
}

/// What keys hold, in words that do not depend on the order of elements, and their times to live.
fn contents(client: &mut Client, keys: &[&String]) -> Vec<(String, i64)> {
    let kinds = together(client, &keys.iter().map(|key| vec!["TYPE", key.as_str()]).collect::<Vec<_>>());
    let kinds: Vec<String> = kinds.into_iter().map(text).collect();
    let command = |kind: &String| match kind.as_str() {
        "+string" => "GET",
        "+hash" => "HGETALL",
        "+set" => "SMEMBERS",
        other => panic!("{other}"),
    };
    let commands =
        keys.iter().zip(&kinds).flat_map(|(key, kind)| [vec![command(kind), key.as_str()], vec!["TTL", key]]);
    let replies = together(client, &commands.collect::<Vec<_>>());
    let pairs = replies.as_chunks::<2>().0.iter().zip(&kinds);
    pairs
        .map(|([held, ttl], kind)| {
            let Reply::Integer(ttl) = ttl else { panic!("{ttl}") };
            let held = match (kind.as_str(), held) {
                ("+hash", Reply::Array(flat)) => {
                    let flat: Vec<String> = flat.iter().cloned().map(text).collect();
                    format!("{:?}", flat.as_chunks::<2>().0.iter().collect::<BTreeSet<_>>())
                }
                ("+set", all) => format!("{:?}", sorted(all)),
                (_, value) => text(value.clone()),
            };
            (held, *ttl)
        })
        .collect()
}

/// Compares what both hold, but for keys of types that the server has not.
fn compare(redis: &mut Client, here: &mut Client) {
    for database in ["0", "3"] {
        redis.ask(&["SELECT", database]);
        here.ask(&["SELECT", database]);
        let mut wanted = sorted(&redis.ask(&["KEYS", "*"]));
        wanted.retain(|key| !["list", "sorted", "stream"].contains(&key.as_str()));
        assert_eq!(sorted(&here.ask(&["KEYS", "*"])), wanted);
        assert_eq!(text(here.ask(&["DBSIZE"])), format!(":{}", wanted.len()));
        for keys in wanted.iter().collect::<Vec<_>>().chunks(500) {
            for ((key, one), other) in keys.iter().zip(contents(redis, keys)).zip(contents(here, keys)) {
                assert_eq!(one.0, other.0, "{key}");
                assert!((one.1 - other.1).abs() <= 10, "{key}: {} and {}", one.1, other.1);
            }
        }
    }
}

#[test]
fn a_file_of_redis_is_imported() {
    // Redis compresses long strings or not, and writes checksums or not.
    for settings in [&[][..], &["--rdbcompression", "no", "--rdbchecksum", "no"]] {
        let (there, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let Some(redis) = Redis::start(there.path(), settings) else { return };
        let mut client = redis.client();
        fill(&mut client);
        assert_eq!(text(client.ask(&["SAVE"])), "+OK");
        let file = there.path().join("dump.rdb");
        let (imported, said) = program(&["import", file.to_str().unwrap(), dir.path().to_str().unwrap()]);
        assert!(imported, "{said}");
        assert!(said.contains("3012 keys with 4011 elements imported"), "{said}");
        for kind in ["list", "zset", "stream"] {
            assert!(said.contains(&format!("left out: 1 of type {kind}")), "{said}");
        }
        let here = Running::start(dir.path(), &[]);
        compare(&mut client, &mut here.client());
        drop(here);
        // A file that is cut off is told from a whole one.
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
        let (imported, said) = program(&["import", file.to_str().unwrap(), dir.path().to_str().unwrap()]);
        assert!(!imported && said.contains("damaged, or was cut off"), "{said}");
    }
}

#[test]
fn a_running_redis_is_imported_and_an_import_that_was_killed_goes_on() {
    let (there, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(redis) = Redis::start(there.path(), &["--requirepass", "secret"]) else { return };
    let mut client = redis.client();
    client.ask(&["AUTH", "secret"]);
    fill(&mut client);
    client.ask(&["DEBUG", "POPULATE", "60000", "more", "100"]);
    let (url, path) = (format!("redis://:secret@{}", redis.address), dir.path().to_str().unwrap());
    let (refused, said) = program(&["import", &format!("redis://:wrong@{}", redis.address), path]);
    assert!(!refused && said.contains("WRONGPASS"), "{said}");
    let mut first = Command::new(env!("CARGO_BIN_EXE_siltstone-server"))
        .args(["import", &url, path])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let progress = dir.path().join("import.progress");
    until("begun", || progress.exists() || first.try_wait().unwrap().is_some());
    let was_cut_off = first.try_wait().unwrap().is_none();
    first.kill().unwrap();
    first.wait().unwrap();
    let (imported, said) = program(&["import", &url, path]);
    assert!(imported, "{said}");
    assert!(!was_cut_off || said.contains("goes on in database"), "{said}");
    assert!(!progress.exists());
    let here = Running::start(dir.path(), &[]);
    compare(&mut client, &mut here.client());
    drop(here);
    // One database alone, into a node of a cluster.
    let node = tempfile::tempdir().unwrap();
    let path = node.path().to_str().unwrap();
    let (imported, said) = program(&["import", &format!("{url}/0"), path, "--", "--cluster-enabled", "yes"]);
    assert!(imported && said.contains("60011 keys"), "{said}");
    let node = Running::start(node.path(), &common::nodes::SETTINGS);
    let mut client = node.client();
    assert_eq!(text(client.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])), "+OK");
    until("up", || text(client.ask(&["CLUSTER", "INFO"])).contains("cluster_state:ok"));
    assert_eq!(text(client.ask(&["GET", "plain"])), "value");
    assert_eq!(text(client.ask(&["HLEN", "large hash"])), ":2000");
}
