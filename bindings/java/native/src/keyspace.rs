//! Reads and single writes of a keyspace.

use crate::answer::{json, longs};
use crate::error::Failure;
use crate::guard::guard;
use crate::handles::{KEYSPACES, SNAPSHOTS, STORES};
use crate::packed::{Packed, direct, direct_mut};
use crate::store::{layout, text};
use jni::JNIEnv;
use jni::objects::{JByteArray, JByteBuffer, JClass, JLongArray, JString};
use jni::sys::{jboolean, jint, jlong, jstring};
use siltstone::CompareAndSet;

/// Bytes of the largest array that virtual machines make.
const LARGEST_ARRAY: usize = i32::MAX as usize - 8;

/// Runs `look` on a value, where there is one.
fn get_with<R>(
    keyspace: jlong,
    snapshot: jlong,
    key: &[u8],
    look: impl FnOnce(&[u8]) -> R,
) -> Result<Option<R>, Failure> {
    let keyspace = KEYSPACES.get(keyspace)?;
    Ok(match SNAPSHOTS.get_if_named(snapshot)? {
        Some(snapshot) => snapshot.get_with(&keyspace, key, look)?,
        None => keyspace.get_with(key, look)?,
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_get<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    keyspace: jlong,
    snapshot: jlong,
    key: JByteArray<'l>,
) -> JByteArray<'l> {
    guard(env, JByteArray::default(), |env| {
        let key = env.convert_byte_array(&key)?;
        let value = get_with(keyspace, snapshot, &key, <[u8]>::to_vec)?;
        match value {
            Some(value) => Ok(env.byte_array_from_slice(&value)?),
            None => Ok(JByteArray::default()),
        }
    })
}

/// Copies as much of the value as fits into a direct buffer, and returns the value's length, or -1.
#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_getInto<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    keyspace: jlong,
    snapshot: jlong,
    key: JByteArray<'l>,
    mut into: JByteBuffer<'l>,
) -> jint {
    guard(env, -1, |env| {
        let key = env.convert_byte_array(&key)?;
        let into = direct_mut(env, &mut into)?;
        let length = get_with(keyspace, snapshot, &key, |value| {
            into.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
            value.len()
        })?;
        Ok(length.and_then(|length| jint::try_from(length).ok()).unwrap_or(-1))
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_contains<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    keyspace: jlong,
    snapshot: jlong,
    key: JByteArray<'l>,
) -> jboolean {
    guard(env, 0, |env| {
        let key = env.convert_byte_array(&key)?;
        let keyspace = KEYSPACES.get(keyspace)?;
        let is_there = match SNAPSHOTS.get_if_named(snapshot)? {
            Some(snapshot) => snapshot.contains(&keyspace, key)?,
            None => keyspace.contains(key)?,
        };
        Ok(is_there.into())
    })
}

/// Takes keys, each with its length before it, and returns values likewise; a length of 2^32 - 1 means none.
#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_multiGet<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    keyspace: jlong,
    snapshot: jlong,
    keys: JByteArray<'l>,
) -> JByteArray<'l> {
    guard(env, JByteArray::default(), |env| {
        let bytes = env.convert_byte_array(&keys)?;
        let mut packed = Packed(&bytes);
        let mut keys = Vec::new();
        while !packed.0.is_empty() {
            let length = packed.length()?;
            keys.push(packed.bytes(length)?);
        }
        let keyspace = KEYSPACES.get(keyspace)?;
        let values = match SNAPSHOTS.get_if_named(snapshot)? {
            Some(snapshot) => snapshot.multi_get(&keyspace, &keys)?,
            None => keyspace.multi_get(&keys)?,
        };
        let bytes: usize = values.iter().map(|value| 4 + value.as_ref().map_or(0, |value| value.len())).sum();
        if bytes > LARGEST_ARRAY {
            return Err(Failure::Invalid(format!(
                "the values of {} keys have {bytes} bytes together, and Java's arrays hold 2 GiB; ask for fewer \
                 keys at once",
                keys.len()
            )));
        }
        let mut answer = Vec::with_capacity(bytes);
        for value in values {
            let length = value.as_ref().map_or(u32::MAX, |value| value.len() as u32);
            answer.extend_from_slice(&length.to_be_bytes());
            answer.extend_from_slice(&value.unwrap_or_default());
        }
        Ok(env.byte_array_from_slice(&answer)?)
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_put<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    keyspace: jlong,
    key: JByteArray<'l>,
    value: JByteArray<'l>,
) {
    guard(env, (), |env| {
        let (key, value) = (env.convert_byte_array(&key)?, env.convert_byte_array(&value)?);
        Ok(KEYSPACES.get(keyspace)?.put(key, value)?)
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_delete<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    keyspace: jlong,
    key: JByteArray<'l>,
) {
    guard(env, (), |env| {
        let key = env.convert_byte_array(&key)?;
        Ok(KEYSPACES.get(keyspace)?.delete(key)?)
    });
}

/// `expected` and `new` may be null: absent before, or deleted. Returns whether it was set.
#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_compareAndSet<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    keyspace: jlong,
    key: JByteArray<'l>,
    expected: JByteArray<'l>,
    new: JByteArray<'l>,
) -> jboolean {
    guard(env, 0, |env| {
        let key = env.convert_byte_array(&key)?;
        let optional = |bytes: &JByteArray<'l>| {
            if bytes.is_null() { Ok(None) } else { env.convert_byte_array(bytes).map(Some) }
        };
        let (expected, new) = (optional(&expected)?, optional(&new)?);
        let keyspace = KEYSPACES.get(keyspace)?;
        let outcome = keyspace.compare_and_set(key, expected.as_deref(), new.as_deref())?;
        Ok(matches!(outcome, CompareAndSet::Set).into())
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_clear<'l>(env: JNIEnv<'l>, _class: JClass<'l>, keyspace: jlong) {
    guard(env, (), |_| Ok(KEYSPACES.get(keyspace)?.clear()?));
}

/// Begins to give a keyspace another design.
#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_redesign<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    keyspace: jlong,
    given: JString<'l>,
) {
    guard(env, (), |env| {
        let design = siltstone::parse_design(&text(env, &given)?)?;
        Ok(KEYSPACES.get(keyspace)?.redesign(design)?)
    });
}

/// Begins to give a keyspace another schema.
#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_changeSchema<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    keyspace: jlong,
    schema: JString<'l>,
    is_hashed: jboolean,
    preset: JString<'l>,
) {
    guard(env, (), |env| {
        let (schema, design) = layout(env, &schema, is_hashed, &preset)?;
        Ok(KEYSPACES.get(keyspace)?.change_schema(schema, design)?)
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_waitForSchema<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    keyspace: jlong,
) {
    guard(env, (), |_| Ok(KEYSPACES.get(keyspace)?.wait_for_schema()?));
}

#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_cancelSchemaChange<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    keyspace: jlong,
) -> jboolean {
    guard(env, 0, |_| Ok(KEYSPACES.get(keyspace)?.cancel_schema_change()?.into()))
}

#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_approximateLength<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    keyspace: jlong,
) -> jlong {
    guard(env, 0, |_| {
        let length = KEYSPACES.get(keyspace)?.approximate_len()?;
        Ok(jlong::try_from(length).unwrap_or(jlong::MAX))
    })
}

/// Builds tables of the packed puts directly; returns how many items there were.
#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_ingest<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    keyspace: jlong,
    buffer: JByteBuffer<'l>,
    length: jint,
) -> jlong {
    guard(env, 0, |env| {
        let keyspace = KEYSPACES.get(keyspace)?;
        let mut packed = Packed(direct(env, &buffer, usize::try_from(length).unwrap_or_default())?);
        let mut items = Vec::new();
        while let Some(operation) = packed.operation()? {
            if !operation.is_put() {
                return Err(Failure::Invalid("a batch that is ingested holds puts alone".to_owned()));
            }
            items.push((operation.key, operation.value));
        }
        let report = keyspace.ingest(items)?;
        Ok(jlong::try_from(report.items).unwrap_or(jlong::MAX))
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_keyspaceStats<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    keyspace: jlong,
) -> jstring {
    guard(env, std::ptr::null_mut(), |env| json(env, &KEYSPACES.get(keyspace)?.stats()))
}

/// Returns the fields of `Keyspace.Figures`, in their order.
#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_keyspaceFigures<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    keyspace: jlong,
) -> JLongArray<'l> {
    guard(env, JLongArray::default(), |env| {
        let stats = KEYSPACES.get(keyspace)?.stats();
        let figures = [
            stats.items_estimate,
            stats.table_bytes,
            stats.write_buffer_bytes,
            stats.write_buffer_entries,
            stats.filter_bytes + stats.index_bytes,
            stats.table_count,
            stats.write_buffer_tombstones,
            stats.sealed_write_buffers,
            stats.sealed_bytes,
            stats.sealed_entries,
            stats.sealed_tombstones,
            stats.gets,
            stats.device_reads_by_hits + stats.device_reads_by_misses,
            stats.tables_probed,
        ];
        longs(env, figures)
    })
}

/// Returns of flushes, of compactions and of other jobs, one after the other, the fields of `Jobs` in their order.
#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_keyspaceJobs<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    keyspace: jlong,
) -> JLongArray<'l> {
    guard(env, JLongArray::default(), |env| {
        let keyspace = KEYSPACES.get(keyspace)?;
        let done = STORES.get(keyspace.store)?.ledger.keyspace(keyspace.name());
        let mut figures = [0; 24];
        for (kind, jobs) in figures.chunks_exact_mut(8).zip([done.flushes, done.compactions, done.others]) {
            kind.copy_from_slice(&[
                jobs.running,
                jobs.ended,
                jobs.failed,
                jobs.bytes_read,
                jobs.bytes_written,
                jobs.total_us,
                jobs.least_us,
                jobs.most_us,
            ]);
        }
        longs(env, figures)
    })
}
