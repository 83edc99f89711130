//! What the kernel counts for this process: bytes read from and written to devices, CPU time, memory.
//!
//! `read_bytes` and `write_bytes` of `/proc/self/io` count what passes between page cache (or direct I/O) and
//! device: reads when they are made, writes when a page becomes dirty, so that a log page written to ten
//! times between two write-backs counts once, and a file removed before its write-back counts although it is
//! never written. They are the one measure that is the same for every engine, whatever it counts itself.

use crate::failure::{Failure, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Counters of this process at some moment, or the difference of two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Bytes read from devices.
    pub read_bytes: u64,
    /// Bytes that became dirty in the page cache, or were written directly.
    pub write_bytes: u64,
    /// Of these, bytes whose file was removed or truncated before they were written back.
    pub cancelled_write_bytes: u64,
    /// Bytes handed to write calls.
    pub write_call_bytes: u64,
    /// Requests to read that reached the device, where a control group counts them.
    pub device_reads: Option<u64>,
    /// CPU time of all threads, in user space and in the kernel.
    pub cpu_seconds: f64,
}

impl Counters {
    /// The counters now; zeros where the system has none.
    pub fn now(group: &crate::confine::Membership) -> Self {
        let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        let field = |name: &str| {
            let value = io.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value.and_then(|value| value.parse().ok()).unwrap_or(0)
        };
        Self {
            read_bytes: field("read_bytes"),
            write_bytes: field("write_bytes"),
            cancelled_write_bytes: field("cancelled_write_bytes"),
            write_call_bytes: field("wchar"),
            device_reads: group.device_reads(),
            cpu_seconds: cpu_seconds(),
        }
    }

    /// What has happened since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            write_bytes: self.write_bytes.saturating_sub(before.write_bytes),
            cancelled_write_bytes: self.cancelled_write_bytes.saturating_sub(before.cancelled_write_bytes),
            write_call_bytes: self.write_call_bytes.saturating_sub(before.write_call_bytes),
            device_reads: self
                .device_reads
                .zip(before.device_reads)
                .map(|(now, then)| now.saturating_sub(then)),
            cpu_seconds: (self.cpu_seconds - before.cpu_seconds).max(0.0),
        }
    }
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Memory of this process, in bytes: anonymous memory now, and the most that has been resident.
pub fn memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = value.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    };
    (field("RssAnon:"), field("VmHWM:"))
}

/// Bytes that the files below `dir` take on the device.
///
/// # Errors
/// The directory cannot be read.
pub fn space(dir: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for_each_file(dir, &mut |path| {
        // A file that background work has just removed takes no space.
        bytes += std::fs::metadata(path).map_or(0, |metadata| metadata.blocks() * 512);
        Ok(())
    })?;
    Ok(bytes)
}

/// Writes back every file below `dir` and asks the kernel to forget its cached pages.
///
/// # Errors
/// A file cannot be opened or synced.
pub fn drop_cached(dir: &Path) -> Result<()> {
    for_each_file(dir, &mut |path| {
        let file = std::fs::File::open(path).map_err(|e| Failure::at(path, e))?;
        file.sync_all().map_err(|e| Failure::at(path, e))?;
        #[cfg(target_os = "linux")]
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
            .map_err(|e| Failure::at(path, e))?;
        Ok(())
    })
}

fn for_each_file(dir: &Path, act: &mut dyn FnMut(&Path) -> Result<()>) -> Result<()> {
    for entry in std::fs::read_dir(dir).map_err(|e| Failure::at(dir, e))? {
        let path = entry?.path();
        if path.is_dir() {
            for_each_file(&path, act)?;
        } else {
            act(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confine::Membership;

    #[test]
    fn a_difference_is_counted_from_the_earlier_moment() {
        let group = Membership::default();
        let before = Counters::now(&group);
        let mut sum = 0u64;
        while Counters::now(&group).since(before).cpu_seconds < 0.01 {
            sum = sum.wrapping_add(std::hint::black_box(1));
        }
        let since = Counters::now(&group).since(before);
        assert!(since.cpu_seconds >= 0.01 && since.cpu_seconds < 60.0, "{since:?} {sum}");
        assert_eq!(before.since(before), Counters::default());
    }

    #[test]
    fn files_in_subdirectories_count() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("sub/file"), vec![1; 100_000]).unwrap();
        drop_cached(dir.path()).unwrap();
        assert!((100_000..200_000).contains(&space(dir.path()).unwrap()));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_takes_memory() {
        let (anonymous, peak) = memory();
        assert!(anonymous > 0 && peak >= anonymous);
    }
}
