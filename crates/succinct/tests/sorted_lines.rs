//! The sorted list in lines against a sorted vector.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that finds nothing should fail")]

use proptest::collection::vec;
use proptest::prelude::*;
use siltstone_succinct::bits::sorted_lines::{
    Found, Geometry, Group, MAX_VALUE, SortedLines, SortedLinesBuilder,
};
use std::collections::BTreeMap;

/// Values and how many of each: even, in clusters, far apart, and many of one.
fn groups() -> impl Strategy<Value = Vec<Group>> {
    let value = prop_oneof![
        0u64..20_000,
        0u64..300,
        (0u64..8, 0u64..50).prop_map(|(cluster, place)| cluster * 1_000_000 + place),
        (0u32..63).prop_map(|bit| 1 << bit),
        Just(MAX_VALUE),
    ];
    let many = prop_oneof![20 => 0u32..3, 1 => 0u32..400];
    vec((value, many, prop_oneof![3 => Just(0u32), 1 => 0u32..3]), 0..400).prop_map(|items| {
        let mut groups = BTreeMap::new();
        for (value, plain, marks) in items {
            let group = groups.entry(value).or_insert(Group { value, plain: 0, marks: 0 });
            group.plain += plain;
            group.marks += marks;
        }
        groups.into_values().filter(|group| group.plain + group.marks > 0).collect()
    })
}

fn build(geometry: Geometry, groups: &[Group]) -> SortedLines {
    let mut builder = SortedLinesBuilder::new(geometry);
    groups.iter().for_each(|group| builder.push(*group));
    let list = builder.finish();
    let mut builder = SortedLinesBuilder::new(geometry);
    for Group { value, plain, marks } in groups.iter().copied() {
        for (plain, marks) in [(plain / 2, 0), (0, marks / 2), (0, 0), (plain - plain / 2, marks - marks / 2)]
        {
            builder.push(Group { value, plain, marks });
        }
    }
    assert_eq!(builder.finish(), list, "equal ones that come one after the other");
    if groups.iter().all(|group| group.marks == 0) {
        for (shift, piece) in [(0, 1), (0, 1000), (1, 7), (64, 7)] {
            check_push_all(geometry, groups, shift, piece);
        }
    }
    list
}

/// The values shifted, in pieces of `piece` values, against one by one.
fn check_push_all(geometry: Geometry, groups: &[Group], shift: u32, piece: usize) {
    let values = groups.iter().flat_map(|group| (0..group.plain).map(|_| group.value));
    let values: Vec<u64> = values.collect();
    let mut all = SortedLinesBuilder::new(geometry);
    values.chunks(piece).for_each(|values| all.push_all(values, shift));
    let mut each = SortedLinesBuilder::new(geometry);
    for value in values {
        each.push(Group { value: value.checked_shr(shift).unwrap_or(0), plain: 1, marks: 0 });
    }
    assert_eq!(all.finish(), each.finish(), "by {shift} bits, {piece} at a time");
}

/// The naive twin.
fn naive(groups: &[Group], value: u64) -> Found {
    let mut found = Found::default();
    for group in groups.iter().take_while(|group| group.value <= value) {
        let (count, marks) = (group.plain + group.marks, group.marks);
        if group.value == value {
            (found.equal, found.marks) = (count, marks);
        } else {
            (found.before, found.marks_before) = (found.before + count, found.marks_before + marks);
        }
    }
    found
}

fn check(list: &SortedLines, groups: &[Group]) {
    assert_eq!(list.groups().collect::<Vec<_>>(), groups);
    let values = groups.iter().flat_map(|group| (0..group.plain + group.marks).map(|_| group.value));
    assert!(list.values().eq(values));
    let near = groups.iter().flat_map(|group| [group.value.saturating_sub(1), group.value, group.value + 1]);
    for value in near.chain([0, 1, 12_345, MAX_VALUE, u64::MAX]) {
        assert_eq!(list.find(value), naive(groups, value), "of {value}");
    }
    let mut bytes = Vec::new();
    list.to_bytes(&mut bytes);
    bytes.push(7);
    assert_eq!(SortedLines::from_front(&bytes), Ok((list.clone(), &[7][..])));
    assert_eq!(SortedLines::from_trusted_front(&bytes), Ok((list.clone(), &[7][..])));
    assert!(SortedLines::from_front(&bytes[..bytes.len() - 2]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn the_smallest_geometry_answers_like_a_vector(groups in groups()) {
        check(&build(Geometry::smallest(&groups), &groups), &groups);
    }

    #[test]
    fn so_does_any_geometry_that_leaves_few_lines_empty(
        groups in groups(), heads in 1u32..440, low_bits in 0u32..50, is_marked: bool,
    ) {
        let is_marked = is_marked || groups.iter().any(|group| group.marks > 0);
        if let Some(geometry) = Geometry::new(heads, low_bits, is_marked) {
            let groups: Vec<Group> =
                groups.into_iter().filter(|group| group.value / geometry.span() < 20_000).collect();
            check(&build(geometry, &groups), &groups);
        }
    }

    #[test]
    fn changed_bytes_are_refused_or_answer(
        groups in groups(), changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let list = build(Geometry::smallest(&groups), &groups);
        let mut bytes = Vec::new();
        list.to_bytes(&mut bytes);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok((list, rest)) = SortedLines::from_front(&bytes) {
            let mut again = Vec::new();
            list.to_bytes(&mut again);
            prop_assert_eq!(&again[..], &bytes[..bytes.len() - rest.len()]);
            let groups: Vec<Group> = list.groups().collect();
            check(&list, &groups);
        }
    }
}

/// A spilled line whose place was damaged into the end of all numbers once overflowed.
#[test]
fn a_spilled_line_far_past_its_spill_is_refused() {
    let geometry = Geometry::new(100, 0, false).unwrap();
    let groups = [Group { value: 3, plain: 5_000, marks: 0 }];
    let mut bytes = Vec::new();
    build(geometry, &groups).to_bytes(&mut bytes);
    // The third word of the first line, behind a header of 16 bytes.
    bytes[32..40].copy_from_slice(&(u64::MAX - 3).to_le_bytes());
    assert!(SortedLines::from_front(&bytes).is_err());
}

/// Every byte of a small encoding, set to every value.
#[test]
fn no_damaged_byte_overflows() {
    let groups = [(1, 2, 0), (2, 400, 1), (70, 1, 0), (99, 0, 3), (350, 300, 0)]
        .map(|(value, plain, marks)| Group { value, plain, marks });
    for geometry in [Geometry::new(100, 0, true).unwrap(), Geometry::smallest(&groups)] {
        let mut bytes = Vec::new();
        build(geometry, &groups).to_bytes(&mut bytes);
        for at in 0..bytes.len() {
            for value in 0..=u8::MAX {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let _ = SortedLines::from_front(&damaged);
            }
        }
    }
}

#[test]
#[should_panic(expected = "a value below one before")]
fn values_that_descend_are_refused() {
    let mut builder = SortedLinesBuilder::new(Geometry::new(100, 0, false).unwrap());
    builder.push_all(&[7, 70, 69], 0);
}

#[test]
#[should_panic(expected = "a value above 2^63 - 1")]
fn values_that_are_too_large_are_refused() {
    let mut builder = SortedLinesBuilder::new(Geometry::new(400, 54, false).unwrap());
    builder.push_all(&[7, MAX_VALUE, MAX_VALUE + 1], 0);
}

#[test]
fn lines_may_cover_half_of_all_values() {
    let groups = [0, MAX_VALUE].map(|value| Group { value, plain: 1, marks: 0 });
    check(&build(Geometry::smallest(&groups), &groups), &groups);
    check(&build(Geometry::new(400, 54, false).unwrap(), &groups), &groups);
}
