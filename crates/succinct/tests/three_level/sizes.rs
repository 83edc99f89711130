//! Table 3 of SlimDB: bits per key. Sizes are counted, so they can be asserted.

use super::patterns::{ENTRIES, PAPER_BITS, PATTERNS, PER_PAGE, Pattern, group_sizes, table};
use siltstone_succinct::index::three_level::{ThirdLevel, ThreeLevelBuilder, ThreeLevelIndex};

fn build(form: ThirdLevel, keys: &[(u64, u64)]) -> ThreeLevelIndex {
    let mut builder = ThreeLevelBuilder::new(form);
    for page in keys.chunks(PER_PAGE) {
        page.iter().for_each(|(hi, lo)| builder.push(*hi, *lo));
        builder.finish_page(&[], &[]);
    }
    builder.finish()
}

#[test]
fn the_tables_are_the_papers() {
    let groups: Vec<usize> =
        PATTERNS.iter().map(|(_, pattern)| group_sizes(*pattern, ENTRIES).len()).collect();
    assert_eq!(groups, [9290, 4645, 2323, 26]);
    assert_eq!(ENTRIES.div_ceil(PER_PAGE), 8744);
    assert_eq!(group_sizes(Pattern::Zipf, ENTRIES)[0], 8000);
}

#[test]
fn three_levels_take_less_than_the_paper_says() {
    for form in [ThirdLevel::EntropyTrie, ThirdLevel::PartialSuffixes] {
        for (at, (name, pattern)) in PATTERNS.iter().enumerate() {
            let keys = table(*pattern, ENTRIES, 1);
            let index = build(form, &keys);
            let per_key = |bits: u64| bits as f64 / ENTRIES as f64;
            let bits = per_key(index.memory_bytes() as u64 * 8);
            let levels = index.level_bits();
            println!(
                "{form:?} {name}: {bits:.3} bits per key: {:.3} + {:.3} + {:.3}",
                per_key(levels.prefixes),
                per_key(levels.pages),
                per_key(levels.suffixes)
            );
            assert_eq!(levels.ties, 0);
            assert!(bits <= PAPER_BITS[0].1[at], "{form:?} {name}: {bits}");
            for (number, page) in keys.chunks(PER_PAGE).enumerate() {
                assert!(page.iter().all(|(hi, lo)| index.find(*hi, *lo, &[]) as usize == number));
            }
        }
    }
}
