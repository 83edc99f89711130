//! The boundary that every call goes through: no panic leaves it, and failures are thrown.

use crate::error::{Failure, throw};
use jni::JNIEnv;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`; what fails is thrown, and `nothing` returned, which Java never sees.
#[inline]
pub fn guard<'l, T>(
    mut env: JNIEnv<'l>,
    nothing: T,
    work: impl FnOnce(&mut JNIEnv<'l>) -> Result<T, Failure>,
) -> T {
    // Whatever a panic leaves half done is behind a lock of the engine, which poisons the store, or is dropped.
    match catch_unwind(AssertUnwindSafe(|| work(&mut env))) {
        Ok(Ok(value)) => value,
        Ok(Err(failure)) => {
            throw(&mut env, failure);
            nothing
        }
        Err(panic) => {
            let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
            let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            if !env.exception_check().unwrap_or(true) {
                let sentence =
                    format!("Siltstone panicked, which is a mistake in it; please report it: {said}");
                // Where this fails the virtual machine has an exception of its own pending.
                drop(env.throw_new("java/lang/InternalError", sentence));
            }
            nothing
        }
    }
}
