//! How long tables live, and with them what a cache keeps of them.
//!
//! A level that holds so many bytes, and into which so many are written by a put, holds a byte for as many
//! puts as the one takes of the other (Little's law). What is asked of it often is then absent once in each
//! life of a table, however large the cache is: merges write hot items anew, and nobody has asked for the
//! pages that they then lie in.

use super::written::Written;

/// Operations that tables live for.
#[derive(Clone, Debug)]
pub(super) struct Lifetimes {
    /// Of each level.
    levels: Vec<f64>,
}

impl Lifetimes {
    /// Those of levels that hold so many bytes, and into which so many were `written` by a number of puts, of
    /// which an operation of the mix is a share.
    pub fn of(bytes: impl Iterator<Item = f64>, written: &[Written], puts: f64, share: f64) -> Self {
        let lifetime = |(bytes, written): (f64, &Written)| {
            let per_operation = share * written.bytes / puts;
            if per_operation > 0.0 { bytes / per_operation } else { f64::INFINITY }
        };
        Self { levels: bytes.zip(written).map(lifetime).collect() }
    }

    /// Whether all tables stay for good.
    pub fn are_unlimited(&self) -> bool {
        self.levels.iter().all(|lifetime| lifetime.is_infinite())
    }

    /// That of the tables of a level.
    pub fn of_level(&self, level: usize) -> f64 {
        self.levels.get(level).copied().unwrap_or(f64::INFINITY)
    }

    /// That after which as many tables are gone as of levels that are asked by such shares of requests.
    pub fn mean(&self, asked: impl Iterator<Item = (usize, f64)>) -> f64 {
        let (share, gone) = asked.fold((0.0, 0.0), |(shares, gone), (level, share)| {
            (shares + share, gone + share / self.of_level(level))
        });
        if gone > 0.0 { share / gone } else { f64::INFINITY }
    }
}
