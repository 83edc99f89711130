//! Answers of several figures.

use crate::error::Failure;
use jni::JNIEnv;
use jni::objects::JLongArray;
use jni::sys::{jlong, jstring};
use serde::Serialize;

/// Returns figures as an array; those that Java has no number for as its largest.
///
/// # Errors
/// That the virtual machine has no memory.
pub fn longs<'l, const N: usize>(env: &JNIEnv<'l>, figures: [u64; N]) -> Result<JLongArray<'l>, Failure> {
    let figures = figures.map(|figure| jlong::try_from(figure).unwrap_or(jlong::MAX));
    let array = env.new_long_array(N as i32)?;
    env.set_long_array_region(&array, 0, &figures)?;
    Ok(array)
}

/// Returns statistics as JSON.
///
/// # Errors
/// That the virtual machine has no memory.
pub fn json(env: &JNIEnv<'_>, stats: &impl Serialize) -> Result<jstring, Failure> {
    let json = serde_json::to_string(stats).map_err(|error| Failure::Invalid(error.to_string()))?;
    Ok(env.new_string(json)?.into_raw())
}
