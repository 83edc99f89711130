//! Sorting by keys, in so much memory: at once where the items fit, else by sorted files that are merged.

use super::records::{Reader, Writer};
use super::run_path;
use crate::failure::Result;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

/// What takes items, a key and a value each.
type Take<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'a;

/// Items in memory.
struct Chunk {
    bytes: Vec<u8>,
    order: Vec<u32>,
    item_bytes: usize,
    key_bytes: usize,
}

impl Chunk {
    fn item(&self, number: u32) -> &[u8] {
        let at = number as usize * self.item_bytes;
        self.bytes.get(at..at + self.item_bytes).unwrap_or(&[])
    }

    /// The beginning of a key as a number, so that most comparisons need no more.
    fn beginning(&self, number: u32) -> u64 {
        self.item(number).first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }

    /// Gives the items in the order of keys, and forgets them.
    fn give(&mut self, to: &mut Take<'_>) -> Result<()> {
        let mut order = std::mem::take(&mut self.order);
        order.sort_unstable_by(|a, b| {
            let beginnings = self.beginning(*a).cmp(&self.beginning(*b));
            beginnings.then_with(|| self.item(*a).cmp(self.item(*b)))
        });
        for number in &order {
            if let Some((key, value)) = self.item(*number).split_at_checked(self.key_bytes) {
                to(key, value)?;
            }
        }
        order.clear();
        self.order = order;
        self.bytes.clear();
        Ok(())
    }
}

/// Gives the items of `from` in the order of keys, in about so many bytes of memory.
pub fn sorted(mut from: Reader, dir: &Path, memory_bytes: usize, to: &mut Take<'_>) -> Result<()> {
    let sizes = from.sizes();
    let item_bytes = sizes.0 + sizes.1;
    // Files and what takes the items need some as well.
    let most = memory_bytes * 3 / 4 / (item_bytes + size_of::<u32>());
    let (bytes, order) = (Vec::with_capacity(most * item_bytes), Vec::with_capacity(most));
    let mut chunk = Chunk { bytes, order, item_bytes, key_bytes: sizes.0 };
    let mut runs = 0;
    loop {
        let more = match from.next()? {
            Some((key, value)) => {
                chunk.order.push(chunk.order.len() as u32);
                chunk.bytes.extend_from_slice(key);
                chunk.bytes.extend_from_slice(value);
                true
            }
            None => false,
        };
        if !more && runs == 0 {
            return chunk.give(to);
        }
        if chunk.order.len() == most || !more {
            let mut run = Writer::create(&run_path(dir, runs))?;
            chunk.give(&mut |key, value| run.add(key, value))?;
            run.finish()?;
            runs += 1;
        }
        if !more {
            break;
        }
    }
    drop(chunk);
    let merged = merge(dir, runs, sizes, memory_bytes, to);
    for run in 0..runs {
        std::fs::remove_file(run_path(dir, run))?;
    }
    merged
}

fn merge(
    dir: &Path,
    runs: usize,
    sizes: (usize, usize),
    memory_bytes: usize,
    to: &mut Take<'_>,
) -> Result<()> {
    let buffer = (memory_bytes / 4 / runs.max(1)).clamp(64 << 10, 1 << 20);
    let mut readers = Vec::new();
    for run in 0..runs {
        readers.push(Reader::with_buffer(&run_path(dir, run), sizes, buffer)?);
    }
    let mut heads = BinaryHeap::new();
    for (run, reader) in readers.iter_mut().enumerate() {
        if let Some((key, value)) = reader.next()? {
            heads.push(Reverse(([key, value].concat(), run)));
        }
    }
    while let Some(mut head) = heads.peek_mut() {
        let Reverse((item, run)) = &mut *head;
        if let Some((key, value)) = item.split_at_checked(sizes.0) {
            to(key, value)?;
        }
        let next = readers.get_mut(*run).map(Reader::next).transpose()?.flatten();
        if let Some((key, value)) = next {
            item.clear();
            item.extend_from_slice(key);
            item.extend_from_slice(value);
        } else {
            std::collections::binary_heap::PeekMut::pop(head);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_memory_is_sorted_as_well() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("items");
        let mut file = Writer::create(&path).unwrap();
        for number in 0..5000u32 {
            file.add(&number.wrapping_mul(0x9e37_79b1).to_be_bytes(), &number.to_be_bytes()).unwrap();
        }
        file.finish().unwrap();
        let by = |memory_bytes| {
            let (reader, mut found) = (Reader::open(&path, (4, 4)).unwrap(), Vec::new());
            sorted(reader, dir.path(), memory_bytes, &mut |key, value| {
                found.push((key.to_vec(), value.to_vec()));
                Ok(())
            })
            .unwrap();
            found
        };
        let [at_once, merged] = [1 << 20, 4096].map(by);
        assert_eq!(at_once, merged);
        assert_eq!(at_once.len(), 5000);
        assert!(at_once.is_sorted());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "files of sorted items stayed");
    }
}
