//! The succinct structures behind Siltstone's indexes and filters: bytes in, bytes out.
//!
//! Nothing here does I/O, reads a clock, spawns a thread or depends on another crate, so that each structure
//! can be tested, fuzzed and measured alone.
//!
//! | module | structure | answers |
//! |---|---|---|
//! | [`bits::vector`] | [`BitVec`](bits::vector::BitVec) | the bit, or up to 64 bits, at a position |
//! | [`bits::rank_select`] | [`RankSelect`](bits::rank_select::RankSelect) | ones before a position; position of the k-th one |
//! | [`bits::sorted_lines`] | [`SortedLines`](bits::sorted_lines::SortedLines) | integers before a value, and equal to it, for one cache miss |
//! | [`code::varint`] | LEB128 | integers in one to ten bytes |
//! | [`filter::bloom`] | [`Bloom`](filter::bloom::Bloom) | may this set hold the key? |
//! | [`filter::bucket_blooms`] | [`BucketBlooms`](filter::bucket_blooms::BucketBlooms) | the same, a small filter for each bucket of a hash table |
//! | [`filter::bloom_cluster`] | [`ClusterShape`](filter::bloom_cluster::ClusterShape) | which of many sets may hold the key, by one page of all their filters |
//! | [`buckets::migration`] | [`Migration`](buckets::migration::Migration) | which items leave overfull pages, and for which |
//! | [`buckets::hash_marks`] | [`HashMarks`](buckets::hash_marks::HashMarks) | where a key's item is that has left its bucket |
//! | [`filter::cuckoo`] | [`CuckooFilter`](filter::cuckoo::CuckooFilter) | the same, in two cache lines |
//! | [`filter::multi_level_cuckoo`] | [`MultiLevelCuckooFilter`](filter::multi_level_cuckoo::MultiLevelCuckooFilter) | which run of a region may hold the key? |
//! | [`filter::maplet`] | [`Maplet`](filter::maplet::Maplet) | the same, built by merging |
//! | `code::bit_stream`, `code::elias`, `code::huffman` | prefix codes, internal | small integers in few bits |
//! | [`index::cells`] | [`Cells`](index::cells::Cells) | which page of a sorted table of hashed keys may hold the key? in nine bits a page |
//! | [`index::entropy_trie`] | [`EntropyTrie`](index::entropy_trie::EntropyTrie) | the rank of a key, or its block, without the keys |
//! | [`index::partial_key_cuckoo`] | [`PartialKeyCuckoo`](index::partial_key_cuckoo::PartialKeyCuckoo) | the few numbers that may be a key's, in six bytes each |
//! | [`index::separators`] | [`Separators`](index::separators::Separators) | which page of a sorted table may hold the key? |
//! | [`index::leveldb`] | [`LevelDbIndex`](index::leveldb::LevelDbIndex) | the same, in LevelDB's own forms, and where the page lies |
//! | [`index::three_level`] | [`ThreeLevelIndex`](index::three_level::ThreeLevelIndex) | the same for keys of a hashed prefix and a suffix, in a bit per key |
//!
//! Conventions that hold in every module:
//!
//! - A structure is built once, by a builder or a constructor, and is immutable from then on.
//! - `to_bytes` appends to a buffer; `from_bytes` takes exactly the bytes that one `to_bytes` wrote. Integers
//!   are little-endian. Equal structures have equal bytes, and one structure has one encoding.
//! - `from_bytes` trusts nothing. It returns a [`DecodeError`](error::DecodeError) or a structure whose
//!   lookups can't panic, and allocates no more than a small multiple of the input. It does not detect every
//!   changed bit: checksums are the caller's.
//! - What can be rebuilt in one pass over the bytes (rank counts, restart offsets) is not stored, so it can't
//!   be wrong.

pub mod bits;
pub mod buckets;
pub mod code;
pub mod error;
pub mod filter;
pub mod index;
