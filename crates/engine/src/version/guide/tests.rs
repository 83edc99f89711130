//! Guides over piles of runs that have no tables.

use super::*;
use siltstone_design::{Design, Encoder, HashSecret, Schema};

/// A pile of runs without tables, numbered as given, newest first.
fn pile(ids: &[RunId]) -> Vec<Arc<Run>> {
    ids.iter().map(|id| Arc::new(Run::new(*id, Vec::new(), Vec::new()))).collect()
}

/// Adds runs of ten keys each, key `n` in run `n / 10`, on top of what `guide` covers.
fn add(guide: Option<&Guide>, spec: GuideSpec, below: &[RunId], ids: &[RunId]) -> Option<Guide> {
    let encoder = Encoder::new(Schema::Point, HashSecret([1; 16]));
    let mut builder = GuideBuilder::new(spec, guide, &pile(below));
    for id in ids {
        for number in id * 10..id * 10 + 10 {
            builder.add(&encoder.encode(&number.to_be_bytes()).unwrap(), 0, 10);
        }
        builder.end_run(*id, std::iter::once(*id), 1_000);
    }
    builder.finish(&MemoryBudget::new(64 << 20))
}

#[test]
fn what_was_handed_down_below_younger_runs_is_forgotten() {
    let encoder = Encoder::new(Schema::Point, HashSecret([1; 16]));
    for (preset, forgets) in [("siltstone", true), ("slimdb", false)] {
        let spec = GuideSpec::of(Design::preset(preset).unwrap().level(0), true).unwrap();
        let all = Arc::new(add(None, spec, &[], &[1, 2, 3, 4]).unwrap());
        assert!(all.fitted(&pile(&[5, 4, 3, 2, 1])).is_some_and(|same| Arc::ptr_eq(&same, &all)));
        let left = all.fitted(&pile(&[5, 4, 3])).unwrap();
        assert_eq!(left.covered(), 2, "{preset}");
        for number in 10..50u64 {
            let slots = left.candidates(&encoder.encode(&number.to_be_bytes()).unwrap());
            let expected = [None, None, None, Some(0), Some(1)][(number / 10) as usize];
            assert!(slots < 4 && expected.is_none_or(|slot| slots >> slot & 1 == 1), "{number}: {slots:b}");
        }
        // Other piles, and those with a gap.
        for other in [&[5, 4, 2][..], &[], &[9], &[4, 3, 2, 1, 0]] {
            assert!(all.fitted(&pile(other)).is_none(), "{other:?}");
        }
        // The next run is added to what is left, where the filter can forget; else all is built anew.
        assert_eq!(left.encoded().is_some(), forgets);
        let more = add(Some(&left), spec, &[4, 3], &[5]);
        assert_eq!(more.is_some(), forgets);
        let Some(more) = more else { continue };
        assert!(more.fits(&pile(&[5, 4, 3])) && more.covered() == 3);
        let fresh = add(None, spec, &[], &[3, 4, 5]).unwrap();
        assert!(more.memory_bytes() <= fresh.memory_bytes() + 64);
        for number in 30..60u64 {
            let slots = more.candidates(&encoder.encode(&number.to_be_bytes()).unwrap());
            assert_eq!(slots >> (number / 10 - 3) & 1, 1, "{number}: {slots:b}");
        }
    }
}
