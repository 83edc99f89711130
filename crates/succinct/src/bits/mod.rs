//! Bit vectors, and the counts that make them searchable.

pub mod rank_select;
pub mod sorted_lines;
pub mod vector;
