//! The primitives from tables: cubics between points that are spaced evenly within each power of two.
//!
//! The bits of a floating-point number are its logarithm with straight lines between powers of two, so the
//! segment of an argument is a shift of its bits: no logarithm, no search, no branch that depends on the
//! data. Values and slopes at the points come from [`Direct`]; the interpolation is off by less than 10^-7
//! relative.
//!
//! `unique_inverse` and `dinterval` go to infinity at the total, so they are kept as functions of
//! `v = size / (total − size)`, of which they are smooth to the end.

use super::{Direct, Primitives, share};

/// Points per power of two, as a power of two itself.
const BITS: u32 = 4;

/// The primitives of a popularity, interpolated; for searches that evaluate a model millions of times.
///
/// ```
/// use siltstone_model::{Direct, Popularity, Primitives, Tabulated};
///
/// let direct = Direct::new(&Popularity::zipf(100_000_000, 0.99)?);
/// let table = Tabulated::new(&direct);
/// let exact = direct.dinterval(1e6);
/// assert!((table.dinterval(1e6) / exact - 1.0).abs() < 1e-6);
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tabulated {
    total: f64,
    per_request: f64,
    unique: OctaveTable,
    unique_inverse: OctaveTable,
    dinterval: OctaveTable,
    direct: Direct,
}

impl Tabulated {
    /// Makes the tables; takes a few milliseconds.
    pub fn new(direct: &Direct) -> Self {
        let total = direct.total();
        let end = 60.0 / direct.slowest_rate();
        let unique = OctaveTable::new(0.25, end, |x| direct.unique_and_slope(x));
        // From the size of half a request on, up to saturation.
        let first = (0.5 * direct.unique(0.5) / total).min(1e-3);
        let share_of = |v: f64| v / (1.0 + v);
        // dv/du = (1 + v)²/total, so dp/dv = total/((1 + v)² · du/dp).
        let unique_inverse = OctaveTable::new(first, 2e6, |v| {
            let requests = direct.unique_inverse(share_of(v) * total);
            let slope = direct.unique_and_slope(requests).1;
            (requests, total / ((1.0 + v) * (1.0 + v) * slope))
        });
        let dinterval = OctaveTable::new(first, 2e6, |v| {
            let interval = direct.dinterval(share_of(v) * total);
            let (size, _, unique) = direct.size_rest_unique(interval);
            (interval, total * interval / ((1.0 + v) * (1.0 + v) * (unique - size)))
        });
        let per_request = direct.per_request();
        Self { total, per_request, unique, unique_inverse, dinterval, direct: direct.clone() }
    }

    /// The primitives the tables were made from.
    pub fn direct(&self) -> &Direct {
        &self.direct
    }
}

impl Primitives for Tabulated {
    fn total(&self) -> f64 {
        self.total
    }

    fn per_request(&self) -> f64 {
        self.per_request
    }

    #[inline]
    fn unique(&self, requests: f64) -> f64 {
        self.unique.at(requests).unwrap_or(self.total)
    }

    #[inline]
    fn unique_inverse(&self, size: f64) -> f64 {
        let v = share(size, self.total).map(|share| share / (1.0 - share));
        v.and_then(|v| self.unique_inverse.at(v)).unwrap_or(f64::INFINITY)
    }

    #[inline]
    fn dinterval(&self, size: f64) -> f64 {
        let v = share(size, self.total).map(|share| share / (1.0 - share));
        v.and_then(|v| self.dinterval.at(v)).unwrap_or(f64::INFINITY)
    }

    fn size_of_interval(&self, interval: f64) -> f64 {
        self.direct.size_of_interval(interval)
    }
}

/// A smooth function of a positive argument, as cubics in pieces of `2^-BITS` of each power of two.
#[derive(Clone, Debug)]
struct OctaveTable {
    /// The leading bits of the first piece's arguments.
    first: u64,
    /// Coefficients of 1, t, t², t³, where t runs from 0 to 1 over the piece.
    pieces: Vec<[f64; 4]>,
    /// Below the first piece the function is taken as proportional to its argument.
    start: f64,
    slope_below: f64,
}

impl OctaveTable {
    const SHIFT: u32 = 52 - BITS;

    /// Tabulates `function`, which gives value and slope, from `from` or less to `to` or more.
    fn new(from: f64, to: f64, function: impl Fn(f64) -> (f64, f64)) -> Self {
        let first = from.to_bits() >> Self::SHIFT;
        let last = to.to_bits() >> Self::SHIFT;
        let start = f64::from_bits(first << Self::SHIFT);
        let (mut left, mut value) = (start, function(start));
        let slope_below = value.0 / start;
        let pieces = (first..=last)
            .map(|piece| {
                let right = f64::from_bits((piece + 1) << Self::SHIFT);
                let next = function(right);
                let (rise, width) = (next.0 - value.0, right - left);
                let (in_slope, out_slope) = (value.1 * width, next.1 * width);
                let square = 3.0 * rise - 2.0 * in_slope - out_slope;
                let cube = in_slope + out_slope - 2.0 * rise;
                let coefficients = [value.0, in_slope, square, cube];
                (left, value) = (right, next);
                coefficients
            })
            .collect();
        Self { first, pieces, start, slope_below }
    }

    /// The value, or `None` beyond the end.
    #[inline]
    fn at(&self, x: f64) -> Option<f64> {
        if x < self.start {
            return Some(self.slope_below * x.max(0.0));
        }
        let bits = x.to_bits();
        let piece = (bits >> Self::SHIFT).wrapping_sub(self.first);
        let [a, b, c, d] = *self.pieces.get(piece as usize)?;
        // The bits that the piece's number does not use are how far into it the argument lies.
        let t = f64::from_bits(((bits << BITS) & ((1 << 52) - 1)) | 1.0f64.to_bits()) - 1.0;
        Some(a + t * (b + t * (c + t * d)))
    }
}
