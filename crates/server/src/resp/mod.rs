//! Redis' wire protocol, without a socket: requests out of bytes, replies into bytes.
//!
//! Source: the RESP2 and RESP3 specifications of Redis. `decode.rs` is incremental and trusts nothing: a
//! length is checked against its limit before anything is reserved for it. `encode.rs` writes what a client
//! asked for by `HELLO`; commands name a reply's shape (map, set, double) and the encoder knows how RESP2
//! spells it.

mod decode;
mod encode;

pub use decode::{Decoder, Limits, ProtocolError, split_words};
pub use encode::Output;

use bytes::Bytes;
use smallvec::SmallVec;

/// One command as it arrived: its bytes, and where its arguments lie in them.
#[derive(Clone, Debug, Default)]
pub struct Request {
    data: Bytes,
    arguments: SmallVec<[(usize, usize); 6]>,
}

impl Request {
    /// Makes a request of `arguments`, as a client would have sent them.
    pub fn of<A: AsRef<[u8]>>(arguments: &[A]) -> Self {
        let mut data = Vec::new();
        let mut places = SmallVec::new();
        for argument in arguments {
            let from = data.len();
            data.extend_from_slice(argument.as_ref());
            places.push((from, data.len()));
        }
        Self { data: data.into(), arguments: places }
    }

    /// Number of arguments, the command's name included.
    pub fn len(&self) -> usize {
        self.arguments.len()
    }

    /// Whether there is not even a name.
    pub fn is_empty(&self) -> bool {
        self.arguments.is_empty()
    }

    /// Argument `number`, 0 being the command's name; empty where there is none, which a command that has
    /// checked its arity never sees.
    pub fn get(&self, number: usize) -> &[u8] {
        let place = self.arguments.get(number);
        place.and_then(|&(from, to)| self.data.get(from..to)).unwrap_or_default()
    }

    /// The arguments from `number` on.
    pub fn from(&self, number: usize) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        (number.min(self.len())..self.len()).map(|at| self.get(at))
    }

    /// Bytes that the request takes.
    pub fn bytes(&self) -> usize {
        self.data.len() + self.arguments.len() * size_of::<(usize, usize)>()
    }
}
