//! The worked example of docs/format.md, byte for byte: a table that the engine writes must be the one drawn
//! there.

#![expect(clippy::unwrap_used, reason = "a test that finds nothing should fail")]

use siltstone::{Db, Design, KeyspaceOptions, Options, PrefixRule, Schema, SuffixOrder, TableFilterSpec};
use std::path::Path;

/// The store of the example, closed; returns the bytes of its one table.
fn example(dir: &Path) -> Vec<u8> {
    let options = Options { hash_secret: Some([7; 16]), background_threads: 0, ..Options::default() };
    let mut design = Design::preset("stepped-merge").unwrap();
    for level in &mut design.levels {
        level.table_filter = TableFilterSpec::Bloom { bits_per_key: 10 };
    }
    let schema = Schema::SemiSorted {
        prefix: PrefixRule::Delimiter { byte: b'/', count: 1 },
        suffix: SuffixOrder::Ordered,
    };
    let db = Db::open(dir, options).unwrap();
    let files = db
        .keyspace("files", KeyspaceOptions { schema, design: Some(design), ..KeyspaceOptions::default() })
        .unwrap();
    files.put(b"home/ideas", b"7 bytes").unwrap();
    files.put(b"home/notes", b"42 bytes").unwrap();
    files.put(b"root/secret", b"").unwrap();
    files.delete(b"home/ideas").unwrap();
    files.put(b"home/ideas2", b"x").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let tables: Vec<_> = names.filter(|path| path.extension().is_some_and(|ext| ext == "table")).collect();
    assert_eq!(tables.len(), 1, "{tables:?}");
    assert_eq!(tables.first().unwrap().file_name().unwrap(), "00000002.table");
    std::fs::read(tables.first().unwrap()).unwrap()
}

/// `hexdump`-like lines, sixteen bytes each, runs of zero lines as `*`.
fn dump(bytes: &[u8]) -> String {
    let mut lines = Vec::new();
    for (number, chunk) in bytes.chunks(16).enumerate() {
        if chunk.iter().all(|&byte| byte == 0) {
            if lines.last().is_none_or(|last| last != "*") {
                lines.push("*".to_owned());
            }
            continue;
        }
        let hex: Vec<_> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        lines.push(format!("{:04x}  {}", number * 16, hex.join(" ")));
    }
    lines.join("\n")
}

#[test]
fn the_example_in_the_format_document_is_what_the_engine_writes() {
    let dir = tempfile::tempdir().unwrap();
    let written = dump(&example(&dir.path().join("db")));
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md");
    let document = std::fs::read_to_string(document).unwrap();
    assert!(
        document.contains(&written),
        "docs/format.md does not hold the table that is written:\n{written}"
    );
}
