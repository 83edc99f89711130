//! [`read_all`](super::reads::read_all) by Linux's io_uring: reads are handed to the kernel a few at a time,
//! and whoever wants them goes on while it has something to do.
//!
//! Each reading thread has a ring of its own, made at first use, so nothing is shared. A read that comes back
//! short or failed is repeated in the ordinary way, which then says what is wrong. Direct reads of bytes that
//! are no whole aligned pages go by way of memory that is, since the kernel refuses them otherwise.
//!
//! Invariant: memory that the kernel may still write to is neither touched, nor moved, nor freed: reads stay
//! in their slots until they complete, and the slots until all have, also where their owner panics.

use super::around::is_aligned;
use super::direct::Window;
use super::reads::{MOST_AT_ONCE, Read, Reads};
use io_uring::{IoUring, opcode, types};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Reads that are handed over together while there are more to begin: each time takes a system call and wakes
/// the device.
const TOGETHER: usize = 16;
/// Who has nothing else to do waits for this part of the reads that are under way: fewer would mean more
/// system calls, more would leave the device with little to do.
const WAITED_FOR: usize = 4;

/// A thread's ring.
enum Ring {
    Unasked,
    Refused,
    Ready(Box<IoUring>),
}

std::thread_local! {
    static RING: RefCell<Ring> = const { RefCell::new(Ring::Unasked) };
}

/// The thread's ring, which is its caller's until [`give_back`]; `None` where there is none, or it is in use
/// further up.
fn take_ring() -> Option<Box<IoUring>> {
    let taken = RING.try_with(|ring| {
        let mut ring = ring.try_borrow_mut().ok()?;
        // Whoever panics while the ring is theirs takes it along.
        match std::mem::replace(&mut *ring, Ring::Unasked) {
            Ring::Ready(taken) => Some(taken),
            Ring::Refused => {
                *ring = Ring::Refused;
                None
            }
            Ring::Unasked => match IoUring::new(MOST_AT_ONCE as u32) {
                Ok(made) => Some(Box::new(made)),
                Err(_) => {
                    *ring = Ring::Refused;
                    None
                }
            },
        }
    });
    taken.ok().flatten()
}

fn give_back(ring: Ring) {
    let _ = RING.try_with(|place| place.try_borrow_mut().map(|mut place| *place = ring));
}

/// Makes all of `reads`; false where there is no ring, or it is of no use any more, and some may remain.
pub(super) fn read_all<R: Reads>(reads: &mut R) -> bool {
    loop {
        let Some(first) = reads.next() else { return true };
        let second = reads.next();
        // One alone is one call either way.
        let ring = if second.is_some() { take_ring() } else { None };
        let Some(ring) = ring else {
            let has_no_ring = second.is_some();
            make(first, reads);
            second.into_iter().for_each(|second| make(second, reads));
            if has_no_ring {
                return false;
            }
            continue;
        };
        let mut flight = Flight::new(ring);
        [Some(first), second].into_iter().flatten().for_each(|read| flight.begin(read, reads));
        flight.carry(reads);
        return flight.end();
    }
}

/// Makes one read in the ordinary way.
fn make<R: Reads>(mut read: Read<R::Buf>, reads: &mut R) {
    let outcome = read.make();
    reads.done(read, outcome);
}

/// A read under way.
struct UnderWay<B> {
    read: Read<B>,
    /// What is read by way of, where it can't be read to where it belongs.
    window: Option<Window>,
}

/// Reads under way.
struct Flight<B> {
    /// Gone once it has been given back.
    ring: Option<Box<IoUring>>,
    /// Never moved: there is room for all from the start.
    slots: Vec<Option<UnderWay<B>>>,
    free: Vec<u32>,
    /// Slots of reads that the kernel has not taken yet, in their order.
    queue: VecDeque<u32>,
    /// How many it has taken and not completed.
    taken: usize,
    /// False once the kernel has refused reads for good.
    works: bool,
}

impl<B> Flight<B> {
    fn new(ring: Box<IoUring>) -> Self {
        let slots: Vec<Option<UnderWay<B>>> = (0..MOST_AT_ONCE).map(|_| None).collect();
        let free = (0..MOST_AT_ONCE as u32).rev().collect();
        Self { ring: Some(ring), slots, free, queue: VecDeque::new(), taken: 0, works: true }
    }

    fn under_way(&self) -> usize {
        self.queue.len() + self.taken
    }

    /// Hands over what stands in the queue, and waits until `count` reads are completed.
    fn enter(&mut self, count: usize) {
        let Some(ring) = &mut self.ring else { return };
        let is_passing = |error: &io::Error| {
            matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ResourceBusy | ErrorKind::WouldBlock)
        };
        self.works = ring.submit_and_wait(count).map_or_else(|error| is_passing(&error), |_| true);
        let left = ring.submission().len();
        self.taken += self.queue.len().saturating_sub(left);
        self.queue.drain(..self.queue.len().saturating_sub(left));
    }

    /// The slots of reads that the kernel has completed, and how many bytes it has read, or its error.
    fn completed(&mut self) -> Vec<(u32, i32)> {
        let Some(ring) = &mut self.ring else { return Vec::new() };
        let completed: Vec<_> =
            ring.completion().map(|entry| (entry.user_data() as u32, entry.result())).collect();
        self.taken = self.taken.saturating_sub(completed.len());
        completed
    }

    /// Waits until the kernel has completed `count` reads, or some; what it has not taken it will not touch
    /// once it has refused any.
    fn wait(&mut self, count: usize) -> Vec<(u32, i32)> {
        if self.works {
            self.enter(count);
        } else {
            // What was taken completes by itself; entering again would hand over the rest.
            crate::sync::thread::sleep(Duration::from_micros(100));
        }
        self.completed()
    }

    /// Takes a read out of its slot, which the kernel does not use (any more).
    fn take(&mut self, slot: u32) -> Option<UnderWay<B>> {
        self.free.push(slot);
        self.slots.get_mut(slot as usize)?.take()
    }

    /// The ring goes back to its thread; false if it is of no use any more.
    fn end(mut self) -> bool {
        let ring = self.ring.take().filter(|_| self.works);
        give_back(ring.map_or(Ring::Refused, Ring::Ready));
        self.works
    }
}

impl<B: AsMut<[u8]>> Flight<B> {
    /// Puts a read into the queue; makes it at once where that can't be.
    fn begin<R: Reads<Buf = B>>(&mut self, mut read: Read<B>, reads: &mut R) {
        let (offset, buf) = (read.offset, read.buf.as_mut());
        let direct = read.file.as_direct_fd(offset, buf.len());
        let needs_window = direct.is_some() && !is_aligned(buf, offset);
        let window = needs_window.then(|| Window::around(offset, buf.len()));
        let fd = direct.or_else(|| read.file.as_fd()).map(|fd| fd.as_raw_fd());
        let (Some(fd), Some(ring)) = (fd, &mut self.ring) else { return make(read, reads) };
        let Some(slot) = self.free.pop() else { return make(read, reads) };
        let Some(place) = self.slots.get_mut(slot as usize) else { return make(read, reads) };
        let UnderWay { read, window } = place.insert(UnderWay { read, window });
        let (memory, length, offset) = match window {
            Some(window) => window.memory(),
            None => {
                let buf = read.buf.as_mut();
                (buf.as_mut_ptr(), buf.len(), read.offset)
            }
        };
        // What is too long to be read at once comes back short.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let entry = opcode::Read::new(types::Fd(fd), memory, length)
            .offset(offset)
            .build()
            .user_data(u64::from(slot));
        // SAFETY: file and memory belong to the read and its window, which stay in their slot, untouched and
        // unmoved, until the kernel has completed it (`carry`, or `drop` where something panics), or has
        // refused it and lost the ring it stands in.
        if unsafe { ring.submission().push(&entry) }.is_ok() {
            self.queue.push_back(slot);
        } else if let Some(UnderWay { read, .. }) = self.take(slot) {
            make(read, reads);
        }
    }

    /// Makes all reads, unless the ring stops working.
    fn carry<R: Reads<Buf = B>>(&mut self, reads: &mut R) {
        loop {
            while self.works && !self.free.is_empty() {
                let Some(read) = reads.next() else { break };
                self.begin(read, reads);
                if self.queue.len() >= TOGETHER {
                    self.enter(0);
                }
            }
            if !self.works {
                let refused = std::mem::take(&mut self.queue);
                for slot in refused.into_iter().filter_map(|slot| self.take(slot)).collect::<Vec<_>>() {
                    make(slot.read, reads);
                }
            }
            if self.under_way() == 0 {
                return;
            }
            for (slot, read_bytes) in self.wait(self.under_way().div_ceil(WAITED_FOR)) {
                let Some(UnderWay { mut read, window }) = self.take(slot) else { continue };
                let (bytes, buf) = (usize::try_from(read_bytes).unwrap_or(0), read.buf.as_mut());
                let is_read = match window {
                    Some(window) => window.copy_to(buf, bytes),
                    None => bytes == buf.len(),
                };
                if is_read {
                    reads.done(read, Ok(()));
                } else {
                    // Short, interrupted or failed.
                    make(read, reads);
                }
            }
        }
    }
}

impl<B> Drop for Flight<B> {
    fn drop(&mut self) {
        // Only where somebody panicked: what they own goes away now.
        while self.taken > 0 || (self.works && !self.queue.is_empty()) {
            let _ = self.wait(self.under_way());
        }
    }
}
