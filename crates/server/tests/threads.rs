//! Which thread carries a request out: that of the connection where memory holds all, another where the
//! device, a lock or much work is to be waited for. The replies are the same.

#![expect(clippy::unwrap_used, reason = "a test that fails should say so")]

mod common;

use common::{Client, Running, nodes::text};

/// Units that took no other thread.
fn from_memory(client: &mut Client) -> u64 {
    let info = text(client.run("INFO stats"));
    let line = info.lines().find_map(|line| line.strip_prefix("pipeline_units_from_memory:"));
    line.unwrap().trim().parse().unwrap()
}

/// How many more there are after `line`, which is answered by `reply`.
fn after(client: &mut Client, line: &str, reply: &str) -> u64 {
    let before = from_memory(client);
    assert_eq!(client.run(line).to_string(), reply, "{line}");
    from_memory(client) - before
}

#[test]
fn what_memory_holds_takes_no_other_thread() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path(), &[("appendfsync", "everysec")]);
    let client = &mut running.client();
    // The first write of a database makes it.
    assert_eq!(after(client, "SET key value", "+OK"), 0);
    assert_eq!(after(client, "SET key other", "+OK"), 1);
    assert_eq!(after(client, "GET key", "\"other\""), 1);
    assert_eq!(after(client, "INCR number", ":1"), 1);
    assert_eq!(after(client, "HSET hash field value", ":1"), 1);
    assert_eq!(after(client, "INCR key", "-ERR value is not an integer or out of range"), 1);
    // A pipeline is one unit.
    let lines: Vec<_> = (0..100).map(|number| format!("SET p{number} {number}")).collect();
    let before = from_memory(client);
    assert!(client.pipeline(&lines).iter().all(|reply| reply.to_string() == "+OK"));
    assert_eq!(from_memory(client) - before, 1);
}

#[test]
fn whatever_waits_or_takes_long_is_left_to_another_thread() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path(), &[("appendfsync", "everysec")]);
    let client = &mut running.client();
    client.run("SET key value");
    // A sync, ...
    client.run("CONFIG SET appendfsync always");
    assert_eq!(after(client, "SET key other", "+OK"), 0);
    assert_eq!(after(client, "GET key", "\"other\""), 1);
    client.run("CONFIG SET appendfsync everysec");
    // ... work that is more than reading, ...
    assert_eq!(after(client, "LCS key key", "\"other\""), 0);
    // ... much to read, ...
    let large = "v".repeat(70_000);
    assert_eq!(after(client, &format!("SET large {large}"), "+OK"), 0);
    assert_eq!(after(client, "STRLEN large", ":70000"), 0);
    // ... and, at last, all of a collection of many items, of which any may be on the device.
    for round in 0..40 {
        let fields: String = (0..100).map(|field| format!(" f{}", round * 100 + field)).collect();
        client.run(&format!("SADD many{fields}"));
    }
    let exec = ["MULTI", "SET key third", "GET key", "EXEC"].map(|line| client.run(line).to_string());
    assert_eq!(&exec[..3], ["+OK", "+QUEUED", "+QUEUED"]);
    assert_eq!(after(client, "GET key", "\"third\""), 1);
    assert_eq!(after(client, "SISMEMBER many f7", ":1"), 1);
    assert_eq!(after(client, "SADD many new", ":1"), 1);
    assert_eq!(after(client, "SCARD many", ":4001"), 0);
    // Then the next requests are not tried in vain, but for a while only.
    let tried: u64 = (0..20).map(|_| after(client, "GET key", "\"third\"")).sum();
    assert!((10..20).contains(&tried), "{tried}");
}
