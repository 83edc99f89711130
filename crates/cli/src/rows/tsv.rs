//! Tab-separated rows: key, one tab, value, both escaped as in [`crate::text`].

use super::Row;
use crate::text;

/// Appends the row without a line feed.
pub fn write(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    text::escape_into(key, out);
    out.push(b'\t');
    text::escape_into(value, out);
}

/// Reads one line without its line feed into an empty `row`.
pub fn parse(line: &[u8], row: &mut Row) -> Result<(), String> {
    let mut columns = line.split(|&b| b == b'\t');
    let (Some(key), Some(value)) = (columns.next(), columns.next()) else {
        return Err("there is no tab between key and value".to_owned());
    };
    let more = columns.count();
    if more > 0 {
        return Err(format!("there are {} columns instead of 2; write \\t for a tab in a value", more + 2));
    }
    text::unescape_into(key, &mut row.key).map_err(|e| format!("key: {e}"))?;
    text::unescape_into(value, &mut row.value).map_err(|e| format!("value: {e}"))
}
