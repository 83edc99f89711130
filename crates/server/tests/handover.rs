//! Slots that go to another node in bulk while clients read and write them, and nodes that a controller tells
//! what they are.

#![expect(clippy::indexing_slicing, reason = "a test that fails should say so")]

mod common;

use common::nodes::*;
use common::{Client, Reply, Running};
use siltstone_server::cluster::slot;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

fn ok(reply: Reply) {
    assert_eq!(text(reply), "+OK");
}

/// A key of the slot of "tag".
fn key(n: usize) -> String {
    format!("{{tag}}{n}")
}

/// Counts up keys of one slot until it is told to stop, and returns how far each is.
fn count_up(nodes: &[SocketAddr], stops: &Arc<AtomicBool>, keys: usize) -> std::thread::JoinHandle<Vec<i64>> {
    let (known, flag) = (nodes.to_vec(), Arc::clone(stops));
    std::thread::spawn(move || {
        let mut client = Follower::new(&known);
        let mut counts = vec![0; keys];
        for n in (0..keys).cycle() {
            counts[n] += 1;
            assert_eq!(client.ask(&key(n), &["INCR", &key(n)]), Reply::Integer(counts[n]), "key {n}");
            if flag.load(Ordering::SeqCst) {
                break;
            }
        }
        counts
    })
}

#[test]
fn slots_go_in_bulk_while_clients_read_and_write_them() {
    let (_dirs, nodes, addresses) = start_two();
    let mut client = Follower::new(&addresses);
    for n in 0..500 {
        ok(client.ask(&key(n), &["SET", &key(n), "0"]));
    }
    // What takes more than a string: large and small collections, fields and keys that expire, a deleted one.
    let large = key(9_000);
    let fields: Vec<String> = (0..3_000).map(|n| format!("f{n}")).collect();
    for chunk in fields.chunks(500) {
        let mut words = vec!["HSET", &large];
        words.extend(chunk.iter().flat_map(|field| [field.as_str(), "a value of some length"]));
        assert!(matches!(client.ask(&large, &words), Reply::Integer(_)));
    }
    client.ask(&large, &["EXPIRE", &large, "1000"]);
    client.ask(&large, &["HPEXPIRE", &large, "1", "FIELDS", "1", "f7"]);
    let [small, set, gone, brief] = [9_001, 9_002, 9_003, 9_004].map(key);
    client.ask(&small, &["HSET", &small, "a", "1", "b", "2"]);
    client.ask(&small, &["HEXPIRE", &small, "500", "FIELDS", "1", "a"]);
    client.ask(&set, &["SADD", &set, "x", "y", "z"]);
    client.ask(&gone, &["SET", &gone, "v"]);
    client.ask(&gone, &["DEL", &gone]);
    client.ask(&brief, &["SET", &brief, "v", "PX", "1"]);
    // Of other slots, which stay.
    for n in 0..200 {
        ok(client.ask(&format!("other{n}"), &["SET", &format!("other{n}"), "v"]));
    }
    let stops = Arc::new(AtomicBool::new(false));
    // On keys of its own: each adds one, and what it is told must be right all the time.
    let writer = count_up(&addresses, &stops, 500);
    let moving = slot(b"tag");
    let (mut at, mut to) = if moving < 8_192 { (0, 1) } else { (1, 0) };
    for turn in 0..6 {
        let range = format!("{}-{}", moving.saturating_sub(3), moving + 3);
        let answer =
            nodes[at].client().ask(&["CLUSTERX", "MIGRATE", &range, &id(addresses[to]), "SYNC", "150"]);
        assert_eq!(text(answer), "+OK", "turn {turn}");
        assert!(has(addresses[at], &["CLUSTER", "INFO"], "migrating_state: success"));
        assert_eq!(text(nodes[at].client().ask(&["CLUSTER", "COUNTKEYSINSLOT", &moving.to_string()])), ":0");
        (at, to) = (to, at);
        std::thread::sleep(Duration::from_millis(100));
    }
    stops.store(true, Ordering::SeqCst);
    let counts = writer.join().unwrap();
    assert!(counts.iter().sum::<i64>() > 100);
    for (n, count) in counts.iter().enumerate() {
        assert_eq!(text(client.ask(&key(n), &["GET", &key(n)])), count.to_string());
    }
    assert_eq!(client.ask(&large, &["HLEN", &large]), Reply::Integer(2_999));
    assert_eq!(text(client.ask(&large, &["HGET", &large, "f2999"])), "a value of some length");
    let ttl = |client: &mut Follower, words: &[&str]| match client.ask(words[1], words) {
        Reply::Integer(ttl) => ttl,
        Reply::Array(all) => all[0].to_string()[1..].parse().unwrap(),
        other => panic!("{other}"),
    };
    assert!((900..=1_000).contains(&ttl(&mut client, &["TTL", &large])));
    assert!((400..=500).contains(&ttl(&mut client, &["HTTL", &small, "FIELDS", "1", "a"])));
    assert_eq!(client.ask(&set, &["SCARD", &set]), Reply::Integer(3));
    assert_eq!(client.ask(&gone, &["EXISTS", &gone]), Reply::Integer(0));
    assert_eq!(client.ask(&brief, &["EXISTS", &brief]), Reply::Integer(0));
    // 500 strings, three collections, and those of other slots: the counters have come along. The one that
    // expired is counted until its second is over.
    std::thread::sleep(Duration::from_millis(1_100));
    let sizes: i64 =
        nodes.iter().map(|node| text(node.client().ask(&["DBSIZE"]))[1..].parse::<i64>().unwrap()).sum();
    assert_eq!(sizes, 703);
    let Reply::Array(keys) =
        nodes[at].client().ask(&["CLUSTER", "GETKEYSINSLOT", &moving.to_string(), "1000"])
    else {
        panic!("an array")
    };
    assert_eq!(keys.len(), 503);
    drop(nodes);
}

/// The server looks for fields that have expired once a second, whatever becomes of their slot meanwhile.
#[test]
fn fields_expire_while_their_slot_is_handed_over() {
    let (_dirs, nodes, addresses) = start_two();
    let mut client = Follower::new(&addresses);
    let large = key(0);
    let fields: Vec<String> = (0..5_000).map(|n| format!("f{n}")).collect();
    for chunk in fields.chunks(1_000) {
        let mut words = vec!["HSET", &large];
        words.extend(chunk.iter().flat_map(|field| [field.as_str(), "v"]));
        assert!(matches!(client.ask(&large, &words), Reply::Integer(_)));
    }
    // One each half second, so that there is something to look for at all times.
    const BRIEF: usize = 30;
    for (n, field) in fields.iter().take(BRIEF).enumerate() {
        let ms = (500 * (n + 1)).to_string();
        client.ask(&large, &["HPEXPIRE", &large, &ms, "FIELDS", "1", field]);
    }
    let began = std::time::Instant::now();
    let moving = slot(b"tag");
    let (mut at, mut to) = if moving < 8_192 { (0, 1) } else { (1, 0) };
    while began.elapsed() < Duration::from_millis(500 * BRIEF as u64) {
        let slot = moving.to_string();
        let answer =
            nodes[at].client().ask(&["CLUSTERX", "MIGRATE", &slot, &id(addresses[to]), "SYNC", "150"]);
        assert_eq!(text(answer), "+OK");
        assert_eq!(text(nodes[at].client().ask(&["CLUSTER", "COUNTKEYSINSLOT", &slot])), ":0");
        (at, to) = (to, at);
    }
    let left = i64::try_from(fields.len() - BRIEF).unwrap();
    // Each field is counted out once, and of the hash nothing is left where it was.
    assert_eq!(client.ask(&large, &["HLEN", &large]), Reply::Integer(left));
    for node in &nodes {
        let size = i64::from(node.address == addresses[at]);
        assert_eq!(node.client().ask(&["DBSIZE"]), Reply::Integer(size));
    }
    let all = client.ask(&large, &["HKEYS", &large]);
    assert!(matches!(&all, Reply::Array(all) if all.len() == fields.len() - BRIEF), "{left}");
    drop(nodes);
}

#[test]
fn a_hand_over_that_can_not_be_done_leaves_the_slots_where_they_are() {
    let (_dirs, nodes, addresses) = start_two();
    let other = id(addresses[1]);
    let mut client = nodes[0].client();
    for (words, wanted) in [
        (vec!["CLUSTERX", "MIGRATE", "1", &"f".repeat(40)], "-ERR Can't find the destination node id"),
        (vec!["CLUSTERX", "MIGRATE", "16383", &other], "-ERR Can't migrate slot which doesn't belong to me"),
        (vec!["CLUSTERX", "MIGRATE", "16384", &other], "-ERR Invalid or out of range slot"),
        (vec!["CLUSTERX", "MIGRATE", "1", &other, "SOON"], "-ERR Invalid sync flag"),
        (vec!["CLUSTERX", "MIGRATE", "1", &other, "SYNC", "-1"], "-ERR timeout is negative"),
        (vec!["CLUSTER", "HANDOVER", "TAKE", "t", "0"], "-ERR There is no such hand-over, or it has ended"),
    ] {
        assert_eq!(text(client.ask(&words)), wanted);
    }
    // Somebody who says it gives what it has not, and items of slots that nobody gives.
    let (me, mut target) = (id(addresses[0]), nodes[1].client());
    let begin = |slots: &str| ["CLUSTER", "HANDOVER", "BEGIN", "t", &me, slots].map(str::to_owned);
    let mut ask = |words: &[String]| text(target.ask(&words.iter().map(String::as_str).collect::<Vec<_>>()));
    assert!(ask(&begin("16000")).contains("not"));
    assert_eq!(ask(&begin("5-9")), "+OK");
    assert!(ask(&begin("9-10")).contains("arriving already"));
    let foo = [&slot(b"foo").to_be_bytes()[..], b"\0\x03foo"].concat();
    let words: [&[u8]; 7] = [b"CLUSTER", b"HANDOVER", b"ITEMS", b"t", b"put", &foo, b"\0v"];
    assert!(text(nodes[1].client().call(&words)).contains("no slot that is arriving"));
    // Nor can a slot arrive key by key as well, or the other way at the same time.
    assert!(ask(&["CLUSTER", "SETSLOT", "5", "IMPORTING", &me].map(str::to_owned)).contains("in bulk"));
    let back = ["CLUSTERX", "MIGRATE", "16383", &me].map(str::to_owned);
    assert_eq!(ask(&back), "-ERR That node hands slots over to this one just now");
    let cancel = ["CLUSTER", "HANDOVER", "CANCEL", "t", "5-9"].map(str::to_owned);
    assert_eq!(ask(&cancel), "+CANCELLED");
    assert!(has(addresses[0], &["CLUSTER", "NODES"], "0-8191"));
}

#[test]
fn what_arrives_is_not_taken_once_it_is_gone_or_another_nodes() {
    let (_dirs, nodes, addresses) = start_two();
    let (me, other) = (id(addresses[0]), id(addresses[1]));
    let mut target = nodes[1].client();
    let name = key_of_slot(5);
    let head = [&5u16.to_be_bytes()[..], &[0, u8::try_from(name.len()).unwrap()], name.as_bytes()].concat();
    let items: [&[u8]; 7] = [b"CLUSTER", b"HANDOVER", b"ITEMS", b"t", b"put", &head, b"\0v"];
    let hand_over =
        |target: &mut Client, words: &[&str]| text(target.ask(&[&["CLUSTER", "HANDOVER"], words].concat()));
    let begin = ["BEGIN", "t", &me, "5"];
    let cancel = ["CANCEL", "t", "5"];
    // The database that they came to was emptied: the rest alone is not taken.
    assert_eq!(hand_over(&mut target, &begin), "+OK");
    assert_eq!(text(target.call(&items)), "+OK");
    ok(target.ask(&["FLUSHALL"]));
    assert!(text(target.call(&items)).contains("emptied"));
    assert!(hand_over(&mut target, &["TAKE", "t", "0"]).contains("ended"));
    assert_eq!(hand_over(&mut target, &cancel), "+CANCELLED");
    // Nor slots that are no longer the giver's; what has arrived of them goes.
    assert_eq!(hand_over(&mut target, &begin), "+OK");
    assert_eq!(text(target.call(&items)), "+OK");
    assert_eq!(text(target.ask(&["CLUSTER", "COUNTKEYSINSLOT", "5"])), ":1");
    ok(target.ask(&["CLUSTER", "DELSLOTS", "5"]));
    assert!(hand_over(&mut target, &["TAKE", "t", "0"]).contains("not"));
    assert_eq!(hand_over(&mut target, &cancel), "+CANCELLED");
    until("told", || has(addresses[1], &["CLUSTER", "NODES"], "0-8191"));
    // What has arrived of a hand-over that ended is gone at once.
    assert_eq!(hand_over(&mut target, &begin), "+OK");
    assert_eq!(text(target.ask(&["CLUSTER", "COUNTKEYSINSLOT", "5"])), ":0");
    assert_eq!(text(target.call(&items)), "+OK");
    assert_eq!(hand_over(&mut target, &cancel), "+CANCELLED");
    assert_eq!(text(target.ask(&["CLUSTER", "COUNTKEYSINSLOT", "5"])), ":0");
    // And one that goes through brings it, and both epochs.
    assert_eq!(hand_over(&mut target, &begin), "+OK");
    assert_eq!(text(target.call(&items)), "+OK");
    assert_eq!(hand_over(&mut target, &["TAKE", "t", "41"]), "+OK 42");
    assert_eq!(hand_over(&mut target, &cancel), "+TAKEN 42");
    until("told", || has(addresses[0], &["CLUSTER", "NODES"], "6-8191"));
    assert_eq!(text(Follower::new(&addresses).ask(&name, &["GET", &name])), "v");
    assert!(has(addresses[0], &["CLUSTER", "NODES"], &other));
}

/// A node that ended before it heard whether another one has taken its slots does not answer for them before
/// it has asked.
#[test]
fn a_node_that_comes_back_asks_whether_slots_have_been_taken() {
    let (dirs, mut nodes, addresses) = start_two();
    let other = id(addresses[1]);
    let names = [5, 6].map(key_of_slot);
    for name in &names {
        ok(nodes[0].client().ask(&["SET", name, "v"]));
    }
    drop(nodes.remove(0));
    let file = dirs[0].path().join("nodes.conf");
    let known = std::fs::read_to_string(&file).unwrap();
    let (first, rest) = known.split_once('\n').unwrap();
    std::fs::write(&file, format!("{first}\ndoubtful {other} 5-6\n{rest}")).unwrap();
    // One of the two has been taken, of the other one nothing has come.
    let mut client = nodes[0].client();
    ok(client.ask(&["CLUSTER", "SETSLOT", "6", "NODE", &other]));
    ok(client.ask(&["CLUSTER", "BUMPEPOCH"]));
    let again = Running::start(dirs[0].path(), &SETTINGS);
    let both = [again.address, nodes[0].address];
    assert_eq!(text(Follower::new(&both).ask(&names[0], &["GET", &names[0]])), "v");
    assert_eq!(Follower::new(&both).ask(&names[1], &["GET", &names[1]]), Reply::Null);
    until("swept", || text(again.client().ask(&["CLUSTER", "COUNTKEYSINSLOT", "6"])) == ":0");
    assert_eq!(text(again.client().ask(&["CLUSTER", "COUNTKEYSINSLOT", "5"])), ":1");
    assert!(!std::fs::read_to_string(&file).unwrap().contains("doubtful"));
}

#[test]
fn three_nodes_are_driven_by_clusterx() {
    let (dirs, nodes, addresses) = start(4);
    let ids: Vec<String> = ["a", "b", "c", "d"].iter().map(|digit| digit.repeat(40)).collect();
    let line = |n: usize, rest: &str| format!("{} 127.0.0.1 {} {rest}", ids[n], addresses[n].port());
    // The last one follows the first.
    let topology = |slots: [&str; 3]| {
        let mut lines: Vec<String> = (0..3).map(|n| line(n, &format!("master - {}", slots[n]))).collect();
        lines.push(line(3, &format!("slave {}", ids[0])));
        lines.join("\n")
    };
    let tell = |text: &str, version: &str| {
        for address in &addresses {
            ok(Client::connect(*address).ask(&["CLUSTERX", "SETNODES", text, version]));
        }
    };
    assert_eq!(text(nodes[0].client().ask(&["CLUSTERX", "VERSION"])), "-1");
    for (address, id) in addresses.iter().zip(&ids) {
        ok(Client::connect(*address).ask(&["CLUSTERX", "SETNODEID", id]));
        assert_eq!(text(Client::connect(*address).ask(&["CLUSTERX", "MYID"])), *id);
    }
    tell(&topology(["0-5460", "5461-10922", "10923-16383"]), "1");
    for address in &addresses {
        assert_eq!(text(Client::connect(*address).ask(&["CLUSTERX", "VERSION"])), "1");
        assert!(has(*address, &["CLUSTER", "INFO"], "cluster_current_epoch:1\r\n"));
        assert!(has(*address, &["CLUSTER", "INFO"], "cluster_state:ok"));
    }
    let older = nodes[0].client().ask(&["CLUSTERX", "SETNODES", &topology(["0", "1", "2"]), "0"]);
    assert_eq!(text(older), "-ERR Invalid cluster version");
    assert!(text(nodes[0].client().ask(&["CLUSTER", "MEET", "127.0.0.1", "1"])).contains("CLUSTERX"));
    until("linked", || has(addresses[3], &["INFO", "replication"], "master_link_status:up"));
    let mut client = Follower::new(&addresses[..3]);
    for n in 0..400 {
        ok(client.ask(&format!("key{n}"), &["SET", &format!("key{n}"), &n.to_string()]));
    }
    // As the controller does: it asks the owner to move slots, looks at its state, and then tells all nodes.
    ok(nodes[0].client().ask(&["CLUSTERX", "MIGRATE", "0-2000", &ids[1]]));
    until("moved", || has(addresses[0], &["CLUSTER", "INFO"], "migrating_state: success"));
    assert!(has(addresses[0], &["CLUSTER", "INFO"], "migrating_slot(s): 0-2000\r\n"));
    tell(&topology(["2001-5460", "0-2000 5461-10922", "10923-16383"]), "2");
    // A single slot, by SETSLOT with the next version on every node.
    ok(nodes[1].client().ask(&["CLUSTERX", "MIGRATE", "0", &ids[2], "SYNC"]));
    for address in &addresses {
        ok(Client::connect(*address).ask(&["CLUSTERX", "SETSLOT", "0", "NODE", &ids[2], "3"]));
        let again = Client::connect(*address).ask(&["CLUSTERX", "SETSLOT", "0", "NODE", &ids[2], "3"]);
        assert_eq!(text(again), "-ERR Invalid cluster version");
    }
    for n in 0..400 {
        let key = format!("key{n}");
        assert_eq!(text(client.ask(&key, &["GET", &key])), n.to_string());
    }
    let sizes = |n: usize| text(nodes[n].client().ask(&["DBSIZE"]))[1..].parse::<i64>().unwrap();
    assert_eq!(sizes(0) + sizes(1) + sizes(2), 400);
    assert!(sizes(1) > sizes(0));
    // The controller makes the replica the primary in the place of the first node.
    until("followed", || sizes(3) == sizes(0));
    let promoted = [
        line(0, &format!("slave {}", ids[3])),
        line(1, "master - 1-2000 5461-10922"),
        line(2, "master - 0 10923-16383"),
        line(3, "master - 2001-5460"),
    ];
    tell(&promoted.join("\n"), "4");
    until("promoted", || has(addresses[3], &["ROLE"], "master"));
    until("demoted", || has(addresses[0], &["ROLE"], "slave"));
    let mut client = Follower::new(&addresses[1..]);
    for n in 0..400 {
        let key = format!("key{n}");
        assert_eq!(text(client.ask(&key, &["GET", &key])), n.to_string());
    }
    // What a controller has said outlives the node.
    drop(nodes);
    let again = Running::start(dirs[2].path(), &SETTINGS);
    assert_eq!(text(again.client().ask(&["CLUSTERX", "VERSION"])), "4");
}

/// A hand-over, with both nodes and a replica of each killed in turn: what was waited for is there.
#[test]
fn nothing_that_was_waited_for_is_lost_by_a_node_killed_during_a_hand_over() {
    for killed in 0..2 {
        let dirs: Vec<_> = (0..5).map(|_| tempfile::tempdir().unwrap()).collect();
        let (processes, addresses): (Vec<Process>, Vec<SocketAddr>) =
            dirs.iter().map(|dir| spawn(dir.path())).unzip();
        let mut processes: Vec<Option<Process>> = processes.into_iter().map(Some).collect();
        join(&addresses, 3);
        // Slot of "{06S}", below 5461, of the first node. Both ends of the hand-over have a replica.
        for (replica, primary) in [(3, 0), (4, 1)] {
            ok(Client::connect(addresses[replica]).ask(&["CLUSTER", "REPLICATE", &id(addresses[primary])]));
            until("linked", || has(addresses[replica], &["INFO", "replication"], "master_link_status:up"));
        }
        let stops = Arc::new(AtomicBool::new(false));
        let progress = Arc::new(AtomicUsize::new(0));
        let (known, flag, told) = (addresses.clone(), Arc::clone(&stops), Arc::clone(&progress));
        let writer = std::thread::spawn(move || {
            let mut client = Follower::new(&known);
            let mut waited: HashMap<String, u64> = HashMap::new();
            for n in 0u64.. {
                let key = format!("{{06S}}{}", n % 997);
                client.ask(&key, &["SET", &key, &n.to_string()]);
                let owner = client.owners.get(&slot(key.as_bytes())).copied().unwrap_or(known[0]);
                if let Some(Reply::Integer(1)) = client.try_once(owner, false, &["WAIT", "1", "1000"]) {
                    waited.insert(key, n);
                    told.fetch_add(1, Ordering::SeqCst);
                }
                if flag.load(Ordering::SeqCst) {
                    break;
                }
            }
            waited
        });
        until("written", || progress.load(Ordering::SeqCst) > 30);
        let range = "0-5000";
        let (source, target) = (addresses[0], id(addresses[1]));
        let mover = std::thread::spawn(move || {
            // It may be killed before it answers, and what it answers tells nothing about who has the slots.
            let mut client = Client::connect(source);
            client.send(&common::encode(&[
                b"CLUSTERX",
                b"MIGRATE",
                range.as_bytes(),
                target.as_bytes(),
                b"SYNC",
            ]));
            client.try_reply().ok()
        });
        std::thread::sleep(Duration::from_millis(if killed == 0 { 30 } else { 60 }));
        drop(processes[killed].take());
        mover.join().unwrap();
        until("replaced", || has(addresses[3 + killed], &["ROLE"], "master"));
        let left: Vec<SocketAddr> = (0..5).filter(|n| *n != killed).map(|n| addresses[n]).collect();
        until("up again", || {
            left.iter().all(|address| has(*address, &["CLUSTER", "INFO"], "cluster_state:ok"))
        });
        std::thread::sleep(Duration::from_secs(1));
        stops.store(true, Ordering::SeqCst);
        let waited = writer.join().unwrap();
        assert!(waited.len() > 10, "{}", waited.len());
        let mut client = Follower::new(&left);
        for (key, n) in &waited {
            let have: u64 = text(client.ask(key, &["GET", key])).parse().unwrap();
            assert!(have >= *n, "{key}: {have}, and {n} was waited for; node {killed} was killed");
        }
        // Whoever has the slots, the other end holds nothing of them in the end.
        let owner = client.owners.get(&slot(b"06S")).copied().unwrap_or(left[0]);
        let others = left.iter().filter(|address| **address != owner);
        for other in others.filter(|address| has(**address, &["ROLE"], "master")) {
            until("swept", || {
                text(Client::connect(*other).ask(&["CLUSTER", "COUNTKEYSINSLOT", &slot(b"06S").to_string()]))
                    == ":0"
            });
        }
    }
}

#[test]
fn a_store_from_outside_of_a_cluster_is_refused_until_it_is_converted() {
    let dir = tempfile::tempdir().unwrap();
    let before = Running::start(dir.path(), &[]);
    let mut client = before.client();
    for n in 0..300 {
        ok(client.ask(&["SET", &format!("key{n}"), &n.to_string()]));
    }
    ok(client.ask(&["SET", "brief", "v", "EX", "1000"]));
    for n in 0..1_000 {
        client.ask(&["HSET", "large", &format!("f{n}"), "v"]);
    }
    client.ask(&["EXPIRE", "large", "500"]);
    drop(client);
    drop(before);
    let program = env!("CARGO_BIN_EXE_siltstone-server");
    let run = |words: &[&str]| {
        let out = std::process::Command::new(program).args(words).output().unwrap();
        (out.status.success(), String::from_utf8(out.stderr).unwrap())
    };
    let path = dir.path().to_str().unwrap();
    let (started, said) = run(&[path, "--port", "0", "--", "--cluster-enabled", "yes"]);
    assert!(!started && said.contains(&format!("siltstone-server convert {path}")), "{said}");
    let (converted, said) = run(&["convert", path]);
    assert!(converted && said.contains("1302 items"), "{said}");
    let (again, said) = run(&["convert", path]);
    assert!(!again && said.contains("already"), "{said}");
    let node = Running::start(dir.path(), &SETTINGS);
    let mut client = node.client();
    ok(client.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]));
    until("up", || has(node.address, &["CLUSTER", "INFO"], "cluster_state:ok"));
    for n in 0..300 {
        assert_eq!(text(client.ask(&["GET", &format!("key{n}")])), n.to_string());
    }
    assert_eq!(text(client.ask(&["DBSIZE"])), ":302");
    assert_eq!(text(client.ask(&["HLEN", "large"])), ":1000");
    assert_eq!(text(client.ask(&["CLUSTER", "COUNTKEYSINSLOT", &slot(b"brief").to_string()])), ":1");
    for (key, most) in [("brief", 1_000), ("large", 500)] {
        let ttl: i64 = text(client.ask(&["TTL", key]))[1..].parse().unwrap();
        assert!((1..=most).contains(&ttl), "{key} {ttl}");
    }
    // Outside of a cluster it opens as it is.
    drop(client);
    drop(node);
    let outside = Running::start(dir.path(), &[]);
    assert_eq!(text(outside.client().ask(&["GET", "key7"])), "7");
    ok(outside.client().ask(&["SET", "new", "v"]));
    assert_eq!(text(outside.client().ask(&["DBSIZE"])), ":303");
}
