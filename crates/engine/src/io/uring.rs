//! Many reads under way at once: one submission to Linux's io_uring, one wait.
//!
//! The idea: a device serves dozens of reads in the time of two or three, and a thread that reads one page after the other
//! never asks it to. Each reading thread has a ring of its own, made at first use, so nothing is shared.
//!
//! Where rings are refused (old kernels, containers), or a file is none of the operating system's, the caller reads one by
//! one. A read that comes back short or failed is repeated in the ordinary way, which then says what is wrong.
//!
//! Invariant: no call returns while the kernel may still write to a buffer of its requests.

use super::ReadRequest;
use io_uring::{IoUring, opcode, types};
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Reads that a ring takes at once: more than devices gain from.
const ENTRIES: u32 = 128;

/// A thread's ring.
enum Ring {
    Unasked,
    Refused,
    Ready(Box<IoUring>),
}

thread_local! {
    static RING: RefCell<Ring> = const { RefCell::new(Ring::Unasked) };
}

/// Carries out `requests`; false, and nothing done, where there is no ring for them.
pub(super) fn read_many(requests: &mut [ReadRequest<'_>]) -> bool {
    if requests.len() < 2 || requests.iter().any(|request| request.file.as_fd().is_none()) {
        return false;
    }
    let served = RING.try_with(|ring| {
        let Ok(mut ring) = ring.try_borrow_mut() else { return false };
        if matches!(*ring, Ring::Unasked) {
            *ring = IoUring::new(ENTRIES).map_or(Ring::Refused, |ring| Ring::Ready(Box::new(ring)));
        }
        let Ring::Ready(uring) = &mut *ring else { return false };
        for requests in requests.chunks_mut(ENTRIES as usize) {
            if !submit(uring, requests) {
                *ring = Ring::Refused;
                return false;
            }
        }
        true
    });
    served.unwrap_or(false)
}

/// Submits at most [`ENTRIES`] requests and waits for all of them. False if the ring is of no use (any more).
fn submit(ring: &mut IoUring, requests: &mut [ReadRequest<'_>]) -> bool {
    let mut pending = 0;
    for (number, request) in (0u64..).zip(requests.iter_mut()) {
        request.result = Err(ErrorKind::Interrupted.into());
        let (Some(fd), Ok(length)) = (request.file.as_fd(), u32::try_from(request.buf.len())) else {
            continue;
        };
        let read = opcode::Read::new(types::Fd(fd.as_raw_fd()), request.buf.as_mut_ptr(), length)
            .offset(request.offset)
            .build()
            .user_data(number);
        // SAFETY: file and buffer are borrowed for the whole of this function, which returns only once every entry that
        // the kernel has taken is completed (`reap` below), or, for those it has not taken, once the ring that holds them
        // has been replaced. Nothing else touches the buffer meanwhile.
        pending += usize::from(unsafe { ring.submission().push(&read) }.is_ok());
    }
    let works = reap(ring, requests, pending);
    for request in requests {
        if request.result.is_err() {
            // Short, interrupted or failed: the ordinary way goes on, or says what is wrong.
            request.result = request.file.read_exact_at(request.buf, request.offset);
        }
    }
    works
}

/// Waits until `pending` entries are completed. False if the kernel refused some, which it will not touch then.
fn reap(ring: &mut IoUring, requests: &mut [ReadRequest<'_>], mut pending: usize) -> bool {
    let mut works = true;
    loop {
        for completed in ring.completion() {
            pending = pending.saturating_sub(1);
            let place = usize::try_from(completed.user_data()).ok();
            if let Some(request) = place.and_then(|place| requests.get_mut(place))
                && usize::try_from(completed.result()).is_ok_and(|read| read == request.buf.len())
            {
                request.result = Ok(());
            }
        }
        if pending == 0 {
            return works;
        }
        if !works {
            // What was taken completes by itself; asking the ring again would hand over the rest.
            std::thread::sleep(Duration::from_micros(100));
            continue;
        }
        match ring.submit_and_wait(pending) {
            Ok(_) => {}
            Err(error) if is_passing(&error) => {}
            Err(_) => {
                // What still stands in the submission queue was not taken, and goes away with the ring.
                pending = pending.saturating_sub(ring.submission().len());
                works = false;
            }
        }
    }
}

/// Whether the same call may work the next time.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ResourceBusy | ErrorKind::WouldBlock)
}
