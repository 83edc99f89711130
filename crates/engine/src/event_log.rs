//! The event log: what a store did lately, in two text files of bounded size beside its tables.
//!
//! Source: RocksDB's `LOG`. Where we differ, and why: lines are JSON, so that programs need no parser of
//! their own, and both files together have a bound, so that nobody has to remove old ones.
//!
//! ```text
//! EVENTS       line, line, ...     line  a JSON object (`events::LoggedEvent`) · \n
//! EVENTS.old   what EVENTS was before it had half of its bound
//! ```
//!
//! Nothing depends on the log. Nothing in it is synced, and a failure to write it is passed over: the line is
//! lost, and the next one tries again. What a crash leaves of a line ends with the next one's line feed.

use crate::events::{EVENTS, EVENTS_OLD, Event, EventListener, JobEnd, LoggedEvent, Work};
use crate::io::{Access, Disk, File};
use crate::sync::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a line begins with.
pub(crate) const FIRST_BYTES: &[u8] = b"{\"at_ms\":";
/// Regular work that took less than this, and went well, is not worth a line.
const LONG_US: u64 = 1_000_000;

/// Writes events to the files in a store's directory.
pub(crate) struct EventLog {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Bytes that one file may have.
    most_bytes: u64,
    /// None before the first line, and after a failure.
    open: Mutex<Option<Open>>,
}

/// The file that is written to, and where the next line goes.
struct Open {
    file: Arc<dyn File>,
    at: u64,
}

impl EventLog {
    /// Makes a log of at most `most_bytes` in both files together.
    pub fn new(disk: Arc<dyn Disk>, dir: &Path, most_bytes: u64) -> Self {
        Self { disk, dir: dir.to_owned(), most_bytes: most_bytes / 2, open: Mutex::new(None) }
    }

    fn write(&self, line: &[u8]) -> io::Result<()> {
        if line.len() as u64 > self.most_bytes {
            return Ok(());
        }
        // Taken out, so that a failure leaves none.
        let mut slot = self.open.lock();
        let mut open = match slot.take() {
            Some(open) => open,
            None => self.find()?,
        };
        if open.at + line.len() as u64 > self.most_bytes {
            self.disk.rename(&self.dir.join(EVENTS), &self.dir.join(EVENTS_OLD))?;
            open = Open { file: self.disk.create(&self.dir.join(EVENTS))?, at: 0 };
        }
        open.file.write_all_at(line, open.at)?;
        open.at += line.len() as u64;
        *slot = Some(open);
        Ok(())
    }

    /// Opens the file that an earlier session left, or makes one.
    fn find(&self) -> io::Result<Open> {
        let path = self.dir.join(EVENTS);
        let file = match self.disk.open(&path, Access::ReadWrite) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.disk.create(&path)?,
            opened => opened?,
        };
        let mut at = file.len()?;
        let mut last = [b'\n'];
        if at > 0 {
            file.read_exact_at(&mut last, at - 1)?;
        }
        if last != [b'\n'] {
            file.write_all_at(b"\n", at)?;
            at += 1;
        }
        Ok(Open { file, at })
    }
}

/// Whether an event is worth a line: regular work that went as always is not.
fn is_worth_a_line(event: &Event) -> bool {
    let is_regular = |work| matches!(work, Work::SyncLog | Work::LoadTable);
    match event {
        Event::JobBegan(info) => !is_regular(info.work),
        Event::JobEnded(JobEnd { info, error, duration_us, .. }) => {
            !is_regular(info.work) || error.is_some() || *duration_us >= LONG_US
        }
        Event::WritersStalled(_)
        | Event::GroupHoldsMost(_)
        | Event::RedesignProposed(_)
        | Event::RedesignBegan(_)
        | Event::RedesignSettled(_)
        | Event::SchemaChangeBegan(_)
        | Event::SchemaChanged(_)
        | Event::SchemaChangeEnded(_) => true,
    }
}

impl EventListener for EventLog {
    fn on_event(&self, event: &Event) {
        if !is_worth_a_line(event) {
            return;
        }
        let logged = LoggedEvent::new(self.disk.now_ms(), event.clone());
        if let Ok(mut line) = serde_json::to_vec(&logged) {
            line.push(b'\n');
            // Nothing depends on it: what can't be written is lost.
            let _ = self.write(&line);
        }
    }
}

/// Reads the lines of an event log; those that are none are counted.
pub(crate) fn parse(bytes: &[u8]) -> (Vec<LoggedEvent>, u64) {
    let (mut events, mut strange) = (Vec::new(), 0);
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match std::str::from_utf8(line).ok().and_then(LoggedEvent::parse) {
            Some(event) => events.push(event),
            None => strange += 1,
        }
    }
    (events, strange)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{JobInfo, Stall, StallCause};
    use crate::io::read_file;
    use crate::io::sim::SimDisk;

    fn stall(duration_us: u64) -> Event {
        Event::WritersStalled(Stall::new(duration_us, StallCause::Memory { bytes: 2, at_most: 1 }))
    }

    fn durations(disk: &SimDisk, name: &str) -> Vec<u64> {
        let (events, strange) = parse(&read_file(disk, &Path::new("/db").join(name)).unwrap());
        assert_eq!(strange, 0);
        let duration = |event: LoggedEvent| match event.event {
            Event::WritersStalled(stall) => stall.duration_us,
            other => panic!("{other}"),
        };
        events.into_iter().map(duration).collect()
    }

    fn disk() -> SimDisk {
        let disk = SimDisk::new();
        disk.create_dir_all(Path::new("/db")).unwrap();
        disk
    }

    #[test]
    fn the_youngest_lines_are_kept_within_the_bound() {
        let disk = disk();
        let log = EventLog::new(Arc::new(disk.clone()), Path::new("/db"), 2000);
        for n in 1000..1100 {
            log.on_event(&stall(n));
            let bytes = [EVENTS, EVENTS_OLD].map(|name| {
                let file = read_file(&disk, &Path::new("/db").join(name));
                file.map_or(0, |bytes| bytes.len())
            });
            assert!(bytes.iter().all(|bytes| *bytes <= 1000), "{bytes:?}");
        }
        let mut kept = durations(&disk, EVENTS_OLD);
        kept.extend(durations(&disk, EVENTS));
        assert!(kept.len() >= 10);
        assert_eq!(kept, (1100 - kept.len() as u64..1100).collect::<Vec<_>>());
        // What fits no file is left out.
        let long = JobInfo::new(Work::Flush).of(&"x".repeat(1000));
        log.on_event(&Event::JobBegan(long));
        assert_eq!(durations(&disk, EVENTS).last(), Some(&1099));
    }

    #[test]
    fn a_later_session_goes_on_after_a_torn_line() {
        let disk = disk();
        let path = Path::new("/db").join(EVENTS);
        EventLog::new(Arc::new(disk.clone()), Path::new("/db"), 1 << 20).on_event(&stall(1));
        let file = disk.open(&path, Access::ReadWrite).unwrap();
        let end = file.len().unwrap();
        file.write_all_at(b"{\"at_ms\":3,\"eve", end).unwrap();
        EventLog::new(Arc::new(disk.clone()), Path::new("/db"), 1 << 20).on_event(&stall(2));
        let (events, strange) = parse(&read_file(&disk, &path).unwrap());
        assert_eq!((events.len(), strange), (2, 1));
        assert_eq!(events[1].event, stall(2));
    }

    #[test]
    fn regular_work_is_logged_where_it_is_slow_or_fails() {
        let end = |work, duration_us, error: Option<&str>| {
            let info = JobInfo::new(work);
            let error = error.map(str::to_owned);
            let (outputs, dropped) = Default::default();
            let (bytes_read, bytes_written, filtered_runs) = (0, 0, 0);
            Event::JobEnded(JobEnd {
                info,
                outputs,
                bytes_read,
                bytes_written,
                duration_us,
                dropped,
                filtered_runs,
                error,
            })
        };
        assert!(is_worth_a_line(&end(Work::Flush, 1, None)));
        assert!(!is_worth_a_line(&end(Work::SyncLog, 1, None)));
        assert!(is_worth_a_line(&end(Work::SyncLog, LONG_US, None)));
        assert!(is_worth_a_line(&end(Work::LoadTable, 1, Some("damaged"))));
        assert!(!is_worth_a_line(&Event::JobBegan(JobInfo::new(Work::SyncLog))));
    }
}
