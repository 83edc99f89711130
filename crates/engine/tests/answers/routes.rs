//! Keyspaces whose keys lie by a route that they begin with: the keys of one are listed from its position.

use siltstone::{Db, KeyspaceOptions, Options, PrefixRule, Schema, presets};

const BITS: u8 = 14;

fn schema() -> Schema {
    Schema::ordered(PrefixRule::Routed { bits: BITS, width: 2 })
}

fn key(route: u16, key: &str) -> Vec<u8> {
    let length = u16::try_from(key.len()).unwrap();
    [&route.to_be_bytes()[..], &length.to_be_bytes(), key.as_bytes()].concat()
}

/// Routes of which some hold much more than others, and most hold nothing.
fn routes() -> Vec<(u16, usize)> {
    vec![(0, 3), (1, 4_000), (5, 1), (9_000, 9_000), (9_001, 40), (16_383, 2_000)]
}

fn keys_of(keyspace: &siltstone::Keyspace, route: u16) -> usize {
    let from = u64::from(route) << (64 - u32::from(BITS));
    let items = keyspace.iter_from(from).unwrap().map(|item| item.unwrap().0);
    items.take_while(|key| key.starts_with(&route.to_be_bytes())).count()
}

#[test]
fn the_keys_of_a_route_are_found_from_its_position_under_every_design() {
    for (name, design) in presets::all().into_iter().filter(|(name, _)| *name != "silt") {
        for is_built in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let options = Options { default_design: design.clone(), ..Options::default() };
            let db = Db::open(dir.path(), options).unwrap();
            let wanted = KeyspaceOptions { schema: schema(), ..KeyspaceOptions::default() };
            let items = routes().into_iter().flat_map(|(route, count)| {
                (0..count).map(move |n| (key(route, &format!("k{n}")), vec![b'v'; 100]))
            });
            let keyspace = db.create_keyspace("k", wanted).unwrap();
            if is_built {
                keyspace.ingest(items).unwrap();
            } else {
                items.for_each(|(key, value)| keyspace.put(key, value).unwrap());
                db.flush().unwrap();
                db.compact().unwrap();
            }
            for (route, count) in routes() {
                assert_eq!(keys_of(&keyspace, route), count, "{name}, route {route}, built {is_built}");
                let last = key(route, &format!("k{}", count - 1));
                assert!(keyspace.contains(&last).unwrap(), "{name}, route {route}");
            }
            assert_eq!(keys_of(&keyspace, 2), 0);
            assert!(keyspace.put(key(1 << BITS, "k"), "v").is_err());
        }
    }
}
