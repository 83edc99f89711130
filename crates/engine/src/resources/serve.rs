//! What the threads of a pool do: pick a store, have it do one piece of work, look again.

use super::pool::{Done, Kind, Member, Place, Shared, State};
use crate::memory::Holder;
use crate::sync::atomic::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// How often threads look for what has come due by time alone.
const LOOK: Duration = Duration::from_secs(1);
/// How long a store whose work failed is left alone.
const RETRY: Duration = Duration::from_millis(250);
/// Classes of urgency: within one, stores take turns.
const CLASSES: f64 = 4.0;
/// The part of their share of memory that write buffers leave free, so that flushes begin before writers have
/// to wait.
const FLUSHED_EARLY: u64 = 8;
/// How long what write buffers hold in all stores is taken as known.
const KNOWN_FOR: Duration = Duration::from_millis(2);
/// Stores that are looked at again at once, at least, and the part of all that is.
const LEAST_LOOKED_AT: usize = 64;
const PART_LOOKED_AT: usize = 16;

/// A piece of work that a thread has taken.
struct Taken {
    number: u64,
    member: Arc<dyn Member>,
    kind: Kind,
    /// What had been said to be due then.
    notes: u64,
}

impl State {
    /// Takes the most urgent work of a kind, and marks it as under way.
    fn take(&mut self, kind: Kind, now: Duration) -> Option<Taken> {
        let rank = |place: &Place| {
            let class = (place.member.urgency().clamp(0.0, 1.0) * CLASSES) as u64;
            (class, u64::MAX - place.served(kind))
        };
        let due = self.places.iter().filter(|(_, place)| place.can_be_served(kind, now));
        let (number, _) = due.max_by_key(|(_, place)| rank(place))?;
        let number = *number;
        self.turn += 1;
        let turn = self.turn;
        let place = self.places.get_mut(&number)?;
        place.running += 1;
        let lane = place.lane(kind);
        lane.running += 1;
        lane.served = turn;
        let notes = lane.notes;
        Some(Taken { number, member: Arc::clone(&place.member), kind, notes })
    }

    /// How long it is until a store that failed is to be tried again.
    fn next_retry(&self, kind: Kind, now: Duration) -> Duration {
        let waiting = self.places.values().filter(|place| place.is_due(kind) && place.retry_at > now);
        waiting.map(|place| place.retry_at - now).min().unwrap_or(LOOK).min(LOOK)
    }
}

impl Shared {
    /// Serves stores until the pool ends, with one kind of work before the other: who flushes does nothing
    /// else, so that no flush waits for a long compaction, and who compacts flushes too where there is time.
    pub(super) fn serve(&self, kind: Kind) {
        loop {
            let mut state = self.state.lock();
            if state.is_over {
                return;
            }
            if kind == Kind::Flush && self.wants_room.swap(false, Ordering::Relaxed) {
                drop(state);
                self.make_room();
                continue;
            }
            let now = self.clock.elapsed();
            let mut taken = state.take(kind, now);
            if taken.is_none() && kind == Kind::Work {
                taken = state.take(Kind::Flush, now);
            }
            let Some(taken) = taken else {
                let wait = state.next_retry(Kind::Flush, now).min(state.next_retry(Kind::Work, now));
                let due = if kind == Kind::Flush { &self.flush_due } else { &self.work_due };
                due.wait_for(&mut state, wait);
                continue;
            };
            // Where there is more, another thread may begin with it.
            drop(state);
            self.work_due.notify_one();
            self.run(taken);
        }
    }

    /// Has a store do a piece of work, and notes how that went.
    fn run(&self, taken: Taken) {
        let Taken { number, member, kind, notes } = taken;
        let done = catch_unwind(AssertUnwindSafe(|| match kind {
            Kind::Flush => member.flush(),
            Kind::Work => member.work(),
        }));
        if done.is_err() {
            member.note_panic();
        }
        // Before the place is given back: whoever closes the store is the last to hold it.
        drop(member);
        let is_short = self.memory.held_bytes(Holder::Memtable) > self.flushed_above();
        let mut state = self.state.lock();
        if let Some(place) = state.places.get_mut(&number) {
            place.running -= 1;
            place.has_panicked |= done.is_err();
            let lane = place.lane(kind);
            lane.running -= 1;
            if matches!(done, Ok(Done::Nothing)) && lane.notes == notes {
                lane.is_due = false;
            }
            if matches!(done, Ok(Done::Failed)) {
                place.retry_at = self.clock.elapsed() + RETRY;
            }
        }
        drop(state);
        self.done.notify_all();
        if is_short {
            self.ask_for_room();
        }
    }

    /// Has who flushes look which write buffers have to go.
    pub(super) fn ask_for_room(&self) {
        if !self.wants_room.swap(true, Ordering::Relaxed) {
            // Who is about to wait has the lock.
            drop(self.state.lock());
            self.flush_due.notify_one();
        }
    }

    /// Bytes of write buffers above which some are flushed.
    pub(super) fn flushed_above(&self) -> u64 {
        let most = self.memory.most_memtable_bytes();
        most - most / FLUSHED_EARLY
    }

    /// What write buffers hold in all stores that can flush them.
    pub(super) fn unflushed_bytes(&self) -> u64 {
        let mut known = self.unflushed.lock();
        let now = self.clock.elapsed();
        // Thousands of writers may wait at once, and ask again and again.
        if known.0 <= now {
            let state = self.state.lock();
            let places = state.places.values().filter(|place| place.takes_part());
            *known = (now + KNOWN_FOR, places.map(|place| place.member.unflushed().bytes).sum());
        }
        known.1
    }

    /// Takes hold of the stores with these numbers, so that none leaves meanwhile.
    fn hold(&self, choose: impl FnOnce(&mut State) -> Vec<u64>) -> Vec<(u64, Arc<dyn Member>)> {
        let mut state = self.state.lock();
        let numbers = choose(&mut state);
        numbers.into_iter().filter_map(|number| state.hold(number)).collect()
    }

    /// Lets go of stores that were held, and does this with each.
    fn release(&self, held: Vec<(u64, Arc<dyn Member>)>, note: impl Fn(&mut Place)) {
        for (number, member) in held {
            drop(member);
            if let Some(place) = self.state.lock().places.get_mut(&number) {
                place.running -= 1;
                note(place);
            }
        }
        self.done.notify_all();
    }

    /// Has the largest write buffers of all stores flushed, until those that wait for it are as large as what
    /// there is too much.
    fn make_room(&self) {
        let members = self.hold(|state| state.places.keys().copied().collect());
        loop {
            let held: Vec<_> = members.iter().map(|(_, member)| (member, member.unflushed())).collect();
            let bytes: u64 = held.iter().map(|(_, held)| held.bytes).sum();
            let sealed: u64 = held.iter().map(|(_, held)| held.sealed_bytes).sum();
            let excess = bytes.saturating_sub(self.flushed_above());
            if sealed >= excess {
                break;
            }
            let largest = held.iter().max_by_key(|(_, held)| held.largest_bytes);
            let Some((member, before)) = largest.filter(|(_, held)| held.largest_bytes > 0) else { break };
            member.seal_largest();
            let after = member.unflushed();
            if after.sealed_bytes <= before.sealed_bytes && after.bytes >= before.bytes {
                // Nobody can say why, so more of the same does not help.
                break;
            }
        }
        members.iter().for_each(|(_, member)| member.tell_progress());
        self.release(members, |_| {});
    }

    /// Syncs stores when it is time, and has them looked at again for what has come due by time alone.
    pub(super) fn keep_time(&self) {
        let mut look_at = self.clock.elapsed() + LOOK;
        loop {
            let mut state = self.state.lock();
            if state.is_over {
                return;
            }
            let now = self.clock.elapsed();
            if look_at <= now {
                look_at = now + LOOK;
                drop(state);
                self.look_again();
                continue;
            }
            let due = state.places.iter_mut().filter(|(_, place)| place.takes_part());
            let due = due.filter(|(_, place)| place.member.sync_interval().is_some());
            let Some((number, place)) = due.min_by_key(|(_, place)| place.sync_at) else {
                self.time.wait_for(&mut state, look_at - now);
                continue;
            };
            if place.sync_at > now {
                let wait = place.sync_at.min(look_at) - now;
                self.time.wait_for(&mut state, wait);
                continue;
            }
            place.sync_at = now + place.member.sync_interval().unwrap_or(LOOK);
            place.running += 1;
            let (number, member) = (*number, Arc::clone(&place.member));
            drop(state);
            self.sync(number, member);
        }
    }

    fn sync(&self, number: u64, member: Arc<dyn Member>) {
        let synced = catch_unwind(AssertUnwindSafe(|| member.sync()));
        drop(member);
        if let Some(place) = self.state.lock().places.get_mut(&number) {
            place.running -= 1;
            place.has_panicked |= synced.is_err();
        }
        self.done.notify_all();
    }

    /// Looks at some of the stores, all in turn; at all of them where filters and indexes have to make room.
    fn look_again(&self) {
        let turn = self.hold(|state| {
            let numbers: Vec<u64> = state.places.keys().copied().collect();
            let part = (numbers.len() / PART_LOOKED_AT).max(LEAST_LOOKED_AT);
            let at_once = if self.memory.overdrawn_bytes() > 0 { numbers.len() } else { part };
            let first = numbers.partition_point(|number| *number < state.look_from);
            let turn = numbers.iter().cycle().skip(first).take(at_once.min(numbers.len())).copied();
            let turn: Vec<u64> = turn.collect();
            state.look_from = turn.last().map_or(0, |last| last + 1);
            turn
        });
        turn.iter().for_each(|(_, member)| member.look_again());
        self.release(turn, Place::note_due);
        self.flush_due.notify_one();
        self.work_due.notify_one();
    }
}
