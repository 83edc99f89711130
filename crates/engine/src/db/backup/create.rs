//! A backup being made: what the directory lacks is brought there, and the record comes last.
//!
//! Which tables it has already follows from the last backup of this store, whose token the store keeps: that
//! backup's tables were the store's, and a table never changes. Where the token fits no backup, tables are
//! read once more to be told, and still not copied again.

use super::files::{Checked, Source, open, remove, sync_dir, write_whole};
use super::info::{BackupInfo, BackupOptions, BackupProgress};
use super::record::{FILES, NEW, Record, Records, Stored};
use super::sweep::sweep;
use crate::db::catalog::Pinned;
use crate::db::open::checkpoint::state_of;
use crate::db::store::Store;
use crate::error::{Error, Result};
use crate::filename::{self, BACKUP, BACKUP_NEW};
use crate::io::{Disk, read_file};
use crate::record::Epoch;
use crate::table::envelope::TableMeta;
use crate::version::manifest;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A backup under way.
pub(super) struct Creation<'a> {
    pub store: &'a Store,
    pub dir: &'a Path,
    pub options: &'a BackupOptions,
    pub progress: &'a mut dyn FnMut(BackupProgress),
    pub done: BackupProgress,
}

/// The token that the store keeps of its last backup.
fn token_of(store: &Store) -> Option<String> {
    let text = read_file(store.env.disk.as_ref(), &store.env.path.join(BACKUP)).ok()?;
    let text = String::from_utf8(text).ok()?;
    let token = text.strip_suffix('\n')?;
    (token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| token.to_owned())
}

impl Creation<'_> {
    /// Makes a backup of `pinned`. The caller holds the directory's lock.
    pub fn run(mut self, pinned: &Pinned) -> Result<BackupInfo> {
        let (disk, files) = (self.store.env.disk.as_ref(), self.dir.join(FILES));
        let records = Records::read(disk, self.dir)?;
        let there = disk.list(&files).map_err(|e| Error::io(&e, "listing", &files))?;
        let there: BTreeSet<String> = there.into_iter().collect();
        remove_unfinished(disk, &files, &there)?;
        let tables: BTreeMap<u64, TableMeta> = pinned
            .keyspaces
            .values()
            .flat_map(|pinned| pinned.view.version.tables())
            .map(|table| (table.id(), table.meta().clone()))
            .collect();
        self.done.bytes_total = tables.values().map(|meta| meta.bytes).sum();
        let token = token_of(self.store).unwrap_or_default();
        let mut stored = Vec::with_capacity(tables.len());
        for meta in tables.values() {
            let known =
                records.known(&token, meta.id, meta.bytes).filter(|known| there.contains(&known.table()));
            let kept = match known {
                Some(known) => known.clone(),
                None => self.add_table(
                    meta,
                    &self.store.env.reader.path(meta.id),
                    &there,
                    self.options.hard_links,
                )?,
            };
            self.done.bytes_done += meta.bytes;
            (self.progress)(self.done);
            stored.push(kept);
        }
        let number = records.last + 1;
        let (buffers, manifest) = self.add_rest(pinned, &tables, number, &there)?;
        sync_dir(disk, &files)?;
        let token = format!("{:016x}{:016x}", disk.random_u64(), disk.random_u64());
        let keyspaces = pinned.keyspaces.values().map(|pinned| pinned.keyspace.name.clone()).collect();
        let made_at_ms = self.store.env.now_ms();
        let record = Record { number, token, made_at_ms, keyspaces, tables: stored, buffers, manifest };
        let (name, bytes) = (record.name(), record.encode()?);
        write_whole(disk, &bytes, &self.dir.join(format!("{name}{NEW}")), &self.dir.join(&name))?;
        sync_dir(disk, self.dir)?;
        self.keep_token(&record.token);
        // What an earlier one left behind when it was cut short.
        let _ = sweep(disk, self.dir);
        Ok(BackupInfo { bytes_added: self.done.bytes_added, ..BackupInfo::of(&record) })
    }

    /// Brings a table into the directory, if it is not there.
    fn add_table(
        &mut self,
        meta: &TableMeta,
        path: &Path,
        there: &BTreeSet<String>,
        links: bool,
    ) -> Result<Stored> {
        let env = &self.store.env;
        let files = self.dir.join(FILES);
        // Held open already where a reader needs it, and maybe without its name.
        let is_own = path.parent() == Some(env.path.as_path());
        let file = if is_own { env.reader.file(meta.id)? } else { open(env.disk.as_ref(), path)? };
        let table = Some(Checked { id: meta.id, pages: meta.pages });
        let source = Source { file: file.as_ref(), path, number: meta.id, table };
        let new = files.join(format!("{}{NEW}", filename::table(meta.id)));
        let stored = source.link_or_copy(env.disk.as_ref(), &new, links)?;
        // Also where there is one: it may have been damaged since, and this one has just been read.
        let to = files.join(stored.table());
        env.disk.rename(&new, &to).map_err(|e| Error::io(&e, "writing", &to))?;
        if there.contains(&stored.table()) {
            // Two names of one file stay two.
            remove(env.disk.as_ref(), &new)?;
        } else {
            self.done.bytes_added += stored.bytes;
        }
        Ok(stored)
    }

    /// Brings what is in write buffers, as tables, and the manifest.
    fn add_rest(
        &mut self,
        pinned: &Pinned,
        tables: &BTreeMap<u64, TableMeta>,
        number: u64,
        there: &BTreeSet<String>,
    ) -> Result<(Vec<Stored>, Stored)> {
        let (disk, files) = (&self.store.env.disk, self.dir.join(FILES));
        let state = state_of(self.store, pinned, &files)?;
        let mut buffers = Vec::new();
        for table in state.keyspaces.values().flat_map(|keyspace| keyspace.version.tables()) {
            if tables.contains_key(&table.id()) {
                continue;
            }
            let path = filename::table_path(&files, table.id());
            buffers.push(self.add_table(table.meta(), &path, there, true)?);
            let _ = disk.remove(&path);
        }
        let bytes = manifest::encode(1, Epoch(disk.random_u64()), &state)?;
        let new = files.join(format!("manifest{NEW}"));
        let file = disk.create(&new).map_err(|e| Error::io(&e, "writing", &new))?;
        file.write_all_at(&bytes, 0).map_err(|e| Error::io(&e, "writing", &new))?;
        file.sync().map_err(|e| Error::io(&e, "syncing", &new))?;
        let source = Source { file: file.as_ref(), path: &new, number, table: None };
        let manifest = source.read(&mut |_, _| Ok(()))?;
        let to = files.join(manifest.manifest());
        disk.rename(&new, &to).map_err(|e| Error::io(&e, "writing", &to))?;
        self.done.bytes_added += manifest.bytes;
        Ok((buffers, manifest))
    }

    /// Notes in the store which backup was the last. Without it the next one reads every table.
    fn keep_token(&self, token: &str) {
        let env = &self.store.env;
        if env.check_writable().is_err() {
            return;
        }
        let (new, to): (PathBuf, PathBuf) = (env.path.join(BACKUP_NEW), env.path.join(BACKUP));
        if write_whole(env.disk.as_ref(), format!("{token}\n").as_bytes(), &new, &to).is_ok() {
            let _ = env.sync_dir();
        }
    }
}

/// Removes files that a backup which was cut short had not finished. They may be second names of the store's
/// own tables, so nothing may ever be written under their names.
fn remove_unfinished(disk: &dyn Disk, files: &Path, there: &BTreeSet<String>) -> Result<()> {
    let is_unfinished = |name: &&String| name.ends_with(NEW) || filename::table_number(name).is_some();
    let unfinished = there.iter().filter(is_unfinished).map(|name| files.join(name));
    unfinished.into_iter().try_for_each(|path| remove(disk, &path))
}
