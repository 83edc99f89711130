//! What whole designs cost, one file per paper: SILT's and SlimDB's own analytic models.
//!
//! Unlike [`crate::engines`] these count neither key popularity nor redundancy; they are the closed forms
//! that the papers print, with what the papers leave open made a parameter.

pub mod inlining;
pub mod silt;
pub mod slimdb;
