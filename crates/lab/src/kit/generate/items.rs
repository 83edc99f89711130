//! Numbered items: the key and the value of item *i*, computed and recognised without memory.
//!
//! ```text
//! group = 1:   ┌ mix(i), 8 bytes ┐┌ filler ┐
//! group > 1:   ┌ mix(i / group), 8 bytes ┐┌ mix(i mod group), up to 8 bytes ┐┌ filler ┐
//! value:       ┌ tag of i, 8 bytes ┐┌ version, 8 bytes ┐┌ noise of (i, version) ┐
//! ```
//! `mix` is a bijection keyed by the seed, so keys never collide; the numbers from half of its domain up are
//! kept for keys that do not exist. A value is noise (it cannot be compressed) and says which item it belongs
//! to.

use super::{mix, mix_bits};

/// Length in bytes of the prefix that the keys of one group share.
pub const GROUP_PREFIX_BYTES: usize = 8;

/// What items look like.
#[derive(Clone, Copy, Debug)]
pub struct Items {
    key_bytes: usize,
    value_bytes: usize,
    group: u64,
    seed: u64,
}

impl Items {
    /// Items of these sizes, in groups of `group` (1: no groups); an error says which field does not fit
    /// `count`.
    pub fn new(
        key_bytes: usize,
        value_bytes: usize,
        group: u64,
        seed: u64,
        count: u64,
    ) -> Result<Self, String> {
        let items = Self { key_bytes, value_bytes, group, seed: mix(seed ^ 0x5115_70e5_eed0_0001) };
        let (prefix_bytes, numbers) = if group > 1 { (GROUP_PREFIX_BYTES, group) } else { (0, count) };
        if key_bytes <= prefix_bytes || key_bytes > 65_535 {
            return Err(format!("--key-bytes must be {} to 65535 here", prefix_bytes + 1));
        }
        // Half of the numbers are kept for keys that do not exist.
        let room = 1u64 << (items.number_bits() - 1);
        if numbers > room {
            return Err(format!(
                "--key-bytes {key_bytes} leaves room for {room} different keys, not {numbers}"
            ));
        }
        Ok(items)
    }

    /// Number of groups that the first `count` items fill, the last one perhaps in part.
    pub fn groups(&self, count: u64) -> u64 {
        count.div_ceil(self.group)
    }

    /// Bits of the number that tells apart the keys of one group (or all keys, without groups).
    fn number_bits(&self) -> u32 {
        let prefix_bytes = if self.group > 1 { GROUP_PREFIX_BYTES } else { 0 };
        8 * (self.key_bytes - prefix_bytes).min(8) as u32
    }

    /// Writes the key of item `item` to `key`.
    pub fn key(&self, item: u64, key: &mut Vec<u8>) {
        self.numbered_key(item / self.group, item % self.group, item, key);
    }

    /// Writes a key that no item has: of an existing group where there are groups.
    pub fn missing_key(&self, item: u64, key: &mut Vec<u8>) {
        let missing = 1u64 << (self.number_bits() - 1);
        self.numbered_key(item / self.group, (item % self.group) | missing, item | missing, key);
    }

    fn numbered_key(&self, group: u64, member: u64, item: u64, key: &mut Vec<u8>) {
        key.clear();
        let mut number = item;
        if self.group > 1 {
            self.prefix(group, key);
            number = member;
        }
        let bits = self.number_bits();
        let spread = mix_bits(number ^ (self.seed & (u64::MAX >> (64 - bits))), bits);
        let bytes = spread.to_be_bytes();
        key.extend_from_slice(bytes.get(8 - bits as usize / 8..).unwrap_or(&bytes));
        noise(spread ^ group, self.key_bytes, key);
    }

    /// Appends the prefix of group `group`.
    pub fn prefix(&self, group: u64, key: &mut Vec<u8>) {
        key.extend_from_slice(&mix(group ^ self.seed.rotate_left(32)).to_be_bytes());
    }

    /// Writes the value that item `item` has in version `version` to `value`.
    pub fn value(&self, item: u64, version: u64, value: &mut Vec<u8>) {
        value.clear();
        value.extend_from_slice(&self.tag(item).to_le_bytes());
        value.extend_from_slice(&version.to_le_bytes());
        value.truncate(self.value_bytes);
        noise(self.tag(item) ^ mix(version), self.value_bytes, value);
    }

    /// Whether `value` is the value of item `item` in some version: its length, tag and noise are right.
    pub fn is_value_of(&self, item: u64, value: &[u8], scratch: &mut Vec<u8>) -> bool {
        let version = value.get(8..16).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
        if value.len() < 16 {
            // The version may be cut: only the tag is sure.
            let tag = self.tag(item).to_le_bytes();
            let shown = value.len().min(8);
            return value.len() == self.value_bytes && value.get(..shown) == tag.get(..shown);
        }
        self.value(item, version, scratch);
        scratch.as_slice() == value
    }

    fn tag(&self, item: u64) -> u64 {
        mix(item ^ self.seed.rotate_left(16))
    }
}

/// Appends noise to `out` until it has `length` bytes.
fn noise(seed: u64, length: usize, out: &mut Vec<u8>) {
    let mut state = seed;
    while out.len() < length {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = mix(state).to_le_bytes();
        let take = word.len().min(length - out.len());
        out.extend_from_slice(word.get(..take).unwrap_or(&word));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_are_distinct_and_missing_keys_are_missing() {
        for (key_bytes, group) in [(16, 128), (16, 1), (2, 1), (3, 1), (10, 128), (9, 100), (40, 7), (8, 1)] {
            let items = Items::new(key_bytes, 100, group, 5, 20_000).unwrap();
            let mut key = Vec::new();
            let mut seen = HashSet::new();
            for item in 0..20_000 {
                items.key(item, &mut key);
                assert_eq!(key.len(), key_bytes);
                assert!(seen.insert(key.clone()));
            }
            for item in 0..20_000 {
                items.missing_key(item, &mut key);
                assert_eq!(key.len(), key_bytes);
                assert!(seen.insert(key.clone()), "key bytes {key_bytes} group {group} item {item}");
            }
        }
    }

    #[test]
    fn members_of_a_group_share_its_prefix() {
        let items = Items::new(16, 10, 128, 1, 1000).unwrap();
        let (mut prefix, mut key) = (Vec::new(), Vec::new());
        items.prefix(3, &mut prefix);
        for item in 3 * 128..4 * 128 {
            items.key(item, &mut key);
            assert!(key.starts_with(&prefix));
        }
        assert_eq!(items.groups(1000), 8);
    }

    #[test]
    fn the_seed_changes_every_key() {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for item in 0..100 {
            Items::new(16, 1, 128, 1, 100).unwrap().key(item, &mut a);
            Items::new(16, 1, 128, 2, 100).unwrap().key(item, &mut b);
            assert_ne!(a, b);
        }
    }

    #[test]
    fn values_belong_to_their_item() {
        let mut scratch = Vec::new();
        for value_bytes in [0, 4, 8, 12, 16, 17, 100, 1000] {
            let items = Items::new(16, value_bytes, 1, 1, 100).unwrap();
            let mut value = Vec::new();
            for version in [0, 7] {
                items.value(42, version, &mut value);
                assert_eq!(value.len(), value_bytes);
                assert!(items.is_value_of(42, &value, &mut scratch));
                if value_bytes > 0 {
                    assert!(!items.is_value_of(43, &value, &mut scratch));
                    assert!(!items.is_value_of(42, &value[1..], &mut scratch));
                }
            }
            if let Some(last) = value.get_mut(20..).and_then(<[u8]>::last_mut) {
                *last ^= 1;
                assert!(!items.is_value_of(42, &value, &mut scratch));
            }
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        assert!(Items::new(8, 100, 128, 0, 10).unwrap_err().contains("--key-bytes"));
        assert!(Items::new(2, 100, 1, 0, 100_000).unwrap_err().contains("room"));
        assert!(Items::new(9, 100, 200, 0, 10).unwrap_err().contains("room"));
    }
}
