//! Errors of the engine as Java's exceptions, with their facts.

use jni::JNIEnv;
use jni::objects::{JObject, JThrowable, JValue};
use siltstone::{Error, ErrorKind};

/// Why a call failed.
pub enum Failure {
    /// The engine's error.
    Engine(Error),
    /// What the number stands for is closed.
    Closed(&'static str),
    /// Input that can't be used.
    Invalid(String),
    /// The virtual machine refused something; mostly an exception is pending already.
    Java(jni::errors::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<jni::errors::Error> for Failure {
    fn from(error: jni::errors::Error) -> Self {
        Self::Java(error)
    }
}

fn kind_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidInput => "INVALID_INPUT",
        ErrorKind::BadKey => "BAD_KEY",
        ErrorKind::NoKeyspace => "NO_KEYSPACE",
        ErrorKind::KeyspaceExists => "KEYSPACE_EXISTS",
        ErrorKind::Io => "IO",
        ErrorKind::Corruption => "CORRUPTION",
        ErrorKind::Locked => "LOCKED",
        ErrorKind::PositionGone => "POSITION_GONE",
        ErrorKind::StorageFull => "STORAGE_FULL",
        ErrorKind::Poisoned => "POISONED",
        ErrorKind::ReadOnly => "READ_ONLY",
        ErrorKind::NotAStore => "NOT_A_STORE",
        ErrorKind::MergeFailed => "MERGE_FAILED",
        _ => "OTHER",
    }
}

/// What the engine's messages call by names of its own, and what it is to those who use it from Java. Longer names come
/// before those that they hold.
const NAMES: [(&str, &str); 14] = [
    ("options.memory_budget_bytes", "memoryBytes"),
    ("memory_budget_bytes", "memoryBytes"),
    ("options.background_threads", "threads"),
    ("background_threads", "threads"),
    ("options.max_open_files", "maxOpenFiles"),
    ("max_open_files", "maxOpenFiles"),
    ("give it in options.merge_operators, or name", "name"),
    ("make the write buffer and the tables smaller, or name no design", "or name no preset"),
    ("design.write_buffer.bytes", "preset"),
    ("design.write_buffer.entries", "preset"),
    ("create one with a merge operator", "create one with KeyspaceOptions.mergeOperator"),
    (
        "a walk over the keys starting with it takes any beginning, and reads more",
        "give a whole prefix, or walk over all items",
    ),
    ("open read-only; open it for writing", "open read-only; open it without Options.readOnly to write"),
    (", or WalRecovery::StopAtDamage in the library", ""),
];

/// Returns a message of the engine in Java's names.
fn in_java(message: &str) -> String {
    NAMES.iter().fold(message.to_owned(), |message, (name, here)| message.replace(name, here))
}

/// Throws what `failure` is in Java. Where not even that works, the virtual machine has an exception of its own
/// pending, such as that there is no memory.
#[cold]
pub fn throw(env: &mut JNIEnv<'_>, failure: Failure) {
    if env.exception_check().unwrap_or(true) {
        return;
    }
    let thrown = match failure {
        Failure::Closed(what) => closed(env, &format!("the {what} is closed")),
        Failure::Engine(error) if error.kind() == ErrorKind::Closed => closed(env, &error.to_string()),
        Failure::Engine(error) => of_engine(env, &error),
        Failure::Invalid(why) => facts(env, "INVALID_INPUT", &why, None, None, None, None),
        Failure::Java(jni::errors::Error::NullPtr(what)) => {
            env.throw_new("java/lang/NullPointerException", what)
        }
        Failure::Java(error) => env.throw_new("java/lang/InternalError", error.to_string()),
    };
    if thrown.is_err() && !env.exception_check().unwrap_or(true) {
        env.fatal_error("Siltstone could not throw an exception");
    }
}

fn closed(env: &mut JNIEnv<'_>, sentence: &str) -> jni::errors::Result<()> {
    env.throw_new("java/lang/IllegalStateException", sentence)
}

fn of_engine(env: &mut JNIEnv<'_>, error: &Error) -> jni::errors::Result<()> {
    let path = error.path().map(|path| path.to_string_lossy().into_owned());
    let kind = kind_name(error.kind());
    facts(
        env,
        kind,
        &in_java(&error.to_string()),
        path.as_deref(),
        error.offset(),
        error.expected(),
        error.found(),
    )
}

fn facts(
    env: &mut JNIEnv<'_>,
    kind: &str,
    message: &str,
    path: Option<&str>,
    offset: Option<u64>,
    expected: Option<&str>,
    found: Option<&str>,
) -> jni::errors::Result<()> {
    let text = |text: Option<&str>| match text {
        Some(text) => env.new_string(text).map(JObject::from),
        None => Ok(JObject::null()),
    };
    let texts = [text(Some(kind))?, text(Some(message))?, text(path)?, text(expected)?, text(found)?];
    let [kind, message, path, expected, found] = &texts;
    let offset = offset.and_then(|offset| i64::try_from(offset).ok()).unwrap_or(-1);
    let exception = env.new_object(
        "io/siltstone/SiltstoneException",
        "(Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;JLjava/lang/String;Ljava/lang/String;)V",
        &[
            JValue::Object(kind),
            JValue::Object(message),
            JValue::Object(path),
            JValue::Long(offset),
            JValue::Object(expected),
            JValue::Object(found),
        ],
    )?;
    env.throw(JThrowable::from(exception))
}
