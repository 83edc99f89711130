//! Which of the planted bugs is awake: `mutations.sh` puts this file into a copy of the engine.

use std::sync::OnceLock;

/// Whether the bug of this name is.
pub(crate) fn is(name: &str) -> bool {
    static AWAKE: OnceLock<String> = OnceLock::new();
    AWAKE.get_or_init(|| std::env::var("SILTSTONE_PLANTED").unwrap_or_default()) == name
}
