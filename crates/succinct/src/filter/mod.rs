//! Filters: small sets that may answer "yes" wrongly and "no" never.

pub mod bloom;
pub mod bloom_cluster;
pub mod bucket_blooms;
pub mod cuckoo;
pub mod maplet;
pub mod multi_level_cuckoo;
