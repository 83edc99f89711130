//! A fill by a bulk build: the items that clients would insert, in their order, in one call.

use super::client::{Outcome, Run};
use crate::kit::sizes;
use crate::program::failure::{Failure, Result};
use crate::program::progress;
use siltstone::{IngestOptions, IngestProgress};
use std::sync::Arc;
use std::time::Instant;

/// Fills the keyspace of `run` with all of its operations' items. There are no calls to time but one.
pub fn fill(run: &Run<'_>) -> Result<Outcome> {
    let bar = progress::count_bar(Some(run.load.operations), "gathering");
    let shown = bar.clone();
    let show = move |progress: IngestProgress| {
        shown.set_position(progress.items);
        if progress.placed_bytes > 0 {
            let (placed, all) = (sizes::bytes(progress.placed_bytes), sizes::bytes(progress.user_bytes));
            shown.set_message(format!("{placed} of {all} in tables"));
        }
    };
    let options = IngestOptions { progress: Some(Arc::new(show)), ..IngestOptions::default() };
    let started = Instant::now();
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let report = run.keyspace.ingest_with(&options, |ingest| {
        for position in 0..run.load.operations {
            let item = run.item_at(position);
            run.items.key(item, &mut key);
            run.items.value(item, position, &mut value);
            ingest.put(&key, &value)?;
        }
        Ok::<_, Failure>(())
    })?;
    bar.finish_and_clear();
    run.claim_all();
    Ok(Outcome {
        operations: report.items,
        calls: 1,
        seconds: started.elapsed().as_secs_f64(),
        ..Outcome::new()?
    })
}
