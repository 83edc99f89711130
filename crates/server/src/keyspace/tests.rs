//! Whatever writes items, those used last are what the store holds afterwards. Each test uses a key, has it
//! written by another way than a unit of work that knows it, and looks again.

use super::encoding::{self, Head, HeadKind};
use super::*;
use siltstone::{Change, TailOperation};
use std::sync::Arc;

const LIMITS: PackLimits = PackLimits {
    hash_entries: 128,
    hash_value_bytes: 64,
    intset_entries: 512,
    packed_bytes: 4 << 10,
    packed_elements: 512,
};
/// Enough for a hash of many items.
const MANY: usize = 600;

fn open(layout: Layout) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let options = siltstone::Options { memory_budget_bytes: 64 << 20, ..siltstone::Options::default() };
    let store = Store::open(&dir.path().join("store"), options, 4, layout).unwrap();
    (dir, store)
}

/// Carries out `work` as a unit on `key` of database `number`.
fn work<T>(store: &Store, number: usize, key: &str, work: impl FnOnce(&mut Unit) -> T) -> T {
    let _held = store.locks.keys(std::iter::once((number, key.as_bytes(), true)));
    let mut unit = Unit::new(store, LIMITS);
    let done = work(&mut unit);
    unit.commit().unwrap();
    done
}

fn set(store: &Store, number: usize, key: &str, value: &str) {
    work(store, number, key, |unit| {
        unit.key(number, key.as_bytes()).unwrap().set_string(value.into());
    });
}

fn get(store: &Store, number: usize, key: &str) -> Option<String> {
    work(store, number, key, |unit| {
        let state = unit.key(number, key.as_bytes()).unwrap();
        state.string().unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
    })
}

/// Makes `key` a hash of many fields, whose names begin with `name`, all with this value.
fn fill(store: &Store, key: &str, name: &str, value: &str) {
    let entries: Vec<_> = (0..MANY)
        .map(|number| (format!("{name} {number}").into_bytes(), value.as_bytes().to_vec(), 0))
        .collect();
    work(store, 0, key, |unit| {
        unit.key(0, key.as_bytes()).unwrap().remove();
        unit.fill(0, key.as_bytes(), Kind::Hash, &entries).unwrap();
    });
}

/// A field's value, and how many fields there are.
fn field(store: &Store, key: &str, name: &str) -> (Option<String>, u64) {
    work(store, 0, key, |unit| {
        let state = unit.key(0, key.as_bytes()).unwrap();
        let Some(hash) = state.collection(Kind::Hash).unwrap() else { return (None, 0) };
        let found = hash.get(name.as_bytes()).unwrap();
        (found.map(|element| String::from_utf8(element.value.to_vec()).unwrap()), hash.len())
    })
}

/// The item of a string.
fn item(value: &str) -> Vec<u8> {
    let mut item = Vec::new();
    Head { kind: HeadKind::String, expires_at: 0, is_table: false }.write(&mut item);
    item.extend_from_slice(value.as_bytes());
    item
}

fn is_known(store: &Store, key: &str) -> bool {
    store.database(0).unwrap().recall(key.as_bytes()).is_ok()
}

#[test]
fn units_keep_what_they_have_written_and_read() {
    let (_dir, store) = open(Layout::Plain);
    set(&store, 0, "key", "value");
    assert!(is_known(&store, "key"));
    assert_eq!(get(&store, 0, "key").as_deref(), Some("value"));
    work(&store, 0, "key", |unit| unit.key(0, b"key").unwrap().remove());
    assert!(is_known(&store, "key"));
    assert_eq!(get(&store, 0, "key"), None);
    // Read ahead, of those that are known and those that are not.
    set(&store, 0, "one", "1");
    store.database(0).unwrap().forget(b"one");
    set(&store, 0, "two", "2");
    let mut unit = Unit::new(&store, LIMITS);
    let keys = ["two", "none", "one", "two", "none"].map(str::as_bytes);
    assert_eq!(unit.load_cached(0, keys.into_iter()).unwrap(), Cached::All);
    assert_eq!(unit.known(0).count(), 3);
    assert_eq!(unit.key(0, b"one").unwrap().string().unwrap(), Some(&b"1"[..]));
    assert!(is_known(&store, "one") && is_known(&store, "none"));
}

#[test]
fn a_key_that_is_kept_expires() {
    let (_dir, store) = open(Layout::Plain);
    let until = crate::now_ms() + 60_000;
    work(&store, 0, "key", |unit| {
        let state = unit.key(0, b"key").unwrap();
        state.set_string(b"value".to_vec());
        state.expires_at = until;
    });
    let mut unit = Unit::new(&store, LIMITS);
    assert!(unit.key(0, b"key").unwrap().is_live());
    let mut unit = Unit::new(&store, LIMITS);
    unit.now = until;
    assert!(!unit.key(0, b"key").unwrap().is_live());
}

#[test]
fn elements_follow_their_collection() {
    let (_dir, store) = open(Layout::Plain);
    fill(&store, "hash", "field", "old");
    assert_eq!(field(&store, "hash", "field 7"), (Some("old".into()), MANY as u64));
    work(&store, 0, "hash", |unit| {
        let hash = unit.key(0, b"hash").unwrap().collection_mut(Kind::Hash).unwrap();
        assert!(hash.remove(b"field 7").unwrap());
        assert!(!hash.put(b"field 8", Element { value: b"new", expires_at: 0 }).unwrap());
        unit.key(0, b"hash").unwrap().is_changed = true;
    });
    assert_eq!(field(&store, "hash", "field 7"), (None, MANY as u64 - 1));
    assert_eq!(field(&store, "hash", "field 8").0.as_deref(), Some("new"));
    // Another one in its place.
    fill(&store, "hash", "field", "other");
    assert_eq!(field(&store, "hash", "field 7"), (Some("other".into()), MANY as u64));
    work(&store, 0, "hash", |unit| unit.key(0, b"hash").unwrap().remove());
    assert_eq!(field(&store, "hash", "field 7"), (None, 0));
    fill(&store, "hash", "other", "third");
    assert_eq!(field(&store, "hash", "field 7"), (None, MANY as u64));
    // From the store, without what is known.
    fill(&store, "hash", "field", "third");
    store.database(0).unwrap().forget(b"hash");
    assert_eq!(field(&store, "hash", "field 8"), (Some("third".into()), MANY as u64));
}

#[test]
fn emptied_and_swapped_databases_are_what_they_are() {
    let (_dir, store) = open(Layout::Plain);
    set(&store, 0, "key", "zero");
    set(&store, 1, "key", "one");
    {
        let _held = store.locks.all();
        store.swap(0, 1).unwrap();
    }
    assert_eq!(get(&store, 0, "key").as_deref(), Some("one"));
    assert_eq!(get(&store, 1, "key").as_deref(), Some("zero"));
    {
        let _held = store.locks.all();
        store.flush(0..1).unwrap();
    }
    assert_eq!(get(&store, 0, "key"), None);
    set(&store, 0, "other", "value");
    assert_eq!(get(&store, 0, "key"), None);
    assert_eq!(get(&store, 1, "key").as_deref(), Some("zero"));
}

#[test]
fn what_a_failed_write_was_of_is_forgotten() {
    let (_dir, store) = open(Layout::Plain);
    set(&store, 0, "key", "value");
    let mut unit = Unit::new(&store, LIMITS);
    unit.key(0, b"key").unwrap().set_string(b"other".to_vec());
    store.db.clone().close().unwrap();
    assert!(unit.commit().is_err());
    assert!(!is_known(&store, "key"));
}

#[test]
fn what_a_primary_has_changed_is_seen() {
    let (_dir, store) = open(Layout::Plain);
    let position = Position { log_id: "a".repeat(40), next: 1 };
    let keyspace: Arc<str> = store.database_or_new(0).unwrap().items.name().into();
    let apply = |key: Vec<u8>, change: Change| {
        let operation = TailOperation::new(Arc::clone(&keyspace), key, change);
        store.apply(&[operation], &position).unwrap();
    };
    set(&store, 0, "key", "value");
    let head = Layout::Plain.group(b"key");
    apply(head.clone(), Change::Put { value: item("other"), expires_at_ms: None });
    assert_eq!(get(&store, 0, "key").as_deref(), Some("other"));
    apply(head, Change::Delete);
    assert_eq!(get(&store, 0, "key"), None);
    fill(&store, "hash", "field", "old");
    let group = Layout::Plain.group(b"hash");
    let (mut value, name) = (Vec::new(), b"field 7");
    encoding::put_element(&mut value, name, Element { value: b"new", expires_at: 0 });
    apply(encoding::element_key(&group, name), Change::Put { value, expires_at_ms: None });
    assert_eq!(field(&store, "hash", "field 7").0.as_deref(), Some("new"));
    apply(group, Change::DeletePrefix);
    assert_eq!(field(&store, "hash", "field 7"), (None, 0));
}

#[test]
fn what_another_node_hands_over_is_seen() {
    let (_dir, store) = open(Layout::BySlot);
    set(&store, 0, "key", "value");
    let (head, other) = (Layout::BySlot.group(b"key"), item("other"));
    store.take_items(&store.by_slot().unwrap(), &[ItemChange::Put { key: &head, value: &other }]).unwrap();
    assert_eq!(get(&store, 0, "key").as_deref(), Some("other"));
    store.take_items(&store.by_slot().unwrap(), &[ItemChange::Delete { key: &head }]).unwrap();
    assert_eq!(get(&store, 0, "key"), None);
    fill(&store, "hash", "field", "old");
    let group = Layout::BySlot.group(b"hash");
    store.take_items(&store.by_slot().unwrap(), &[ItemChange::DeleteGroup { key: &group }]).unwrap();
    assert_eq!(field(&store, "hash", "field 7"), (None, 0));
    // What is swept away, once another node has it.
    set(&store, 0, "key", "value");
    fill(&store, "hash", "field", "old");
    let page = store.page_of_slots(0..=u16::MAX >> 2, None).unwrap();
    assert!(page.is_last);
    assert_eq!(store.drop_items(&page.items).unwrap(), 2);
    assert_eq!(get(&store, 0, "key"), None);
    assert_eq!(field(&store, "hash", "field 7"), (None, 0));
    assert_eq!(store.keys(0, crate::now_ms()), 0);
}

/// Units count keys up; meanwhile some keys are forgotten, and read by whoever holds no lock.
#[test]
fn no_thread_sees_what_was_there_before() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 2_000;
    const KEYS: usize = 40;
    let (_dir, store) = open(Layout::Plain);
    let name = |number: usize| format!("key {}", number % KEYS);
    let count = |value: Option<&[u8]>| {
        value.map_or(0, |digits| std::str::from_utf8(digits).unwrap().parse::<usize>().unwrap())
    };
    let count_up = |key: &str| {
        work(&store, 0, key, |unit| {
            let state = unit.key(0, key.as_bytes()).unwrap();
            let next = count(state.string().unwrap()) + 1;
            state.set_string(next.to_string().into_bytes());
        });
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    count_up(&name(round));
                    let other = name(round + 1);
                    store.database(0).unwrap().forget(other.as_bytes());
                    Unit::new(&store, LIMITS).key(0, other.as_bytes()).unwrap();
                }
            });
        }
    });
    for number in 0..KEYS {
        let found = get(&store, 0, &name(number));
        assert_eq!(count(found.as_deref().map(str::as_bytes)), THREADS * ROUNDS / KEYS);
    }
}
