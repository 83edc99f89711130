//! Writing behind: what comes next is made while a thread writes what came before.

use super::File;
use crate::sync::mpsc::{Receiver, SyncSender, sync_channel};
use crate::sync::thread::{Builder, JoinHandle};
use std::io;
use std::mem::{replace, take};
use std::sync::Arc;

/// Bytes, and where in the file they go.
struct Piece {
    bytes: Vec<u8>,
    at: u64,
}

/// What became of a piece, and its memory.
type Written = (Vec<u8>, io::Result<()>);

/// A thread that writes, a piece at a time.
struct Writer {
    pieces: SyncSender<Piece>,
    written: Receiver<Written>,
    thread: JoinHandle<()>,
    /// Whether it has a piece of which nobody has heard yet.
    is_writing: bool,
}

/// Who writes the next piece.
enum Next {
    /// The thread that asks for it.
    Asker,
    /// The same, since most files have only one piece.
    AskerFirst,
    /// A thread that is still to be started.
    NewWriter,
    Writer(Writer),
}

/// Writes pieces of one file, the last of them perhaps still when it is asked for the next.
///
/// An error comes with the piece behind the one that it is of, or from [`WriteBehind::settle`], before which
/// nobody may rely on what was written.
pub(crate) struct WriteBehind {
    file: Arc<dyn File>,
    next: Next,
    /// Memory of a piece that was written.
    spare: Vec<u8>,
}

impl WriteBehind {
    /// Writes to `file`; in the thread that asks, unless `may_have_thread`.
    pub fn new(file: Arc<dyn File>, may_have_thread: bool) -> Self {
        let next = if may_have_thread { Next::AskerFirst } else { Next::Asker };
        Self { file, next, spare: Vec::new() }
    }

    /// Writes `bytes` at `at`, and leaves empty memory there.
    pub fn write(&mut self, bytes: &mut Vec<u8>, at: u64) -> io::Result<()> {
        self.settle()?;
        if matches!(self.next, Next::NewWriter) {
            self.next = Writer::start(&self.file).map_or(Next::Asker, Next::Writer);
        }
        let Next::Writer(writer) = &mut self.next else {
            if matches!(self.next, Next::AskerFirst) {
                self.next = Next::NewWriter;
            }
            self.file.write_all_at(bytes, at)?;
            bytes.clear();
            return Ok(());
        };
        let empty = take(&mut self.spare);
        let full = replace(bytes, empty);
        if bytes.capacity() == 0 {
            bytes.reserve_exact(full.capacity());
        }
        let piece = Piece { bytes: full, at };
        writer.is_writing = true;
        writer.pieces.send(piece).map_err(|_| gone())
    }

    /// Waits until all is written.
    pub fn settle(&mut self) -> io::Result<()> {
        let Next::Writer(writer) = &mut self.next else { return Ok(()) };
        if !replace(&mut writer.is_writing, false) {
            return Ok(());
        }
        let (memory, outcome) = writer.written.recv().map_err(|_| gone())?;
        self.spare = memory;
        outcome
    }
}

impl Drop for WriteBehind {
    /// Nothing is written to the file from then on: it may be removed, or its directory another process's.
    fn drop(&mut self) {
        if let Next::Writer(Writer { pieces, thread, .. }) = replace(&mut self.next, Next::Asker) {
            drop(pieces);
            // A panic of its own was told where it was waited for.
            let _ = thread.join();
        }
    }
}

impl Writer {
    /// `None` where the system has no more threads.
    fn start(file: &Arc<dyn File>) -> Option<Self> {
        let (pieces, to_write) = sync_channel::<Piece>(1);
        let (tell, written) = sync_channel(1);
        let file = Arc::clone(file);
        let work = move || {
            for Piece { mut bytes, at } in to_write {
                let outcome = file.write_all_at(&bytes, at);
                bytes.clear();
                if tell.send((bytes, outcome)).is_err() {
                    break;
                }
            }
        };
        let thread = Builder::new().name("siltstone-write".into()).spawn(work).ok()?;
        Some(Self { pieces, written, thread, is_writing: false })
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that writes the file has panicked")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::sim::{CallKind, Fault, FaultError, SimDisk};
    use crate::io::{Access, Disk};
    use std::path::Path;

    #[test]
    fn pieces_come_to_stand_where_they_were_to() {
        for may_have_thread in [false, true] {
            let disk = SimDisk::new();
            let path = Path::new("/file");
            let mut behind = WriteBehind::new(disk.create(path).unwrap(), may_have_thread);
            let (mut piece, mut all) = (Vec::new(), Vec::new());
            for number in 0..20u8 {
                piece.extend(std::iter::repeat_n(number, 1 + usize::from(number) * 100));
                let at = all.len() as u64;
                all.extend_from_slice(&piece);
                behind.write(&mut piece, at).unwrap();
                assert!(piece.is_empty());
            }
            behind.settle().unwrap();
            assert_eq!(matches!(behind.next, Next::Writer(_)), may_have_thread);
            let file = disk.open(path, Access::Read).unwrap();
            assert_eq!(crate::io::read_whole(file.as_ref(), u64::MAX).unwrap(), all);
        }
    }

    #[test]
    fn a_piece_that_was_not_written_is_told_of_before_anybody_relies_on_it() {
        for may_have_thread in [false, true] {
            for failing in 0..4 {
                let disk = SimDisk::new();
                let mut behind = WriteBehind::new(disk.create(Path::new("/file")).unwrap(), may_have_thread);
                disk.inject(Fault::new(CallKind::Write, FaultError::Io).after(failing).times(1));
                let mut write = |number: u64| behind.write(&mut vec![1; 100], number * 100);
                let outcomes = [write(0), write(1), write(2), write(3), behind.settle()];
                let errors = outcomes.iter().filter(|outcome| outcome.is_err()).count();
                assert_eq!(errors, 1, "of piece {failing}: {outcomes:?}");
            }
        }
    }
}
