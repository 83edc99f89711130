//! Calls as a simulated disk counts them, and the faults that make chosen calls fail.
//!
//! A [`Fault`] is a rule: which kind of call, on which files, after how many matches, how often, with what
//! error.
//!
//! ```
//! use siltstone::io::sim::{CallKind, Fault, FaultError, SimDisk};
//!
//! let disk = SimDisk::new();
//! // The third sync of a log fails, once.
//! disk.inject(Fault::new(CallKind::Sync, FaultError::Io).on_path(".log").after(2).times(1));
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// What is asked of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    /// `Disk::create_dir_all`.
    CreateDir,
    /// `Disk::create`.
    Create,
    /// `Disk::open`.
    Open,
    /// `Disk::rename`.
    Rename,
    /// `Disk::remove`.
    Remove,
    /// `Disk::hard_link`.
    HardLink,
    /// `Disk::list`.
    List,
    /// `Disk::sync_dir`.
    SyncDir,
    /// `Disk::lock`.
    Lock,
    /// `Disk::free_bytes`.
    FreeBytes,
    /// `File::read_exact_at`.
    Read,
    /// `File::write_all_at`.
    Write,
    /// `File::sync`.
    Sync,
    /// `File::len`.
    Len,
    /// `File::set_len`.
    SetLen,
}

impl CallKind {
    /// Whether the call changes the disk: its bytes, its names or what of them is durable.
    pub fn is_mutating(self) -> bool {
        !matches!(self, Self::Open | Self::List | Self::FreeBytes | Self::Read | Self::Len)
    }

    fn verb(self) -> &'static str {
        match self {
            Self::CreateDir => "create directory",
            Self::Create => "create",
            Self::Open => "open",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::HardLink => "link",
            Self::List => "list",
            Self::SyncDir => "sync directory",
            Self::Lock => "lock",
            Self::FreeBytes => "ask free bytes of",
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Len => "ask length of",
            Self::SetLen => "set length of",
        }
    }
}

/// One mutating call of a recorded trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallInfo {
    /// How many mutating calls came before: `SimDisk::halt_after(number)` on a fresh disk stops just before
    /// it.
    pub number: u64,
    /// What the test last passed to `SimDisk::set_marker`.
    pub marker: u64,
    /// What was asked.
    pub kind: CallKind,
    /// The file or directory, from the root; for an open file the name that it was opened by.
    pub path: PathBuf,
    /// The new name, for a rename or a link.
    pub to: Option<PathBuf>,
    /// Where a write began; the new length, for a length change.
    pub offset: u64,
    /// How many bytes a write was asked to write.
    pub bytes: u64,
    /// Whether the call succeeded.
    pub ok: bool,
}

impl fmt::Display for CallInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}: {} {}", self.number, self.kind.verb(), self.path.display())?;
        match self.kind {
            CallKind::Write => write!(f, " [{}, +{}]", self.offset, self.bytes)?,
            CallKind::SetLen => write!(f, " [{}]", self.offset)?,
            _ => {}
        }
        if let Some(to) = &self.to {
            write!(f, " to {}", to.display())?;
        }
        f.write_str(if self.ok { "" } else { " (failed)" })
    }
}

/// The error that a fault makes a call return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultError {
    /// The device fails (`EIO`), and the call has no effect. A failed [`CallKind::Sync`] loses what it should
    /// have made durable for good, as Linux does: see `SimDisk::inject`.
    Io,
    /// No room (`ENOSPC`), and the call has no effect, apart from a sync as above.
    StorageFull,
    /// A write leaves its first bytes and then fails with `EIO`. Any other call fails as with
    /// [`FaultError::Io`].
    ShortWrite {
        /// How many bytes are written before the error.
        bytes: u64,
    },
}

impl FaultError {
    pub(super) fn to_error(self) -> io::Error {
        match self {
            Self::Io | Self::ShortWrite { .. } => Errno::IO.into(),
            Self::StorageFull => Errno::NOSPC.into(),
        }
    }
}

/// A rule that makes chosen calls fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of call; `None` means every kind.
    pub on: Option<CallKind>,
    /// Only calls on paths that contain this; for a rename or link, either path.
    pub path: Option<String>,
    /// How many matching calls succeed first.
    pub after_calls: u64,
    /// How many matching calls then fail, before the rule is spent.
    pub times: u64,
    /// What they fail with.
    pub error: FaultError,
}

impl Fault {
    /// Every call of this kind fails from now on.
    pub fn new(on: CallKind, error: FaultError) -> Self {
        Self { on: Some(on), path: None, after_calls: 0, times: u64::MAX, error }
    }

    /// Every call of whatever kind fails from now on.
    pub fn on_any(error: FaultError) -> Self {
        Self { on: None, path: None, after_calls: 0, times: u64::MAX, error }
    }

    /// Only on paths that contain `part`.
    #[must_use]
    pub fn on_path(mut self, part: impl Into<String>) -> Self {
        self.path = Some(part.into());
        self
    }

    /// Only after this many matching calls have succeeded.
    #[must_use]
    pub fn after(mut self, calls: u64) -> Self {
        self.after_calls = calls;
        self
    }

    /// Only this often.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    fn matches(&self, kind: CallKind, path: &Path, to: Option<&Path>) -> bool {
        let has_part = |part: &String| {
            let mut paths = [Some(path), to].into_iter().flatten();
            paths.any(|path| path.to_string_lossy().contains(part.as_str()))
        };
        self.on.is_none_or(|on| on == kind) && self.path.as_ref().is_none_or(has_part)
    }
}

/// The rules in force, oldest first.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    pub(super) fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Counts the call against every rule that it matches; the oldest rule that is due decides the error.
    pub(super) fn strike(&mut self, kind: CallKind, path: &Path, to: Option<&Path>) -> Option<FaultError> {
        let mut struck = None;
        for fault in self.0.iter_mut().filter(|fault| fault.matches(kind, path, to)) {
            if fault.after_calls > 0 {
                fault.after_calls -= 1;
            } else if struck.is_none() && fault.times > 0 {
                fault.times = if fault.times == u64::MAX { u64::MAX } else { fault.times - 1 };
                struck = Some(fault.error);
            }
        }
        self.0.retain(|fault| fault.times > 0);
        struck
    }
}

/// Calls of one kind, and the bytes they were asked to move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of calls, failed ones included.
    pub calls: u64,
    /// Bytes that reads and writes were asked for; 0 for other calls.
    pub bytes: u64,
}

/// What was asked of a simulated disk, by kind of call and by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimStats {
    /// Names as they stand, which compare faster than paths.
    tallies: BTreeMap<CallKind, BTreeMap<OsString, Tally>>,
}

impl SimStats {
    /// The calls of one kind on paths that end with `path_suffix`; an empty suffix means all paths.
    pub fn tally(&self, kind: CallKind, path_suffix: &str) -> Tally {
        let mut sum = Tally::default();
        for (path, tally) in self.tallies.get(&kind).into_iter().flatten() {
            if path.as_encoded_bytes().ends_with(path_suffix.as_bytes()) {
                sum.calls += tally.calls;
                sum.bytes += tally.bytes;
            }
        }
        sum
    }

    /// All calls of one kind.
    pub fn calls(&self, kind: CallKind) -> u64 {
        self.tally(kind, "").calls
    }

    /// All bytes of one kind of call.
    pub fn bytes(&self, kind: CallKind) -> u64 {
        self.tally(kind, "").bytes
    }

    pub(super) fn count(&mut self, kind: CallKind, path: &Path, bytes: u64) {
        let (paths, path) = (self.tallies.entry(kind).or_default(), path.as_os_str());
        if !paths.contains_key(path) {
            paths.insert(path.to_owned(), Tally::default());
        }
        if let Some(tally) = paths.get_mut(path) {
            tally.calls += 1;
            tally.bytes += bytes;
        }
    }
}
