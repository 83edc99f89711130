//! Bit vectors, and the counts that make them searchable.

pub mod rank_select;
pub mod vector;
