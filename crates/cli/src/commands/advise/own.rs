//! A store's own workload and design, beside what is advised for it.

use super::parameter;
use crate::failure::Result;
use crate::sizes;
use crate::store;
use serde::Serialize;
use siltstone::{Design, Mix, Schema};
use siltstone_model::advise::{Advice, Request, rewriting_us};
use siltstone_model::price::{Costs, Workload};
use std::path::Path;

/// What a store has had to do, and how it is laid out for that.
pub struct Own {
    pub workload: Workload,
    pub is_grouped: bool,
    design: Design,
    /// Entries and bytes of its tables.
    tables: (f64, f64),
}

/// The store's design beside what is advised.
#[derive(Serialize)]
pub struct Beside {
    workload: Workload,
    design: Design,
    predicted: Costs,
    /// The share of an operation's time that the advised design saves.
    saved_share: f64,
    /// Operations after which the change has paid for itself; none where it never does.
    pays_after_operations: Option<f64>,
}

/// How to ask for a store's workload with flags over it.
pub fn changed(flags: &str) -> String {
    format!(
        "`siltstone advise --store DIR --memory SIZE --json | siltstone advise --workload - {flags} --memory SIZE`"
    )
}

impl Own {
    /// Reads what the store in `dir` has counted.
    pub fn read(dir: &Path, keyspace: &str) -> Result<Self> {
        let db = store::open_read_only(dir)?;
        let keyspace = store::keyspace(&db, keyspace)?;
        let stats = keyspace.stats();
        Ok(Self {
            workload: keyspace.workload(),
            is_grouped: keyspace.schema() != Schema::Point,
            design: keyspace.design(),
            tables: (stats.table_entries as f64, stats.table_bytes as f64),
        })
    }

    /// What the mix leaves out, in a sentence, where no reads were counted.
    pub fn remark(&self) -> Option<String> {
        let Mix { hits, misses, scans, .. } = self.workload.mix;
        (hits + misses + scans <= 0.0).then(|| {
            let flags = if self.is_grouped {
                "--reads 0.5 --hits 0.9 --scans 0.1"
            } else {
                "--reads 0.5 --hits 0.9"
            };
            format!(
                "The store has counted no reads, and this is advice for writes alone: reads of who opens it for reading only, as \
                 `get`, `scan` and `bench read-hit` do, are not counted. To say which there are: {}.",
                changed(flags)
            )
        })
    }

    /// Sets it beside what is advised.
    pub fn beside(self, request: &Request, advice: &Advice) -> Result<Beside> {
        let Self { workload, design, tables, .. } = self;
        // For the same workload and as the advisor prices, so that a design does not differ from itself.
        let pricer = request.pricer().map_err(parameter)?;
        let predicted = pricer.price(&design, request.memory_bytes).map_err(parameter)?;
        let saved_us = predicted.cost - advice.best.predicted.cost;
        let pays_after_operations =
            (saved_us > 0.0).then(|| rewriting_us(&request.device, tables) / saved_us);
        Ok(Beside {
            saved_share: saved_us / predicted.cost,
            workload,
            design,
            predicted,
            pays_after_operations,
        })
    }
}

impl Beside {
    /// In sentences.
    pub fn words(&self) -> String {
        let Workload { overwrites, deletes, skew, group_items, mix, .. } = self.workload;
        let Mix { hits, misses, scans, puts } = mix.normalized();
        let percent = |share: f64| share * 100.0;
        let mut text = format!(
            "The store has had, of late: {:.0} % gets that find an item, {:.0} % that find none, {:.0} % scans, {:.0} % writes; \
             {} overwrites and {} deletes of a skew of {skew:.2}; groups of {group_items:.0}.\n",
            percent(hits),
            percent(misses),
            percent(scans),
            percent(puts),
            sizes::count(overwrites as u64),
            sizes::count(deletes as u64),
        );
        text.push_str(&match self.pays_after_operations {
            Some(operations) if self.saved_share > 0.005 => format!(
                "Its design, {}, takes {:.1} µs an operation; the one below saves {:.0} % of that, and the change has paid for \
                 itself after {} operations.\n\n",
                self.design.preset_name(),
                self.predicted.cost,
                percent(self.saved_share),
                sizes::count(operations as u64),
            ),
            _ => format!("Its design, {}, is as good as the one below.\n\n", self.design.preset_name()),
        });
        text
    }
}
