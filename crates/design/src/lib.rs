//! The shared language of Siltstone.
