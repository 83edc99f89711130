//! The directory that holds what a repair could not account for, as it was.

use super::found::Found;
use crate::cache::PAGE_BYTES;
use crate::error::{Error, Result};
use crate::filename::LOST_AND_FOUND;
use crate::io::{Access, Disk, File};
use std::collections::BTreeSet;
use std::path::Path;

/// Bytes that are copied at once.
const COPIED_BYTES: usize = 256 * PAGE_BYTES;

/// The files that are kept, and what of them could not be.
#[derive(Default)]
pub(super) struct Kept {
    pub names: BTreeSet<String>,
    /// Sentences about files that can't be read whole.
    pub notes: Vec<String>,
}

impl Kept {
    /// Gives a file of the damaged store another name in the new one, in `dir`, or copies it there. Where it
    /// can't be read there are zeros, and a note.
    pub fn keep(&mut self, disk: &dyn Disk, found: &Found, dir: &Path, name: &str) -> Result<()> {
        if !self.names.insert(name.to_owned()) {
            return Ok(());
        }
        let (from, to) = (found.dir.join(name), dir.join(LOST_AND_FOUND).join(name));
        if disk.hard_link(&from, &to).is_ok() {
            return Ok(());
        }
        let opened = disk.open(&from, Access::Read).and_then(|file| Ok((file.len()?, file)));
        let lost = match opened.map_err(|e| Error::io(&e, "keeping a copy of", &from)) {
            Ok((bytes, source)) => {
                let target = disk.create(&to).map_err(|e| Error::io(&e, "writing", &to))?;
                let lost = copy((source.as_ref(), &from), bytes, (target.as_ref(), &to))?;
                target.sync().map_err(|e| Error::io(&e, "writing", &to))?;
                lost
            }
            Err(error) if error.is_loss() => Some(error),
            Err(error) => return Err(error),
        };
        self.notes.extend(lost.map(|error| {
            let dir = found.dir.display();
            format!("{name} could not be kept whole ({error}); what there is of it stays in {dir}")
        }));
        Ok(())
    }
}

/// Copies `bytes` bytes, with zeros for each page that can't be read, and says what the first error was.
fn copy(source: (&dyn File, &Path), bytes: u64, target: (&dyn File, &Path)) -> Result<Option<Error>> {
    let ((source, from), (target, to)) = (source, target);
    let read = |part: &mut [u8], at: u64| {
        source.read_exact_at(part, at).map_err(|e| Error::io(&e, "keeping a copy of", from))
    };
    let (mut at, mut chunk, mut lost) = (0, vec![0; COPIED_BYTES], None);
    while at < bytes {
        let length = (bytes - at).min(chunk.len() as u64) as usize;
        let Some(part) = chunk.get_mut(..length) else { break };
        if read(part, at).is_err() {
            for (page, page_at) in part.chunks_mut(PAGE_BYTES).zip((at..).step_by(PAGE_BYTES)) {
                match read(page, page_at) {
                    Err(error) if error.is_loss() => {
                        page.fill(0);
                        lost.get_or_insert(error);
                    }
                    other => other?,
                }
            }
        }
        target.write_all_at(part, at).map_err(|e| Error::io(&e, "writing", to))?;
        at += length as u64;
    }
    Ok(lost)
}
