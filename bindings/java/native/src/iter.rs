//! Iterators: the engine's, a block of items at a time.
//!
//! ```text
//! item   key bytes u32 · value bytes u32 · key · value
//! ```

use crate::error::Failure;
use crate::guard::guard;
use crate::handles::{ITERATORS, KEYSPACES, Of, SNAPSHOTS, Table};
use jni::JNIEnv;
use jni::objects::{JByteArray, JClass};
use jni::sys::{jboolean, jint, jlong};
use parking_lot::Mutex;
use siltstone::{Iter, Keys};
use std::ops::Bound;

/// An iterator with its direction and what it yields.
pub enum Walk {
    Items { iter: Iter, is_reverse: bool },
    Keys { keys: Keys, is_reverse: bool },
}

impl Walk {
    fn new(iter: Iter, is_reverse: bool, keys_only: bool) -> Mutex<Self> {
        Mutex::new(if keys_only {
            Self::Keys { keys: iter.keys(), is_reverse }
        } else {
            Self::Items { iter, is_reverse }
        })
    }

    /// Adds the next item to `block`; false at the end.
    fn add_to(&mut self, block: &mut Vec<u8>) -> siltstone::Result<bool> {
        match self {
            Self::Items { iter, is_reverse: false } => match iter.next_ref()? {
                Some((key, value)) => add(block, key, value),
                None => return Ok(false),
            },
            Self::Items { iter, is_reverse: true } => match iter.next_back().transpose()? {
                Some((key, value)) => add(block, &key, &value),
                None => return Ok(false),
            },
            Self::Keys { keys, is_reverse: false } => match keys.next_ref()? {
                Some(key) => add(block, key, &[]),
                None => return Ok(false),
            },
            Self::Keys { keys, is_reverse: true } => match keys.next_back().transpose()? {
                Some(key) => add(block, &key, &[]),
                None => return Ok(false),
            },
        }
        Ok(true)
    }
}

fn add(block: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    // Keys have at most 64 KiB and values at most a GiB.
    block.extend_from_slice(&(key.len() as u32).to_be_bytes());
    block.extend_from_slice(&(value.len() as u32).to_be_bytes());
    block.extend_from_slice(key);
    block.extend_from_slice(value);
}

/// One end of a range: 0 none, 1 inclusive, 2 exclusive.
fn bound(env: &JNIEnv<'_>, kind: jint, suffix: &JByteArray<'_>) -> Result<Bound<Vec<u8>>, Failure> {
    Ok(match kind {
        0 => Bound::Unbounded,
        1 => Bound::Included(env.convert_byte_array(suffix)?),
        _ => Bound::Excluded(env.convert_byte_array(suffix)?),
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_iterate<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    keyspace: jlong,
    snapshot: jlong,
    is_reverse: jboolean,
    keys_only: jboolean,
) -> jlong {
    guard(env, 0, |_| {
        let keyspace = KEYSPACES.get(keyspace)?;
        let iter = match SNAPSHOTS.get_if_named(snapshot)? {
            Some(snapshot) => snapshot.iter(&keyspace)?,
            None => keyspace.iter()?,
        };
        Ok(ITERATORS.put(Of::new(keyspace.store, Walk::new(iter, is_reverse != 0, keys_only != 0))))
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_iterateGroup<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    keyspace: jlong,
    snapshot: jlong,
    prefix: JByteArray<'l>,
    from_kind: jint,
    from: JByteArray<'l>,
    to_kind: jint,
    to: JByteArray<'l>,
    is_reverse: jboolean,
    keys_only: jboolean,
) -> jlong {
    guard(env, 0, |env| {
        let keyspace = KEYSPACES.get(keyspace)?;
        let prefix = env.convert_byte_array(&prefix)?;
        let snapshot = SNAPSHOTS.get_if_named(snapshot)?;
        let iter = if from_kind == 0 && to_kind == 0 {
            match snapshot {
                Some(snapshot) => snapshot.prefix(&keyspace, prefix)?,
                None => keyspace.prefix(prefix)?,
            }
        } else {
            let range = (bound(env, from_kind, &from)?, bound(env, to_kind, &to)?);
            match snapshot {
                Some(snapshot) => snapshot.prefix_range(&keyspace, prefix, range)?,
                None => keyspace.prefix_range(prefix, range)?,
            }
        };
        Ok(ITERATORS.put(Of::new(keyspace.store, Walk::new(iter, is_reverse != 0, keys_only != 0))))
    })
}

/// Returns items of at least one, and of about `bytes` bytes; null at the end.
#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_nextBlock<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    iterator: jlong,
    bytes: jint,
) -> JByteArray<'l> {
    guard(env, JByteArray::default(), |env| {
        let walk = ITERATORS.get(iterator)?;
        let bytes = usize::try_from(bytes).unwrap_or_default();
        let mut block = Vec::with_capacity(bytes.min(1 << 20));
        {
            let mut walk = walk.lock();
            while block.len() < bytes.max(1) && walk.add_to(&mut block)? {}
        }
        if block.is_empty() {
            return Ok(JByteArray::default());
        }
        Ok(env.byte_array_from_slice(&block)?)
    })
}

/// Counts open things, in the order of `handles.rs`, so that tests see what leaks.
#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_openHandles<'l>(env: JNIEnv<'l>, _class: JClass<'l>) -> jlong {
    use crate::handles::{RESOURCES, STORES};
    fn count<T>(table: &Table<T>) -> usize {
        table.len()
    }
    guard(env, 0, |_| {
        let open =
            count(&RESOURCES) + count(&STORES) + count(&KEYSPACES) + count(&SNAPSHOTS) + count(&ITERATORS);
        Ok(jlong::try_from(open).unwrap_or(jlong::MAX))
    })
}
