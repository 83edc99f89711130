//! The event log of a store as another process writes it: lines as they come, across rotations.

use siltstone::events::{EVENTS, EVENTS_OLD, LoggedEvent};
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A line of the event log.
pub struct Line {
    /// As it stands there.
    pub text: String,
    /// What it says, where this program can read it.
    pub event: Option<LoggedEvent>,
}

impl Line {
    /// The line for people.
    pub fn in_words(&self) -> String {
        self.event.as_ref().map_or_else(|| self.text.clone(), LoggedEvent::to_string)
    }
}

/// Reads the event log of a store from its oldest line on.
pub struct Tail {
    dir: PathBuf,
    file: Option<File>,
    /// Bytes after the last line feed.
    rest: Vec<u8>,
}

fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

impl Tail {
    /// Begins with what the log of the store in `dir` holds now.
    pub fn new(dir: &Path) -> Self {
        // In this order, so that a rotation between the two shows the same file twice and hides none.
        let current = File::open(dir.join(EVENTS)).ok();
        let old = File::open(dir.join(EVENTS_OLD)).ok();
        let same = |old: &File| {
            let identities =
                [Some(old), current.as_ref()].map(|file| Some(identity(&file?.metadata().ok()?)));
            identities[0] == identities[1]
        };
        // Read to its end, the old file gives way to the present one.
        let file = old.filter(|old| !same(old)).or(current);
        Self { dir: dir.to_owned(), file, rest: Vec::new() }
    }

    /// Whether there is a log.
    pub fn exists(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the lines that have come since the last call; all there are at the first.
    pub fn new_lines(&mut self) -> Vec<Line> {
        let mut lines = Vec::new();
        loop {
            self.read(&mut lines);
            let Ok(present) = File::open(self.dir.join(EVENTS)) else { return lines };
            let is_same = |file: &File| match (file.metadata(), present.metadata()) {
                (Ok(ours), Ok(theirs)) => identity(&ours) == identity(&theirs),
                _ => true,
            };
            if self.file.as_ref().is_some_and(is_same) {
                return lines;
            }
            // What was written between reading the file to its end and its replacement.
            self.read(&mut lines);
            self.rest.clear();
            self.file = Some(present);
        }
    }

    /// Reads the open file to its end. A line that is still being written waits for its end.
    fn read(&mut self, lines: &mut Vec<Line>) {
        let Some(file) = &mut self.file else { return };
        // What can't be read now is read at the next call, or lost: nothing depends on the log.
        let _ = file.read_to_end(&mut self.rest);
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let taken: Vec<u8> = self.rest.drain(..whole).collect();
        for line in taken.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let text = String::from_utf8_lossy(line).into_owned();
            let event = LoggedEvent::parse(&text);
            lines.push(Line { text, event });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lines_come_once_and_across_rotations() {
        let dir = tempfile::tempdir().unwrap();
        let (current, old) = (dir.path().join(EVENTS), dir.path().join(EVENTS_OLD));
        let append = |text: &str| {
            let mut file = File::options().append(true).create(true).open(&current).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        let texts = |lines: Vec<Line>| lines.into_iter().map(|line| line.text).collect::<Vec<_>>();
        let mut tail = Tail::new(dir.path());
        assert!(!tail.exists() && tail.new_lines().is_empty());
        append("a\nb\nhal");
        assert_eq!(texts(tail.new_lines()), ["a", "b"]);
        append("f\n");
        assert_eq!(texts(tail.new_lines()), ["half"]);
        append("c\n");
        std::fs::rename(&current, &old).unwrap();
        append("d\n");
        assert_eq!(texts(tail.new_lines()), ["c", "d"]);
        assert!(tail.new_lines().is_empty());
        assert_eq!(texts(Tail::new(dir.path()).new_lines()), ["a", "b", "half", "c", "d"]);
        std::fs::rename(&current, &old).unwrap();
        assert_eq!(texts(Tail::new(dir.path()).new_lines()), ["d"]);
    }

    #[test]
    fn events_are_put_into_words() {
        let text = r#"{"at_ms":0,"event":"writers_stalled","duration_us":250000,"cause":{"because":"memory","bytes":2,"at_most":1}}"#;
        let line = Line { text: text.to_owned(), event: LoggedEvent::parse(text) };
        assert_eq!(
            line.in_words(),
            "1970-01-01 00:00:00.000 [STALL] writers waited 0.25 s; because write buffers take 2 B of 1 B"
        );
        let strange = Line { text: "strange".to_owned(), event: None };
        assert_eq!(strange.in_words(), "strange");
    }
}
