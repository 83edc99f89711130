//! Keys and values as text: bytes that cannot be printed are written as escapes, both ways.
//!
//! `\t`, `\n` and `\\` stand for a tab, a line feed and a backslash; `\xNN` for any byte. Text in any
//! language is printed as it is; bytes that are not UTF-8 are escaped. Reading also takes `\r`.

use std::fmt;

/// Appends `bytes` to `out`, escaped: the result is UTF-8 and holds no control characters.
pub fn escape_into(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\t' => out.extend_from_slice(b"\\t"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\\' => out.extend_from_slice(b"\\\\"),
                c => {
                    let mut encoded = [0; 4];
                    let encoded = c.encode_utf8(&mut encoded).as_bytes();
                    if c.is_control() { hex_into(encoded, out) } else { out.extend_from_slice(encoded) }
                }
            }
        }
        hex_into(chunk.invalid(), out);
    }
}

/// `bytes`, escaped.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    escape_into(bytes, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn hex_into(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
    }
}

/// An escape that is none.
#[derive(Debug, PartialEq, Eq)]
pub struct EscapeError {
    /// Where the escape begins, in bytes from 0.
    at: usize,
    /// The escape as it was written.
    found: String,
}

impl fmt::Display for EscapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown escape {} at byte {}; known are \\t \\n \\r \\\\ and \\xNN",
            self.found,
            self.at + 1
        )
    }
}

/// Replaces the escapes in `text` by the bytes they stand for, appending to `out`.
pub fn unescape_into(text: &[u8], out: &mut Vec<u8>) -> Result<(), EscapeError> {
    let mut rest = text;
    while let Some(plain) = rest.iter().position(|&b| b == b'\\') {
        let (before, escape) = rest.split_at_checked(plain).unwrap_or((rest, &[]));
        out.extend_from_slice(before);
        let (byte, length) = match escape {
            [_, b't', ..] => (b'\t', 2),
            [_, b'n', ..] => (b'\n', 2),
            [_, b'r', ..] => (b'\r', 2),
            [_, b'\\', ..] => (b'\\', 2),
            [_, b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex_digit(*high) << 4 | hex_digit(*low), 4)
            }
            _ => {
                let shown = if escape.get(1) == Some(&b'x') { 4 } else { 2 };
                let shown = escape.get(..shown).unwrap_or(escape);
                let found = String::from_utf8_lossy(shown).into_owned();
                return Err(EscapeError { at: text.len() - escape.len(), found });
            }
        };
        out.push(byte);
        rest = escape.get(length..).unwrap_or(&[]);
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// The bytes that `text` stands for.
pub fn unescape(text: &[u8]) -> Result<Vec<u8>, EscapeError> {
    let mut out = Vec::with_capacity(text.len());
    unescape_into(text, &mut out)?;
    Ok(out)
}

fn hex_digit(digit: u8) -> u8 {
    char::from(digit).to_digit(16).unwrap_or(0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn printable_text_stays_as_it_is() {
        assert_eq!(escape("Uppsala, Åre, 東京 🪨".as_bytes()), "Uppsala, Åre, 東京 🪨");
        assert_eq!(escape(b"a\tb\nc\\d\r\x00\xff\x7f"), "a\\tb\\nc\\\\d\\x0d\\x00\\xff\\x7f");
        assert_eq!(escape("\u{85}".as_bytes()), "\\xc2\\x85");
    }

    #[test]
    fn every_byte_string_round_trips() {
        let mut rng = SmallRng::seed_from_u64(1);
        for length in 0..200 {
            // A small alphabet makes backslashes, x's and digits meet.
            let alphabet = if length % 2 == 0 { &b"\\x0aft\t\n\xc3\xa5"[..] } else { &[] };
            let bytes: Vec<u8> = (0..length)
                .map(|_| match alphabet.len() {
                    0 => rng.random(),
                    n => alphabet[rng.random_range(0..n)],
                })
                .collect();
            let text = escape(&bytes);
            assert!(!text.contains(char::is_control));
            assert_eq!(unescape(text.as_bytes()), Ok(bytes));
        }
    }

    #[test]
    fn wrong_escapes_are_named() {
        for (text, found, at) in
            [("ab\\q", "\\q", 2), ("\\", "\\", 0), ("\\x1", "\\x1", 0), ("..\\xg0z", "\\xg0", 2)]
        {
            let error = unescape(text.as_bytes()).unwrap_err();
            assert_eq!((error.at, error.found.as_str()), (at, found));
        }
        assert!(unescape(b"\\q").unwrap_err().to_string().contains("\\xNN"));
    }
}
