//! Requests out of a stream of bytes, however it is cut.
//!
//! ```text
//! request    * count CR LF, then count times: $ length CR LF  bytes  CR LF
//! inline     words up to LF, quoted as in a shell
//! ```
//!
//! Invariants: the decoder remembers where it stopped, so that bytes are looked at once however slowly they
//! come; it never asks for more memory than the client has sent, but for one argument whose length has
//! arrived and passed its limit.

use super::Request;
use bytes::{Buf, BytesMut};
use smallvec::SmallVec;

/// The longest line of an inline command, or of a length.
const MAX_LINE_BYTES: usize = 64 << 10;
/// What a client may send before it has said who it is: arguments, and bytes in each.
const MAX_ARGUMENTS_BEFORE_AUTH: i64 = 10;
const MAX_ARGUMENT_BYTES_BEFORE_AUTH: i64 = 16 << 10;

/// What a request may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most arguments of a request.
    pub arguments: i64,
    /// Most bytes of one argument (`proto-max-bulk-len`).
    pub argument_bytes: i64,
    /// Most bytes of a request that has not arrived whole (`client-query-buffer-limit`).
    pub request_bytes: usize,
    /// Whether the client has said who it is.
    pub is_authenticated: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { arguments: 1 << 20, argument_bytes: 512 << 20, request_bytes: 1 << 30, is_authenticated: true }
    }
}

/// What a client sent that is no request; the connection ends with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolError(pub String);

impl ProtocolError {
    fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

/// Reads requests from the bytes that have come so far.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Arguments that have arrived whole, as places in the buffer.
    arguments: SmallVec<[(usize, usize); 6]>,
    /// Arguments that are still to come; `None` between requests.
    missing: Option<i64>,
    /// Length of the argument that is arriving.
    length: Option<usize>,
    /// How far the buffer has been read.
    at: usize,
    /// How far it has been searched for the end of a line.
    searched: usize,
}

impl Decoder {
    /// Takes the next request out of `buffer`; `None` where it has not arrived whole.
    ///
    /// # Errors
    /// What is wrong with the bytes. The decoder is of no use afterwards.
    pub fn next(&mut self, buffer: &mut BytesMut, limits: &Limits) -> Result<Option<Request>, ProtocolError> {
        loop {
            if self.missing.is_none() {
                match buffer.first() {
                    None => return Ok(None),
                    Some(b'*') => match self.count(buffer, limits)? {
                        None => return Ok(None),
                        Some(0) => {
                            self.skip(buffer);
                            continue;
                        }
                        Some(count) => self.missing = Some(count),
                    },
                    Some(_) => return self.inline(buffer),
                }
            }
            while self.missing.is_some_and(|missing| missing > 0) {
                if !self.argument(buffer, limits)? {
                    if buffer.len() > limits.request_bytes {
                        return Err(ProtocolError::new("query buffer limit exceeded"));
                    }
                    return Ok(None);
                }
            }
            return Ok(Some(self.take(buffer)));
        }
    }

    /// Bytes that the buffer should have room for, so that the argument that is arriving fits.
    pub fn wanted_bytes(&self) -> usize {
        self.length.map_or(0, |length| self.at + length + 2)
    }

    fn take(&mut self, buffer: &mut BytesMut) -> Request {
        let data = buffer.split_to(self.at).freeze();
        let arguments = std::mem::take(&mut self.arguments);
        *self = Self::default();
        Request { data, arguments }
    }

    fn skip(&mut self, buffer: &mut BytesMut) {
        buffer.advance(self.at);
        *self = Self::default();
    }

    /// Reads a line from where the decoder stands; its place without the end of line.
    fn line(&mut self, buffer: &[u8], what: &str) -> Result<Option<(usize, usize)>, ProtocolError> {
        let from = self.searched.max(self.at);
        let found = buffer.get(from..).and_then(|rest| rest.iter().position(|&byte| byte == b'\n'));
        let Some(end) = found.map(|offset| from + offset) else {
            self.searched = buffer.len();
            if buffer.len() - self.at > MAX_LINE_BYTES {
                return Err(ProtocolError::new(format!("too big {what}")));
            }
            return Ok(None);
        };
        let start = self.at;
        let has_return = end > start && buffer.get(end - 1) == Some(&b'\r');
        self.at = end + 1;
        self.searched = self.at;
        Ok(Some((start, if has_return { end - 1 } else { end })))
    }

    fn count(&mut self, buffer: &[u8], limits: &Limits) -> Result<Option<i64>, ProtocolError> {
        let Some((from, to)) = self.line(buffer, "mbulk count string")? else { return Ok(None) };
        let count = number(buffer.get(from + 1..to).unwrap_or_default());
        let count = count.filter(|count| *count <= limits.arguments);
        let count = count.ok_or_else(|| ProtocolError::new("invalid multibulk length"))?;
        if count > MAX_ARGUMENTS_BEFORE_AUTH && !limits.is_authenticated {
            return Err(ProtocolError::new("unauthenticated multibulk length"));
        }
        Ok(Some(count.max(0)))
    }

    /// Reads one argument; false where it has not arrived whole.
    fn argument(&mut self, buffer: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        let length = match self.length {
            Some(length) => length,
            None => {
                let Some((from, to)) = self.line(buffer, "bulk count string")? else { return Ok(false) };
                let first = buffer.get(from).copied().unwrap_or_default();
                if first != b'$' {
                    let shown = char::from(first);
                    return Err(ProtocolError::new(format!("expected '$', got '{shown}'")));
                }
                let length = number(buffer.get(from + 1..to).unwrap_or_default());
                let length = length.filter(|length| (0..=limits.argument_bytes).contains(length));
                let length = length.ok_or_else(|| ProtocolError::new("invalid bulk length"))?;
                if length > MAX_ARGUMENT_BYTES_BEFORE_AUTH && !limits.is_authenticated {
                    return Err(ProtocolError::new("unauthenticated bulk length"));
                }
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                self.length = Some(length);
                length
            }
        };
        let end = self.at + length;
        if buffer.len() < end + 2 {
            return Ok(false);
        }
        self.arguments.push((self.at, end));
        self.at = end + 2;
        self.searched = self.at;
        self.length = None;
        self.missing = self.missing.map(|missing| missing - 1);
        Ok(true)
    }

    fn inline(&mut self, buffer: &mut BytesMut) -> Result<Option<Request>, ProtocolError> {
        let Some((from, to)) = self.line(buffer, "inline request")? else { return Ok(None) };
        let words = split_words(buffer.get(from..to).unwrap_or_default());
        let words = words.ok_or_else(|| ProtocolError::new("unbalanced quotes in request"))?;
        self.skip(buffer);
        // An empty line asks for nothing, which an empty request says.
        Ok(Some(Request::of(&words)))
    }
}

/// A length: digits, with a sign perhaps, and nothing else.
fn number(bytes: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match bytes.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, bytes),
    };
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0i64, |value, digit| value * 10 + i64::from(digit - b'0'));
    Some(if is_negative { -value } else { value })
}

/// Splits a line into words as Redis does: `"…"` with escapes, `'…'` without. `None` where quotes are not
/// closed.
pub fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some(words);
        }
        let mut word = Vec::new();
        loop {
            match rest.split_first() {
                None => break,
                Some((byte, _)) if byte.is_ascii_whitespace() => break,
                Some((b'"', after)) => {
                    rest = double_quoted(after, &mut word)?;
                    break;
                }
                Some((b'\'', after)) => {
                    rest = single_quoted(after, &mut word)?;
                    break;
                }
                Some((byte, after)) => {
                    word.push(*byte);
                    rest = after;
                }
            }
        }
        words.push(word);
    }
}

/// What follows a closing quote: the end, or a blank.
fn after_quote(rest: &[u8]) -> Option<&[u8]> {
    rest.first().is_none_or(u8::is_ascii_whitespace).then_some(rest)
}

fn single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [b'\\', b'\'', after @ ..] => {
                word.push(b'\'');
                rest = after;
            }
            [b'\'', after @ ..] => return after_quote(after),
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
            [] => return None,
        }
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    loop {
        match rest {
            [b'\\', b'x', high, low, after @ ..] if digit(high).is_some() && digit(low).is_some() => {
                word.push(digit(high)? << 4 | digit(low)?);
                rest = after;
            }
            [b'\\', byte, after @ ..] => {
                word.push(match byte {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest = after;
            }
            [b'"', after @ ..] => return after_quote(after),
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8], limits: &Limits) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
        let (mut decoder, mut buffer) = (Decoder::default(), BytesMut::from(bytes));
        let mut requests = Vec::new();
        while let Some(request) = decoder.next(&mut buffer, limits)? {
            requests.push(request.from(0).map(<[u8]>::to_vec).collect());
        }
        Ok(requests)
    }

    fn words(line: &str) -> Vec<Vec<u8>> {
        line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn requests_are_the_same_however_the_bytes_are_cut() {
        let bytes = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nv\r\n a\r\nPING\r\n*0\r\n*1\r\n$4\r\nQUIT\r\n";
        let whole = decode(bytes, &Limits::default()).unwrap();
        assert_eq!(whole.len(), 3);
        assert_eq!(whole[0][2], b"v\r\n a");
        let (mut decoder, mut buffer) = (Decoder::default(), BytesMut::new());
        let mut requests = Vec::new();
        for byte in bytes {
            buffer.extend_from_slice(&[*byte]);
            while let Some(request) = decoder.next(&mut buffer, &Limits::default()).unwrap() {
                requests.push(request.from(0).map(<[u8]>::to_vec).collect::<Vec<_>>());
            }
        }
        assert_eq!(requests, whole);
    }

    #[test]
    fn what_is_no_request_is_named() {
        let error = |bytes: &[u8]| decode(bytes, &Limits::default()).unwrap_err().0;
        assert_eq!(error(b"*3000000\r\n"), "invalid multibulk length");
        assert_eq!(error(b"*1\r\nfoo\r\n"), "expected '$', got 'f'");
        assert_eq!(error(b"*1\r\n$-10\r\n"), "invalid bulk length");
        assert_eq!(error(b"*1\r\n$9000000000\r\n"), "invalid bulk length");
        assert_eq!(error(b"SET \"a\r\n"), "unbalanced quotes in request");
        assert_eq!(error(&[b'a'; MAX_LINE_BYTES + 2]), "too big inline request");
        let stranger = Limits { is_authenticated: false, ..Limits::default() };
        assert_eq!(decode(b"*11\r\n", &stranger).unwrap_err().0, "unauthenticated multibulk length");
        assert_eq!(decode(b"*1\r\n$99999\r\n", &stranger).unwrap_err().0, "unauthenticated bulk length");
    }

    #[test]
    fn a_length_alone_reserves_nothing() {
        let (mut decoder, mut buffer) = (Decoder::default(), BytesMut::from(&b"*1\r\n$536870912\r\nab"[..]));
        assert!(decoder.next(&mut buffer, &Limits::default()).unwrap().is_none());
        assert!(buffer.capacity() < 1 << 10);
        assert_eq!(decoder.wanted_bytes(), 16 + (512 << 20) + 2);
    }

    #[test]
    fn inline_commands_are_quoted_as_in_a_shell() {
        assert_eq!(split_words(b"SET a b").unwrap(), words("SET a b"));
        assert_eq!(split_words(b" x \"a \\x41\\n\" 'it\\'s' ").unwrap(), [&b"x"[..], b"a A\n", b"it's"]);
        assert_eq!(split_words(b"\"a\"b"), None);
        assert_eq!(split_words(b"'a"), None);
    }
}
