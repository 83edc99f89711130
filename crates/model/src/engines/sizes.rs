//! Level sizes as engines choose them: a first level and a growth factor, until everything fits.
//!
//! Source: Lim et al., FAST 2016, §4.3, and what the authors' code adds to it: sizes are items of real type,
//! and the first level that would hold all keys is the last and holds exactly those. That code rounds
//! `growth^(l−1)` up to a whole number; we do so only where the number of levels is given, as for its Figure
//! 15. For a growth factor that is given we don't, as engines don't: 5.0001 would make level 2 six times as
//! large as level 1.

use crate::ModelError;

/// More levels than any engine or search uses.
pub(crate) const MOST_LEVELS: usize = 64;

/// Levels growing by a factor, the last cut to `keys`.
///
/// ```
/// use siltstone_model::engines::sizes::geometric;
/// assert_eq!(geometric(10_000.0, 10.0, 2e6)?, [10_000.0, 100_000.0, 1_000_000.0, 2e6]);
/// assert_eq!(geometric(10_000.0, 2.5, 1e5)?, [10_000.0, 25_000.0, 62_500.0, 1e5]);
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
pub fn geometric(level1: f64, growth: f64, keys: f64) -> Result<Vec<f64>, ModelError> {
    ModelError::positive("level1", level1)?;
    ModelError::positive("keys", keys)?;
    if !(growth.is_finite() && growth > 1.0) {
        return Err(ModelError::new("growth", format!("{growth} given; levels must grow by more than 1")));
    }
    let mut sizes = Vec::new();
    for level in 0..MOST_LEVELS {
        let size = level1 * growth.powi(level as i32);
        if size >= keys {
            sizes.push(keys);
            return Ok(sizes);
        }
        sizes.push(size);
    }
    let message = format!("{growth} given; {keys} items need more than {MOST_LEVELS} levels at that rate");
    Err(ModelError::new("growth", message))
}

/// So many levels growing by one factor, from `level1` to exactly `keys`.
///
/// ```
/// use siltstone_model::engines::sizes::with_level_count;
/// assert_eq!(with_level_count(100.0, 3, 10_000.0)?, [100.0, 1000.0, 10_000.0]);
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
pub fn with_level_count(level1: f64, levels: usize, keys: f64) -> Result<Vec<f64>, ModelError> {
    ModelError::positive("level1", level1)?;
    ModelError::positive("keys", keys)?;
    if levels == 0 || levels > MOST_LEVELS {
        let message = format!("{levels} given; there must be 1 to {MOST_LEVELS}");
        return Err(ModelError::new("levels", message));
    }
    if levels == 1 {
        return Ok(vec![keys]);
    }
    if level1 >= keys {
        let message =
            format!("{level1} items given; with {levels} levels it must hold fewer than all {keys}");
        return Err(ModelError::new("level1", message));
    }
    let growth = (keys / level1).powf(1.0 / (levels - 1) as f64);
    let sizes = (0..levels - 1).map(|level| (level1 * growth.powi(level as i32).ceil()).min(keys));
    Ok(sizes.chain([keys]).collect())
}

/// Checks sizes that a person gave: positive, ascending, the last holding `keys`.
///
/// Sizes from the first that holds every key on are replaced by one of exactly `keys`; if none does, one is
/// added.
pub fn custom(sizes: &[f64], keys: f64) -> Result<Vec<f64>, ModelError> {
    let mut checked: Vec<f64> = Vec::new();
    for &size in sizes {
        ModelError::positive("level-sizes", size)?;
        if let Some(&before) = checked.last().filter(|before| **before > size) {
            let message = format!("{size} items after {before}; sizes must ascend from level 1 on");
            return Err(ModelError::new("level-sizes", message));
        }
        checked.push(size);
    }
    checked.retain(|size| *size < keys);
    checked.push(keys);
    if checked.len() > MOST_LEVELS {
        let message = format!("{} given; there must be at most {MOST_LEVELS}", checked.len());
        return Err(ModelError::new("level-sizes", message));
    }
    Ok(checked)
}
