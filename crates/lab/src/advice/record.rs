//! One point: what was measured and what was predicted, as a line of JSON.

use serde::{Deserialize, Serialize};

/// Figures of a point, measured or predicted, under the same names.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// Of the fill, or of the overwrites where there are any.
    pub write_amplification: f64,
    pub space_amplification: f64,
    pub reads_per_hit: f64,
    pub reads_per_miss: f64,
    /// Reads of listing a group, where there are groups.
    #[serde(default)]
    pub reads_per_scan: Option<f64>,
    /// Filters and indexes,
    #[serde(default)]
    pub filter_and_index_bytes: Option<f64>,
    /// and the cache with them.
    pub memory_bytes: f64,
    pub cpu_us_per_put: f64,
    pub cpu_us_per_get: f64,
}

/// A point.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    pub store: String,
    pub items: u64,
    pub item_bytes: u64,
    pub budget_bytes: u64,
    pub measured: Figures,
    pub predicted: Figures,
}

/// A figure by which predictions are judged.
pub struct Judged {
    pub name: &'static str,
    pub of: fn(&Figures) -> Option<f64>,
    /// What a prediction may be off, as a share and besides.
    pub share: f64,
    pub besides: f64,
}

/// The figures with what they may be off.
pub const JUDGED: [Judged; 9] = [
    judged("bytes written", |f| Some(f.write_amplification), 0.07, 0.0),
    judged("space", |f| Some(f.space_amplification), 0.07, 0.0),
    judged("reads per hit", |f| Some(f.reads_per_hit), 0.05, 0.02),
    judged("reads per miss", |f| Some(f.reads_per_miss), 0.05, 0.02),
    judged("reads per scan", |f| f.reads_per_scan, 0.05, 0.02),
    judged("filters, indexes", |f| f.filter_and_index_bytes, 0.05, 0.0),
    judged("with the cache", |f| Some(f.memory_bytes), 0.05, 0.0),
    judged("processor, put", |f| Some(f.cpu_us_per_put), 0.25, 0.0),
    judged("processor, get", |f| Some(f.cpu_us_per_get), 0.25, 0.0),
];

const fn judged(name: &'static str, of: fn(&Figures) -> Option<f64>, share: f64, besides: f64) -> Judged {
    Judged { name, of, share, besides }
}

impl Judged {
    /// What was measured and what was predicted, where both are known.
    pub fn of(&self, point: &Point) -> Option<(f64, f64)> {
        (self.of)(&point.measured).zip((self.of)(&point.predicted))
    }

    /// How far the prediction is off, as a share of what was measured.
    pub fn error(&self, (measured, predicted): (f64, f64)) -> f64 {
        (predicted - measured) / measured.max(1e-3)
    }

    /// Whether that is as little as it is to be.
    pub fn is_within(&self, (measured, predicted): (f64, f64)) -> bool {
        (predicted - measured).abs() <= measured * self.share + self.besides
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_is_judged_by_share_and_besides() {
        let figures = Figures {
            write_amplification: 4.0,
            space_amplification: 1.0,
            reads_per_hit: 1.0,
            reads_per_miss: 0.001,
            reads_per_scan: None,
            filter_and_index_bytes: Some(1e5),
            memory_bytes: 1e6,
            cpu_us_per_put: 1.0,
            cpu_us_per_get: 10.0,
        };
        let predicted = Figures { write_amplification: 4.4, reads_per_miss: 0.02, ..figures };
        let (store, items, item_bytes, budget_bytes) = ("s".to_owned(), 1, 1, 1);
        let point = Point { store, items, item_bytes, budget_bytes, measured: figures, predicted };
        let of = |judged: &Judged| judged.of(&point).map(|pair| (judged.is_within(pair), judged.error(pair)));
        let within: Vec<Option<bool>> = JUDGED.iter().map(|judged| Some(of(judged)?.0)).collect();
        let fine = Some(true);
        assert_eq!(within, [Some(false), fine, fine, fine, None, fine, fine, fine, fine]);
        assert!((of(&JUDGED[0]).unwrap().1 - 0.1).abs() < 1e-12);
    }
}
