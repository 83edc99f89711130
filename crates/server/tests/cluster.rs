//! Nodes that share the keys: where clients are sent, how slots move under load, and what becomes of the
//! slots of a node that is killed.

mod common;

use common::nodes::*;
use common::{Client, Reply, Running};
use siltstone_server::cluster::slot;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn clients_are_sent_to_the_node_that_has_the_key() {
    let (dirs, nodes, addresses) = start(3);
    assert!(text(nodes[0].client().ask(&["GET", "foo"])).starts_with("-CLUSTERDOWN"));
    join(&addresses, 3);
    // "foo" is in slot 12182, of the third.
    let moved = format!("-MOVED 12182 {}", addresses[2]);
    assert_eq!(text(nodes[0].client().ask(&["SET", "foo", "1"])), moved);
    assert_eq!(text(nodes[2].client().ask(&["SET", "foo", "1"])), "+OK");
    assert!(text(nodes[2].client().ask(&["MGET", "foo", "bar"])).starts_with("-CROSSSLOT"));
    assert_eq!(text(nodes[2].client().ask(&["MSET", "{foo}a", "1", "{foo}b", "2"])), "+OK");
    assert_eq!(text(nodes[2].client().ask(&["CLUSTER", "COUNTKEYSINSLOT", "12182"])), ":3");
    assert!(text(nodes[0].client().ask(&["SELECT", "1"])).contains("not allowed in cluster mode"));
    let mut client = Follower::new(&addresses[..1]);
    for n in 0..200 {
        let key = format!("key{n}");
        assert_eq!(text(client.ask(&key, &["SET", &key, "v"])), "+OK");
    }
    let sizes: Vec<String> = nodes.iter().map(|node| text(node.client().ask(&["DBSIZE"]))).collect();
    let sizes: Vec<i64> = sizes.iter().map(|size| size[1..].parse().unwrap()).collect();
    assert_eq!(sizes.iter().sum::<i64>(), 203);
    assert!(sizes.iter().all(|size| *size > 40), "{sizes:?}");
    let Reply::Array(slots) = nodes[1].client().ask(&["CLUSTER", "SLOTS"]) else { panic!("an array") };
    assert_eq!(slots.len(), 3);
    // What a node knows outlives it.
    drop(nodes);
    let again = Running::start(dirs[0].path(), &SETTINGS);
    assert!(text(again.client().ask(&["CLUSTER", "INFO"])).contains("cluster_slots_assigned:16384"));
    assert!(text(again.client().ask(&["CLUSTER", "NODES"])).contains("0-5460"));
}

#[test]
fn a_slot_moves_while_clients_read_and_write_it() {
    let (_dirs, nodes, addresses) = start_two();
    let key = |n: usize| format!("{{tag}}{n}");
    let moving = slot(b"tag").to_string();
    let mut client = Follower::new(&addresses);
    for n in 0..500 {
        client.ask(&key(n), &["SET", &key(n), "0"]);
    }
    let stops = Arc::new(AtomicBool::new(false));
    let (flag, known) = (Arc::clone(&stops), addresses.clone());
    // Each key counts how often it was added to; nothing may be lost, nothing done twice.
    let writer = std::thread::spawn(move || {
        let mut client = Follower::new(&known);
        let mut counts = vec![0i64; 500];
        for n in (0..500).cycle() {
            counts[n] += 1;
            assert_eq!(client.ask(&key(n), &["INCR", &key(n)]), Reply::Integer(counts[n]), "key {n}");
            if flag.load(Ordering::SeqCst) {
                return counts;
            }
        }
        counts
    });
    let (from, to) = if slot(b"tag") < 8192 { (0, 1) } else { (1, 0) };
    let (mut source, mut target) = (nodes[from].client(), nodes[to].client());
    let (source_id, target_id) = (id(addresses[from]), id(addresses[to]));
    assert_eq!(text(target.ask(&["CLUSTER", "SETSLOT", &moving, "IMPORTING", &source_id])), "+OK");
    assert_eq!(text(source.ask(&["CLUSTER", "SETSLOT", &moving, "MIGRATING", &target_id])), "+OK");
    let port = addresses[to].port().to_string();
    loop {
        let Reply::Array(keys) = source.ask(&["CLUSTER", "GETKEYSINSLOT", &moving, "7"]) else {
            panic!("an array")
        };
        if keys.is_empty() {
            break;
        }
        let keys: Vec<String> = keys.into_iter().map(text).collect();
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        words.extend(keys.iter().map(String::as_str));
        let answer = text(source.ask(&words));
        assert!(answer == "+OK" || answer == "+NOKEY", "{answer}");
    }
    assert_eq!(text(target.ask(&["CLUSTER", "SETSLOT", &moving, "NODE", &target_id])), "+OK");
    assert_eq!(text(source.ask(&["CLUSTER", "SETSLOT", &moving, "NODE", &target_id])), "+OK");
    std::thread::sleep(Duration::from_millis(300));
    stops.store(true, Ordering::SeqCst);
    let counts = writer.join().unwrap();
    for (n, count) in counts.iter().enumerate() {
        assert_eq!(text(client.ask(&key(n), &["GET", &key(n)])), count.to_string());
    }
    assert_eq!(text(source.ask(&["CLUSTER", "COUNTKEYSINSLOT", &moving])), ":0");
    assert_eq!(text(target.ask(&["CLUSTER", "COUNTKEYSINSLOT", &moving])), ":500");
}

#[test]
fn a_replica_takes_the_slots_of_a_killed_node() {
    let dirs: Vec<_> = (0..4).map(|_| tempfile::tempdir().unwrap()).collect();
    let (mut processes, addresses): (Vec<Process>, Vec<SocketAddr>) =
        dirs.iter().map(|dir| spawn(dir.path())).unzip();
    join(&addresses, 3);
    let mut replica = Client::connect(addresses[3]);
    assert_eq!(text(replica.ask(&["CLUSTER", "REPLICATE", &id(addresses[0])])), "+OK");
    until("linked", || has(addresses[3], &["INFO", "replication"], "master_link_status:up"));
    let known = addresses.clone();
    let writer = std::thread::spawn(move || {
        let mut client = Follower::new(&known);
        let mut waited = HashMap::new();
        let began = Instant::now();
        for n in 0u64.. {
            // Of the first node's slots, whose replica WAIT can ask.
            let key = format!("{{06S}}{}", n % 97);
            assert!(slot(key.as_bytes()) < 5_461);
            client.ask(&key, &["SET", &key, &n.to_string()]);
            let owner = client.owners.get(&slot(key.as_bytes())).copied().unwrap_or(known[0]);
            if let Some(Reply::Integer(1)) = client.try_once(owner, false, &["WAIT", "1", "200"]) {
                waited.insert(key, n);
            }
            if began.elapsed() > Duration::from_secs(12) {
                return waited;
            }
        }
        waited
    });
    std::thread::sleep(Duration::from_secs(1));
    drop(processes.remove(0));
    until("taken over", || has(addresses[3], &["ROLE"], "master"));
    until("known", || has(addresses[1], &["CLUSTER", "INFO"], "cluster_state:ok"));
    let waited = writer.join().unwrap();
    assert!(!waited.is_empty());
    let mut client = Follower::new(&addresses[1..]);
    for (key, n) in &waited {
        let have: u64 = text(client.ask(key, &["GET", key])).parse().unwrap();
        assert!(have >= *n, "{key}: {have}, and {n} was waited for");
    }
    // The old one comes back as a replica of the new one.
    let (process, back) = spawn(dirs[0].path());
    processes.push(process);
    until("a replica", || has(back, &["INFO", "replication"], "role:slave"));
    until("linked", || has(back, &["INFO", "replication"], "master_link_status:up"));
    // And takes its place again where somebody asks for it, once those who vote know whom it follows. One that
    // has heard of a later epoch refuses, and the node says to try again.
    let (new, old) = (id(addresses[3]), id(back));
    for voter in &addresses[1..3] {
        until("known as a replica", || match Client::connect(*voter).ask(&["CLUSTER", "REPLICAS", &new]) {
            Reply::Array(lines) => lines.into_iter().any(|line| text(line).starts_with(&old)),
            _ => false,
        });
    }
    until("agreed", || text(Client::connect(back).ask(&["CLUSTER", "FAILOVER"])) == "+OK");
    until("primary", || has(back, &["ROLE"], "master"));
    until("following", || has(addresses[3], &["INFO", "replication"], "master_link_status:up"));
    let mut client = Follower::new(&addresses[1..]);
    for (key, n) in &waited {
        let have: u64 = text(client.ask(key, &["GET", key])).parse().unwrap();
        assert!(have >= *n, "{key}: {have}, and {n} was waited for");
    }
}

#[test]
fn a_transaction_is_done_whole_or_sent_where_its_keys_are() {
    let (_dirs, nodes, addresses) = start_two();
    let moving = slot(b"tag");
    let (from, to) = if moving < 8192 { (0, 1) } else { (1, 0) };
    let (mut source, mut target) = (nodes[from].client(), nodes[to].client());
    let transaction = |client: &mut Client, commands: &[&[&str]]| {
        assert_eq!(text(client.ask(&["MULTI"])), "+OK");
        for command in commands {
            assert_eq!(text(client.ask(command)), "+QUEUED");
        }
    };
    let neighbour =
        (0..).map(|n| format!("near{n}")).find(|key| (slot(key.as_bytes()) < 8192) == (from == 0));
    let neighbour = neighbour.unwrap();
    transaction(&mut source, &[&["SET", "{tag}a", "1"], &["SET", &neighbour, "1"]]);
    assert!(text(source.ask(&["EXEC"])).starts_with("-CROSSSLOT"));
    assert_eq!(text(source.ask(&["EXISTS", "{tag}a"])), ":0");
    // One of two keys is gone to the other node already.
    assert_eq!(text(source.ask(&["MSET", "{tag}a", "1", "{tag}b", "1"])), "+OK");
    let (moving, source_id, target_id) = (moving.to_string(), id(addresses[from]), id(addresses[to]));
    assert_eq!(text(target.ask(&["CLUSTER", "SETSLOT", &moving, "IMPORTING", &source_id])), "+OK");
    assert_eq!(text(source.ask(&["CLUSTER", "SETSLOT", &moving, "MIGRATING", &target_id])), "+OK");
    let port = addresses[to].port().to_string();
    assert_eq!(text(source.ask(&["MIGRATE", "127.0.0.1", &port, "{tag}a", "0", "5000"])), "+OK");
    transaction(&mut source, &[&["INCR", "{tag}b"], &["INCR", "{tag}a"]]);
    assert!(text(source.ask(&["EXEC"])).starts_with("-TRYAGAIN"));
    assert_eq!(text(source.ask(&["GET", "{tag}b"])), "1");
    transaction(&mut source, &[&["INCR", "{tag}a"], &["INCR", "{tag}a"]]);
    assert_eq!(text(source.ask(&["EXEC"])), format!("-ASK {moving} {}", addresses[to]));
    // Whoever asks the node to which the slot comes has all commands done there, also on a key that is new.
    for (key, count) in [("{tag}a", 3), ("{tag}new", 2)] {
        assert_eq!(text(target.ask(&["ASKING"])), "+OK");
        transaction(&mut target, &[&["INCR", key], &["INCR", key]]);
        let Reply::Array(replies) = target.ask(&["EXEC"]) else { panic!("an array") };
        assert_eq!(replies, [Reply::Integer(count - 1), Reply::Integer(count)]);
    }
    // The slot is the other node's when the transaction is complete.
    transaction(&mut source, &[&["INCR", "{tag}b"], &["INCR", "{tag}b"]]);
    let mut other = nodes[from].client();
    assert_eq!(text(other.ask(&["MIGRATE", "127.0.0.1", &port, "{tag}b", "0", "5000"])), "+OK");
    for client in [&mut target, &mut other] {
        assert_eq!(text(client.ask(&["CLUSTER", "SETSLOT", &moving, "NODE", &target_id])), "+OK");
    }
    assert_eq!(text(source.ask(&["EXEC"])), format!("-MOVED {moving} {}", addresses[to]));
    assert_eq!(text(target.ask(&["GET", "{tag}b"])), "1");
    assert_eq!(text(source.ask(&["PING"])), "+PONG", "no longer within the transaction");
}
