//! Random commands, beside a model that is maps and nothing else: strings, hashes and sets, small and large,
//! in pipelines and transactions, and after the server was stopped and started.

#![expect(clippy::indexing_slicing, reason = "a test that finds nothing should fail")]

mod common;

use common::{Client, Reply, Running};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq)]
enum Value {
    String(String),
    Hash(BTreeMap<String, String>),
    Set(BTreeSet<String>),
}

type Model = BTreeMap<String, Value>;

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

fn bulk(text: &str) -> String {
    format!("\"{text}\"")
}

/// A random command, and the reply that the model gives.
fn step(random: &mut StdRng, model: &mut Model) -> (String, String) {
    let key = format!("k{}", random.random_range(0..12));
    // Large collections come from a wide range of names.
    let name = format!("n{}", random.random_range(0..if key == "k1" || key == "k2" { 3000 } else { 30 }));
    let value = "v".repeat(random.random_range(1..90));
    let command = random.random_range(0..17);
    let entry = model.get_mut(&key);
    let int = |number: usize| format!(":{number}");
    match command {
        0 => {
            model.insert(key.clone(), Value::String(value.clone()));
            (format!("SET {key} {value}"), "+OK".into())
        }
        1 => (
            format!("GET {key}"),
            match entry {
                None => "nil".into(),
                Some(Value::String(text)) => bulk(text),
                Some(_) => WRONG.into(),
            },
        ),
        2 => (format!("DEL {key}"), int(usize::from(model.remove(&key).is_some()))),
        3 => (
            format!("APPEND {key} x"),
            match entry {
                None => {
                    model.insert(key, Value::String("x".into()));
                    int(1)
                }
                Some(Value::String(text)) => {
                    text.push('x');
                    int(text.len())
                }
                Some(_) => WRONG.into(),
            },
        ),
        4..=6 => {
            let Value::Hash(hash) = model.entry(key.clone()).or_insert_with(|| Value::Hash(BTreeMap::new()))
            else {
                return (format!("HSET {key} {name} {value}"), WRONG.into());
            };
            let is_new = hash.insert(name.clone(), value.clone()).is_none();
            (format!("HSET {key} {name} {value}"), int(usize::from(is_new)))
        }
        7 => (
            format!("HGET {key} {name}"),
            match entry {
                None => "nil".into(),
                Some(Value::Hash(hash)) => hash.get(&name).map_or("nil".into(), |value| bulk(value)),
                Some(_) => WRONG.into(),
            },
        ),
        8 => {
            let command = format!("HDEL {key} {name}");
            let Some(Value::Hash(hash)) = entry else {
                return (command, if entry.is_none() { int(0) } else { WRONG.into() });
            };
            let was_there = hash.remove(&name).is_some();
            if hash.is_empty() {
                model.remove(&key);
            }
            (command, int(usize::from(was_there)))
        }
        9 => (
            format!("HLEN {key}"),
            match entry {
                None => int(0),
                Some(Value::Hash(hash)) => int(hash.len()),
                Some(_) => WRONG.into(),
            },
        ),
        10..=12 => {
            let Value::Set(set) = model.entry(key.clone()).or_insert_with(|| Value::Set(BTreeSet::new()))
            else {
                return (format!("SADD {key} {name}"), WRONG.into());
            };
            (format!("SADD {key} {name}"), int(usize::from(set.insert(name))))
        }
        13 => {
            let command = format!("SREM {key} {name}");
            let Some(Value::Set(set)) = entry else {
                return (command, if entry.is_none() { int(0) } else { WRONG.into() });
            };
            let was_there = set.remove(&name);
            if set.is_empty() {
                model.remove(&key);
            }
            (command, int(usize::from(was_there)))
        }
        14 => (
            format!("SISMEMBER {key} {name}"),
            match entry {
                None => int(0),
                Some(Value::Set(set)) => int(usize::from(set.contains(&name))),
                Some(_) => WRONG.into(),
            },
        ),
        15 => {
            let other = format!("k{}", random.random_range(0..12));
            let command = format!("RENAME {key} {other}");
            match model.remove(&key) {
                None => (command, "-ERR no such key".into()),
                Some(value) => {
                    model.insert(other, value);
                    (command, "+OK".into())
                }
            }
        }
        _ => (format!("EXISTS {key}"), int(usize::from(entry.is_some()))),
    }
}

/// What the server holds, read by other commands than those that wrote it.
fn contents(client: &mut Client) -> Model {
    let texts = |reply: Reply| -> Vec<String> {
        let (Reply::Array(items) | Reply::Set(items) | Reply::Map(items)) = reply else { panic!("{reply}") };
        items.into_iter().map(|item| item.to_string().trim_matches('"').to_owned()).collect()
    };
    let (mut model, mut cursor) = (Model::new(), "0".to_owned());
    loop {
        let Reply::Array(page) = client.run(&format!("SCAN {cursor} COUNT 3")) else { panic!() };
        for key in texts(page[1].clone()) {
            let value = match client.run(&format!("TYPE {key}")).to_string().as_str() {
                "+string" => {
                    Value::String(client.run(&format!("GET {key}")).to_string().trim_matches('"').into())
                }
                "+hash" => {
                    let flat = texts(client.run(&format!("HGETALL {key}")));
                    Value::Hash(flat.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
                }
                "+set" => {
                    // Some at a time, so that cursors are walked too.
                    let (mut set, mut cursor) = (BTreeSet::new(), "0".to_owned());
                    loop {
                        let Reply::Array(page) = client.run(&format!("SSCAN {key} {cursor} COUNT 7")) else {
                            panic!()
                        };
                        for member in texts(page[1].clone()) {
                            assert!(set.insert(member), "SSCAN showed a member twice");
                        }
                        cursor = page[0].to_string().trim_matches('"').to_owned();
                        if cursor == "0" {
                            break;
                        }
                    }
                    Value::Set(set)
                }
                other => panic!("{key} is {other}"),
            };
            assert!(model.insert(key.clone(), value).is_none(), "SCAN showed {key} twice");
        }
        cursor = page[0].to_string().trim_matches('"').to_owned();
        if cursor == "0" {
            return model;
        }
    }
}

#[test]
fn commands_do_what_maps_do() {
    for seed in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let (mut random, mut model) = (StdRng::seed_from_u64(seed), Model::new());
        for _ in 0..4 {
            let running = Running::start(dir.path(), &[("store-memory", "8mb")]);
            let mut client = running.client();
            assert_eq!(contents(&mut client), model, "seed {seed}: after a start");
            for _ in 0..60 {
                let steps: Vec<_> =
                    (0..random.random_range(1..80)).map(|_| step(&mut random, &mut model)).collect();
                let lines: Vec<String> = steps.iter().map(|(line, _)| line.clone()).collect();
                let replies = if random.random_range(0..4) == 0 {
                    client.run("MULTI");
                    client.pipeline(&lines);
                    let Reply::Array(replies) = client.run("EXEC") else { panic!() };
                    replies
                } else {
                    client.pipeline(&lines)
                };
                for ((line, expected), reply) in steps.iter().zip(replies) {
                    assert_eq!(reply.to_string(), *expected, "seed {seed}: {line}");
                }
                assert_eq!(
                    client.run("DBSIZE"),
                    Reply::Integer(i64::try_from(model.len()).unwrap()),
                    "seed {seed}"
                );
            }
            assert_eq!(contents(&mut client), model, "seed {seed}");
        }
    }
}

#[test]
fn large_collections_are_deleted_copied_and_expire() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path(), &[]);
    let mut client = running.client();
    let lines: Vec<String> = (0..4000).map(|number| format!("HSET big f{number} {number}")).collect();
    client.pipeline(&lines);
    let mut check = |line: &str, expected: &str| assert_eq!(client.run(line).to_string(), expected, "{line}");
    check("HLEN big", ":4000");
    check("COPY big copy", ":1");
    check("RENAME big moved", "+OK");
    check("HLEN big", ":0");
    check("HGET copy f3999", "\"3999\"");
    check("HGET moved f17", "\"17\"");
    check("DEL copy", ":1");
    // What is made anew has nothing of what was deleted.
    check("HSET copy f1 x", ":1");
    check("HGETALL copy", "[\"f1\" \"x\"]");
    check("DBSIZE", ":2");
    check("PEXPIRE moved 60", ":1");
    std::thread::sleep(std::time::Duration::from_millis(80));
    check("HGET moved f17", "nil");
    check("HSET moved g 1", ":1");
    check("HGETALL moved", "[\"g\" \"1\"]");
    check("HPEXPIRE moved 40 FIELDS 1 g", "[:1]");
    std::thread::sleep(std::time::Duration::from_millis(60));
    check("EXISTS moved", ":0");
    check("HGETALL moved", "[]");
    check("KEYS *", "[\"copy\"]");
    // Expired keys leave DBSIZE when their second is over, and hashes whose fields have expired when they are
    // swept, whichever comes first.
    check("SET gone 1 PX 10", "+OK");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let counted = client.run("DBSIZE").to_string();
    assert!([":1", ":2"].contains(&counted.as_str()), "{counted} keys with one that expired");
    let started = std::time::Instant::now();
    while client.run("DBSIZE").to_string() != ":1" {
        assert!(started.elapsed() < std::time::Duration::from_secs(60), "expired keys are still counted");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_dump_restores() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path(), &[]);
    let mut client = running.client();
    client.run("SET s 12345");
    client.pipeline(&(0..600).map(|number| format!("SADD m member{number}")).collect::<Vec<_>>());
    client.run("HSET h a 1 b 2");
    client.run("HEXPIRE h 100 FIELDS 1 a");
    for key in ["s", "m", "h"] {
        let Reply::Bulk(payload) = client.run(&format!("DUMP {key}")) else { panic!() };
        let copy = format!("{key}2");
        assert_eq!(client.call(&[b"RESTORE", copy.as_bytes(), b"0", &payload]).to_string(), "+OK");
    }
    assert_eq!(client.run("GET s2").to_string(), "\"12345\"");
    assert_eq!(client.run("SDIFF m m2").to_string(), "[]");
    assert_eq!(client.run("SCARD m2").to_string(), ":600");
    assert_eq!(client.run("HTTL h2 FIELDS 2 a b").to_string(), "[:100 :-1]");
}

#[test]
fn transactions_see_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path(), &[]);
    let mut client = running.client();
    client.run("SET counter 0");
    let mut threads = Vec::new();
    for _ in 0..4 {
        let address = running.address;
        threads.push(std::thread::spawn(move || {
            let mut client = Client::connect(address);
            for _ in 0..200 {
                // A counter by WATCH: only those who saw the last value may write the next.
                loop {
                    client.run("WATCH counter");
                    let Reply::Bulk(old) = client.run("GET counter") else { panic!() };
                    let next: u64 = String::from_utf8(old).unwrap().parse::<u64>().unwrap() + 1;
                    client.run("MULTI");
                    client.run(&format!("SET counter {next}"));
                    client.run("INCR commits");
                    if client.run("EXEC") != Reply::Null {
                        break;
                    }
                }
            }
        }));
    }
    drop(threads.drain(..).map(|thread| thread.join().unwrap()).collect::<Vec<_>>());
    assert_eq!(client.run("MGET counter commits").to_string(), "[\"800\" \"800\"]");
}
