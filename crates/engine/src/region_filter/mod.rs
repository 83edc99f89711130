//! Filters of regions: one filter over the keys of a region's runs, which says which of the runs may hold a
//! key.
//!
//! Each kind has a file of its own: the multi-level cuckoo filter and the maplet name the runs that may hold
//! a key, and lie in memory; the Bloom cluster rules runs out, and lies on the device. What is common to all
//! of them, and why:
//!
//! * A filter belongs to a region and goes with its runs, so no entry ever moves from one level's filter to
//!   another's.
//! * A filter is never changed. To add a run the writer makes another one that has the run's keys too, and
//!   publishes it with the version that has the run: readers never wait, and a snapshot keeps the filter that
//!   fits its tables.
//! * A filter may know only some of the region's runs; the others are simply asked. Nothing depends on having
//!   a filter: it may be dropped where memory is short, and is built anew from the tables in the background.
//! * Runs never change and their numbers are not used twice. So what a filter says of a run stays true
//!   however old the filter is, and filters can be kept in files that no edit of the manifest names
//!   ([`sidecar`]).
//!
//! A new kind of filter is a variant of `RegionFilterSpec` in `siltstone-design` and its bounds in `check.rs`
//! there, a file here, its arms in `filter.rs`, `builder.rs` and `kind.rs`, and a kind of record in
//! `sidecar.rs` and docs/format.md.

mod bloom_cluster;
mod builder;
mod candidates;
pub(crate) mod directory;
mod filter;
mod kind;
mod lack;
mod limits;
mod maplet;
mod maplet_pair;
mod multi_level_cuckoo;
mod possible;
mod run;
pub(crate) mod sidecar;
mod slotted;
#[cfg(test)]
pub(crate) mod test_run;
#[cfg(test)]
mod tests;

pub(crate) use bloom_cluster::cluster_shape;
pub(crate) use builder::{ExpectedRun, Filtered, RegionFilterBuilder};
pub(crate) use candidates::{Candidate, Candidates};
pub(crate) use filter::{NewRegionFilter, RegionFilter};
pub(crate) use kind::RegionFilterKind;
pub(crate) use lack::{Lack, Means};
pub(crate) use limits::FilterLimits;
pub(crate) use possible::{Asked, PossibleFilter};
pub(crate) use run::{Contents, FilteredRun};
pub(crate) use slotted::Prefetch;
