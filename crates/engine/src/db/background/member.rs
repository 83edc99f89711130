//! A store as a pool of threads sees it: see [`resources::pool`](crate::resources::pool).

use super::Scheduler;
use crate::db::health::Chore;
use crate::db::write_buffer::WriteBuffer;
use crate::error::Result;
use crate::resources::pool::{Done, Member, Unflushed};
use std::sync::Arc;
use std::time::Duration;

/// A store that works on threads which it shares with others.
pub(crate) struct PooledStore {
    scheduler: Arc<Scheduler>,
    /// Seals the largest write buffer of the store.
    seal_largest: Box<dyn Fn() + Send + Sync>,
}

impl PooledStore {
    pub fn new(scheduler: &Arc<Scheduler>, seal_largest: impl Fn() + Send + Sync + 'static) -> Self {
        Self { scheduler: Arc::clone(scheduler), seal_largest: Box::new(seal_largest) }
    }

    fn done(&self, chore: Chore, result: &Result<bool>) -> Done {
        let failed = self.scheduler.note_outcome(chore, result).is_some();
        match result {
            _ if failed => Done::Failed,
            Ok(true) => {
                // What was done may make other work due, of either kind.
                self.scheduler.env.signals.wake();
                Done::Something
            }
            _ => Done::Nothing,
        }
    }
}

impl Member for PooledStore {
    fn urgency(&self) -> f64 {
        let Scheduler { env, catalog, .. } = &*self.scheduler;
        let most_sealed = env.options.max_sealed_memtables as f64;
        catalog.behind_most(|keyspace| {
            let sealed = keyspace.view.load().sealed.len() as f64;
            keyspace.pressure().max(sealed / most_sealed)
        })
    }

    fn is_over(&self) -> bool {
        self.scheduler.env.health.is_over()
    }

    fn flush(&self) -> Done {
        self.done(Chore::Flush, &self.scheduler.flush_any())
    }

    fn work(&self) -> Done {
        self.done(Chore::Job, &self.scheduler.work_once())
    }

    fn sync(&self) {
        self.scheduler.sync_if_due();
    }

    fn sync_interval(&self) -> Option<Duration> {
        let ms = self.scheduler.env.options.sync_interval_ms;
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    fn look_again(&self) {
        if self.scheduler.env.health.fails_to_seal() {
            // What could not be given to those who flush may be given to them now.
            (self.seal_largest)();
        }
        self.scheduler.catalog.look_again(false);
        self.scheduler.catalog.note_clock();
    }

    fn unflushed(&self) -> Unflushed {
        let mut unflushed = Unflushed::default();
        // While a store can't flush, its memory is nobody's.
        if self.scheduler.env.health.stuck().is_some() {
            return unflushed;
        }
        self.scheduler.catalog.each_written(|keyspace| {
            let view = keyspace.view.load();
            let active = view.active.memory_bytes();
            let all: u64 = view.buffers().map(WriteBuffer::memory_bytes).sum();
            unflushed.bytes += all;
            unflushed.sealed_bytes += all - active;
            unflushed.largest_bytes = unflushed.largest_bytes.max(active);
        });
        unflushed
    }

    fn seal_largest(&self) {
        (self.seal_largest)();
    }

    fn tell_progress(&self) {
        self.scheduler.env.signals.tell_progress();
    }

    fn note_panic(&self) {
        self.scheduler.env.health.note_panic(Chore::Flush);
    }
}
