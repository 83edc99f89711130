//! Ordinary files.
