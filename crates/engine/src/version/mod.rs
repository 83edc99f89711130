//! Versions: which tables make up a keyspace, and the log of edits that says so.
//!
//! A version is immutable; readers pin one and never see half a compaction. An [`edit::Edit`] leads from one
//! version to the next and is on disk before the new version is seen. [`run`], [`region`], [`level`] and
//! [`Version`] are the four nouns, each of the one before.

pub(crate) mod check;
mod design_steps;
pub(crate) mod designs;
pub(crate) mod edit;
mod garbage;
pub(crate) mod level;
pub(crate) mod manifest;
pub(crate) mod region;
pub(crate) mod run;
#[cfg(test)]
mod tests;
#[expect(
    clippy::module_inception,
    reason = "the type after which the module is called, beside those it is made of"
)]
mod version;

pub(crate) use region::Region;
pub(crate) use run::Run;
pub(crate) use version::Version;
