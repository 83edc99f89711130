//! Commands and their replies, as `tests/cases/*.txt` write them down.
//!
//! A line `> command` is sent, quoted as in a shell; the line below it is the reply: `+OK`, `-ERR …`, `:1`,
//! `"bulk"`, `nil`, `[array]`, `{map}`, `<set>`. `...` at its end stands for anything.

mod common;

use common::Running;
use siltstone_server::resp::split_words;

#[test]
fn replies_are_those_that_are_written_down() {
    let mut count = 0;
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases")).unwrap() {
        let path = entry.unwrap().path();
        let dir = tempfile::tempdir().unwrap();
        let running = Running::start(dir.path(), &[]);
        let mut client = running.client();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> =
            text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        for pair in lines.chunks(2) {
            let words = split_words(pair[0].strip_prefix("> ").unwrap().as_bytes()).unwrap();
            let found = client.call(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()).to_string();
            let is_right = match pair[1].strip_suffix("...") {
                Some(start) => found.starts_with(start),
                None => found == pair[1],
            };
            assert!(is_right, "{}: {}\nexpected {}\nfound    {found}", path.display(), pair[0], pair[1]);
            count += 1;
        }
    }
    assert!(count > 150, "only {count} cases were found");
}
