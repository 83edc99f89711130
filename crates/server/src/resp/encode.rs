//! Replies as bytes, in the version of the protocol that the client speaks.

use std::io::Write;

/// A reply that grows.
///
/// ```
/// let mut out = siltstone_server::resp::Output::new(false);
/// out.map(1);
/// out.bulk(b"proto");
/// out.integer(2);
/// assert_eq!(out.as_bytes(), b"*2\r\n$5\r\nproto\r\n:2\r\n");
/// ```
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    /// Whether the client asked for RESP3.
    pub resp3: bool,
}

impl Output {
    /// An empty reply.
    pub fn new(resp3: bool) -> Self {
        Self { bytes: Vec::new(), resp3 }
    }

    /// What has been written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What has been written, to be sent.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Bytes written.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Forgets what was written after the first `bytes`.
    pub fn truncate(&mut self, bytes: usize) {
        self.bytes.truncate(bytes);
    }

    /// Appends replies that are encoded already.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn head(&mut self, kind: u8, number: i64) {
        self.bytes.push(kind);
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        let mut rest = number.unsigned_abs();
        loop {
            at -= 1;
            if let Some(digit) = digits.get_mut(at) {
                *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            }
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            self.bytes.push(b'-');
        }
        self.bytes.extend_from_slice(digits.get(at..).unwrap_or_default());
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn length(&mut self, kind: u8, length: usize) {
        self.head(kind, i64::try_from(length).unwrap_or(i64::MAX));
    }

    fn line(&mut self, kind: u8, text: &str) {
        self.bytes.push(kind);
        // A line break would begin another reply.
        self.bytes.extend(text.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// `+OK`.
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// A simple string.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// An error; `text` begins with its code, such as `ERR`.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text);
    }

    /// An integer.
    pub fn integer(&mut self, number: i64) {
        self.head(b':', number);
    }

    /// A count as an integer.
    pub fn count(&mut self, number: usize) {
        self.length(b':', number);
    }

    /// A bulk string.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.length(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A bulk string of text.
    pub fn text(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }

    /// A bulk string, or null.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Text for people, which RESP3 marks as such.
    pub fn verbatim(&mut self, text: &str) {
        if self.resp3 {
            self.length(b'=', text.len() + 4);
            self.bytes.extend_from_slice(b"txt:");
            self.bytes.extend_from_slice(text.as_bytes());
            self.bytes.extend_from_slice(b"\r\n");
        } else {
            self.text(text);
        }
    }

    /// Null.
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Null in the place of an array.
    pub fn null_array(&mut self) {
        self.bytes.extend_from_slice(if self.resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// An array, whose `length` elements follow.
    pub fn array(&mut self, length: usize) {
        self.length(b'*', length);
    }

    /// A request of `arguments`, as clients send them.
    pub fn request<A: AsRef<[u8]>>(&mut self, arguments: &[A]) {
        self.array(arguments.len());
        arguments.iter().for_each(|argument| self.bulk(argument.as_ref()));
    }

    /// A map, whose `length` pairs follow.
    pub fn map(&mut self, length: usize) {
        if self.resp3 { self.length(b'%', length) } else { self.length(b'*', length * 2) }
    }

    /// A set, whose `length` members follow.
    pub fn set(&mut self, length: usize) {
        self.length(if self.resp3 { b'~' } else { b'*' }, length);
    }

    /// A truth value.
    pub fn boolean(&mut self, is_true: bool) {
        if self.resp3 {
            self.bytes.extend_from_slice(if is_true { b"#t\r\n" } else { b"#f\r\n" });
        } else {
            self.integer(i64::from(is_true));
        }
    }

    /// A number with a fraction.
    pub fn double(&mut self, number: f64) {
        if self.resp3 {
            // Writing to a vector can't fail.
            let _ = write!(self.bytes, ",{number}\r\n");
        } else {
            self.text(&number.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(resp3: bool, write: impl Fn(&mut Output)) -> String {
        let mut out = Output::new(resp3);
        write(&mut out);
        String::from_utf8(out.take()).unwrap()
    }

    #[test]
    fn each_version_has_its_spelling() {
        let both = |write: fn(&mut Output)| (of(false, write), of(true, write));
        let pair = |two: &str, three: &str| (two.to_owned(), three.to_owned());
        assert_eq!(both(Output::null), pair("$-1\r\n", "_\r\n"));
        assert_eq!(both(Output::null_array), pair("*-1\r\n", "_\r\n"));
        assert_eq!(both(|out| out.map(2)), pair("*4\r\n", "%2\r\n"));
        assert_eq!(both(|out| out.set(2)), pair("*2\r\n", "~2\r\n"));
        assert_eq!(both(|out| out.double(1.5)), pair("$3\r\n1.5\r\n", ",1.5\r\n"));
        assert_eq!(both(|out| out.boolean(true)), pair(":1\r\n", "#t\r\n"));
        assert_eq!(both(|out| out.verbatim("ab")), pair("$2\r\nab\r\n", "=6\r\ntxt:ab\r\n"));
        assert_eq!(of(false, |out| out.integer(i64::MIN)), format!(":{}\r\n", i64::MIN));
        assert_eq!(of(false, |out| out.integer(0)), ":0\r\n");
        assert_eq!(of(false, |out| out.error("ERR a\r\n+b")), "-ERR a  +b\r\n");
    }
}
