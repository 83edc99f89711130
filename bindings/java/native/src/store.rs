//! Stores, what several of them share, snapshots, and batches of writes.

use crate::answer::{json, longs};
use crate::error::Failure;
use crate::guard::guard;
use crate::handles::{ITERATORS, KEYSPACES, Of, OpenStore, RESOURCES, SNAPSHOTS, STORES};
use crate::jobs::{Ledger, Listener};
use crate::packed::{Packed, direct};
use jni::JNIEnv;
use jni::objects::{JByteBuffer, JClass, JLongArray, JObjectArray, JString};
use jni::sys::{jboolean, jint, jlong, jobjectArray, jstring};
use siltstone::events::Listeners;
use siltstone::{
    Batch, Db, Design, Durability, KeyspaceOptions, Options, ResourceOptions, Resources, Schema, SuffixOrder,
    WriteOptions,
};
use std::fmt::Display;
use std::sync::Arc;

/// A number that Java has found to be none below zero.
fn count<From: Copy + Display, To: TryFrom<From>>(number: From) -> Result<To, Failure> {
    To::try_from(number).map_err(|_| Failure::Invalid(format!("{number} is fewer than none")))
}

pub fn text(env: &mut JNIEnv<'_>, text: &JString<'_>) -> Result<String, Failure> {
    Ok(env.get_string(text)?.into())
}

fn optional_text(env: &mut JNIEnv<'_>, given: &JString<'_>) -> Result<Option<String>, Failure> {
    if given.is_null() { Ok(None) } else { text(env, given).map(Some) }
}

/// Returns a schema, and the design of a preset where one is named.
pub fn layout(
    env: &mut JNIEnv<'_>,
    schema: &JString<'_>,
    is_hashed: jboolean,
    preset_name: &JString<'_>,
) -> Result<(Schema, Option<Design>), Failure> {
    let schema: Schema = text(env, schema)?.parse().map_err(Failure::Invalid)?;
    let suffix = if is_hashed != 0 { SuffixOrder::Hashed } else { SuffixOrder::Ordered };
    let schema = match schema {
        Schema::SemiSorted { prefix, .. } => Schema::SemiSorted { prefix, suffix },
        Schema::Point => Schema::Point,
    };
    Ok((schema, optional_text(env, preset_name)?.map(|given| siltstone::parse_design(&given)).transpose()?))
}

#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_newResources<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    memory_bytes: jlong,
    threads: jint,
    max_open_files: jint,
) -> jlong {
    guard(env, 0, |_| {
        let resources = Resources::new(ResourceOptions {
            memory_budget_bytes: count(memory_bytes)?,
            background_threads: count(threads)?,
            max_open_files: count(max_open_files)?,
            ..ResourceOptions::default()
        })?;
        Ok(RESOURCES.put(resources))
    })
}

/// Returns how often writers were stopped, for how many microseconds, and how many jobs failed that were for no keyspace.
#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_storeFigures<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    store: jlong,
) -> JLongArray<'l> {
    guard(env, JLongArray::default(), |env| {
        let store = STORES.get(store)?.ledger.store();
        longs(env, [store.stalls, store.stalled_us, store.failed])
    })
}

/// Returns memory in bytes, the budget, how many stores there are, and open files.
#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_resourceStats<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    resources: jlong,
) -> JLongArray<'l> {
    guard(env, JLongArray::default(), |env| {
        let stats = RESOURCES.get(resources)?.stats();
        let memory = stats.memory;
        longs(env, [memory.total, memory.budget, stats.stores as u64, stats.open_files as u64])
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_open<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    path: JString<'l>,
    memory_bytes: jlong,
    threads: jint,
    max_open_files: jint,
    max_log_bytes: jlong,
    reserve_bytes: jlong,
    sync_interval_ms: jlong,
    is_synced: jboolean,
    creates: jboolean,
    is_read_only: jboolean,
    is_direct: jboolean,
    preset_name: JString<'l>,
    auto_design: JString<'l>,
    resources: jlong,
) -> jlong {
    guard(env, 0, |env| {
        let path = text(env, &path)?;
        let ledger = Arc::new(Ledger::default());
        let mut options = Options {
            listeners: Listeners::default().with(Arc::new(Listener(Arc::clone(&ledger)))),
            create_if_missing: creates != 0,
            memory_budget_bytes: count(memory_bytes)?,
            background_threads: count(threads)?,
            max_open_files: count(max_open_files)?,
            max_wal_bytes: count(max_log_bytes)?,
            reserve_bytes: count(reserve_bytes)?,
            sync_interval_ms: count(sync_interval_ms)?,
            durability: if is_synced != 0 { Durability::Synced } else { Durability::Buffered },
            direct_reads: is_direct != 0,
            ..Options::default()
        };
        if let Some(resources) = RESOURCES.get_if_named(resources)? {
            options.resources = Some(Resources::clone(&resources));
        }
        if let Some(name) = optional_text(env, &preset_name)? {
            options = options.with_preset(&name)?;
        }
        if let Some(text) = optional_text(env, &auto_design)? {
            options.auto_design =
                text.parse().map_err(|why| Failure::Invalid(format!("autoDesign: {why}")))?;
        }
        let db = if is_read_only != 0 { Db::open_read_only(path, options) } else { Db::open(path, options) }?;
        ledger.know(db.keyspaces());
        Ok(STORES.put(OpenStore { db, ledger }))
    })
}

/// Opens a keyspace, and makes it where there is none.
#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_keyspace<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    store: jlong,
    name: JString<'l>,
    schema: JString<'l>,
    is_hashed: jboolean,
    preset_name: JString<'l>,
    merge_operator: JString<'l>,
) -> jlong {
    guard(env, 0, |env| {
        let db = STORES.get(store)?;
        let name = text(env, &name)?;
        let (schema, design) = layout(env, &schema, is_hashed, &preset_name)?;
        let merge_operator = optional_text(env, &merge_operator)?;
        let keyspace = db.keyspace(&name, KeyspaceOptions { schema, design, merge_operator })?;
        db.ledger.know([name]);
        Ok(KEYSPACES.put(Of::new(store, keyspace)))
    })
}

/// Opens a keyspace as it is; 0 where there is none.
#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_existingKeyspace<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    store: jlong,
    name: JString<'l>,
) -> jlong {
    guard(env, 0, |env| {
        let name = text(env, &name)?;
        Ok(STORES
            .get(store)?
            .get_keyspace(&name)
            .map_or(0, |keyspace| KEYSPACES.put(Of::new(store, keyspace))))
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_keyspaces<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    store: jlong,
) -> jobjectArray {
    guard(env, std::ptr::null_mut(), |env| {
        let names = STORES.get(store)?.keyspaces();
        let length = jint::try_from(names.len()).unwrap_or(jint::MAX);
        let array: JObjectArray<'_> =
            env.new_object_array(length, "java/lang/String", jni::objects::JObject::null())?;
        for (place, name) in (0..length).zip(names) {
            let name = env.new_string(name)?;
            env.set_object_array_element(&array, place, &name)?;
            env.delete_local_ref(name)?;
        }
        Ok(array.into_raw())
    })
}

#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_dropKeyspace<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    store: jlong,
    name: JString<'l>,
) {
    guard(env, (), |env| {
        let name = text(env, &name)?;
        let store = STORES.get(store)?;
        store.drop_keyspace(&name)?;
        store.ledger.forget(&name);
        Ok(())
    });
}

/// Writes what the buffer packs, as a whole or not at all. `is_synced`: 0 as the store does, 1 buffered, 2 synced.
#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_write<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    store: jlong,
    buffer: JByteBuffer<'l>,
    length: jint,
    keyspaces: JLongArray<'l>,
    is_synced: jint,
) {
    guard(env, (), |env| {
        let db = STORES.get(store)?;
        let mut numbers = vec![0; count(env.get_array_length(&keyspaces)?)?];
        env.get_long_array_region(&keyspaces, 0, &mut numbers)?;
        let keyspaces =
            numbers.into_iter().map(|number| KEYSPACES.get(number)).collect::<Result<Vec<_>, _>>()?;
        let mut packed = Packed(direct(env, &buffer, count(length)?)?);
        let mut batch = Batch::new();
        while let Some(operation) = packed.operation()? {
            operation.add_to(&mut batch, &keyspaces)?;
        }
        let durability = match is_synced {
            0 => None,
            1 => Some(Durability::Buffered),
            _ => Some(Durability::Synced),
        };
        Ok(db.write(&batch, &WriteOptions { durability })?)
    });
}

/// What is asked of a store as a whole: 0 flush, 1 sync, 2 wait until it is idle, 3 compact.
#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_upkeep<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    store: jlong,
    what: jint,
) {
    guard(env, (), |_| {
        let db = STORES.get(store)?;
        match what {
            0 => db.flush()?,
            1 => db.sync()?,
            2 => db.wait_until_idle()?,
            _ => {
                db.compact()?;
            }
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_checkpoint<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    store: jlong,
    path: JString<'l>,
) {
    guard(env, (), |env| {
        let path = text(env, &path)?;
        Ok(STORES.get(store)?.checkpoint(path)?)
    });
}

#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_snapshot<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    store: jlong,
) -> jlong {
    guard(env, 0, |_| Ok(SNAPSHOTS.put(Of::new(store, STORES.get(store)?.snapshot()))))
}

#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_storeStats<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    store: jlong,
) -> jstring {
    guard(env, std::ptr::null_mut(), |env| json(env, &STORES.get(store)?.stats()))
}

/// Closes a store for all who use it. A second time does nothing.
#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_closeStore<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    store: jlong,
) {
    guard(env, (), |_| match STORES.take(store) {
        Some(db) => {
            ITERATORS.take_of(store);
            SNAPSHOTS.take_of(store);
            KEYSPACES.take_of(store);
            Ok(Db::clone(&db.db).close()?)
        }
        None => Ok(()),
    });
}

/// Lets go of anything but a store: 0 resources, 1 keyspace, 2 snapshot, 3 iterator. A second time does nothing.
#[unsafe(no_mangle)]
extern "system" fn Java_io_siltstone_Native_release<'l>(
    env: JNIEnv<'l>,
    _class: JClass<'l>,
    kind: jint,
    number: jlong,
) {
    guard(env, (), |_| {
        match kind {
            0 => drop(RESOURCES.take(number)),
            1 => drop(KEYSPACES.take(number)),
            2 => drop(SNAPSHOTS.take(number)),
            _ => drop(ITERATORS.take(number)),
        }
        Ok(())
    });
}
