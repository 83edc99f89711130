//! `Maplet` against a sorted set, and as decoded from arbitrary bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone_succinct::filter::maplet::Maplet;
use std::collections::BTreeSet;

fn check(maplet: &Maplet, twin: &BTreeSet<(u64, u8)>) {
    assert!(maplet.entries().eq(twin.iter().copied()));
    let shift = 64 - u32::from(maplet.fingerprint_bits());
    for (print, _) in twin {
        for print in [*print, print ^ 1] {
            let slots =
                twin.range((print, 0)..=(print, u8::MAX)).fold(0u64, |slots, (_, slot)| slots | 1 << slot);
            assert_eq!(maplet.lookup(print << shift), slots);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    if let Ok(maplet) = Maplet::from_bytes(data) {
        let mut bytes = Vec::new();
        maplet.to_bytes(&mut bytes);
        assert_eq!(bytes, data);
        check(&maplet, &maplet.entries().collect());
    }

    // The same bytes as runs of hashes of two bytes each.
    let Some(([bits, slots], data)) = data.split_first_chunk() else { return };
    let (mut maplet, mut twin) = (Maplet::new(bits % 58 + 1, 2 + slots % 5), BTreeSet::new());
    for (slot, run) in data.split(|byte| *byte == 0).take(4).enumerate() {
        let mut hashes: Vec<u64> =
            run.chunks_exact(2).map(|b| u64::from(b[0]) << 56 | u64::from(b[1]) << 20).collect();
        hashes.sort_unstable();
        maplet = maplet.with_run(slot as u8, 64, &hashes);
        let shift = 64 - u32::from(maplet.fingerprint_bits());
        twin.extend(hashes.iter().map(|hash| (hash >> shift, slot as u8)));
    }
    check(&maplet, &twin);
    let moved = twin.iter().map(|(print, slot)| (*print, slot / 2)).collect();
    check(&maplet.remapped(&[0, 0, 1, 1]), &moved);
});
