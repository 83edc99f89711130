//! Draining: waiting until the compactions that were due are done, though writers may go on.

use super::Scheduler;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::catalog::shape::VersionShape;
use siltstone_design::Shape;
use siltstone_design::plan::is_due;
use std::sync::Arc;

/// Keyspaces, and the level of each above which nothing was due when it was looked at. A level that was seen
/// in order is not looked at again: writers who go on would fill it for ever.
pub(crate) struct Drain {
    waiting: Vec<Waiting>,
}

struct Waiting {
    keyspace: Arc<OpenKeyspace>,
    level: usize,
    /// How often it begins from the top once more: what goes from the leaves may make more of what is above
    /// them garbage.
    rounds: u32,
}

impl Scheduler {
    /// Begins to wait for what is due.
    pub fn begin_drain(&self) -> Drain {
        let begin = |keyspace| Waiting { keyspace, level: 0, rounds: 2 };
        Drain { waiting: self.catalog.all().into_iter().map(begin).collect() }
    }

    /// Whether every level of every keyspace has been in order, each after the one above it.
    pub fn is_drained(&self, drain: &mut Drain) -> bool {
        let now_ms = self.env.now_ms();
        drain.waiting.retain_mut(|Waiting { keyspace, level, rounds }| {
            let version = keyspace.version();
            let shape = VersionShape::at(&version, now_ms);
            let levels = shape.level_count();
            while *level < levels && !is_due(&version.design, &shape, *level) {
                *level += 1;
                if *level == levels && *rounds > 0 {
                    (*level, *rounds) = (0, *rounds - 1);
                }
            }
            (*level < levels || version.redesign().is_some()) && !keyspace.is_dropped()
        });
        let is_drained = drain.waiting.is_empty();
        if !is_drained {
            // It may have come due by time alone.
            self.catalog.look_again(true);
        }
        is_drained
    }
}
