//! Changes of another server, carried out on a replica.
//!
//! They come as the engine's operations on the keyspaces of `store.rs`, in the order in which they were
//! committed. Those that came together are one batch here too, with the position behind them, so that a
//! replica is at every moment what its primary was at one. Databases and counters in memory follow from what
//! the operations say, and clients that watch a key are told.

use super::Database;
use super::store::{DIRECTORY, Store, layout_of};
use crate::failure::{Failure, Outcome};
use siltstone::{Batch, Change, Keyspace, TailOperation};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Where in another server's log a replica is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The log's id.
    pub log_id: String,
    /// The position behind what is here.
    pub next: u64,
}

const KEY: &[u8] = b"position";

impl Position {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.next.to_le_bytes().to_vec();
        bytes.extend_from_slice(self.log_id.as_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (next, log_id) = bytes.split_first_chunk()?;
        Some(Self { next: u64::from_le_bytes(*next), log_id: String::from_utf8(log_id.to_vec()).ok()? })
    }
}

/// Which keyspace of a database an operation is on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Items,
    Due,
    Counts,
}

/// The generation and the part that a keyspace's name says.
fn part(name: &str) -> Option<(u64, Part)> {
    let (generation, part) = match name.split_once('.') {
        None => (name, Part::Items),
        Some((generation, "due")) => (generation, Part::Due),
        Some((generation, "n")) => (generation, Part::Counts),
        Some(_) => return None,
    };
    Some((generation.parse().ok()?, part))
}

impl Store {
    /// Where the store is in its primary's log; none where it has never followed one.
    ///
    /// # Errors
    /// Those of reading.
    pub fn position(&self) -> Outcome<Option<Position>> {
        Ok(self.replication.get(KEY)?.as_deref().and_then(Position::read))
    }

    /// Returns what a keyspace of the store holds, for people.
    pub fn title(&self, keyspace: &str) -> String {
        let Some((generation, part)) = part(keyspace) else { return keyspace.to_owned() };
        let Some(number) = self.numbers().get(&generation).copied() else { return keyspace.to_owned() };
        match part {
            Part::Items => format!("database {number}"),
            Part::Due => format!("database {number}, expiry"),
            Part::Counts => format!("database {number}, counters"),
        }
    }

    /// Notes where the store is.
    ///
    /// # Errors
    /// Those of writing.
    pub fn set_position(&self, position: &Position) -> Outcome {
        Ok(self.replication.put(KEY, position.to_bytes())?)
    }

    /// Carries out what the primary has committed before `position`, and notes that.
    ///
    /// # Errors
    /// Those of the write, after which nothing has changed; operations that make no sense.
    pub fn apply(&self, operations: &[TailOperation], position: &Position) -> Outcome {
        let moves_databases = operations.iter().any(|operation| &*operation.keyspace == DIRECTORY);
        let _held = if moves_databases {
            self.locks.all()
        } else {
            let numbers = self.numbers();
            let key = |operation: &'_ TailOperation| {
                let (generation, part) = part(&operation.keyspace)?;
                let number = *numbers.get(&generation).filter(|_| part == Part::Items)?;
                Some((number, layout_of(generation).key_of(&operation.key)?.0.to_vec()))
            };
            let keys: Vec<_> = operations.iter().filter_map(key).collect();
            self.locks.keys(keys.iter().map(|(number, key)| (*number, key.as_slice(), true)))
        };
        let mut databases = HashMap::new();
        let mut batch = Batch::new();
        for operation in operations {
            let keyspace = self.target(&mut databases, operation)?;
            batch.add(&keyspace, operation)?;
        }
        batch.put(&self.replication, KEY, position.to_bytes())?;
        let written = self.db.write(&batch, &self.write_options());
        forget(operations, &databases);
        written?;
        if moves_databases {
            self.refresh()?;
            self.watchers.all_changed();
        }
        self.follow(operations, &databases);
        self.changes.fetch_add(operations.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// The keyspace of an operation. A database that is not there yet is made: its place in the directory
    /// comes among the operations.
    fn target(
        &self,
        databases: &mut HashMap<u64, Arc<Database>>,
        operation: &TailOperation,
    ) -> Outcome<Keyspace> {
        let name = &*operation.keyspace;
        if name == DIRECTORY {
            return Ok(self.directory.clone());
        }
        if name == super::store::REPLICATION {
            // The primary's own position, where it is a replica itself: of no use here, and overwritten.
            return Ok(self.replication.clone());
        }
        let (generation, part) =
            part(name).ok_or_else(|| Failure::new(format!("the primary has a keyspace {name}")))?;
        let database = match databases.get(&generation) {
            Some(database) => Arc::clone(database),
            None => {
                let database = self.of_generation(generation)?;
                databases.insert(generation, Arc::clone(&database));
                database
            }
        };
        Ok(match part {
            Part::Items => database.items.clone(),
            Part::Due => database.due.clone(),
            Part::Counts => database.counts.clone(),
        })
    }

    /// Lets counters in memory and watchers know.
    fn follow(&self, operations: &[TailOperation], databases: &HashMap<u64, Arc<Database>>) {
        let numbers = self.numbers();
        for operation in operations {
            let Some((generation, part)) = part(&operation.keyspace) else { continue };
            match part {
                Part::Counts => {
                    if let Some(database) = databases.get(&generation) {
                        database.tally.lock().follow(&operation.key, &operation.change);
                    }
                }
                Part::Items => {
                    if let (Some(number), Some((key, _))) =
                        (numbers.get(&generation), layout_of(generation).key_of(&operation.key))
                    {
                        self.watchers.changed(*number, key);
                    }
                }
                Part::Due => {}
            }
        }
    }
}

/// Forgets the keys that `operations` are on, if they were used lately.
fn forget(operations: &[TailOperation], databases: &HashMap<u64, Arc<Database>>) {
    for operation in operations {
        let Some((generation, Part::Items)) = part(&operation.keyspace) else { continue };
        if let Some(database) = databases.get(&generation)
            && let Some((key, _)) = database.layout.key_of(&operation.key)
        {
            database.forget(key);
        }
    }
}

/// The number that a change of a counter says.
pub(super) fn addend(change: &Change) -> Option<i64> {
    match change {
        Change::Merge { operand } => operand.as_slice().try_into().ok().map(i64::from_le_bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_names_are_read_back() {
        let position = Position { log_id: "ab".repeat(20), next: 77 };
        assert_eq!(Position::read(&position.to_bytes()), Some(position));
        assert!(part("7") == Some((7, Part::Items)) && part("7.n") == Some((7, Part::Counts)));
        assert!(part("7.due") == Some((7, Part::Due)));
        assert!(part("databases").is_none() && part("7.x").is_none());
    }
}
