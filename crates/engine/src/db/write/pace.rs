//! How writers are slowed when background work falls behind: each byte costs time, in proportion to the
//! square of the pressure.

use crate::stats::Counter;
use crate::sync::Mutex;
use std::time::Duration;

/// Nanoseconds that a byte written costs at full pressure: 5 MB/s.
const FULL_PRESSURE_NS_PER_BYTE: f64 = 200.0;
/// Sleeps are gathered up to this, since shorter ones take longer than they say.
const LEAST_SLEEP_NS: f64 = 300_000.0;
/// A single write pays no more than this for others.
const MOST_SLEEP_NS: f64 = 5_000_000.0;
/// A single write is slowed by no more than this, however large it is; what it still owes, later ones pay.
const LONGEST_SLEEP_NS: f64 = 1e9;

/// What writers owe.
#[derive(Default)]
pub(super) struct Pacer {
    owed_ns: Mutex<f64>,
}

impl Pacer {
    /// Slows the caller, who writes `bytes`.
    pub fn pace(&self, bytes: u64, pressure: f64, paced_us: &Counter) {
        if pressure <= 0.0 {
            return;
        }
        let mut owed_ns = self.owed_ns.lock();
        // A large batch pays for itself, or whoever loads in such batches would never be held up enough.
        let own_ns = bytes as f64 * pressure * pressure * FULL_PRESSURE_NS_PER_BYTE;
        *owed_ns += own_ns;
        if *owed_ns < LEAST_SLEEP_NS {
            return;
        }
        let sleep_ns = owed_ns.min(own_ns.clamp(MOST_SLEEP_NS, LONGEST_SLEEP_NS));
        *owed_ns -= sleep_ns;
        drop(owed_ns);
        crate::sync::thread::sleep(Duration::from_nanos(sleep_ns as u64));
        paced_us.add((sleep_ns / 1000.0) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_of_any_size_are_slowed_by_their_bytes() {
        // 100 KB at half of the full pressure cost 5 ms, whether in one write or in many.
        for writes in [1, 4, 100] {
            let (pacer, paced_us) = (Pacer::default(), Counter::default());
            for _ in 0..writes {
                pacer.pace(100_000 / writes, 0.5, &paced_us);
            }
            assert!((4_700..=5_000).contains(&paced_us.get()), "{writes}: {} us", paced_us.get());
        }
        let (pacer, paced_us) = (Pacer::default(), Counter::default());
        pacer.pace(200_000, 1.0, &paced_us);
        assert_eq!(paced_us.get(), 40_000);
        pacer.pace(200_000, 0.0, &paced_us);
        assert_eq!(paced_us.get(), 40_000);
    }
}
