//! The metadata of a file system: names in directories, as a user-space file system would keep them.
//!
//! Shows a directory as a group of keys (its number, then a name), so that a path is looked up with one get
//! per component and a listing reads one group in order; a rename between directories as one atomic batch; a
//! snapshot that a listing can rely on while names change; and the removal of a whole directory in constant
//! time.
//!
//! `cargo run -p siltstone --example file_metadata -- DIRECTORY`

use siltstone::{
    Batch, Db, Keyspace, KeyspaceOptions, Options, PrefixRule, Schema, SuffixOrder, WriteOptions,
};
use std::error::Error;
use std::path::Path;

/// The number of the root directory.
const ROOT: u64 = 1;

fn key(directory: u64, name: &str) -> Vec<u8> {
    [&directory.to_be_bytes(), name.as_bytes()].concat()
}

/// Follows a path and returns the number of the file or directory it leads to.
fn lookup(names: &Keyspace, path: &str) -> siltstone::Result<Option<u64>> {
    let mut at = ROOT;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let Some(number) = names.get(key(at, name))? else { return Ok(None) };
        at = number.as_slice().try_into().map_or(0, u64::from_be_bytes);
    }
    Ok(Some(at))
}

/// The names that a listing returned, without their directory.
fn listed(listing: siltstone::Iter) -> siltstone::Result<Vec<String>> {
    let name = |key: &[u8]| String::from_utf8_lossy(key.get(8..).unwrap_or_default()).into_owned();
    listing.map(|item| Ok(name(&item?.0))).collect()
}

/// Runs the example on a store in `dir`.
pub fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    let db = Db::open(dir, Options::default())?;
    let schema = Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 8 }, suffix: SuffixOrder::Ordered };
    let names = db.keyspace("names", KeyspaceOptions { schema, ..KeyspaceOptions::default() })?;

    let (home, ann, notes, mail) = (2u64, 3u64, 4u64, 5u64);
    for (directory, name, number) in
        [(ROOT, "home", home), (home, "ann", ann), (ann, "notes.txt", notes), (ann, "mail", mail)]
    {
        names.put(key(directory, name), number.to_be_bytes())?;
    }
    assert_eq!(lookup(&names, "/home/ann/notes.txt")?, Some(notes));
    assert_eq!(lookup(&names, "/home/bob")?, None);

    // A move: the name is in one directory or in the other, whenever somebody looks.
    let before = db.snapshot();
    let mut rename = Batch::new();
    rename.delete(&names, key(ann, "notes.txt"))?;
    rename.put(&names, key(home, "shared.txt"), notes.to_be_bytes())?;
    db.write(&rename, &WriteOptions::default())?;
    println!("/home is now {:?}", listed(names.prefix(home.to_be_bytes())?)?);
    assert_eq!(listed(names.prefix(home.to_be_bytes())?)?, ["ann", "shared.txt"]);
    // Whoever began to list before the move goes on to see what was there.
    assert_eq!(listed(before.prefix(&names, ann.to_be_bytes())?)?, ["mail", "notes.txt"]);
    drop(before);

    // All names of a directory go at once, however many there are.
    names.delete_prefix(ann.to_be_bytes())?;
    assert!(listed(names.prefix(ann.to_be_bytes())?)?.is_empty());
    assert_eq!(lookup(&names, "/home/shared.txt")?, Some(notes));
    names.delete(key(home, "shared.txt"))?;
    Ok(db.close()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(Path::new(&std::env::args_os().nth(1).ok_or("name a directory for the store")?))
}
