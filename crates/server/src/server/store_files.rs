//! Directories below the server's: the store, the checkpoint of it, and a primary's store that is arriving.
//!
//! ```text
//! store              the data
//! store.arriving     a checkpoint of the primary that is not whole
//! store.arrived      one that is whole, and takes the place of `store` even if the server ends meanwhile
//! store.replaced     what was in its place
//! checkpoint         what BGSAVE made last
//! for-replica-*      a checkpoint that is being sent
//! ```

use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::keyspace::{Layout, Store};
use std::io;
use std::path::{Path, PathBuf};

fn failed(directory: &Path) -> impl Fn(io::Error) -> Failure {
    let directory = directory.display().to_string();
    move |error| Failure::new(format!("{directory}: {error}"))
}

fn remove(directory: &Path) -> Outcome {
    if directory.exists() { std::fs::remove_dir_all(directory).map_err(failed(directory)) } else { Ok(()) }
}

/// Puts the keys of the store below `directory` by slot, as those of a cluster's node lie; how many items
/// there were.
///
/// # Errors
/// Where there is no store, or it lies so already; those of opening, reading and writing.
pub fn convert(directory: &Path) -> Outcome<u64> {
    let path = directory.join("store");
    if !path.exists() {
        return Err(Failure::new(format!("{}: there is no store", directory.display())));
    }
    let config = Config::default();
    config.set_at_start("dir", &directory.display().to_string()).map_err(Failure::new)?;
    let store = open_laid(&config, Layout::Plain)?;
    let items = crate::keyspace::convert(&store)?;
    store.db.close()?;
    Ok(items)
}

/// Opens the store that the settings describe.
///
/// # Errors
/// Those of opening it; settings that make no sense together, and a store that is none of a cluster's node
/// where the settings ask for one.
pub fn open(config: &Config) -> Outcome<Store> {
    let is_of_cluster = config.is("cluster-enabled");
    let store = open_laid(config, if is_of_cluster { Layout::BySlot } else { Layout::Plain })?;
    if is_of_cluster && store.database(0).is_some_and(|database| database.layout == Layout::Plain) {
        return Err(Failure::new(format!(
            "the keys of the store in {} do not lie by slot, as those of a cluster's node do; \
             `siltstone-server convert {0}` puts them so",
            config.text("dir")
        )));
    }
    Ok(store)
}

fn open_laid(config: &Config, layout: Layout) -> Outcome<Store> {
    let count = |name: &str| usize::try_from(config.number(name)).unwrap_or(usize::MAX);
    let options = siltstone::Options {
        memory_budget_bytes: config.number("store-memory"),
        background_threads: count("store-threads"),
        tail_retention_bytes: config.number("repl-backlog-size"),
        // The server syncs by itself, so that `appendfsync` can change while it runs.
        sync_interval_ms: 0,
        ..siltstone::Options::default()
    };
    let options = options.with_preset(&config.text("preset"))?;
    let auto_design = config.text("auto-design").parse().map_err(Failure::new)?;
    let options = siltstone::Options { auto_design, ..options };
    Store::open(&PathBuf::from(config.text("dir")).join("store"), options, count("databases"), layout)
}

/// Ends what an earlier run has left half done.
///
/// # Errors
/// Those of the file system.
pub fn settle(directory: &Path) -> Outcome {
    let arrived = directory.join("store.arrived");
    if arrived.exists() {
        move_in(directory)?;
    }
    remove(&directory.join("store.arriving"))?;
    remove(&directory.join("store.replaced"))?;
    for entry in std::fs::read_dir(directory).map_err(failed(directory))? {
        let entry = entry.map_err(failed(directory))?;
        if entry.file_name().to_string_lossy().starts_with("for-replica-") {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Puts the store that has arrived in the place of the one that is there, which is closed.
///
/// # Errors
/// Those of the file system.
pub fn replace(directory: &Path, arriving: &Path) -> Outcome {
    let arrived = directory.join("store.arrived");
    remove(&arrived)?;
    std::fs::rename(arriving, &arrived).map_err(failed(arriving))?;
    move_in(directory)?;
    remove(&directory.join("store.replaced"))
}

/// Moves `store.arrived` to `store`, as often as it takes.
fn move_in(directory: &Path) -> Outcome {
    let [store, arrived, replaced] =
        ["store", "store.arrived", "store.replaced"].map(|name| directory.join(name));
    remove(&replaced)?;
    if store.exists() {
        std::fs::rename(&store, &replaced).map_err(failed(&store))?;
    }
    std::fs::rename(&arrived, &store).map_err(failed(&arrived))?;
    std::fs::File::open(directory).and_then(|file| file.sync_all()).map_err(failed(directory))
}

/// Makes a checkpoint in the directory `checkpoint`, in the place of the last one.
///
/// # Errors
/// Those of the checkpoint; the last one is still there then.
pub fn checkpoint(store: &Store, directory: &Path) -> Outcome {
    let (new, kept) = (directory.join("checkpoint.new"), directory.join("checkpoint"));
    remove(&new)?;
    store.db.checkpoint(&new)?;
    let old = directory.join("checkpoint.old");
    if kept.exists() {
        std::fs::rename(&kept, &old).map_err(failed(&kept))?;
    }
    std::fs::rename(&new, &kept).map_err(failed(&new))?;
    remove(&old)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_has_arrived_takes_its_place_wherever_the_server_ended() {
        // Before the first rename, between the two, and after both.
        for step in 0..3 {
            let dir = tempfile::tempdir().unwrap();
            let make = |name: &str| {
                std::fs::create_dir(dir.path().join(name)).unwrap();
                std::fs::write(dir.path().join(name).join("of"), name).unwrap();
            };
            make("store.arriving");
            make("for-replica-1");
            match step {
                0 => ["store", "store.arrived"].map(make),
                1 => ["store.replaced", "store.arrived"].map(make),
                _ => ["store", "store.replaced"].map(make),
            };
            settle(dir.path()).unwrap();
            let left: Vec<_> =
                std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(left, ["store"], "step {step}");
            let of = std::fs::read_to_string(dir.path().join("store/of")).unwrap();
            assert_eq!(of, if step == 2 { "store" } else { "store.arrived" });
        }
    }
}
