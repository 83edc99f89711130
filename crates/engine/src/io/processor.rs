//! Processor time, as the operating system counts it.

use std::time::Duration;

/// Returns the processor time that this thread has taken: what other programs take of the machine does not
/// count.
pub(crate) fn thread_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
