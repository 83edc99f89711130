//! What the system allows a process.

/// Files that this process may have open at once; `None` where nobody says.
pub(crate) fn most_open_files() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}
