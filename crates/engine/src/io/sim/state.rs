//! The state behind a simulated disk's lock, and the order of things within one call.
//!
//! Every call goes through the same gate: halted? – count – fault? – effect – image. The gate is in
//! [`State::begin`] and [`State::record`]; `mutate`, `ask`, `write` and `sync` differ only in what lies
//! between.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::DiskImage;
use super::fault::{CallInfo, CallKind, FaultError, Faults, SimStats};
use super::image::{Image, InodeId};
use crate::io::HeldBy;

/// What a disk without a limit says is free.
const UNLIMITED_BYTES: u64 = 1 << 50;

pub(super) struct State {
    image: Arc<Image>,
    /// How many open files hold each inode.
    pub(super) handles: BTreeMap<InodeId, usize>,
    pub(super) locks: BTreeSet<InodeId>,
    pub(super) capacity_bytes: Option<u64>,
    pub(super) faults: Faults,
    pub(super) stats: SimStats,
    pub(super) mutating_calls: u64,
    pub(super) failed_calls: u64,
    pub(super) halt_at: Option<u64>,
    pub(super) halted: bool,
    pub(super) marker: u64,
    pub(super) recorded: Option<Vec<(CallInfo, DiskImage)>>,
}

impl State {
    pub(super) fn new(image: Image) -> Self {
        Self {
            image: Arc::new(image),
            handles: BTreeMap::new(),
            locks: BTreeSet::new(),
            capacity_bytes: None,
            faults: Faults::default(),
            stats: SimStats::default(),
            mutating_calls: 0,
            failed_calls: 0,
            halt_at: None,
            halted: false,
            marker: 0,
            recorded: None,
        }
    }

    pub(super) fn image(&self) -> &Image {
        &self.image
    }

    /// The image for changing: copied first if a snapshot holds it.
    pub(super) fn image_mut(&mut self) -> &mut Image {
        Arc::make_mut(&mut self.image)
    }

    pub(super) fn share(&self) -> Arc<Image> {
        Arc::clone(&self.image)
    }

    /// A call that changes nothing.
    pub(super) fn ask<T>(
        &mut self,
        kind: CallKind,
        path: &Path,
        bytes: u64,
        answer: impl FnOnce(&Image) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.begin(kind, path, None, 0, bytes)?.1 {
            Some(fault) => Err(fault.to_error()),
            None => answer(&self.image),
        }
    }

    /// A call that changes names.
    pub(super) fn mutate<T>(
        &mut self,
        kind: CallKind,
        path: &Path,
        to: Option<&Path>,
        effect: impl FnOnce(&mut Image) -> io::Result<T>,
    ) -> io::Result<T> {
        let (call, fault) = self.begin(kind, path, to, 0, 0)?;
        let result = match fault {
            Some(fault) => Err(fault.to_error()),
            None => effect(self.image_mut()),
        };
        self.record(call, result.is_ok());
        result
    }

    pub(super) fn write(&mut self, inode: InodeId, path: &Path, bytes: &[u8], offset: u64) -> io::Result<()> {
        let len = bytes.len() as u64;
        let (call, fault) = self.begin(CallKind::Write, path, None, offset, len)?;
        let end = offset.saturating_add(len);
        let (fits, error) = match fault {
            Some(FaultError::ShortWrite { bytes }) => (bytes.min(len), Some(FaultError::Io.to_error())),
            Some(fault) => (0, Some(fault.to_error())),
            None => match self.longest(inode)? {
                longest if end > longest => {
                    self.failed_calls += 1;
                    (longest.saturating_sub(offset), Some(Errno::NOSPC.into()))
                }
                _ => (len, None),
            },
        };
        let written = self.image_mut().write(inode, offset, bytes.get(..fits as usize).unwrap_or(bytes));
        let result = written.and(error.map_or(Ok(()), Err));
        self.record(call, result.is_ok());
        result
    }

    pub(super) fn set_len(&mut self, inode: InodeId, path: &Path, len: u64) -> io::Result<()> {
        let (call, fault) = self.begin(CallKind::SetLen, path, None, len, 0)?;
        let result = match fault {
            Some(fault) => Err(fault.to_error()),
            None if len > self.longest(inode)? => Err(Errno::NOSPC.into()),
            None => self.image_mut().set_len(inode, len),
        };
        self.record(call, result.is_ok());
        result
    }

    pub(super) fn sync(&mut self, inode: InodeId, path: &Path) -> io::Result<()> {
        let (call, fault) = self.begin(CallKind::Sync, path, None, 0, 0)?;
        self.record(call, fault.is_none());
        match fault {
            Some(fault) => {
                self.image_mut().fail_sync(inode);
                Err(fault.to_error())
            }
            None => self.image_mut().sync(inode),
        }
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        let (call, fault) = self.begin(CallKind::SyncDir, dir, None, 0, 0)?;
        let result = match fault {
            Some(fault) => Err(fault.to_error()),
            None => self.image.dir(dir).map(|_| ()),
        };
        self.record(call, result.is_ok());
        result?;
        self.image_mut().sync_dir(dir)?;
        // Only now can a removed file have lost its last, durable name.
        let handles = &self.handles;
        Arc::make_mut(&mut self.image).collect(|inode| handles.contains_key(&inode));
        Ok(())
    }

    /// Takes the lock on the file at `path` and writes `owner` into it.
    pub(super) fn acquire(&mut self, path: &Path, owner: &str) -> io::Result<InodeId> {
        if let Ok(inode) = self.image.lookup(path)
            && self.locks.contains(&inode)
            && !self.halted
        {
            return Err(HeldBy::error(&self.image.inode(inode)?.current.to_vec()));
        }
        let inode = self.mutate(CallKind::Lock, path, None, |image| {
            let inode = image.create(path)?;
            image.write(inode, 0, owner.as_bytes())?;
            Ok(inode)
        })?;
        self.locks.insert(inode);
        Ok(inode)
    }

    /// An open file is closed.
    pub(super) fn release(&mut self, inode: InodeId) {
        if let Some(count) = self.handles.get_mut(&inode) {
            *count -= 1;
            if *count == 0 {
                self.handles.remove(&inode);
            }
        }
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.image.used_bytes(|inode| self.handles.contains_key(&inode))
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.capacity_bytes.map_or(UNLIMITED_BYTES, |capacity| capacity.saturating_sub(self.used_bytes()))
    }

    /// The length that a file can have at most before the disk is full: never less than the length it has.
    fn longest(&self, inode: InodeId) -> io::Result<u64> {
        match self.capacity_bytes {
            Some(_) => Ok(self.image.inode(inode)?.current.len() + self.free_bytes()),
            None => Ok(u64::MAX),
        }
    }

    /// Counts a call, and says what it is and whether a fault strikes it; an error once the disk is halted.
    fn begin(
        &mut self,
        kind: CallKind,
        path: &Path,
        to: Option<&Path>,
        offset: u64,
        bytes: u64,
    ) -> io::Result<(Option<CallInfo>, Option<FaultError>)> {
        if kind.is_mutating() && self.halt_at.is_some_and(|at| self.mutating_calls >= at) {
            self.halted = true;
        }
        if self.halted {
            return Err(io::Error::other("simulated crash"));
        }
        let number = self.mutating_calls;
        self.mutating_calls += u64::from(kind.is_mutating());
        self.stats.count(kind, path, bytes);
        // Only a recording pays for the copies of the paths.
        let call = self.recorded.is_some().then(|| CallInfo {
            number,
            marker: self.marker,
            kind,
            path: path.to_owned(),
            to: to.map(Path::to_owned),
            offset,
            bytes,
            ok: false,
        });
        let fault = self.faults.strike(kind, path, to);
        self.failed_calls += u64::from(fault.is_some());
        Ok((call, fault))
    }

    fn record(&mut self, call: Option<CallInfo>, ok: bool) {
        if let (Some(call), Some(recorded)) = (call, self.recorded.as_mut()) {
            recorded.push((CallInfo { ok, ..call }, DiskImage { image: Arc::clone(&self.image) }));
        }
    }
}
