//! Moments at which another thread may go on.

/// Lets the scheduler switch to another thread.
pub(crate) fn scheduling_point() {
    // In `shuttle` a sleep is just that.
    shuttle::thread::sleep(std::time::Duration::ZERO);
}
