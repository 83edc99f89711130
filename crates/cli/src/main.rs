//! The command line of Siltstone.

fn main() {}
