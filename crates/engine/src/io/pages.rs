//! Memory in whole pages, which goes back to the system as soon as nobody wants it.
//!
//! The idea: an allocator keeps what is freed, page by page between what is not, and by the thread that asked
//! for it; a cache that shrinks or threads that take turns then leave a process much larger than what it
//! uses. So the pages that most of a store's memory consists of are never freed: they are allotted in blocks,
//! handed out one by one, and those that nobody wants lose their contents, after which the system counts them
//! no longer.
//!
//! Source: ours; other engines ask for a different allocator. Invariant: a page is in one place at most: in
//! somebody's hands, or among those that wait here.

use super::direct::ALIGNMENT;
use crate::sync::leaf::Mutex;

/// A page of memory: whoever has it is its only owner, and gives it back by [`release`].
pub(crate) type PageMemory = &'static mut [u8; ALIGNMENT];

/// Bytes allotted at once: so many that any allocator asks the system for them, which gives memory to pages
/// once they are used. Miri keeps books on every byte.
const BLOCK_BYTES: usize = if cfg!(miri) { 2 << 20 } else { 33 << 20 };

/// Pages that nobody wants, of all stores of the process. What was allotted once is kept, but takes no memory
/// here.
static WAITING: Mutex<Vec<PageMemory>> = Mutex::new(Vec::new());

/// A page, of whatever bytes.
pub(crate) fn take() -> PageMemory {
    let mut waiting = WAITING.lock();
    if let Some(page) = waiting.pop() {
        return page;
    }
    let block = vec![0; BLOCK_BYTES].leak();
    let before = block.as_ptr().align_offset(ALIGNMENT).min(block.len());
    let (pages, _) = block.split_at_mut(before).1.as_chunks_mut();
    waiting.extend(pages);
    waiting.pop().unwrap_or_else(|| Box::leak(Box::new([0; ALIGNMENT])))
}

/// Takes pages back, and lets the system have their memory.
pub(crate) fn release(pages: impl IntoIterator<Item = PageMemory>) {
    for page in pages {
        forget(page);
        WAITING.lock().push(page);
    }
}

/// Tells the system that what `page` holds is of no use to anyone.
#[cfg(all(target_os = "linux", not(miri)))]
fn forget(page: &mut [u8; ALIGNMENT]) {
    if !page.as_ptr().addr().is_multiple_of(ALIGNMENT) {
        return;
    }
    let at = page.as_mut_ptr().cast();
    // SAFETY: the page is borrowed for writing, so nobody else reads or writes it, and it is a whole page of
    // the system's, so nothing but it is touched. It stays mapped, and afterwards holds bytes like any other:
    // zeros, as a rule.
    let _ = unsafe { rustix::mm::madvise(at, ALIGNMENT, rustix::mm::Advice::LinuxDontNeed) };
}

/// Miri has no such call.
#[cfg(any(not(target_os = "linux"), miri))]
fn forget(_: &mut [u8; ALIGNMENT]) {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const SOME: usize = if cfg!(miri) { 8 } else { 200 };

    #[test]
    fn pages_are_aligned_and_nobody_elses() {
        let mut pages: Vec<_> = (0..SOME).map(|_| take()).collect();
        for (number, page) in pages.iter_mut().enumerate() {
            page.fill(number as u8);
        }
        let places: BTreeSet<_> = pages.iter().map(|page| page.as_ptr().addr()).collect();
        assert_eq!(places.len(), pages.len());
        assert!(places.iter().all(|place| place.is_multiple_of(ALIGNMENT)));
        assert!(pages.iter().enumerate().all(|(number, page)| page.iter().all(|byte| *byte == number as u8)));
        release(pages);
        let again: Vec<_> = (0..SOME).map(|_| take()).collect();
        assert!(again.iter().any(|page| places.contains(&page.as_ptr().addr())));
        release(again);
    }

    /// What the system counts as this process's, in bytes.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn resident_bytes() -> u64 {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap();
        status.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * ALIGNMENT as u64
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn released_pages_take_no_memory() {
        const PAGES: usize = 32 << 10;
        let mut pages: Vec<_> = (0..PAGES).map(|_| take()).collect();
        pages.iter_mut().for_each(|page| page.fill(1));
        let full = resident_bytes();
        release(pages);
        let bytes = (PAGES * ALIGNMENT) as u64;
        assert!(resident_bytes() < full - bytes / 2, "{full} bytes, then {}", resident_bytes());
    }
}
