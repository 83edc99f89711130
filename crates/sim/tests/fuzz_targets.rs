//! Every fuzz target of `fuzz/` on stable Rust: the inputs that fuzzing found worth keeping, and changed
//! versions of them. `SILTSTONE_LONG=1` tries a hundred times as many.

#![allow(missing_docs, clippy::indexing_slicing)]

use std::path::{Path, PathBuf};

// The targets name libFuzzer's crate; here its one macro makes a function of the target.
extern crate self as libfuzzer_sys;

#[macro_export]
macro_rules! fuzz_target {
    (|$data:ident: &[u8]| $body:expr) => {
        pub fn run($data: &[u8]) {
            $body
        }
    };
}

#[allow(
    unused_attributes,
    unused_imports,
    unused_must_use,
    clippy::all,
    clippy::pedantic,
    clippy::restriction
)]
#[path = "../../../fuzz/fuzz_targets"]
mod targets {
    #[path = "batch.rs"]
    pub mod batch;
    #[path = "bits.rs"]
    pub mod bits;
    #[path = "bloom.rs"]
    pub mod bloom;
    #[path = "bucket_structures.rs"]
    pub mod bucket_structures;
    #[path = "cells.rs"]
    pub mod cells;
    #[path = "codec.rs"]
    pub mod codec;
    #[path = "cuckoo.rs"]
    pub mod cuckoo;
    #[path = "current.rs"]
    pub mod current;
    #[path = "damaged_log.rs"]
    pub mod damaged_log;
    #[path = "edit.rs"]
    pub mod edit;
    #[path = "entropy_trie.rs"]
    pub mod entropy_trie;
    #[path = "htable.rs"]
    pub mod htable;
    #[path = "leveldb_index.rs"]
    pub mod leveldb_index;
    #[path = "log.rs"]
    pub mod log;
    #[path = "maplet.rs"]
    pub mod maplet;
    #[path = "multi_level_cuckoo.rs"]
    pub mod multi_level_cuckoo;
    #[path = "operands.rs"]
    pub mod operands;
    #[path = "page.rs"]
    pub mod page;
    #[path = "partial_key_cuckoo.rs"]
    pub mod partial_key_cuckoo;
    #[path = "separators.rs"]
    pub mod separators;
    #[path = "sidecar.rs"]
    pub mod sidecar;
    #[path = "slots.rs"]
    pub mod slots;
    #[path = "tail.rs"]
    pub mod tail;
    #[path = "three_level.rs"]
    pub mod three_level;
    #[path = "varint.rs"]
    pub mod varint;
}

type Target = fn(&[u8]);

const TARGETS: &[(&str, Target)] = &[
    ("batch", targets::batch::run),
    ("bits", targets::bits::run),
    ("bloom", targets::bloom::run),
    ("bucket_structures", targets::bucket_structures::run),
    ("cells", targets::cells::run),
    ("codec", targets::codec::run),
    ("cuckoo", targets::cuckoo::run),
    ("current", targets::current::run),
    ("damaged_log", targets::damaged_log::run),
    ("edit", targets::edit::run),
    ("entropy_trie", targets::entropy_trie::run),
    ("htable", targets::htable::run),
    ("leveldb_index", targets::leveldb_index::run),
    ("log", targets::log::run),
    ("maplet", targets::maplet::run),
    ("multi_level_cuckoo", targets::multi_level_cuckoo::run),
    ("operands", targets::operands::run),
    ("page", targets::page::run),
    ("partial_key_cuckoo", targets::partial_key_cuckoo::run),
    ("separators", targets::separators::run),
    ("sidecar", targets::sidecar::run),
    ("slots", targets::slots::run),
    ("tail", targets::tail::run),
    ("three_level", targets::three_level::run),
    ("varint", targets::varint::run),
];

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let found =
        std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<_> = found.map(|entry| entry.expect("an entry of the directory").path()).collect();
    files.sort();
    files
}

/// A version of `input` with one to four places changed, cut, doubled or taken from `other`.
fn changed(input: &[u8], other: &[u8], seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    let mut bytes = input.to_vec();
    for _ in 0..=draw(4) {
        let at = draw(bytes.len());
        match draw(6) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << draw(8),
            1 if !bytes.is_empty() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][draw(5)],
            2 => bytes.truncate(at),
            3 => bytes.insert(at, draw(256) as u8),
            4 => bytes.extend_from_slice(&other[draw(other.len())..]),
            _ => bytes.extend_from_within(at..),
        }
    }
    bytes.truncate(4096);
    bytes
}

#[test]
fn every_target_is_here_and_has_a_corpus() {
    let sources = files(&fuzz().join("fuzz_targets"));
    let names: Vec<_> = sources.iter().filter_map(|path| path.file_stem()?.to_str()).collect();
    assert_eq!(names, TARGETS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for name in names {
        assert!(!files(&fuzz().join("corpus").join(name)).is_empty(), "{name} has no corpus");
    }
}

#[test]
fn no_kept_input_and_no_change_of_one_breaks_a_target() {
    let versions = if std::env::var_os("SILTSTONE_LONG").is_some() { 2000 } else { 20 };
    for (name, run) in TARGETS {
        let corpus: Vec<_> = files(&fuzz().join("corpus").join(name))
            .iter()
            .map(|path| (path.display().to_string(), std::fs::read(path).expect("a readable input")))
            .collect();
        for (at, (path, input)) in corpus.iter().enumerate() {
            let other = &corpus[(at * 7 + 1) % corpus.len()].1;
            let inputs = (0..versions).map(|version| changed(input, other, (at * versions + version) as u64));
            for bytes in std::iter::once(input.clone()).chain(inputs) {
                let outcome = std::panic::catch_unwind(|| run(&bytes));
                assert!(outcome.is_ok(), "{name} fails on a version of {path}: {bytes:02x?}");
            }
        }
    }
}
