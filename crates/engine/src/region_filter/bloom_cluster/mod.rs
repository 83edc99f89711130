//! Bloom clusters: one filter per run and column of digests, those of a region's runs side by side in a file,
//! so that one read says which run may hold a key.
//!
//! Source: LSM-trie (Wu et al., ATC'15), "Clustering Bloom filters"; the structure is `bloom_cluster` in
//! `siltstone-succinct`. Where we differ, and why:
//!
//! * The published system rewrites a cluster whenever a run is added. Here a new run's filters, its *row*,
//!   are first held in memory, and the file is written again once they are a quarter of all, or once there is
//!   nothing else to do: under load a filter is written about three times in the life of a region of thirty
//!   runs, and at most a quarter of the last level's filters are in memory.
//! * A file is never changed. It names the runs it covers, and is right for as long as one of them lies in
//!   its region, whatever lies there beside it.
//!
//! Invariants: `runs` are those of the region, newest first; what a source says of a run, its keys bear out.

mod builder;
mod cluster;
mod file;
mod write;

pub(super) use builder::{ClusterBuilder, ClusterSettings};
pub(super) use cluster::BloomCluster;
pub(crate) use file::cluster_shape;
