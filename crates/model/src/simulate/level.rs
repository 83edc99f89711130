//! A level of a simulated leveled store: disjoint tables in key order, and the ways to pick one of them.
//!
//! Invariants: tables are disjoint and never empty; `items` is the sum over them.

use std::collections::BTreeMap;

/// Tables by their first key.
#[derive(Debug, Default)]
pub(super) struct Level {
    pub tables: BTreeMap<u32, Vec<u32>>,
    pub items: usize,
    /// Last key compacted.
    pub pointer: Option<u32>,
}

pub(super) fn last_key(table: &[u32]) -> u32 {
    table.last().copied().unwrap_or(0)
}

impl Level {
    /// First keys of the tables that overlap `low..=high`.
    pub fn overlapping(&self, low: u32, high: u32) -> impl Iterator<Item = (u32, &Vec<u32>)> {
        let before = self.tables.range(..low).next_back().filter(|(_, table)| last_key(table) >= low);
        before.into_iter().chain(self.tables.range(low..=high)).map(|(first, table)| (*first, table))
    }

    /// How many of `keys` a table may hold until it overlaps more than `limit` items of this level.
    pub fn within(&self, keys: &[u32], limit: f64) -> usize {
        let (Some(&low), Some(&high)) = (keys.first(), keys.last()) else { return 0 };
        let (mut overlapped, mut at) = (0, 0);
        for (first, table) in self.overlapping(low, high) {
            at += keys.get(at..).unwrap_or_default().partition_point(|key| *key < first);
            overlapped += table.len();
            if overlapped as f64 > limit && at > 0 {
                return at;
            }
        }
        keys.len()
    }

    pub fn take(&mut self, first: u32) -> Option<Vec<u32>> {
        let table = self.tables.remove(&first)?;
        self.items -= table.len();
        Some(table)
    }

    pub fn put(&mut self, table: Vec<u32>) {
        if let Some(&first) = table.first() {
            self.items += table.len();
            self.tables.insert(first, table);
        }
    }

    /// The next table in the circle that `begins_after` the pointer, or the very first.
    pub fn round_robin(&self, by_last_key: bool) -> Option<u32> {
        let first = || self.tables.keys().next().copied();
        let Some(pointer) = self.pointer else { return first() };
        if by_last_key
            && let Some((first, table)) = self.tables.range(..=pointer).next_back()
            && last_key(table) > pointer
        {
            return Some(*first);
        }
        let Some(after) = pointer.checked_add(1) else { return first() };
        self.tables.range(after..).next().map(|(first, _)| *first).or_else(first)
    }

    /// The table with most items; among equals the one whose first key hashes lowest.
    pub fn largest(&self) -> Option<u32> {
        let mix = |key: u32| siltstone_design::digest::mix64(key.into());
        self.tables.iter().max_by_key(|(first, table)| (table.len(), mix(**first))).map(|(first, _)| *first)
    }

    /// The table that overlaps fewest items of `below` per item of its own.
    pub fn least_overlap(&self, below: &Self) -> Option<u32> {
        let mut others = below.tables.values().peekable();
        let mut best: Option<(f64, u32)> = None;
        for (&first, table) in &self.tables {
            while others.next_if(|other| last_key(other) < first).is_some() {}
            let mut overlap = 0;
            while let Some(other) = others.next_if(|other| last_key(other) <= last_key(table)) {
                overlap += other.len();
            }
            // One that goes on beyond the table overlaps the next one as well.
            overlap += others.peek().filter(|o| o.first() <= table.last()).map_or(0, |other| other.len());
            let ratio = overlap as f64 / table.len() as f64;
            if best.is_none_or(|(so_far, _)| ratio < so_far) {
                best = Some((ratio, first));
            }
        }
        best.map(|(_, first)| first)
    }
}
