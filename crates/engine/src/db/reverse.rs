//! Scans from behind, made of short scans forwards.
//!
//! The idea: tables, write buffers and logs are walked forwards alone. So the end of what is left is walked,
//! a window of digests, and its items are kept and shown from the last one on; then comes the window before
//! it. How wide a window has to be for about the wanted number of items nobody knows. One that turns out to
//! hold more is given up and halved, one that holds few makes the next one wider: a binary search to begin
//! with, and hardly anything afterwards.
//!
//! ```text
//!  |-- left ----------------------------------------------|-- shown --|
//!                              |- too much -|- window ----|
//! ```
//!
//! Digests of ordered suffixes are their first eight bytes, so any number of items may share one. A window of
//! a single digest is walked to its end, and its last items are kept; those before them take another walk.
//!
//! Invariants: windows are walked in the view that the iterator pins, so all that is shown is of one moment;
//! what was shown from either side is not shown from the other.

use super::iter::{Gathered, Iter};
use crate::entry::Span;
use crate::error::{ErrorKind, Result};
use siltstone_design::Digest;
use std::collections::VecDeque;

/// Items that a window is to hold: at first, and once it is known how wide windows are.
const FIRST_ITEMS: usize = 32;
const MOST_ITEMS: usize = 2048;
/// Items of a group that is a window by itself: to walk it once costs less than to look for its end.
const GROUP_ITEMS: usize = 256;
/// Bytes of keys and values that a window is to hold at most, unless a single item does.
const WINDOW_BYTES: usize = 256 << 10;
/// Bytes that are kept of a window of a single digest.
const SINGLE_BYTES: usize = 4 << 20;
/// By how much a window grows after one without items.
const GROWTH: u128 = 64;

/// What became of a window.
enum Window {
    /// All of it is gathered.
    Whole,
    /// It holds too much.
    TooMuch,
    /// Its last items are gathered.
    End,
}

impl Iter {
    /// Takes the last item that is left.
    pub(super) fn take_from_behind(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if self.has_ended() && self.behind.is_none() {
            return Ok(None);
        }
        if let Err(error) = self.walked.store.env.health.check_open() {
            self.end();
            return Err(error);
        }
        if let Some(shown) = self.place_shown() {
            self.lower = self.lower.take().max(Some(shown));
        } else if self.has_ended() {
            // The other side has shown all.
            self.end();
            return Ok(None);
        }
        if let Err(error) = self.gather() {
            self.end();
            return Err(error);
        }
        let item = self.behind.as_mut().and_then(|behind| behind.items.pop_back());
        let item = item.filter(|(place, _)| self.lower.as_ref().is_none_or(|lower| place > lower));
        let Some((place, value)) = item else {
            self.end();
            return Ok(None);
        };
        let key = place.key().to_vec();
        self.upper = Some(place);
        Ok(Some((key, value?)))
    }

    /// Sees to it that items are gathered, if any are left.
    fn gather(&mut self) -> Result<()> {
        let mut behind = self.behind.take().unwrap_or_else(|| {
            let upper = self.upper.as_ref().map_or(self.span.last, |upper| upper.digest.min(self.span.last));
            let width = u128::MAX;
            let most_items = if self.span.is_within_a_group() { GROUP_ITEMS } else { FIRST_ITEMS };
            Gathered { items: VecDeque::new(), last: Some(upper), width, most_items }
        });
        let first = self.lower.as_ref().map_or(self.span.first, |lower| lower.digest.max(self.span.first));
        let gathered = loop {
            let Some(last) = behind.last.filter(|last| behind.items.is_empty() && *last >= first) else {
                break Ok(());
            };
            if let Err(error) = self.gather_window(&mut behind, first, last) {
                break Err(error);
            }
        };
        self.behind = Some(behind);
        gathered
    }

    /// Gathers the items of the last window of `first` to `last`, or makes the window smaller.
    fn gather_window(&self, behind: &mut Gathered, first: Digest, last: Digest) -> Result<()> {
        let (left, end) = (first.as_number(), last.as_number());
        let from = end.saturating_sub(behind.width.saturating_sub(1)).max(left);
        let before = (from > left).then(|| Digest::of_number(from - 1));
        match self.walk_window(behind, Span { first: Digest::of_number(from), last })? {
            Window::TooMuch => {
                if behind.width == u128::MAX {
                    behind.most_items = FIRST_ITEMS;
                }
                behind.width = (end - from).div_ceil(2);
            }
            Window::End => {}
            Window::Whole if behind.items.is_empty() => {
                behind.last = before;
                behind.width = behind.width.saturating_mul(GROWTH);
            }
            Window::Whole => {
                behind.last = before;
                if behind.items.len() < behind.most_items / 2 {
                    behind.width = behind.width.saturating_mul(2);
                }
                behind.most_items = MOST_ITEMS.min(2 * behind.most_items);
            }
        }
        Ok(())
    }

    /// Walks a window, and gathers what it holds.
    fn walk_window(&self, behind: &mut Gathered, window: Span) -> Result<Window> {
        let is_single = window.first == window.last;
        let mut walk = Self::new(self.walked.clone(), window, self.wanted.clone());
        (walk.lower, walk.upper, walk.values) = (self.lower.clone(), self.upper.clone(), self.values);
        let (mut bytes, mut window) = (0, Window::Whole);
        loop {
            let value = match walk.next_ref() {
                Ok(Some((key, value))) => {
                    bytes += key.len() + value.len();
                    Ok(value.to_vec())
                }
                Ok(None) => break,
                Err(error) if error.kind() == ErrorKind::MergeFailed => Err(error),
                Err(error) => return Err(error),
            };
            if !is_single && (behind.items.len() >= behind.most_items || bytes > WINDOW_BYTES) {
                behind.items.clear();
                return Ok(Window::TooMuch);
            }
            if let Some(place) = walk.place_shown() {
                behind.items.push_back((place, value));
            }
            while bytes > SINGLE_BYTES && behind.items.len() > 1 {
                let dropped = behind.items.pop_front();
                let dropped =
                    dropped.map(|(place, value)| place.key().len() + value.map_or(0, |value| value.len()));
                bytes = bytes.saturating_sub(dropped.unwrap_or(0));
                window = Window::End;
            }
        }
        Ok(window)
    }
}
