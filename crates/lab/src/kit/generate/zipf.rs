//! Exact Zipf-distributed ranks: rank *k* (from 1) is drawn with probability proportional to *k*^−s.
//!
//! Rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone
//! discrete distributions", 1996): constant time and memory for any number of ranks and any `s ≥ 0`.
//! Benchmarks in the YCSB tradition use Gray's approximation, which is limited to s < 1 and off by some per
//! cent at the head.

use rand::{Rng, RngExt};

/// A distribution of the ranks `0..n`, most popular first.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    n: f64,
    skew: f64,
    h_integral_first: f64,
    h_integral_last: f64,
    /// Ranks this close above the inverted point are accepted without evaluating `h`.
    shortcut: f64,
}

impl Zipf {
    /// Ranks `0..n` with exponent `skew`; 0 is uniform. `n` is at least 1 and at most 2^52, `skew` finite.
    pub fn new(n: u64, skew: f64) -> Self {
        let mut zipf = Self { n: n as f64, skew, h_integral_first: 0.0, h_integral_last: 0.0, shortcut: 0.0 };
        zipf.h_integral_first = zipf.h_integral(1.5) - 1.0;
        zipf.h_integral_last = zipf.h_integral(zipf.n + 0.5);
        zipf.shortcut = 2.0 - zipf.h_integral_inverse(zipf.h_integral(2.5) - zipf.h(2.0));
        zipf
    }

    /// Draws a rank below `n`.
    #[inline]
    pub fn sample(&self, rng: &mut impl Rng) -> u64 {
        if self.skew == 0.0 {
            return rng.random_range(0..self.n as u64);
        }
        loop {
            let u =
                self.h_integral_last + rng.random::<f64>() * (self.h_integral_first - self.h_integral_last);
            let x = self.h_integral_inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.n);
            if k - x <= self.shortcut || u >= self.h_integral(k + 0.5) - self.h(k) {
                return k as u64 - 1;
            }
        }
    }

    /// x^−s.
    fn h(&self, x: f64) -> f64 {
        (-self.skew * x.ln()).exp()
    }

    /// The integral of `h` from 1 to `x`, exact as s nears 1 where it becomes the logarithm.
    fn h_integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.skew) * log;
        let expm1_over_t = if t.abs() > 1e-8 { t.exp_m1() / t } else { 1.0 + t / 2.0 };
        expm1_over_t * log
    }

    fn h_integral_inverse(&self, x: f64) -> f64 {
        let t = (x * (1.0 - self.skew)).max(-1.0);
        let ln1p_over_t = if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t / 2.0 };
        (ln1p_over_t * x).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    /// Chi-square over cells of at least 20 expected draws; the normal approximation of its 99.99 % quantile.
    fn check(n: u64, skew: f64) {
        const DRAWS: u64 = 200_000;
        let zipf = Zipf::new(n, skew);
        let mut rng = SmallRng::seed_from_u64(42);
        let mut counts = vec![0u64; n as usize];
        for _ in 0..DRAWS {
            counts[zipf.sample(&mut rng) as usize] += 1;
        }
        let weight = |k: u64| (k as f64).powf(-skew);
        let sum: f64 = (1..=n).map(weight).sum();
        let (mut chi_square, mut cells) = (0.0, 0.0);
        let (mut expected, mut found) = (0.0, 0.0);
        for k in 1..=n {
            expected += DRAWS as f64 * weight(k) / sum;
            found += counts[(k - 1) as usize] as f64;
            if expected >= 20.0 || k == n {
                chi_square += (found - expected) * (found - expected) / expected.max(1.0);
                cells += 1.0;
                (expected, found) = (0.0, 0.0);
            }
        }
        let limit = cells + 3.8 * (2.0f64 * cells).sqrt() + 10.0;
        assert!(chi_square < limit, "n {n} skew {skew}: chi-square {chi_square:.1} over {cells} cells");
    }

    #[test]
    fn ranks_follow_the_exact_distribution() {
        for skew in [0.0, 0.2, 0.5, 0.8, 0.99, 1.0, 1.01, 1.5, 2.0, 3.0] {
            for n in [1, 2, 3, 10, 1000] {
                check(n, skew);
            }
        }
    }

    #[test]
    fn large_domains_stay_in_range() {
        let mut rng = SmallRng::seed_from_u64(1);
        for skew in [0.0, 0.5, 0.99, 1.0, 2.0] {
            let zipf = Zipf::new(1 << 40, skew);
            assert!((0..10_000).all(|_| zipf.sample(&mut rng) < 1 << 40));
        }
    }
}
