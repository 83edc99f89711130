//! A second store that is kept equal to a first one by its change feed.
//!
//! Shows `tail`, `Batch::add` and positions of the log. The copy notes how far it has come in the very batch
//! that brings it there, so that it goes on at the right place after any stop.
//!
//! `cargo run -p siltstone --example replica -- DIRECTORY`

use siltstone::{Batch, Db, KeyspaceOptions, Options, WriteOptions};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

/// The keyspace of the copy that says how far it has come.
const PROGRESS: &str = "replica-progress";

/// Takes over what `from` has written since `to` last did, waits for more up to `patience`, and returns how
/// many batches there were.
fn follow(from: &Db, to: &Db, patience: Duration) -> siltstone::Result<u64> {
    let progress = to.keyspace(PROGRESS, KeyspaceOptions::default())?;
    let noted = progress.get("position")?.and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
    // An error of the kind `PositionGone` would ask for a fresh copy, by a checkpoint or a backup; so does
    // `Change::Replaced`, which `Batch::add` refuses.
    let mut tail = from.tail(noted.unwrap_or_else(|| from.oldest_log_position()))?;
    let mut batches = 0;
    while let Some(changes) = tail.next_batch(patience)? {
        let mut batch = Batch::new();
        for operation in &changes.operations {
            let Some(source) = from.get_keyspace(&operation.keyspace) else { continue };
            let options = KeyspaceOptions {
                schema: source.schema(),
                design: Some(source.design()),
                merge_operator: source.merge_operator().map(str::to_owned),
            };
            batch.add(&to.keyspace(&operation.keyspace, options)?, operation)?;
        }
        batch.put(&progress, "position", changes.next_lsn.to_be_bytes())?;
        to.write(&batch, &WriteOptions::default())?;
        batches += 1;
    }
    Ok(batches)
}

/// Runs the example on two stores in `dir`.
pub fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    // So much of the log is kept for a copy that is away.
    let options = Options { tail_retention_bytes: 64 << 20, ..Options::default() };
    let from = Db::open(dir.join("from"), options)?;
    let to = Db::open(dir.join("to"), Options::default())?;
    let users = from.keyspace("users", KeyspaceOptions::default())?;
    for number in 0..1000u32 {
        users.put(number.to_be_bytes(), format!("user {number}"))?;
    }
    users.delete(7u32.to_be_bytes())?;
    // A copy takes what a power cut can't take back.
    from.sync()?;
    let batches = follow(&from, &to, Duration::ZERO)?;
    assert!(batches > 0);
    assert_eq!(follow(&from, &to, Duration::from_millis(5))?, 0);

    let copied = to.get_keyspace("users").ok_or("the copy has no users")?;
    for item in users.iter()? {
        let (key, value) = item?;
        assert_eq!(copied.get(&key)?, Some(value));
    }
    assert_eq!(copied.get(7u32.to_be_bytes())?, None);
    println!("took over {batches} batches");
    to.close()?;
    from.close()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args().nth(1).ok_or("give a directory for the two stores")?;
    run(Path::new(&dir))
}
