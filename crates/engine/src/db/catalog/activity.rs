//! Which keyspaces there is something to do about, so that those that nobody uses cost no time: neither the
//! write path nor the background walks over all keyspaces of a store.
//!
//! Invariant: nothing here decides what is durable or what is answered. A keyspace too many costs a look; one
//! too few would wait until [`Catalog::look_again`] comes by, which it does every so often.

use super::Catalog;
use super::due::{Activity, ByNumber, DueKeyspaces};
use super::keyspace::OpenKeyspace;
use super::view::View;
use crate::db::write_buffer::WriteBuffer;
use crate::sync::RwLock;
use std::sync::Arc;

/// Keyspaces that are looked at again at once, at least, and the part of all that is.
const LEAST_LOOKED_AT: usize = 64;
const PART_LOOKED_AT: usize = 16;

/// Whether any write of `view` is not in tables.
fn is_written(view: &View) -> bool {
    !view.buffers().all(WriteBuffer::is_empty)
}

/// Whether writers may have to be slowed because of `keyspace`.
fn is_behind(keyspace: &OpenKeyspace, view: &View) -> bool {
    !view.sealed.is_empty() || keyspace.pressure() > 0.0
}

impl Catalog {
    /// Notes that `keyspace` has been written to since it was empty.
    pub fn note_written(&self, keyspace: &Arc<OpenKeyspace>) {
        self.activity.written.write().insert(keyspace.id, Arc::clone(keyspace));
    }

    /// Notes that write buffers or tables of `keyspace` are others now.
    pub fn note_changed(&self, keyspace: &OpenKeyspace) {
        let Some(keyspace) = self.by_number(keyspace.id) else {
            return self.forget_activity(keyspace.id);
        };
        let Activity { written, behind, due } = &self.activity;
        // What is there is looked at under the lock, so that of two notes the later one has the last word.
        let settle = |set: &RwLock<ByNumber>, belongs: &dyn Fn(&View) -> bool| {
            let mut set = set.write();
            if belongs(&keyspace.view.load()) && !keyspace.is_dropped() {
                set.insert(keyspace.id, Arc::clone(&keyspace));
            } else {
                set.remove(&keyspace.id);
            }
        };
        settle(written, &is_written);
        settle(behind, &|view| is_behind(&keyspace, view));
        let mut due = due.lock();
        if !keyspace.is_dropped() {
            due.note(&keyspace);
        }
    }

    pub(super) fn forget_activity(&self, number: u64) {
        let Activity { written, behind, due } = &self.activity;
        written.write().remove(&number);
        behind.write().remove(&number);
        due.lock().keyspaces.remove(&number);
    }

    /// Returns the keyspaces with writes that are not in tables.
    pub fn written(&self) -> Vec<Arc<OpenKeyspace>> {
        self.activity.written.read().values().cloned().collect()
    }

    /// Returns the keyspaces that writers may have to wait for.
    pub fn behind(&self) -> Vec<Arc<OpenKeyspace>> {
        self.activity.behind.read().values().cloned().collect()
    }

    /// Calls `look` with each keyspace that has writes which are not in tables.
    pub fn each_written(&self, look: impl FnMut(&Arc<OpenKeyspace>)) {
        self.activity.written.read().values().for_each(look);
    }

    /// Calls `look` with each keyspace that writers may have to wait for.
    pub fn each_behind(&self, look: impl FnMut(&Arc<OpenKeyspace>)) {
        self.activity.behind.read().values().for_each(look);
    }

    /// Returns the largest of what `measure` says of the keyspaces that writers may have to wait for; 0 where
    /// there are none.
    pub fn behind_most(&self, measure: impl Fn(&Arc<OpenKeyspace>) -> f64) -> f64 {
        self.activity.behind.read().values().map(measure).fold(0.0, f64::max)
    }

    /// Whether any of the keyspaces that writers may have to wait for is like this.
    pub fn any_behind(&self, is_it: impl Fn(&Arc<OpenKeyspace>) -> bool) -> bool {
        self.activity.behind.read().values().any(is_it)
    }

    /// Returns the keyspaces in which jobs may be due: those that writers wait for first.
    pub fn due(&self) -> DueKeyspaces {
        let due = self.activity.due.lock();
        let mut keyspaces: Vec<_> =
            due.keyspaces.values().map(|(_, keyspace)| Arc::clone(keyspace)).collect();
        let note = due.note;
        drop(due);
        keyspaces.sort_by(|a, b| b.pressure().total_cmp(&a.pressure()));
        DueKeyspaces { keyspaces, note }
    }

    /// Notes that no job was due in `looked_at`, nor is one under way whose end would change that.
    pub fn none_due(&self, looked_at: &DueKeyspaces) {
        self.activity.due.lock().keyspaces.retain(|_, (note, _)| *note > looked_at.note);
    }

    /// Has keyspaces looked at again in which something may have come due by time alone: all in turn, some at
    /// a time, or `all` at once.
    pub fn look_again(&self, all: bool) {
        let keyspaces = self.all_by_number();
        let part = (keyspaces.len() / PART_LOOKED_AT).max(LEAST_LOOKED_AT);
        let at_once = if all { keyspaces.len() } else { part.min(keyspaces.len()) };
        let from = self.activity.due.lock().look_from;
        let first = keyspaces.partition_point(|keyspace| keyspace.id < from);
        let turn = keyspaces.iter().cycle().skip(first).take(at_once);
        for keyspace in turn {
            let has_tables = keyspace.version().tables().next().is_some();
            if has_tables || is_written(&keyspace.view.load()) {
                self.note_changed(keyspace);
            }
            self.activity.due.lock().look_from = keyspace.id + 1;
        }
    }
}
