//! Siltstone: an embedded key-value storage engine.
pub mod io;
