//! Memory that is freed goes back to the system: large pieces at once, small ones once a second.
//!
//! The idea: glibc's allocator asks the system for each large piece by itself only until one is freed; from
//! then on pieces up to that size, of 32 MiB at most, come from its arenas, where what is freed lies between
//! what is not. A store that makes and drops filters and write buffers of many megabytes for hours, each of
//! another size, then leaves the process with up to twice the memory that it uses. So the first store that is
//! opened tells the allocator to ask the system for every piece from 256 KiB on.
//!
//! Smaller pieces come from the arenas as ever, and an arena gives back what is free at its end alone. What a
//! compaction frees lies anywhere. So after one the arenas are told to give back every page of theirs that
//! nothing lies in; not more than once a second, as they are looked through from end to end meanwhile.
//!
//! Source: ours; `mallopt(3)`, `malloc_trim(3)`. Whoever has set the threshold in the environment keeps it,
//! and another allocator hears nothing of it. Nothing but the process's size depends on it.

/// From how many bytes on a piece is the system's own.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BYTES: i32 = 256 << 10;

/// Has large pieces of memory go back to the system, from the first call on.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn return_large_pieces() {
    use crate::sync::leaf::atomic::{AtomicBool, Ordering};

    static IS_SET: AtomicBool = AtomicBool::new(false);
    let tunables = || std::env::var("GLIBC_TUNABLES").unwrap_or_default();
    if IS_SET.swap(true, Ordering::Relaxed)
        || std::env::var_os("MALLOC_MMAP_THRESHOLD_").is_some()
        || tunables().contains("mmap_threshold")
    {
        return;
    }
    // SAFETY: the function takes the allocator's own locks, and sets a number that says only where pieces
    // come from which are asked for later.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
}

/// Nothing is known of the allocator.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn return_large_pieces() {}

/// How long free pages stay with the allocator at most, while there are compactions.
#[cfg(all(target_os = "linux", target_env = "gnu", not(siltstone_shuttle)))]
const RETURN_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

/// Has pages go back to the system that nothing lies in, unless that was done just now.
#[cfg(all(target_os = "linux", target_env = "gnu", not(siltstone_shuttle)))]
pub(crate) fn return_free_pages() {
    use crate::stats::Stopwatch;
    use crate::sync::leaf::Mutex;

    static RETURNED: Mutex<Option<Stopwatch>> = Mutex::new(None);
    // Whoever holds it is doing it.
    let Some(mut returned) = RETURNED.try_lock() else { return };
    if returned.as_ref().is_none_or(|returned| returned.elapsed() >= RETURN_INTERVAL) {
        // SAFETY: the function takes the allocator's own locks, and touches no memory that is in use.
        unsafe { libc::malloc_trim(0) };
        *returned = Some(Stopwatch::start());
    }
}

/// Nothing is known of the allocator, or one run is to be like the next.
#[cfg(not(all(target_os = "linux", target_env = "gnu", not(siltstone_shuttle))))]
pub(crate) fn return_free_pages() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[cfg(test)]
mod tests {
    use super::*;

    const PIECE_BYTES: usize = 2 << 20;
    const PIECES: usize = 60;

    /// Bytes that the system counts as this process's.
    fn resident_bytes() -> usize {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap();
        status.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    fn what_is_freed_between_other_pieces_takes_no_memory() {
        return_large_pieces();
        // After this one glibc would keep all that are smaller.
        drop(std::hint::black_box(vec![1u8; 16 * PIECE_BYTES]));
        let mut pieces: Vec<_> = (0..PIECES).map(|_| Some(vec![1u8; PIECE_BYTES])).collect();
        let full = resident_bytes();
        pieces.iter_mut().step_by(2).for_each(|piece| *piece = None);
        let left = resident_bytes();
        let freed = PIECES / 2 * PIECE_BYTES;
        assert!(left < full - freed / 2, "{left} bytes of {full} after {freed} were freed");
        assert!(pieces.iter().flatten().all(|piece| piece.iter().all(|byte| *byte == 1)));
    }
}
