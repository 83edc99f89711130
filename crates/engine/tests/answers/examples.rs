//! Runs every program of `examples/` on a new store, and again on the store that it has left. Each checks its
//! own results.

use std::error::Error;
use std::path::Path;

#[expect(dead_code, reason = "tests call what its `main` calls")]
#[path = "../../examples/async_reads.rs"]
mod async_reads;
#[expect(dead_code, reason = "tests call what its `main` calls")]
#[path = "../../examples/bulk.rs"]
mod bulk;
#[expect(dead_code, reason = "tests call what its `main` calls")]
#[path = "../../examples/cache_with_ttl.rs"]
mod cache_with_ttl;
#[expect(dead_code, reason = "tests call what its `main` calls")]
#[path = "../../examples/counters.rs"]
mod counters;
#[expect(dead_code, reason = "tests call what its `main` calls")]
#[path = "../../examples/feature_store.rs"]
mod feature_store;
#[expect(dead_code, reason = "tests call what its `main` calls")]
#[path = "../../examples/file_metadata.rs"]
mod file_metadata;
#[expect(dead_code, reason = "tests call what its `main` calls")]
#[path = "../../examples/replica.rs"]
mod replica;

fn runs_twice(example: fn(&Path) -> Result<(), Box<dyn Error>>) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for time in ["first", "second"] {
        let ran = example(&dir.path().join("store"));
        assert!(ran.is_ok(), "the {time} time: {ran:?}");
    }
}

#[test]
fn async_reads_runs() {
    runs_twice(async_reads::run);
}

#[test]
fn cache_with_ttl_runs() {
    runs_twice(cache_with_ttl::run);
}

#[test]
fn counters_runs() {
    runs_twice(counters::run);
}

#[test]
fn feature_store_runs() {
    runs_twice(feature_store::run);
}

#[test]
fn file_metadata_runs() {
    runs_twice(file_metadata::run);
}

#[test]
fn replica_runs() {
    runs_twice(replica::run);
}

#[test]
fn bulk_runs() {
    runs_twice(bulk::run);
}

#[test]
fn every_example_is_run() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let source = include_str!("examples.rs");
    let mut examples = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(source.contains(&format!("runs_twice({name}::run)")), "no test runs {}", path.display());
        examples += 1;
    }
    assert!(examples >= 4, "the examples have moved");
}
