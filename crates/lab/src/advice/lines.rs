//! Files of records, one line of JSON each, so that a command that was ended goes on where it was.

use crate::program::failure::{Failure, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Write;
use std::path::Path;

/// The records of a file; none where there is no file.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(Vec::new()) };
    let parse = |line: &str| serde_json::from_str(line).map_err(|e| Failure::at(path, e));
    text.lines().filter(|line| !line.is_empty()).map(parse).collect()
}

/// Adds a record to a file.
pub fn append(path: &Path, record: &impl Serialize) -> Result<()> {
    let line = serde_json::to_string(record).map_err(|e| Failure::Failed(e.to_string()))?;
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let mut file = file.map_err(|e| Failure::at(path, e))?;
    writeln!(file, "{line}").map_err(|e| Failure::at(path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("records");
        assert!(read::<u32>(&path).unwrap().is_empty());
        append(&path, &7).unwrap();
        append(&path, &8).unwrap();
        assert_eq!(read::<u32>(&path).unwrap(), [7, 8]);
        assert!(read::<String>(&path).is_err());
    }
}
