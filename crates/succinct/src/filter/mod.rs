//! Filters: small sets that may answer "yes" wrongly and "no" never.

pub mod bloom;
