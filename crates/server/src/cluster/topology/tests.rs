//! What nodes tell each other, and what each makes of it.

use super::*;
use crate::slots::write_ranges;

fn id(digit: char) -> String {
    digit.to_string().repeat(40)
}

fn node(digit: char, slots: std::ops::Range<u16>) -> Topology {
    let mut topology = Topology::new(&id(digit), 1);
    topology.myself().port = 7000;
    slots.for_each(|slot| topology.give(slot, Some(id(digit).as_str().into())));
    topology
}

#[test]
fn two_that_claim_a_slot_are_told_apart_by_their_epochs() {
    let (mut a, mut b) = (node('a', 0..10), node('b', 5..20));
    b.raise_epoch();
    a.merge(&b.write(), "hb", 2).unwrap();
    b.merge(&a.write(), "ha", 2).unwrap();
    for topology in [&a, &b] {
        assert_eq!(write_ranges(topology.slots_of(&id('a')), " "), "0-4");
        assert_eq!(write_ranges(topology.slots_of(&id('b')), " "), "5-19");
    }
    assert_eq!(a.nodes.get(&*id('b')).unwrap().host, "hb");
    assert_eq!(a.epoch, 1);
}

#[test]
fn a_node_has_failed_when_most_voters_say_so() {
    let mut all = [node('a', 0..1), node('b', 1..2), node('c', 2..3)];
    for _ in 0..2 {
        let texts: Vec<String> = all.iter().map(Topology::write).collect();
        for (at, topology) in all.iter_mut().enumerate() {
            texts.iter().enumerate().filter(|(other, _)| *other != at).for_each(|(_, text)| {
                topology.merge(text, "h", 1_000).unwrap();
            });
        }
    }
    let [a, b, _c] = &mut all;
    // Both hear from each other and no longer from the third.
    let (from_a, from_b) = (a.write(), b.write());
    a.merge(&from_b, "h", 9_000).unwrap();
    b.merge(&from_a, "h", 9_000).unwrap();
    assert!(!a.judge(9_000, 5_000), "one of three is no majority");
    b.judge(9_000, 5_000);
    a.merge(&b.write(), "h", 9_001).unwrap();
    assert!(a.judge(9_001, 5_000));
    assert!(a.nodes.get(&*id('c')).unwrap().has_failed);
    assert!(!a.is_up(false) || a.is_majority(2));
}

#[test]
fn a_node_that_comes_back_hears_from_most_before_it_answers() {
    let (mut a, b) = (node('a', 0..8_192), node('b', 8_192..16_384));
    assert!(!a.is_up(true), "half of the slots are nobody's");
    a.merge(&b.write(), "hb", 2).unwrap();
    assert!(a.is_up(true));
    let mut again = restore(&a.write(), 0, 3).unwrap();
    assert!(!again.is_up(false), "b may have its slots by now");
    let mut later = b.clone();
    later.epoch = 9;
    later.hand_over([7].into_iter(), &id('b').as_str().into(), 0);
    again.merge(&later.write(), "hb", 4).unwrap();
    assert!(again.is_up(true));
    assert_eq!(again.owner(7).map(|owner| owner.to_string()), Some(id('b')));
}

#[test]
fn what_was_said_before_a_hand_over_changes_nothing_after_it() {
    let [of_a, of_b]: [NodeId; 2] = ['a', 'b'].map(|digit| id(digit).as_str().into());
    let (mut a, mut b) = (node('a', 0..10), node('b', 10..20));
    a.merge(&b.write(), "hb", 2).unwrap();
    b.merge(&a.write(), "ha", 2).unwrap();
    // Of its later epochs it has not told the other one yet.
    for _ in 0..3 {
        a.raise_epoch();
    }
    for turn in 0..4 {
        let (before_a, before_b) = (a.write(), b.write());
        let (gives, takes, to) =
            if turn % 2 == 0 { (&mut a, &mut b, &of_b) } else { (&mut b, &mut a, &of_a) };
        takes.hand_over([5].into_iter(), to, gives.epoch);
        gives.hand_over([5].into_iter(), to, takes.my_epoch());
        a.merge(&before_b, "hb", 2).unwrap();
        b.merge(&before_a, "ha", 2).unwrap();
        assert_eq!((a.owner(5), b.owner(5)), (Some(to), Some(to)), "turn {turn}");
    }
}

#[test]
fn a_node_that_has_lost_its_epoch_is_believed_again() {
    let (mut a, mut b) = (node('a', 0..10), node('b', 10..20));
    let mut lost = b.clone();
    (0..3).for_each(|_| b.raise_epoch());
    a.merge(&b.write(), "hb", 2).unwrap();
    lost.give(19, None);
    a.merge(&lost.write(), "hb", 3).unwrap();
    assert!(a.owner(19).is_some(), "that may have been said before");
    // What others have taken from it meanwhile is theirs, whatever they are called.
    let [before, behind] = ['1', 'c'].map(|digit| NodeId::from(id(digit).as_str()));
    for (slot, other) in [(17, &before), (18, &behind)] {
        a.nodes.insert(Arc::clone(other), Node { epoch: 4 + u64::from(slot), ..Node::at("h", 1, 3) });
        a.give(slot, Some(Arc::clone(other)));
    }
    lost.merge(&a.write(), "ha", 4).unwrap();
    assert_eq!((lost.owner(17), lost.owner(18)), (Some(&before), Some(&behind)));
    a.merge(&lost.write(), "hb", 5).unwrap();
    assert_eq!((a.owner(17), a.owner(18), a.owner(19)), (Some(&before), Some(&behind), None));
}

#[test]
fn a_file_brings_everything_back() {
    let mut a = node('a', 0..100);
    a.merge(&node('b', 100..200).write(), "hb", 2).unwrap();
    a.raise_epoch();
    a.myself().primary = Some(id('b').as_str().into());
    let again = restore(&a.write(), 7, 3).unwrap();
    assert_eq!(again.write(), a.write());
    assert_eq!((again.voted, again.epoch, again.my_primary()), (7, a.epoch, a.my_primary()));
    for wrong in ["", "from x 1\n", "from ", "node\n"] {
        assert!(restore(wrong, 0, 0).is_none());
    }
}
