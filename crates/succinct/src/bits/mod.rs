//! Bit vectors, and the counts that make them searchable.

pub(crate) mod counting;
pub mod rank_select;
pub mod sorted_lines;
pub mod vector;
