//! `EntropyTrie` against binary search, and its decoder against arbitrary bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone_succinct::index::entropy_trie::{Code, EntropyTrie, Place, Spec};

/// Asks an accepted trie about anything; no answer may be out of range.
fn ask(trie: &EntropyTrie, probes: &[u64]) {
    let mut ranks = Vec::new();
    trie.rank_batch(probes, &mut ranks);
    for (key, rank) in probes.iter().zip(ranks) {
        assert_eq!(trie.rank(*key), rank);
        assert!(rank <= trie.len());
        assert!(trie.is_empty() || trie.block(*key) < trie.blocks());
        match trie.place(*key) {
            Place::Near { rank, keys } => assert!(keys > 0 && rank + keys <= trie.len()),
            Place::Gap { rank } => assert!(rank <= trie.len()),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut keys: Vec<u64> =
        data.chunks(8).map(|c| c.iter().fold(0, |key, b| key << 8 | u64::from(*b))).collect();
    if let Ok(trie) = EntropyTrie::from_bytes(data) {
        let mut bytes = Vec::new();
        trie.to_bytes(&mut bytes);
        assert_eq!(bytes, data);
        ask(&trie, &keys);
    }

    // The same bytes as keys, and as what the trie is to be.
    let choice = data.first().copied().unwrap_or(0);
    keys.sort_unstable();
    keys.dedup();
    let code = [Code::Paper, Code::Strong, Code::Weak][usize::from(choice % 3)];
    let block_keys = [1, 2, 3, 16][usize::from(choice / 3 % 4)];
    let trie = EntropyTrie::build(Spec { code, block_keys, bucket_keys: 16 }, &keys);
    for (rank, key) in keys.iter().enumerate() {
        assert_eq!(trie.block(*key), rank / block_keys as usize);
    }
    let mut bytes = Vec::new();
    trie.to_bytes(&mut bytes);
    assert_eq!(EntropyTrie::from_bytes(&bytes).as_ref(), Ok(&trie));
    // And with one byte changed.
    if let Some(byte) = bytes.get_mut(usize::from(choice) * 7 % keys.len().max(1)) {
        *byte ^= choice | 1;
        if let Ok(trie) = EntropyTrie::from_bytes(&bytes) {
            ask(&trie, &keys);
        }
    }
});
