//! The laboratory: papers' evaluations redone on Siltstone, and what programs share that measure stores.
//!
//! | module | holds | used by |
//! |---|---|---|
//! | [`papers`] | SILT's, LSM-trie's and SlimDB's tables and figures, and the figures of models | `siltstone-lab`, `siltstone bench`, `siltstone model` |
//! | [`advice`] | predictions beside what stores do, and what memory buys by what is advised | `siltstone-lab` |
//! | [`clients`] | workloads in closed loops on items that can be told from their number | `papers`, `siltstone bench` |
//! | [`measure`] | what a store and a process have done between two moments | `papers`, `siltstone bench`, `siltstone demo` |
//! | [`program`] | what a program needs: failures and exit codes, output, progress, interrupts | both programs |
//! | [`kit`] | made-up items, charts, tables, sizes, the device's rates; knows no store | all of these, and the comparison with other engines |
//!
//! A module uses those below it in this table. `kit` stands on its own: a program that knows other engines
//! takes it and nothing else.

pub mod advice;
pub mod clients;
pub mod kit;
pub mod measure;
pub mod papers;
pub mod program;
