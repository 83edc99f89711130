//! The cache split: how much of the cache goes to answers, and how much to pages.
//!
//! The idea: answers serve keys that are asked for again and again, pages serve neighbours and stores that
//! mostly fit into memory; which of the two is scarcer only the device can tell. So the border between them
//! is moved a little, and the reads for as many questions are compared with those before: back where there
//! are more, further where there are fewer.
//!
//! Source: Einziger et al., "Adaptive Software Cache Management" (Middleware 2018), which climbs likewise,
//! with steps that get shorter, and long ones again under another load. Where we differ, and why: if a step
//! makes no difference that chance would not, the border rests, and twice as long each time, so that a store
//! in balance is left alone; the next try is towards the middle. A difference that is large is no chance
//! however few questions show it, and ends a period early. Nothing is learnt from a cache that is still
//! filling up, whose reads become fewer wherever the border stands. And answers that nobody asks for, as
//! where scans have come after gets, leave at once: without them no more is read than they have spared.

use crate::sync::leaf::Mutex;
use crate::sync::leaf::atomic::{AtomicU64, Ordering};

/// Parts of the cache that the border moves by.
const PARTS: u64 = 16;
const MIDDLE: u64 = PARTS / 2;
/// And parts that either has at least.
const LEAST: u64 = 1;
/// Parts of the first step, and of the shortest.
const FIRST_STRIDE: u64 = 4;
const LAST_STRIDE: u64 = 1;
/// Questions to learn from, and one for so many bytes of cache at least: what is made room for has to fill
/// up first.
const QUESTIONS: u64 = 1 << 16;
const BYTES_PER_QUESTION: u64 = 512;
/// Questions to learn from where the difference is large,
const LEAST_QUESTIONS: u64 = 1 << 13;
/// which is so many times the square root of one by the questions: four standard deviations at most.
const LARGE: f64 = 2.0;
/// A cache is filling up that in one period has taken more than one of so many parts of its room.
const FILLING_PARTS: u64 = 32;
/// Differences in reads per question that may be chance.
const CHANCE: f64 = 0.003;
/// And those that mean another load, for which to try again soon.
const OTHER_LOAD: f64 = 0.05;
/// Answers that have spared fewer reads per question than this are of no use.
const USELESS: f64 = 0.002;
/// Periods between tries at most.
const LONGEST_REST: u32 = 64;

/// Bytes that the two hold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    pub answers: u64,
    pub pages: u64,
}

/// The border, and what is learnt.
#[derive(Debug)]
pub(super) struct CacheSplit {
    /// Parts for answers.
    answers: AtomicU64,
    questions: AtomicU64,
    reads: AtomicU64,
    /// Questions that answers have answered.
    answered: AtomicU64,
    climb: Mutex<Climb>,
}

#[derive(Debug)]
struct Climb {
    /// What they held after the last period.
    last_held: Held,
    /// Questions of this period when it was last looked at, and how many of them answers had answered.
    seen: (u64, u64),
    /// Reads per question in the last period, and whether the border has moved since.
    last_rate: Option<f64>,
    has_moved: bool,
    is_upward: bool,
    /// Parts of the next step.
    stride: u64,
    /// Periods left before the next try, and how many there will be before the one after it.
    rest: u32,
    next_rest: u32,
}

impl Default for CacheSplit {
    fn default() -> Self {
        let climb = Climb {
            last_held: Held::default(),
            seen: (0, 0),
            last_rate: None,
            has_moved: false,
            is_upward: false,
            stride: FIRST_STRIDE,
            rest: 0,
            next_rest: 1,
        };
        Self {
            answers: AtomicU64::new(MIDDLE),
            questions: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            climb: Mutex::new(climb),
        }
    }
}

impl CacheSplit {
    /// Bytes of `capacity` for answers.
    pub fn of(&self, capacity: u64) -> u64 {
        capacity / PARTS * self.answers.load(Ordering::Relaxed)
    }

    /// Notes that an answer, which was kept, has spared a read; the question is [noted](Self::note) as well.
    #[inline]
    pub fn note_answer(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes `questions`, of which `reads` went to the device; true once the border has moved in a cache of
    /// `capacity` bytes, which holds so many as `held` says.
    #[inline]
    pub fn note(&self, questions: u64, reads: u64, capacity: u64, held: impl FnOnce() -> Held) -> bool {
        if reads > 0 {
            self.reads.fetch_add(reads, Ordering::Relaxed);
        }
        let of_room = capacity / BYTES_PER_QUESTION;
        let (least, period) = (LEAST_QUESTIONS.max(of_room), QUESTIONS.max(of_room));
        let before = self.questions.fetch_add(questions, Ordering::Relaxed);
        before / least < (before + questions) / least && self.move_border((least, period), capacity, held)
    }

    fn move_border(&self, (least, period): (u64, u64), capacity: u64, held: impl FnOnce() -> Held) -> bool {
        let Some(mut climb) = self.climb.try_lock() else { return false };
        let asked = self.questions.load(Ordering::Relaxed);
        // Another thread may have begun the next period.
        if asked < least {
            return false;
        }
        let rate = self.reads.load(Ordering::Relaxed) as f64 / asked as f64;
        let is_over = asked >= period;
        let held = held();
        let is_useless = climb.see(asked, self.answered.load(Ordering::Relaxed)) < USELESS
            && held.answers > capacity / PARTS;
        let is_filling = climb.has_grown_to(held, capacity / FILLING_PARTS);
        if !is_over && !is_useless && (is_filling || !climb.is_clear(rate, asked)) {
            return false;
        }
        self.questions.store(0, Ordering::Relaxed);
        self.reads.store(0, Ordering::Relaxed);
        self.answered.store(0, Ordering::Relaxed);
        climb.seen = (0, 0);
        climb.last_held = held;
        if is_useless {
            climb.go_down(rate);
            return self.answers.swap(LEAST, Ordering::Relaxed) != LEAST;
        }
        if is_filling {
            return false;
        }
        // What answers leave unfilled, pages have: the border stands there.
        let filled = (held.answers * PARTS).checked_div(capacity).map_or(PARTS, |parts| parts + 1);
        let border = self.answers.load(Ordering::Relaxed);
        let before = border.min(filled);
        let after = climb.step(rate, before);
        self.answers.store(after, Ordering::Relaxed);
        after != border
    }
}

impl Climb {
    /// Whether answers, or both together, hold more by `chance` than after the last period.
    fn has_grown_to(&self, held: Held, chance: u64) -> bool {
        let (before, all) = (self.last_held, |held: Held| held.answers + held.pages);
        held.answers > before.answers + chance || all(held) > all(before) + chance
    }

    /// The share of the questions since the last look that answers have answered.
    fn see(&mut self, asked: u64, answered: u64) -> f64 {
        let (asked_before, answered_before) = std::mem::replace(&mut self.seen, (asked, answered));
        let new = asked.saturating_sub(asked_before).max(1) as f64;
        answered.saturating_sub(answered_before) as f64 / new
    }

    /// Whether `rate`, of so many questions, differs too much from that of the last period for a chance.
    fn is_clear(&self, rate: f64, asked: u64) -> bool {
        self.last_rate.is_some_and(|last| (rate - last).abs() >= LARGE / (asked as f64).sqrt())
    }

    /// Goes down as far as it goes, after a period with `rate` reads per question.
    fn go_down(&mut self, rate: f64) {
        (self.last_rate, self.has_moved, self.is_upward) = (Some(rate), true, false);
        (self.stride, self.rest, self.next_rest) = (FIRST_STRIDE, 0, 1);
    }

    /// The border after a period with `rate` reads per question, during which it stood at `at`.
    fn step(&mut self, rate: f64, at: u64) -> u64 {
        let change = rate - self.last_rate.replace(rate).unwrap_or(rate);
        if !self.has_moved && change.abs() >= OTHER_LOAD {
            (self.rest, self.next_rest) = (0, 1);
        }
        if self.has_moved && change.abs() >= CHANCE {
            if change > 0.0 {
                self.is_upward = !self.is_upward;
                self.stride = (self.stride / 2).max(LAST_STRIDE);
            }
        } else if self.rest > 0 {
            self.rest -= 1;
            self.has_moved = false;
            return at;
        } else {
            self.stride = if self.next_rest == 1 { FIRST_STRIDE } else { LAST_STRIDE };
            self.rest = self.next_rest;
            self.next_rest = (self.next_rest * 2).min(LONGEST_REST);
            self.is_upward = if at == MIDDLE { !self.is_upward } else { at < MIDDLE };
        }
        let next = if self.is_upward { at + self.stride } else { at.saturating_sub(self.stride) };
        let next = next.clamp(LEAST, PARTS - LEAST);
        self.has_moved = next != at;
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the border comes to, if it decides about reads as `rate` says.
    fn settles(rate: impl Fn(u64) -> f64) -> u64 {
        let split = CacheSplit::default();
        for _ in 0..400 {
            let at = split.answers.load(Ordering::Relaxed);
            let reads = (rate(at) * QUESTIONS as f64) as u64;
            split.note(QUESTIONS, reads, 0, Held::default);
        }
        split.answers.load(Ordering::Relaxed)
    }

    /// The periods that the border takes to where it is told to go.
    fn periods_until(is_there: impl Fn(u64) -> bool, rate: impl Fn(u64) -> f64) -> usize {
        let split = CacheSplit::default();
        (0..400)
            .find(|_| {
                let at = split.answers.load(Ordering::Relaxed);
                let reads = (rate(at) * QUESTIONS as f64) as u64;
                split.note(QUESTIONS, reads, 0, Held::default);
                is_there(at)
            })
            .unwrap()
    }

    #[test]
    fn the_first_steps_are_long() {
        assert!(periods_until(|at| at >= 14, |at| 0.5 - 0.01 * at as f64) <= 3);
        assert!(periods_until(|at| at <= 2, |at| 0.2 + 0.02 * at as f64) <= 6);
    }

    #[test]
    fn another_load_ends_the_rest_and_a_large_difference_the_period() {
        let split = CacheSplit::default();
        let reads = |asked: u64, rate: f64| (rate * asked as f64) as u64;
        // A store in balance, whose border rests for long.
        for _ in 0..100 {
            split.note(QUESTIONS, reads(QUESTIONS, 0.4), 0, Held::default);
        }
        assert!(split.climb.lock().rest > 8);
        // The reads of another load become fewer the less there is for answers.
        let mut asked = 0;
        while split.of(PARTS) > 1 {
            let rate = 0.6 + 0.02 * split.of(PARTS) as f64;
            split.note(1024, reads(1024, rate), 0, Held::default);
            asked += 1024;
        }
        assert!(asked <= 2 * QUESTIONS, "{asked} questions");
    }

    #[test]
    fn answers_that_nobody_asks_for_leave_at_once() {
        let (capacity, half) = (1 << 20, Held { answers: 1 << 19, pages: 1 << 19 });
        for answered in [0, 1] {
            let split = CacheSplit::default();
            // The first period tells that the cache is full.
            for _ in 0..QUESTIONS + LEAST_QUESTIONS {
                (0..answered).for_each(|_| split.note_answer());
                split.note(1, 1, capacity, || half);
            }
            assert_eq!(split.of(PARTS) == LEAST, answered == 0);
        }
    }

    #[test]
    fn a_cache_that_fills_up_teaches_nothing() {
        let split = CacheSplit::default();
        let capacity = 1 << 20;
        let half = |held: u64| Held { answers: held / 2, pages: held / 2 };
        for held in 1..=20 {
            let reads = (21 - held) * QUESTIONS / 20;
            (0..QUESTIONS / 100).for_each(|_| split.note_answer());
            assert!(!split.note(QUESTIONS, reads, capacity, || half(held * capacity / 20)));
        }
        assert_eq!(split.of(PARTS), MIDDLE);
        // And what it took then is not set beside what it takes later.
        (0..QUESTIONS / 100).for_each(|_| split.note_answer());
        assert!(split.note(QUESTIONS, QUESTIONS / 2, capacity, || half(capacity)));
        assert_eq!(split.climb.lock().last_rate, Some(0.5));
    }

    #[test]
    fn the_border_does_not_stand_far_above_what_answers_fill() {
        let split = CacheSplit::default();
        let (capacity, held) = (1 << 20, Held { answers: 1 << 16, pages: 15 << 16 });
        for _ in 0..3 {
            split.note(QUESTIONS, QUESTIONS / 2, capacity, || held);
        }
        assert!(split.of(PARTS) <= 2 + FIRST_STRIDE, "{}", split.of(PARTS));
    }

    #[test]
    fn the_border_goes_where_reads_are_fewest() {
        assert!(settles(|at| 0.5 - 0.01 * at as f64) >= PARTS - 2);
        assert!(settles(|at| 0.2 + 0.02 * at as f64) <= 2);
        assert!(settles(|at| 0.3 + 0.005 * (at as f64 - 5.0).powi(2)).abs_diff(5) <= 2);
        assert!(settles(|_| 0.4).abs_diff(MIDDLE) <= 1);
    }
}
