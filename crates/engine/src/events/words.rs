//! Events in words, a line each.

use super::{
    DesignEvent, Event, JobEnd, JobInfo, LargeGroup, LoggedEvent, Part, Place, Reason, SchemaEvent, Stall,
    StallCause, Work,
};
use siltstone_design::reason::Bytes;
use std::fmt::{self, Display, Formatter};

impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::JobBegan(job) => job.fmt(f),
            Self::JobEnded(end) => end.fmt(f),
            Self::WritersStalled(stall) => stall.fmt(f),
            Self::GroupHoldsMost(group) => group.fmt(f),
            Self::RedesignProposed(change) => {
                let share = 100.0 * change.saved_share.unwrap_or(0.0);
                write!(f, "[DESIGN] {change} would save {share:.0}% of an operation's time")
            }
            Self::RedesignBegan(change) => write!(f, "[DESIGN] {change} begins"),
            Self::RedesignSettled(change) => write!(f, "[DESIGN] {change} is done"),
            Self::SchemaChangeBegan(change) => write!(f, "[SCHEMA] {change} begins"),
            Self::SchemaChanged(change) => write!(f, "[SCHEMA] {change} is done"),
            Self::SchemaChangeEnded(change) => {
                write!(
                    f,
                    "[SCHEMA] {change} has ended: {}",
                    change.error.as_deref().unwrap_or("it was given up")
                )
            }
        }
    }
}

/// The line of a job that begins.
impl Display for JobInfo {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.fmt_head(f)?;
        f.write_str(" begins")?;
        self.fmt_reason(f)
    }
}

impl JobInfo {
    fn fmt_head(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "[JOB {}] {}", self.job, self.work)?;
        if let Some(keyspace) = &self.keyspace {
            write!(f, " {keyspace:?}")?;
        }
        if let Some(place) = &self.place {
            write!(f, " {place}")?;
        }
        let own = self.place.as_ref().map(|place| place.level);
        for (number, part) in self.inputs.iter().enumerate() {
            f.write_str(if number == 0 { ": " } else { " + " })?;
            // The region's level is said already.
            match part.level.filter(|level| Some(*level) != own) {
                Some(level) => write!(f, "L{level} {part}")?,
                None => write!(f, "{part}")?,
            }
        }
        Ok(())
    }

    fn fmt_reason(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Some(reason) => write!(f, "; because {reason}"),
            None => Ok(()),
        }
    }
}

/// The line of a job that has ended.
impl Display for JobEnd {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.info.fmt_head(f)?;
        let duration = Duration(self.duration_us);
        if let Some(error) = &self.error {
            write!(f, " failed after {duration}: {error}")?;
            return self.info.fmt_reason(f);
        }
        for (number, part) in self.outputs.iter().enumerate() {
            f.write_str(if number == 0 { " -> " } else { " + " })?;
            match part.level {
                Some(level) => write!(f, "L{level} {part}")?,
                None => write!(f, "{part}")?,
            }
        }
        if self.outputs.is_empty() && self.dropped.entries > 0 {
            f.write_str(" -> nothing")?;
        }
        write!(f, " in {duration}")?;
        let entries: u64 = self.info.inputs.iter().map(|part| part.entries).sum();
        if self.dropped.entries > 0 && entries > 0 {
            write!(f, "; {}% dropped", (100 * self.dropped.entries).div_ceil(entries))?;
        }
        self.info.fmt_reason(f)
    }
}

impl Display for Part {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let counted = [(self.runs.len() as u64, "run"), (self.tables, "table"), (self.entries, "entry")];
        if let Some((count, what)) = counted.into_iter().find(|(count, _)| *count > 0) {
            match (count, what) {
                (1, what) => write!(f, "1 {what} ")?,
                (count, "entry") => write!(f, "{count} entries ")?,
                (count, what) => write!(f, "{count} {what}s ")?,
            }
        }
        write!(f, "{}", Bytes(self.bytes))
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "L{}/{}", self.level, self.region)
    }
}

impl Display for Work {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flush => "flush",
            Self::Push => "push",
            Self::Split => "split",
            Self::Rewrite => "rewrite",
            Self::Gather => "gather",
            Self::DropRuns => "drop runs",
            Self::SortItems => "sort items",
            Self::Ingest => "ingest",
            Self::BuildFilter => "build region filter",
            Self::ExtendFilter => "extend region filter",
            Self::JoinFilter => "join the parts of region filter",
            Self::ShortenFilter => "shorten region filter",
            Self::WriteFilterFile => "write region filter file",
            Self::LoadTable => "load table",
            Self::SyncLog => "sync log",
            Self::CheckSidecar => "check sidecar",
        })
    }
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BufferFull { bytes, entries } => {
                write!(f, "the write buffer is full ({}, {entries} entries)", Bytes(bytes))
            }
            Self::MemoryBound { bytes, at_most } => {
                let (bytes, at_most) = (Bytes(bytes), Bytes(at_most));
                write!(f, "write buffers take much memory (this one {bytes}, all may take {at_most})")
            }
            Self::LogTooLong { bytes, at_most } => {
                write!(f, "the log is too long ({} of {})", Bytes(bytes), Bytes(at_most))
            }
            Self::LogScattered { segments } => {
                write!(f, "the log was found in {segments} small segments")
            }
            Self::Requested => f.write_str("the user asked for it"),
            Self::Redesigned => f.write_str("the keyspace has another design"),
            Self::FilterMissing { runs: 1 } => f.write_str("1 run is not in the filter"),
            Self::FilterMissing { runs } => write!(f, "{runs} runs are not in the filter"),
            Self::MemoryShort => f.write_str("memory is short for filters as the design has them"),
            Self::Calm => f.write_str("nothing was flushed for a while"),
            Self::MemoryFree => f.write_str("memory was short for the filter when it was made"),
            Self::FileDue { bytes } => write!(f, "{} of filters are due to be in a file", Bytes(bytes)),
            Self::NotLoaded => f.write_str("filter and index are not in memory"),
            Self::Unchecked => f.write_str("nobody has read it since the store was opened"),
            Self::Interval { ms } => write!(f, "it is due every {ms} ms"),
            Self::Planned(reason) => reason.fmt(f),
        }
    }
}

impl Display for LargeGroup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { keyspace, schema, prefix, bytes, of_bytes } = self;
        write!(
            f,
            "[GROUP] the prefix {prefix:?} has {} of the {} of {keyspace:?}; its schema {schema} hardly divides these keys",
            Bytes(*bytes),
            Bytes(*of_bytes)
        )
    }
}

impl Display for DesignEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { keyspace, from, to, .. } = self;
        write!(f, "redesign of {keyspace:?} from {from} to {to}")
    }
}

impl Display for SchemaEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { keyspace, from, to, .. } = self;
        write!(f, "change of the schema of {keyspace:?} from {from} to {to}")
    }
}

impl Display for Stall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "[STALL] writers waited {}; because {}", Duration(self.duration_us), self.cause)
    }
}

impl Display for StallCause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::SealedBuffers { keyspace, sealed } => {
                write!(f, "{sealed} write buffers of {keyspace:?} wait for their flush")
            }
            Self::Memory { bytes, at_most } => {
                write!(f, "write buffers take {} of {}", Bytes(*bytes), Bytes(*at_most))
            }
        }
    }
}

/// The event's line after its time, in UTC.
impl Display for LoggedEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", Time(self.at_ms), self.event)
    }
}

/// Microseconds in words.
struct Duration(u64);

impl Display for Duration {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            us @ 0..100_000 => write!(f, "{:.1} ms", us as f64 / 1e3),
            us => write!(f, "{:.2} s", us as f64 / 1e6),
        }
    }
}

/// Milliseconds since the Unix epoch as date and time, in UTC.
pub(crate) struct Time(pub u64);

impl Display for Time {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (days, ms) = (self.0 / 86_400_000, self.0 % 86_400_000);
        // Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days, for days since 1970.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{:03}", ms % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Dropped, RegionReason};
    use super::*;

    fn part(level: Option<usize>, runs: &[u64], entries: u64, bytes: u64) -> Part {
        Part { level, runs: runs.to_vec(), tables: runs.len() as u64, entries, bytes }
    }

    fn push() -> JobEnd {
        let inputs = vec![part(Some(1), &[7; 12], 1000, 25_270_682), part(Some(2), &[3], 500, 1 << 20)];
        let reason = Reason::Planned(RegionReason::RunsFull { runs: 12, at_most: 12 });
        let info = JobInfo::new(Work::Push).of("users").at(Place::new(1, "0110")).because(reason);
        JobEnd {
            info: JobInfo { job: 7, ..info.reading(inputs) },
            outputs: vec![part(Some(2), &[9; 16], 1370, 22_963_814)],
            bytes_read: 26_319_258,
            bytes_written: 22_963_814,
            duration_us: 310_000,
            dropped: Dropped { bytes: 3_355_444, ..Dropped::new(130, 20, 10) },
            filtered_runs: 16,
            error: None,
        }
    }

    #[test]
    fn jobs_are_lines() {
        let end = push();
        assert_eq!(
            end.info.to_string(),
            "[JOB 7] push \"users\" L1/0110: 12 runs 24.1 MiB + L2 1 run 1.0 MiB begins; because the region is full (12 of 12 \
             runs)"
        );
        assert_eq!(
            end.to_string(),
            "[JOB 7] push \"users\" L1/0110: 12 runs 24.1 MiB + L2 1 run 1.0 MiB -> L2 16 runs 21.9 MiB in 0.31 s; 9% dropped; \
             because the region is full (12 of 12 runs)"
        );
        let failed = JobEnd { error: Some("the disk is full".into()), duration_us: 1500, ..end };
        assert_eq!(
            failed.to_string(),
            "[JOB 7] push \"users\" L1/0110: 12 runs 24.1 MiB + L2 1 run 1.0 MiB failed after 1.5 ms: the disk is full; because \
             the region is full (12 of 12 runs)"
        );
        let cause = StallCause::SealedBuffers { keyspace: "users".into(), sealed: 3 };
        let stall = Event::WritersStalled(Stall::new(250_000, cause));
        let logged = LoggedEvent::new(1_709_210_096_789, stall);
        assert_eq!(
            logged.to_string(),
            "2024-02-29 12:34:56.789 [STALL] writers waited 0.25 s; because 3 write buffers of \"users\" wait for their flush"
        );
        assert_eq!(Time(0).to_string(), "1970-01-01 00:00:00.000");
        assert_eq!(Time(4_102_444_799_999).to_string(), "2099-12-31 23:59:59.999");
    }

    #[test]
    fn events_survive_a_line_of_json() {
        let mut events = vec![Event::JobEnded(push()), Event::JobBegan(push().info)];
        let full = Reason::BufferFull { bytes: u64::MAX, entries: 3 };
        events.push(Event::JobBegan(JobInfo::new(Work::Flush).because(full)));
        let garbage = RegionReason::Garbage { garbage: 0.375, at_most: 0.25 };
        events.push(Event::JobBegan(JobInfo::new(Work::Rewrite).because(Reason::Planned(garbage))));
        events.push(Event::JobBegan(JobInfo::new(Work::LoadTable)));
        let cause = StallCause::Memory { bytes: 5, at_most: 4 };
        events.push(Event::WritersStalled(Stall::new(7, cause)));
        for event in events {
            let logged = LoggedEvent::new(12, event);
            let line = serde_json::to_string(&logged).unwrap();
            assert!(line.starts_with("{\"at_ms\":12,\"event\":\"") && !line.contains('\n'), "{line}");
            assert_eq!(LoggedEvent::parse(&line).as_ref(), Some(&logged), "{line}");
            assert_eq!(LoggedEvent::parse(&line[..line.len() - 1]), None);
        }
    }
}
