//! Succinct structures behind Siltstone's indexes and filters: bytes in, bytes out, no I/O.
