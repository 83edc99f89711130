//! Scales for charts: where a value lies, which values get a tick, and how these are written.

use super::{Axis, Kind};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// An axis with its ends decided.
#[derive(Clone, Debug)]
pub struct Scale {
    kind: Kind,
    from: f64,
    to: f64,
}

impl Scale {
    /// The scale of an axis over values from `least` to `most`; with room above the largest unless the end is
    /// given.
    pub fn new(axis: &Axis, (least, most): (f64, f64), from_zero: bool) -> Self {
        let kind = axis.kind.clone();
        let (from, to) = match &kind {
            Kind::Named(names) => (-0.5, names.len().max(1) as f64 - 0.5),
            Kind::Logarithmic => {
                // At least a factor of two, so that a single value has ticks beside it.
                let (low, high) = if most / least < 2.0 { (least / 1.5, most * 1.5) } else { (least, most) };
                // The smallest bar has to be seen too.
                let low = if from_zero { low / 2.0 } else { low };
                (axis.from.unwrap_or(low), axis.to.unwrap_or(high))
            }
            Kind::Linear => {
                let low = if from_zero { least.min(0.0) } else { least };
                let spread = if most > low { most - low } else { most.abs().max(1.0) };
                (axis.from.unwrap_or(low), axis.to.unwrap_or(most + 0.05 * spread))
            }
        };
        Self { kind, from, to }
    }

    /// Whether a value can be drawn on this scale.
    pub fn holds(&self, value: f64) -> bool {
        value.is_finite() && (value > 0.0 || !matches!(self.kind, Kind::Logarithmic))
    }

    /// The lower end.
    pub fn from(&self) -> f64 {
        self.from
    }

    /// How far along the axis a value lies: 0 at its beginning, 1 at its end.
    fn share(&self, value: f64) -> f64 {
        let share = match self.kind {
            Kind::Logarithmic => (value.ln() - self.from.ln()) / (self.to.ln() - self.from.ln()),
            Kind::Linear | Kind::Named(_) => {
                (value / 2.0 - self.from / 2.0) / (self.to / 2.0 - self.from / 2.0)
            }
        };
        // Far outside counts as outside; what can't be said as nowhere near.
        if share.is_nan() { 0.0 } else { share.clamp(-2.0, 3.0) }
    }

    fn ticks(&self, most: usize) -> Vec<f64> {
        match &self.kind {
            Kind::Named(names) => (0..names.len()).map(|at| at as f64).collect(),
            Kind::Logarithmic => logarithmic_ticks(self.from, self.to, most),
            Kind::Linear => linear_ticks(self.from, self.to, most),
        }
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        limit.0 + (self.share(*value) * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        self.ticks(hint.max_num_points().clamp(2, 12))
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Scale {
    fn format_ext(&self, value: &f64) -> String {
        match &self.kind {
            Kind::Named(names) => names.get(value.round().max(0.0) as usize).cloned().unwrap_or_default(),
            Kind::Linear | Kind::Logarithmic => short(*value),
        }
    }
}

/// Multiples of 1, 2 or 5 times a power of ten, at most so many.
fn linear_ticks(from: f64, to: f64, most: usize) -> Vec<f64> {
    let spread = to / 2.0 - from / 2.0;
    if !(spread.is_finite() && spread > 0.0) {
        return vec![from];
    }
    let rough = spread / most as f64 * 2.0;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= rough).unwrap_or(rough);
    let first = (from / step).ceil();
    // Steps below 1 are one divided by a whole number, and dividing by that gives 0.6 where multiplying does
    // not.
    let tick = |number: f64| if step < 1.0 { number / (1.0 / step).round() } else { number * step };
    (0..=most).map(|number| tick(first + number as f64)).filter(|tick| *tick <= to + step * 1e-9).collect()
}

/// Powers of ten, or of a power of ten where there are too many; with 2 and 5 times them where there are few.
fn logarithmic_ticks(from: f64, to: f64, most: usize) -> Vec<f64> {
    let (low, high) = (from.log10().floor(), to.log10().ceil());
    let decades = high - low;
    if !decades.is_finite() {
        return Vec::new();
    }
    let stride = (decades / most as f64).ceil().max(1.0);
    let factors: &[f64] = if decades * 3.0 <= most as f64 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let powers = (0..=(decades / stride) as usize).map(|number| 10f64.powf(low + number as f64 * stride));
    powers
        .flat_map(|power| factors.iter().map(move |factor| power * factor))
        .filter(|tick| (from * (1.0 - 1e-9)..=to * (1.0 + 1e-9)).contains(tick))
        .collect()
}

/// A number as short as can be: 1.5, 200, 10K, 2M, 1G.
fn short(value: f64) -> String {
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "K")];
    let (scaled, unit) = units
        .into_iter()
        .find(|(size, _)| {
            value.abs() >= *size * (1.0 - 1e-9) && *size > 1e3
                || value.abs() >= 1e4 * (1.0 - 1e-9) && *size == 1e3
        })
        .map_or((value, ""), |(size, unit)| (value / size, unit));
    if scaled.abs() >= 1e6 || (scaled != 0.0 && scaled.abs() < 1e-3) {
        return format!("{scaled:.0e}{unit}");
    }
    let text = format!("{scaled:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(linear_ticks(0.0, 26.0, 6), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]);
        assert_eq!(linear_ticks(0.43, 1.01, 8), [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]);
        assert_eq!(linear_ticks(0.43, 1.01, 4), [0.6, 0.8, 1.0]);
        assert_eq!(logarithmic_ticks(1e6, 1e9, 12), [1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9]);
        assert_eq!(logarithmic_ticks(10.0, 1e7, 8).len(), 7);
        assert!(logarithmic_ticks(1e-300, 1e300, 10).len() <= 12);
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (1000.0, "1000"),
            (10_000.0, "10K"),
            (2e6, "2M"),
            (5e8, "500M"),
            (1e9, "1G"),
            (-3.5, "-3.5"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn ends_lie_at_the_ends() {
        let axis = Axis::logarithmic("x");
        let scale = Scale::new(&axis, (1.0, 100.0), false);
        assert_eq!(scale.map(&1.0, (0, 100)), 0);
        assert_eq!(scale.map(&10.0, (0, 100)), 50);
        assert_eq!(scale.map(&100.0, (0, 100)), 100);
        assert!(
            Scale::new(&axis, (1.0, 100.0), true).map(&1.0, (0, 100)) > 5,
            "a bar of the smallest value is seen"
        );
        assert_eq!(Scale::new(&Axis::named("", ["a", "b"]), (0.0, 1.0), false).map(&0.0, (0, 100)), 25);
    }
}
