//! Tab-separated rows: key, one tab, value, both escaped as in [`crate::text`].

use super::Row;
use crate::text;

/// Appends the row without a line feed.
pub fn write(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    text::escape_into(key, out);
    out.push(b'\t');
    text::escape_into(value, out);
}

/// Appends the row as it is, without a line feed.
///
/// # Errors
/// Why it can't be written so.
pub fn write_raw(key: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    if key.contains(&b'\t') || key.contains(&b'\n') || value.contains(&b'\n') {
        return Err(format!(
            "the item of key {} holds a line feed, or its key a tab, and can't be written with --raw",
            text::escape(key)
        ));
    }
    out.extend_from_slice(key);
    out.push(b'\t');
    out.extend_from_slice(value);
    Ok(())
}

/// Reads one line as it is: the key is what precedes the first tab, the value all that follows it.
pub fn parse_raw(line: &[u8], row: &mut Row) -> Result<(), String> {
    let Some(tab) = line.iter().position(|&byte| byte == b'\t') else {
        return Err("there is no tab between key and value".to_owned());
    };
    let (key, value) = line.split_at_checked(tab).unwrap_or((line, &[]));
    row.key.extend_from_slice(key);
    row.value.extend_from_slice(value.get(1..).unwrap_or(&[]));
    Ok(())
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
    text::unescape_into(value, &mut row.value).map_err(|e| format!("value: {e}"))?;
    row.rewritten = u64::from(row.key.len() != key.len()) + u64::from(row.value.len() != value.len());
    Ok(())
}
