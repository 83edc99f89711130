//! Designs scaled down for tests. The integration tests include this file too.

use siltstone_design::{Compression, Design, WriteBufferSpec, presets};

/// A preset scaled down so that a few hundred items grow several levels.
pub fn tiny(preset: &str) -> Design {
    let mut design = Design::preset(preset).unwrap();
    design.write_buffer = match design.write_buffer {
        WriteBufferSpec::MemTable { .. } => WriteBufferSpec::MemTable { bytes: 4 << 10 },
        WriteBufferSpec::LogStore { .. } => WriteBufferSpec::LogStore { entries: 32 },
    };
    for level in &mut design.levels {
        level.table_bytes = if level.runs == 1 { 16 << 10 } else { 4 << 10 };
        level.runs = level.runs.min(4);
        level.fanout_bits = level.fanout_bits.min(2);
    }
    design.check().unwrap();
    design
}

/// Every preset and every row of SlimDB's Table 1, scaled down, designs with a log store above other levels
/// than SILT's, and designs of each format whose tables are compressed; with their names.
pub fn tiny_designs() -> Vec<(String, Design)> {
    let named = presets::all().into_iter().chain(presets::slimdb_table_1());
    let tiny = named.map(|(name, _)| (name.to_owned(), self::tiny(name)));
    let logged = ["stepped-merge", "siltstone", "lsm-trie"];
    let compressed = ["siltstone", "stepped-merge", "lsm-trie", "silt"];
    let compressed = compressed.map(|name| {
        let design = self::tiny(name).with_compression(Compression::Dictionary);
        (format!("{name}, compressed"), design)
    });
    let logged = logged.map(|name| (format!("{name} with a log store"), log_stored(name)));
    tiny.chain(logged).chain(compressed).collect()
}

/// The scaled-down preset with a log store for a write buffer.
pub fn log_stored(preset: &str) -> Design {
    Design { write_buffer: WriteBufferSpec::LogStore { entries: 48 }, ..tiny(preset) }
}
