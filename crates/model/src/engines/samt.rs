//! SAMT, the sorted array merge tree: a level collects `r` tables and merges them only to move them on.
//!
//! Source: Lim et al., FAST 2016, Appendix B, Algorithm 2. Like COLA with lazy merging: fewer writes, `r`
//! times the tables to search.

use super::cola::{Growing, arriving};
use super::{Cost, Step};
use crate::{ModelError, Primitives};

/// Write amplification of SAMT. Level sizes are what each level's tables hold together before they are
/// merged, copies counted; the last, all keys.
pub fn write_amplification(samt: &Growing, keys: &impl Primitives) -> Result<Cost, ModelError> {
    let log = samt.check(keys)?;
    let per_request = keys.per_request();
    let growth = f64::from(samt.growth);
    let mut steps = vec![Step::new("memtable", "log", 1.0)];
    let (mut level_sizes, mut intervals) = (Vec::new(), Vec::new());
    let mut interval = log;
    for level in 1..samt.levels {
        let collected = growth * keys.unique(interval);
        intervals.push(interval);
        interval *= growth;
        steps.push(arriving(level, collected / (interval * per_request)));
        level_sizes.push(collected);
    }
    steps.push(arriving(samt.levels, keys.total() / (interval * per_request)));
    level_sizes.push(keys.total());
    intervals.push(interval);
    Ok(Cost::new(steps, level_sizes, intervals))
}
