//! The sorted store: slots in digest order, and an entropy-coded trie that leads to a key's slot. One read
//! per lookup.
//!
//! Source: Lim et al., "SILT" (SOSP 2011), §3.3. Where we differ, and why:
//!
//! - Where slots begin afresh in every page, the trie is pruned to pages ("sparse indexing" in the paper,
//!   which keeps it for entries of 64 bytes): a page is read anyhow, and the trie takes 1.7 bits per key
//!   instead of 2.5 at four slots a page.
//! - There is a trie per 2^18 keys or so, so that building takes bounded memory, and how many keys there will
//!   be need not be known.
//! - A store without its trie in memory is searched by interpolation, since digests are spread evenly: a few
//!   reads, where halving takes log2(n).
//! - Where a region holds several sorted stores, each may keep a fragment of every key's hash in the order of
//!   the slots (`fragments.rs`; §3.3, "application of false positive filters", which the paper describes and
//!   does not build). The trie then leads to the slot and not to its page: 0.9 bits more for the trie, where
//!   asking for four slots' fragments would take two more bits of each.
//!
//! ```text
//! pages    slot 0, slot 1, ...; where slots run on across pages, they begin afresh every 128 pages
//! index    per trie: its first key u64 · length varint · the trie (siltstone_succinct::index::entropy_trie)
//! filter   with fragments: a bit vector (siltstone_succinct::bits::vector) of as many bits for every slot as the filter says
//! ```
//!
//! Invariants: the upper digest halves of a store's entries ascend strictly; of two that are equal, which
//! takes a collision of 64-bit hashes, the second begins another table. Every trie but the last has as many
//! keys as `trie_keys` says.

pub(crate) mod build;
pub(crate) mod fragments;
pub(crate) mod read;

use super::slots::SlotLayout;
use super::slots::build::CHUNK_PAGES;
use fragments::fragment_bits;
use siltstone_design::TableFilterSpec;
use siltstone_succinct::index::entropy_trie::{Code, Spec};

/// Keys of a trie, roughly.
const TRIE_KEYS: usize = 1 << 18;

/// Slots of a chunk.
fn chunk_slots(layout: SlotLayout) -> usize {
    layout.slots_in(CHUNK_PAGES)
}

/// Keys of every trie but the last: whole chunks, so whole pages.
fn trie_keys(layout: SlotLayout) -> usize {
    let chunk = chunk_slots(layout);
    TRIE_KEYS.div_ceil(chunk) * chunk
}

/// A trie to pages, or to slots where the slot's fragment is asked before its page is read.
fn trie_spec(layout: SlotLayout, filter: TableFilterSpec) -> Spec {
    match layout.per_page() {
        Some(slots) if slots > 1 && fragment_bits(filter).is_none() => Spec::sparse(Code::Weak, slots as u32),
        _ => Spec::dense(Code::Weak),
    }
}
