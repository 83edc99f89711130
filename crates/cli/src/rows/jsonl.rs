//! One JSON object a line: `{"key": "…", "value": "…"}`, with `key_base64` and `value_base64` in their place
//! for bytes that are not UTF-8.

use super::Row;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::borrow::Cow;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item<'a> {
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    key_base64: Option<Cow<'a, str>>,
    #[serde(borrow)]
    value: Option<Cow<'a, str>>,
    #[serde(borrow)]
    value_base64: Option<Cow<'a, str>>,
}

/// The item as a JSON object.
pub fn item(key: &[u8], value: &[u8]) -> Value {
    let mut object = Map::new();
    for (name, bytes) in [("key", key), ("value", value)] {
        match std::str::from_utf8(bytes) {
            Ok(text) => object.insert(name.to_owned(), text.into()),
            Err(_) => object.insert(format!("{name}_base64"), BASE64.encode(bytes).into()),
        };
    }
    Value::Object(object)
}

/// Appends the row without a line feed.
pub fn write(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(item(key, value).to_string().as_bytes());
}

/// Reads one line without its line feed into an empty `row`.
pub fn parse(line: &[u8], row: &mut Row) -> Result<(), String> {
    let item: Item<'_> = serde_json::from_slice(line).map_err(|e| {
        // Every line is line 1 to the parser; ours is said by the caller.
        e.to_string().replace("at line 1 column", "at column")
    })?;
    field("key", item.key, item.key_base64, &mut row.key)?;
    field("value", item.value, item.value_base64, &mut row.value)
}

fn field(
    name: &str,
    text: Option<Cow<'_, str>>,
    base64: Option<Cow<'_, str>>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    match (text, base64) {
        (Some(text), None) => out.extend_from_slice(text.as_bytes()),
        (None, Some(text)) => {
            BASE64
                .decode_vec(text.as_bytes(), out)
                .map_err(|e| format!("{name}_base64 is not base64: {e}"))?;
        }
        (None, None) => return Err(format!("there is no \"{name}\" and no \"{name}_base64\"")),
        (Some(_), Some(_)) => {
            return Err(format!("there are both \"{name}\" and \"{name}_base64\"; give one"));
        }
    }
    Ok(())
}
