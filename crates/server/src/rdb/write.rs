//! Values as Redis' database files hold them, written in plain encodings, which any Redis reads.

use super::{HASH, HASH_EXPIRING, SET, STRING, crc64};
use crate::failure::Outcome;
use crate::keyspace::{Collection, KeyState, Kind, Value};

/// The version of what is written: Redis 7's.
const VERSION: u16 = 10;

fn put_length(to: &mut Vec<u8>, length: usize) {
    match length {
        0..0x40 => to.push(u8::try_from(length).unwrap_or(0)),
        0x40..0x4000 => {
            to.extend_from_slice(&(u16::try_from(length).unwrap_or(0) | 0x4000).to_be_bytes());
        }
        _ => match u32::try_from(length) {
            Ok(length) => {
                to.push(0x80);
                to.extend_from_slice(&length.to_be_bytes());
            }
            Err(_) => {
                to.push(0x81);
                to.extend_from_slice(&(length as u64).to_be_bytes());
            }
        },
    }
}

fn put_string(to: &mut Vec<u8>, bytes: &[u8]) {
    put_length(to, bytes.len());
    to.extend_from_slice(bytes);
}

fn put_collection(to: &mut Vec<u8>, collection: &Collection) -> Outcome {
    let entries = collection.all()?;
    let soonest = entries.iter().map(|(_, element)| element.expires_at).filter(|at| *at > 0).min();
    match (collection.kind, soonest) {
        (Kind::Set, _) => to.push(SET),
        (Kind::Hash, None) => to.push(HASH),
        (Kind::Hash, Some(soonest)) => {
            to.push(HASH_EXPIRING);
            to.extend_from_slice(&soonest.to_le_bytes());
        }
    }
    put_length(to, entries.len());
    for (name, element) in &entries {
        if let Some(soonest) = soonest {
            let ttl = if element.expires_at == 0 { 0 } else { element.expires_at - soonest + 1 };
            put_length(to, usize::try_from(ttl).unwrap_or(0));
        }
        put_string(to, name);
        if collection.kind == Kind::Hash {
            put_string(to, &element.value);
        }
    }
    Ok(())
}

/// What DUMP returns of a key; none where it is not there.
///
/// # Errors
/// Those of reading.
pub fn payload(state: &KeyState) -> Outcome<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match state.value() {
        Value::Absent => return Ok(None),
        Value::String(text) => {
            bytes.push(STRING);
            put_string(&mut bytes, text.as_bytes());
        }
        Value::Collection(collection) => put_collection(&mut bytes, collection)?,
    }
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&crc64(&bytes).to_le_bytes());
    Ok(Some(bytes))
}
