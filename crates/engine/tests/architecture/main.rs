//! Holds the sources to ARCHITECTURE.md: floors, circles, crate edges, who may touch the operating system,
//! how long files, functions and comments are, how many fields the store's parts have, `unsafe`.
//!
//! The sources are read as text: comments and strings are blanked, `#[cfg(test)]` modules left out, and every
//! path that begins with `crate::`, `super::` or a child module is resolved to the module it leads to. A
//! violation names file and line.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that finds nothing should fail")]

mod circles;
mod crates;
mod documents;
mod imports;
mod shape;
mod source;
mod unsafe_code;
