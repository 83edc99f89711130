//! The commit queue: writers in line, and what each waits for.
//!
//! Whoever finds no leader leads. It commits group after group, and hands the lead to the next in line after
//! a while, so that no writer works for the others for long.

use super::condition::Condition;
use super::operations::Operations;
use crate::error::Result;
use crate::options::Durability;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;

/// How often a waiting writer lets others run before it falls asleep. More would write faster, and some wait
/// longer; a scheduler of tests learns nothing from more than one.
const YIELDS: usize = if cfg!(siltstone_shuttle) { 1 } else { 8 };

/// Writers in line.
#[derive(Default)]
pub(super) struct CommitQueue {
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    waiting: Vec<Arc<Slot>>,
    has_leader: bool,
}

/// What one writer waits for.
#[derive(Default)]
enum Progress {
    #[default]
    Waiting,
    /// It leads the next group.
    Leads,
    Done(Result<Committed>),
}

/// How a write went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Committed {
    Yes,
    /// A key was written since its value was read; nothing was done.
    Conflict,
}

/// What a writer in line does next.
pub(super) enum Turn {
    /// It leads the queue.
    Lead,
    /// Another writer has done its write.
    Done(Result<Committed>),
}

/// A write in line.
pub(super) struct Slot {
    pub operations: Arc<Operations>,
    pub payload_crc: u32,
    pub durability: Durability,
    /// It is done only if all of these hold.
    pub conditions: Vec<Condition>,
    progress: Mutex<Progress>,
    /// Whether `progress` is no longer `Waiting`, for whoever looks without the lock.
    has_changed: AtomicBool,
    changed: Condvar,
}

impl Slot {
    pub fn new(operations: Arc<Operations>, durability: Durability, conditions: Vec<Condition>) -> Self {
        let payload_crc = crc32c::crc32c(&operations.payload);
        let (progress, has_changed, changed) = Default::default();
        Self { operations, payload_crc, durability, conditions, progress, has_changed, changed }
    }

    /// Tells the writer how its write went.
    pub fn finish(&self, outcome: Result<Committed>) {
        self.set(Progress::Done(outcome));
    }

    /// Returns how the write went, once it has been done.
    pub fn outcome(&self) -> Option<Result<Committed>> {
        match &*self.progress.lock() {
            Progress::Done(outcome) => Some(outcome.clone()),
            Progress::Waiting | Progress::Leads => None,
        }
    }

    fn set(&self, progress: Progress) {
        *self.progress.lock() = progress;
        self.has_changed.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Waits until the write is done or leads.
    fn wait(&self) -> MutexGuard<'_, Progress> {
        // Mostly that takes a few microseconds, less than falling asleep and being woken.
        for _ in 0..YIELDS {
            if self.has_changed.load(Ordering::Acquire) {
                break;
            }
            crate::sync::thread::yield_now();
        }
        let mut progress = self.progress.lock();
        while matches!(*progress, Progress::Waiting) {
            self.changed.wait(&mut progress);
        }
        progress
    }
}

impl CommitQueue {
    /// Puts a write in line and waits until it leads or is done.
    pub fn join(&self, slot: &Arc<Slot>) -> Turn {
        let mut queue = self.state.lock();
        queue.waiting.push(Arc::clone(slot));
        if !queue.has_leader {
            queue.has_leader = true;
            return Turn::Lead;
        }
        drop(queue);
        match &*slot.wait() {
            Progress::Done(outcome) => Turn::Done(outcome.clone()),
            Progress::Waiting | Progress::Leads => Turn::Lead,
        }
    }

    /// Takes the next group, of `most_bytes` or a single write, off the queue; an empty one ends the lead.
    pub fn next_group(&self, most_bytes: usize) -> Vec<Arc<Slot>> {
        let mut queue = self.state.lock();
        let mut bytes = 0;
        let taken = queue.waiting.iter().take_while(|slot| {
            let takes_it = bytes == 0 || bytes + slot.operations.payload.len() <= most_bytes;
            bytes += slot.operations.payload.len();
            takes_it
        });
        let count = taken.count();
        queue.has_leader = count > 0;
        queue.waiting.drain(..count).collect()
    }

    /// Hands the lead to the next in line, if there is one.
    pub fn pass_lead(&self) {
        let mut queue = self.state.lock();
        match queue.waiting.first() {
            Some(next) => next.set(Progress::Leads),
            None => queue.has_leader = false,
        }
    }
}

#[cfg(all(test, siltstone_shuttle))]
mod interleavings {
    use super::*;
    use crate::sync::{explore, explore_all, thread};

    /// Does one write; returns how many this thread did for others and for itself.
    fn write(queue: &CommitQueue, bytes: usize, groups_per_lead: usize, most_bytes: usize) -> usize {
        let operations = Operations { payload: vec![0; bytes], ..Operations::default() };
        let slot = Arc::new(Slot::new(Arc::new(operations), Durability::Buffered, Vec::new()));
        let mut done = 0;
        if let Turn::Lead = queue.join(&slot) {
            for number in 0..=groups_per_lead {
                if number == groups_per_lead {
                    queue.pass_lead();
                    break;
                }
                let group = queue.next_group(most_bytes);
                if group.is_empty() {
                    break;
                }
                group.iter().for_each(|slot| slot.finish(Ok(Committed::Yes)));
                done += group.len();
            }
        }
        assert_eq!(slot.outcome().unwrap().unwrap(), Committed::Yes);
        done
    }

    fn all_are_done_once(threads: usize, writes: usize, groups_per_lead: usize) {
        let queue = Arc::new(CommitQueue::default());
        let writers: Vec<_> = (0..threads)
            .map(|_| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || {
                    (0..writes).map(|_| write(&queue, 10, groups_per_lead, 15)).sum::<usize>()
                })
            })
            .collect();
        let done: usize = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        assert_eq!(done, threads * writes);
        let state = queue.state.lock();
        assert!(state.waiting.is_empty() && !state.has_leader);
    }

    #[test]
    fn two_writers_are_led_in_every_order() {
        explore_all(200_000, || all_are_done_once(2, 1, 1));
    }

    #[test]
    fn every_write_is_done_once_and_nobody_sleeps_for_ever() {
        explore(10_000, || all_are_done_once(3, 2, 1));
        explore(2_000, || all_are_done_once(4, 3, 2));
    }
}
