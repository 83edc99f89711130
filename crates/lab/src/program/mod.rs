//! What a program needs around its work: failures with exit codes, standard output, progress, interrupts; and
//! how tests run one.

pub mod failure;
pub mod interrupt;
pub mod output;
pub mod progress;
pub mod testing;
