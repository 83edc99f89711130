//! A store made by the engine's own way to build one, of the items that a fill writes, in the same order.

use super::{Answer, Request};
use crate::engine::{Engine, Setting};
use crate::failure::{Failure, Result};
use crate::kernel::{self, Counters};
use crate::load;
use crate::record::{Calls, Figures, Outcome};
use crate::workload::Operation;
use siltstone_lab::kit::generate::mix;
use siltstone_lab::kit::generate::permutation::Permutation;
use siltstone_lab::kit::sizes;
use std::io::Write;
use std::time::Instant;

/// Items after which it says how far it is.
const TOLD_EACH: u64 = 20_000_000;

/// Builds the store, and returns what that took.
///
/// # Errors
/// The engine's own; an engine that has no such way.
pub fn build(request: &Request, engine: &Engine, setting: Setting<'_>) -> Result<Answer> {
    let p = &request.parameters;
    let items = load::items(p.key_bytes, p.value_bytes, p.group, p.seed, p.items)?;
    let order = Permutation::new(p.items, p.seed);
    let store = engine.open(setting)?;
    let before = Counters::now(&request.membership);
    let (started, mut anonymous_peak_bytes) = (Instant::now(), 0);
    let built = store.build(p.items, &mut |number, key, value| {
        let item = order.at(number);
        items.key(item, key);
        items.value(item, mix(number), value);
        if number.is_multiple_of(1 << 16) {
            anonymous_peak_bytes = anonymous_peak_bytes.max(kernel::memory().0);
        }
        if number.is_multiple_of(TOLD_EACH) && number > 0 {
            let (number, seconds) = (sizes::count(number), started.elapsed().as_secs());
            let _ = writeln!(std::io::stderr(), "    {number} items given after {seconds} s");
        }
    })?;
    if !built {
        return Err(Failure::new("it has no way of its own to build a store"));
    }
    let seconds = started.elapsed().as_secs_f64();
    store.settle()?;
    let after = Counters::now(&request.membership).since(before);
    let user_bytes = p.user_bytes(p.items);
    let per_second = p.items as f64 / seconds;
    let calls = Calls { operations: p.items, per_second, ..Calls::default() };
    let write_amplification = sizes::ratio(after.write_bytes, user_bytes);
    let space_bytes = kernel::space(&request.dir)?;
    let figures = Figures {
        items: p.items,
        operations: p.items,
        seconds,
        operations_per_second: per_second,
        by_operation: [(Operation::Insert.name().to_owned(), calls)].into(),
        settle_seconds: started.elapsed().as_secs_f64() - seconds,
        settled: true,
        user_bytes_written: user_bytes,
        write_amplification,
        write_amplification_when_calls_ended: write_amplification,
        cpu_us_per_operation: after.cpu_seconds * 1e6 / p.items.max(1) as f64,
        structures_bytes: store.structures_bytes(),
        rss_peak_bytes: kernel::memory().1,
        anonymous_peak_bytes,
        group_peak_bytes: request.membership.peak_bytes(),
        space_bytes,
        space_amplification: sizes::ratio(space_bytes, user_bytes),
        when_calls_ended: after,
        after_settling: after,
        ..Figures::default()
    };
    store.close()?;
    Ok(Answer { outcome: Outcome::Complete, figures })
}
