//! A server that follows another one: what it has, when, and what becomes of it when links and servers end.

#![expect(clippy::unwrap_used, reason = "a test that fails should say so")]

mod common;

use common::{Client, Reply, Running};
use std::time::{Duration, Instant};

/// Long enough for anything that is going to happen.
const PATIENCE: Duration = Duration::from_secs(60);

fn ok() -> Reply {
    Reply::Simple("OK".into())
}

fn text(reply: Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
        other => other.to_string(),
    }
}

/// Asks until the answer is the wanted one.
fn until(client: &mut Client, words: &[&str], wanted: &str) {
    let began = Instant::now();
    loop {
        let answer = text(client.ask(words));
        if answer.contains(wanted) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{words:?}: {answer}, not {wanted}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn follow(replica: &mut Client, primary: &Running) {
    let port = primary.address.port().to_string();
    assert_eq!(replica.ask(&["REPLICAOF", "127.0.0.1", &port]), ok());
    until(replica, &["INFO", "replication"], "master_link_status:up");
}

/// Everything that a client can see of a server's databases.
fn contents(client: &mut Client) -> Vec<String> {
    let mut all = Vec::new();
    for database in ["0", "1", "2"] {
        client.ask(&["SELECT", database]);
        let Reply::Array(keys) = client.ask(&["KEYS", "*"]) else { panic!("KEYS returns an array") };
        let mut keys: Vec<String> = keys.into_iter().map(text).collect();
        keys.sort();
        all.push(format!("{database}: {}", client.ask(&["DBSIZE"])));
        for key in keys {
            let dump = client.ask(&["DUMP", &key]);
            let expires = client.ask(&["PEXPIRETIME", &key]);
            all.push(format!("{database} {key} {dump:?} {expires}"));
        }
    }
    client.ask(&["SELECT", "0"]);
    all
}

/// What a primary's clients do to all types, in databases 0 and 1.
fn write_some(client: &mut Client, round: usize) {
    let name = |what: &str| format!("{what}{}", round % 7);
    for n in 0..20 {
        client.ask(&["SET", &format!("string{n}"), &format!("value {round}")]);
    }
    client.ask(&["INCRBY", "count", "3"]);
    client.ask(&["DEL", &format!("string{}", round % 20)]);
    client.ask(&["SETEX", &name("soon"), "1000", "x"]);
    client.ask(&["HSET", &name("hash"), "a", &round.to_string(), "b", "2"]);
    client.ask(&["HPEXPIRE", &name("hash"), "100000000", "FIELDS", "1", "a"]);
    let large = (0..300).map(|n| format!("m{}", n + round)).collect::<Vec<_>>();
    let mut words = vec!["SADD", "large"];
    words.extend(large.iter().map(String::as_str));
    client.ask(&words);
    client.ask(&["SREM", "large", &format!("m{round}")]);
    client.ask(&["SELECT", "1"]);
    client.ask(&["APPEND", &name("log"), "line;"]);
    if round % 5 == 4 {
        client.ask(&["SWAPDB", "0", "1"]);
    }
    if round % 11 == 10 {
        client.ask(&["FLUSHDB"]);
    }
    client.ask(&["SELECT", "0"]);
}

#[test]
fn a_replica_has_what_its_primary_has() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let primary = Running::start(one.path(), &[]);
    let mut client = primary.client();
    (0..3).for_each(|round| write_some(&mut client, round));
    let replica = Running::start(two.path(), &[]);
    let mut reader = replica.client();
    // What it had before is gone afterwards.
    assert_eq!(reader.ask(&["SET", "own", "1"]), ok());
    follow(&mut reader, &primary);
    assert_eq!(reader.ask(&["GET", "own"]), Reply::Null);
    for round in 3..40 {
        write_some(&mut client, round);
        if round % 6 == 0 {
            assert_eq!(client.ask(&["WAIT", "1", "60000"]), Reply::Integer(1));
            assert_eq!(contents(&mut reader), contents(&mut client), "round {round}");
        }
    }
    let refused = text(reader.ask(&["SET", "a", "b"]));
    assert!(refused.starts_with("-READONLY"), "{refused}");
    // Reading what is not there makes nothing.
    reader.ask(&["SELECT", "9"]);
    assert_eq!(reader.ask(&["GET", "a"]), Reply::Null);
    assert!(text(reader.ask(&["ROLE"])).contains("connected"));
    assert!(text(client.ask(&["INFO", "replication"])).contains("connected_slaves:1"));
}

#[test]
fn a_replica_goes_on_where_it_was() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let primary = Running::start(one.path(), &[]);
    let mut client = primary.client();
    write_some(&mut client, 0);
    let port = primary.address.port().to_string();
    let place = format!("127.0.0.1 {port}");
    {
        let replica = Running::start(two.path(), &[("replicaof", &place)]);
        let mut reader = replica.client();
        until(&mut reader, &["INFO", "replication"], "master_link_status:up");
        write_some(&mut client, 1);
        assert_eq!(client.ask(&["WAIT", "1", "60000"]), Reply::Integer(1));
    }
    // Counters are added to, so that a change taken twice or not at all shows.
    (2..9).for_each(|round| write_some(&mut client, round));
    let replica = Running::start(two.path(), &[("replicaof", &place)]);
    let mut reader = replica.client();
    until(&mut reader, &["INFO", "replication"], "master_link_status:up");
    assert_eq!(client.ask(&["WAIT", "1", "60000"]), Reply::Integer(1));
    assert_eq!(contents(&mut reader), contents(&mut client));
    let stats = text(client.ask(&["INFO", "stats"]));
    assert!(stats.contains("sync_full:1\r\n") && stats.contains("sync_partial_ok:1\r\n"), "{stats}");
    // The link is cut under it, again and again.
    for round in 9..30 {
        client.ask(&["CLIENT", "KILL", "TYPE", "replica"]);
        write_some(&mut client, round);
    }
    until(&mut reader, &["INFO", "replication"], "master_link_status:up");
    assert_eq!(client.ask(&["WAIT", "1", "60000"]), Reply::Integer(1));
    assert_eq!(contents(&mut reader), contents(&mut client));
}

#[test]
fn a_replica_takes_over_and_is_followed_itself() {
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let primary = Running::start(dirs[0].path(), &[]);
    let mut client = primary.client();
    let replica = Running::start(dirs[1].path(), &[]);
    let mut second = replica.client();
    let last = Running::start(dirs[2].path(), &[]);
    let mut third = last.client();
    follow(&mut second, &primary);
    // The third follows the second, which follows the first.
    follow(&mut third, &replica);
    (0..5).for_each(|round| write_some(&mut client, round));
    assert_eq!(client.ask(&["WAIT", "1", "60000"]), Reply::Integer(1));
    let wanted = contents(&mut client);
    assert_eq!(contents(&mut second), wanted);
    drop(client);
    drop(primary);
    assert_eq!(second.ask(&["REPLICAOF", "NO", "ONE"]), ok());
    // A transaction that writes is refused where the server has become a replica since it began.
    let mut late = last.client();
    assert_eq!(third.ask(&["REPLICAOF", "NO", "ONE"]), ok());
    assert_eq!(late.ask(&["MULTI"]), ok());
    assert_eq!(text(late.ask(&["SET", "late", "1"])), "+QUEUED");
    follow(&mut third, &replica);
    let refused = text(late.ask(&["EXEC"]));
    assert!(refused.starts_with("-EXECABORT Transaction discarded because of: READONLY"), "{refused}");
    write_some(&mut second, 5);
    assert_eq!(second.ask(&["WAIT", "1", "60000"]), Reply::Integer(1));
    assert_eq!(contents(&mut third), contents(&mut second));
    // A new database takes a place of its own.
    second.ask(&["SELECT", "2"]);
    assert_eq!(second.ask(&["SET", "new", "1"]), ok());
    assert_eq!(second.ask(&["WAIT", "1", "60000"]), Reply::Integer(1));
    third.ask(&["SELECT", "2"]);
    assert_eq!(third.ask(&["GET", "new"]), Reply::Bulk(b"1".to_vec()));
}

#[test]
fn writes_may_ask_for_replicas() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let primary = Running::start(dirs[0].path(), &[("min-replicas-to-write", "1")]);
    let mut client = primary.client();
    assert!(text(client.ask(&["SET", "a", "1"])).starts_with("-NOREPLICAS"));
    assert_eq!(client.ask(&["WAIT", "1", "50"]), Reply::Integer(0));
    let replica = Running::start(dirs[1].path(), &[]);
    follow(&mut replica.client(), &primary);
    assert_eq!(client.ask(&["SET", "a", "1"]), ok());
    assert_eq!(client.ask(&["WAIT", "1", "60000"]), Reply::Integer(1));
    assert_eq!(replica.client().ask(&["GET", "a"]), Reply::Bulk(b"1".to_vec()));
    let refused = text(client.ask(&["PSYNC", "?", "-1"]));
    assert!(refused.contains("siltstone-server"), "{refused}");
    assert!(text(client.ask(&["REPLICAOF", "x", "0"])).contains("Invalid master port"));
}

/// What WAIT has counted a replica for is on it, whatever becomes of the primary.
#[test]
fn a_killed_primary_loses_nothing_that_was_waited_for() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (mut primary, address) = common::spawn(dirs[0].path(), &[]);
    let place = format!("127.0.0.1 {}", address.port());
    let replica = Running::start(dirs[1].path(), &[("replicaof", &place)]);
    let mut reader = replica.client();
    until(&mut reader, &["INFO", "replication"], "master_link_status:up");
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                for number in 1.. {
                    client.send(&common::encode(&[
                        b"SET",
                        format!("w{writer}").as_bytes(),
                        number.to_string().as_bytes(),
                    ]));
                    client.send(&common::encode(&[
                        b"HSET",
                        format!("h{writer}").as_bytes(),
                        number.to_string().as_bytes(),
                        b"1",
                    ]));
                    client.send(&common::encode(&[b"WAIT", b"1", b"0"]));
                    let replies = [client.try_reply(), client.try_reply(), client.try_reply()];
                    if !matches!(replies.last(), Some(Ok(Reply::Integer(1)))) {
                        return number - 1;
                    }
                }
                0i64
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(800));
    primary.kill().unwrap();
    primary.wait().unwrap();
    let waited: Vec<i64> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    assert_eq!(reader.ask(&["REPLICAOF", "NO", "ONE"]), ok());
    for (writer, number) in waited.iter().enumerate() {
        assert!(*number > 0, "{waited:?}");
        let have: i64 = text(reader.ask(&["GET", &format!("w{writer}")])).parse().unwrap();
        let fields = reader.ask(&["HLEN", &format!("h{writer}")]);
        assert!(have >= *number && have <= number + 1, "{have} of {number}");
        assert!(fields == Reply::Integer(have) || fields == Reply::Integer(have - 1), "{fields} of {have}");
    }
}
