//! Operations and items as Java packs them into one direct buffer.
//!
//! ```text
//! operation   kind u8 · keyspace u32 · key bytes u32 · value bytes u32 · time to live in ms u64 · key · value
//! kind        0 put, 1 put with a time to live, 2 delete, 3 delete a prefix, 4 merge
//! ```
//!
//! Numbers are big-endian, as Java's buffers write them. `keyspace` counts into the keyspaces that the call names.

use crate::error::Failure;
use crate::handles::Of;
use jni::JNIEnv;
use jni::objects::JByteBuffer;
use siltstone::{Batch, Keyspace};
use std::sync::Arc;
use std::time::Duration;

/// One operation, read from the buffer.
pub struct Operation<'a> {
    kind: u8,
    keyspace: u32,
    pub key: &'a [u8],
    pub value: &'a [u8],
    ttl_ms: u64,
}

impl Operation<'_> {
    /// Adds it to the batch.
    ///
    /// # Errors
    /// What the engine says of the key, or that the buffer is not what the layout says.
    pub fn add_to(&self, batch: &mut Batch, keyspaces: &[Arc<Of<Keyspace>>]) -> Result<(), Failure> {
        let keyspace = keyspaces.get(self.keyspace as usize).ok_or_else(damaged)?;
        match self.kind {
            0 => batch.put(keyspace, self.key, self.value)?,
            1 => batch.put_with_ttl(keyspace, self.key, self.value, Duration::from_millis(self.ttl_ms))?,
            2 => batch.delete(keyspace, self.key)?,
            3 => batch.delete_prefix(keyspace, self.key)?,
            4 => batch.merge(keyspace, self.key, self.value)?,
            _ => return Err(damaged()),
        }
        Ok(())
    }

    /// Whether it puts an item that never expires.
    pub fn is_put(&self) -> bool {
        self.kind == 0
    }
}

/// Bytes that are read from the front.
pub struct Packed<'a>(pub &'a [u8]);

impl<'a> Packed<'a> {
    /// # Errors
    /// That it ends before.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Failure> {
        let (front, rest) = self.0.split_at_checked(count).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        self.bytes(N)?.try_into().map_err(|_| damaged())
    }

    /// # Errors
    /// As [`Packed::bytes`].
    pub fn length(&mut self) -> Result<usize, Failure> {
        Ok(u32::from_be_bytes(self.array()?) as usize)
    }

    /// The next operation, or `None` at the end.
    ///
    /// # Errors
    /// As [`Packed::bytes`].
    pub fn operation(&mut self) -> Result<Option<Operation<'a>>, Failure> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let [kind] = self.array()?;
        let keyspace = u32::from_be_bytes(self.array()?);
        let (key, value) = (self.length()?, self.length()?);
        let ttl_ms = u64::from_be_bytes(self.array()?);
        Ok(Some(Operation { kind, keyspace, key: self.bytes(key)?, value: self.bytes(value)?, ttl_ms }))
    }
}

#[cold]
fn damaged() -> Failure {
    Failure::Invalid("a packed buffer ends early or has an operation that there is not".to_owned())
}

/// Returns the first `length` bytes of a direct buffer.
///
/// # Errors
/// That it is not direct, or shorter.
pub fn direct<'a>(env: &JNIEnv<'_>, buffer: &'a JByteBuffer<'_>, length: usize) -> Result<&'a [u8], Failure> {
    let (address, capacity) =
        (env.get_direct_buffer_address(buffer)?, env.get_direct_buffer_capacity(buffer)?);
    if length > capacity {
        return Err(Failure::Invalid(format!("{length} bytes are asked of a buffer of {capacity}")));
    }
    // SAFETY: the buffer has `capacity` bytes at `address`, which live as long as `buffer`, a local reference of
    // this call. Java's callers hold the lock of the batch that owns it, so nobody writes meanwhile.
    Ok(unsafe { std::slice::from_raw_parts(address, length) })
}

/// As [`direct`], to be written, as a whole.
///
/// # Errors
/// That it is not direct.
pub fn direct_mut<'a>(env: &JNIEnv<'_>, buffer: &'a mut JByteBuffer<'_>) -> Result<&'a mut [u8], Failure> {
    let (address, capacity) =
        (env.get_direct_buffer_address(buffer)?, env.get_direct_buffer_capacity(buffer)?);
    // SAFETY: as in `direct`; a caller who gives one buffer to two calls at once has two threads write bytes to it,
    // whose order Java leaves open as well, and nothing here reads them.
    Ok(unsafe { std::slice::from_raw_parts_mut(address, capacity) })
}
