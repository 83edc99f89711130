//! Every way of walking a keyspace, compared with the items that it should show.

use super::Rng;
use siltstone::{Iter, Keyspace};
use std::collections::BTreeMap;

/// Items in some order.
pub type Items = Vec<(Vec<u8>, Vec<u8>)>;

/// Compares the ways of walking a keyspace with one another, and with what should be there.
pub fn check_walks(rng: &mut Rng, keyspace: &Keyspace, live: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let name = keyspace.name();
    assert_eq!(keyspace.len().unwrap(), live.len() as u64, "len of {name}");
    assert_eq!(keyspace.is_empty().unwrap(), live.is_empty(), "is_empty of {name}");
    let all: Items = keyspace.iter().unwrap().map(Result::unwrap).collect();
    check_walk(rng, || keyspace.iter().unwrap(), &all);
    // Any beginning of keys.
    let mut start = if all.is_empty() { b"dir1/s".to_vec() } else { rng.pick(&all).0.clone() };
    start.truncate(rng.below(9) as usize);
    let expected: Items = all.iter().filter(|(key, _)| key.starts_with(&start)).cloned().collect();
    check_walk(rng, || keyspace.starting_with(&start).unwrap(), &expected);
}

/// Compares every way of walking with the items that `walk` should show, in their order.
pub fn check_walk(rng: &mut Rng, walk: impl Fn() -> Iter, expected: &Items) {
    let (mut lent, mut walked) = (Items::new(), walk());
    while let Some((key, value)) = walked.next_ref().unwrap() {
        lent.push((key.to_vec(), value.to_vec()));
    }
    assert!(lent == *expected, "items as they lie");
    assert!(walk().keys().map(Result::unwrap).eq(expected.iter().map(|(key, _)| key.clone())), "keys");
    let back: Items = walk().rev().map(Result::unwrap).collect();
    assert!(back.iter().eq(expected.iter().rev()), "from behind: {} of {}", back.len(), expected.len());
    // From both ends, until they meet.
    let (mut front, mut back, mut both) = (Items::new(), Items::new(), walk());
    loop {
        let from_front = rng.one_in(2);
        let next = if from_front { both.next() } else { both.next_back() };
        let Some(item) = next else { break };
        if from_front { &mut front } else { &mut back }.push(item.unwrap());
    }
    assert!(both.next().is_none() && both.next_back().is_none(), "an end that is none");
    let met: Items = front.into_iter().chain(back.into_iter().rev()).collect();
    assert!(met == *expected, "from both ends: {} of {}", met.len(), expected.len());
    // Page by page, in both directions.
    let (size, mut pages) = (1 + rng.below(20) as usize, Items::new());
    while let Some((token, _)) = pages.last().or(expected.first()).cloned() {
        let rest = if pages.is_empty() { walk() } else { walk().after(&token).unwrap() };
        let page: Items = rest.take(size).map(Result::unwrap).collect();
        if page.is_empty() {
            break;
        }
        pages.extend(page);
    }
    assert!(pages == *expected, "page by page: {} of {}", pages.len(), expected.len());
    if !expected.is_empty() {
        let at = rng.below(expected.len() as u64) as usize;
        let before: Items = walk().before(&expected[at].0).unwrap().rev().map(Result::unwrap).collect();
        assert!(before.iter().eq(expected[..at].iter().rev()), "before a key, from behind");
        let before: Items = walk().before(&expected[at].0).unwrap().map(Result::unwrap).collect();
        assert!(before == expected[..at], "before a key");
        let beyond = walk().after(&expected[at].0).unwrap().rev().map(Result::unwrap);
        assert!(beyond.eq(expected[at + 1..].iter().rev().cloned()), "after a key, from behind");
    }
}
