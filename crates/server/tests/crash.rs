//! The server is killed while clients write, and started again: what was acknowledged is there.
//!
//! A killed process loses what it had not handed to the system; that the device has it too, a power cut would
//! show, which the engine's own tests simulate (`crates/engine/tests/durability/crash.rs`).

#![expect(clippy::unwrap_used, reason = "a test that fails should say so")]

mod common;

use common::{Client, Reply};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Writes until the connection breaks: each round a counter, a hash and a set of the writer's own.
fn write(address: SocketAddr, writer: usize, acknowledged: &AtomicU64) {
    let mut client = Client::connect(address);
    for number in acknowledged.load(Ordering::SeqCst) + 1.. {
        let lines = [
            format!("SET w{writer} {number}"),
            format!("HSET h{writer} f{number} {number}"),
            format!("SADD s{writer} m{number}"),
            format!("SET e{writer}:{number} x EX 1000"),
        ];
        let bytes: Vec<u8> = lines
            .iter()
            .flat_map(|line| common::encode(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()))
            .collect();
        if std::io::Write::write_all(client.stream.get_mut(), &bytes).is_err() {
            return;
        }
        for _ in &lines {
            if client.try_reply().is_err() {
                return;
            }
        }
        acknowledged.store(number, Ordering::SeqCst);
    }
}

fn survives(fsync: &str) {
    const WRITERS: usize = 4;
    let dir = tempfile::tempdir().unwrap();
    let counts: Vec<Arc<AtomicU64>> = (0..WRITERS).map(|_| Arc::default()).collect();
    for round in 0..4 {
        let (mut child, address) = common::spawn(dir.path(), &["--appendfsync", fsync]);
        let mut client = Client::connect(address);
        let mut keys = 0;
        for (writer, count) in counts.iter().enumerate() {
            let acknowledged = count.load(Ordering::SeqCst);
            let number = match client.run(&format!("GET w{writer}")) {
                Reply::Bulk(bytes) => String::from_utf8(bytes).unwrap().parse::<u64>().unwrap(),
                _ => 0,
            };
            // One more may have been stored than was acknowledged.
            assert!(
                (acknowledged..=acknowledged + 1).contains(&number),
                "{fsync}: {number}, told {acknowledged}"
            );
            assert_eq!(client.run(&format!("HLEN h{writer}")).to_string(), format!(":{number}"));
            assert_eq!(client.run(&format!("SCARD s{writer}")).to_string(), format!(":{number}"));
            let Reply::Array(all) = client.run(&format!("HGETALL h{writer}")) else { panic!() };
            assert_eq!(all.len() as u64, number * 2);
            keys += number + if number > 0 { 3 } else { 0 };
            count.store(number, Ordering::SeqCst);
        }
        assert_eq!(client.run("DBSIZE").to_string(), format!(":{keys}"));
        let threads: Vec<_> = counts
            .iter()
            .enumerate()
            .map(|(writer, count)| {
                let count = Arc::clone(count);
                std::thread::spawn(move || write(address, writer, &count))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(300 + 150 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
    assert!(counts.iter().all(|count| count.load(Ordering::SeqCst) > 0));
}

#[test]
fn nothing_acknowledged_is_lost_under_always() {
    survives("always");
}

#[test]
fn nothing_acknowledged_is_lost_with_the_process_alone() {
    survives("everysec");
}

#[test]
fn a_terminated_server_stops_by_itself_and_its_successor_has_everything() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, address) = common::spawn(dir.path(), &["--appendfsync", "no"]);
    assert_eq!(Client::connect(address).run("SET k v").to_string(), "+OK");
    let killed = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(killed.success() && child.wait().unwrap().success());
    let (mut child, address) = common::spawn(dir.path(), &["--appendfsync", "no"]);
    let mut client = Client::connect(address);
    assert_eq!(client.run("GET k").to_string(), "\"v\"");
    common::encode(&[]);
    client.send(&common::encode(&[b"SHUTDOWN"]));
    assert!(child.wait().unwrap().success());
}
