//! The k-way merge: one walk over many sources, newest first, in which each key appears once.
//!
//! Of equal keys the newest source's entry wins; a prefix deleted by a source hides what older sources say of
//! it. Operands fold over what older sources say, as far as these go. Which head is smallest is told by a
//! tournament of digests (`tournament.rs`); sources are asked for whole entries only where digests are equal.

use super::tournament::{Tournament, WriteBufferSpec};
use crate::entry::{Cursor, EntryRef, Item, PrefixTombstones};
use crate::error::Result;
use crate::merge_operator::{Folded, Folder, is_open};
use siltstone_design::{Digest, EncodedKey};
use std::sync::Arc;

/// One input of a merge.
pub(crate) struct Source {
    pub cursor: Box<dyn Cursor>,
    /// Prefixes this source deletes from older ones.
    pub tombstones: PrefixTombstones,
}

/// A merge of sources, newest first.
pub(crate) struct Merge {
    cursors: Vec<Box<dyn Cursor>>,
    tombstones: Vec<PrefixTombstones>,
    any_tombstones: bool,
    heads: Tournament,
    /// The source whose head is the current entry.
    current: Option<usize>,
    /// What is said of the current key where several sources do.
    several: Option<Several>,
    /// Folds operands, where the keyspace takes merges.
    folder: Option<Arc<Folder>>,
}

/// What several versions of a key say together.
struct Several {
    /// What the oldest says of still older ones.
    older_in: u64,
    /// What operands and older versions make.
    folded: Option<Folded>,
}

/// The key that a cursor stands on.
fn key_of(cursors: &[Box<dyn Cursor>], source: usize) -> Option<EncodedKey<'_>> {
    Some(cursors.get(source)?.peek()?.key)
}

/// Whether the head of source `a` comes before that of `b`: of equal keys the newest, those at their end
/// last.
fn is_before(cursors: &[Box<dyn Cursor>], a: usize, b: usize) -> bool {
    match (key_of(cursors, a), key_of(cursors, b)) {
        (Some(key), Some(other)) => key.order(&other).then(a.cmp(&b)).is_lt(),
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => a < b,
    }
}

impl Merge {
    /// A merge standing on its first entry, which folds operands with `folder`.
    pub fn new(sources: Vec<Source>, folder: Option<Arc<Folder>>) -> Result<Self> {
        let any_tombstones = sources.iter().any(|source| !source.tombstones.is_empty());
        let (cursors, tombstones): (Vec<_>, Vec<_>) =
            sources.into_iter().map(|source| (source.cursor, source.tombstones)).unzip();
        let heads: Vec<_> =
            cursors.iter().map(|cursor| cursor.peek().map(|entry| entry.key.digest)).collect();
        let heads = Tournament::new(&heads, |a, b| is_before(&cursors, a, b));
        let (current, several) = (None, None);
        let mut merge = Self { cursors, tombstones, any_tombstones, heads, current, several, folder };
        merge.settle()?;
        Ok(merge)
    }

    fn head(&self, source: usize) -> Option<EntryRef<'_>> {
        self.cursors.get(source)?.peek()
    }

    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "sources are numbered; one left standing would be merged for ever"
    )]
    fn step(&mut self, source: usize) -> Result<()> {
        let digest = self.cursors[source].advance()?;
        self.heads.update(source, digest, |a, b| is_before(&self.cursors, a, b));
        Ok(())
    }

    /// Has the value of a head there.
    #[inline]
    fn load_value(&mut self, source: usize) -> Result<()> {
        self.cursors.get_mut(source).map_or(Ok(()), |cursor| cursor.load_value())
    }

    /// Makes the smallest visible head the current entry and says its digest.
    fn settle(&mut self) -> Result<Option<Digest>> {
        loop {
            let first = self.heads.first();
            self.current = first.map(WriteBufferSpec::source);
            let (Some(first), Some(winner)) = (first, self.current) else { return Ok(None) };
            let digest = first.digest().or_else(|| Some(key_of(&self.cursors, winner)?.digest));
            if digest.is_none() {
                self.current = None;
                return Ok(None);
            }
            self.several = None;
            if self.heads.is_tied() {
                self.load_value(winner)?;
                self.drop_older_versions(winner)?;
            }
            if !self.any_tombstones || !self.is_hidden(winner) {
                self.load_value(winner)?;
                return Ok(digest);
            }
            self.step(winner)?;
        }
    }

    /// Steps the other sources past the key that `winner` stands on, whose operands fold over what they say.
    #[cold]
    fn drop_older_versions(&mut self, winner: usize) -> Result<()> {
        let mut open = match self.head(winner).map(|entry| entry.item) {
            Some(Item::Operands(operands)) if is_open(operands) => Some(operands.to_vec()),
            _ => None,
        };
        let mut folded = None;
        for source in winner + 1..self.cursors.len() {
            if !self.heads.are_tied(winner, source) {
                continue;
            }
            if open.is_some() {
                self.load_value(source)?;
            }
            let older = match (self.head(winner), self.head(source)) {
                (Some(ours), Some(theirs)) if ours.key.key == theirs.key.key => theirs,
                _ => continue,
            };
            let older_in = older.older_in;
            if let (Some(operands), Some(folder)) = (&open, &self.folder) {
                // What a source between them deletes is nothing to fold over.
                let is_hidden = self.any_tombstones && self.is_hidden(source);
                let made = folder.fold(operands, if is_hidden { Item::Deleted } else { older.item })?;
                open = match &made {
                    Folded::Operands(operands) if is_open(operands) => Some(operands.clone()),
                    _ => None,
                };
                folded = Some(made);
            }
            self.several = Some(Several { older_in, folded: None });
            self.step(source)?;
        }
        if let Some(several) = &mut self.several {
            several.folded = folded;
        }
        Ok(())
    }

    fn is_hidden(&self, source: usize) -> bool {
        self.head(source)
            .is_some_and(|entry| self.tombstones.iter().take(source).any(|newer| newer.hides(&entry.key)))
    }
}

impl Cursor for Merge {
    #[inline]
    fn peek(&self) -> Option<EntryRef<'_>> {
        // Changed where it stands: an entry is a hundred bytes, and this is asked for each.
        let mut head = self.head(self.current?);
        if let (Some(several), Some(entry)) = (&self.several, &mut head) {
            entry.older_in = several.older_in;
            if let Some(folded) = &several.folded {
                entry.item = folded.item();
            }
        }
        head
    }

    fn advance(&mut self) -> Result<Option<Digest>> {
        let Some(current) = self.current else { return Ok(None) };
        self.step(current)?;
        self.settle()
    }
}

/// Opens one part of a [`Chain`] when it is reached.
pub(crate) type Part = Box<dyn FnOnce() -> Result<Box<dyn Cursor>> + Send>;

/// Cursors over tables that follow one another in the store's order: a run as one source.
pub(crate) struct Chain {
    rest: std::vec::IntoIter<Part>,
    current: Option<Box<dyn Cursor>>,
}

impl Chain {
    /// Opens each part when the one before it ends.
    pub fn new(parts: Vec<Part>) -> Result<Self> {
        let mut chain = Self { rest: parts.into_iter(), current: None };
        chain.skip_empty()?;
        Ok(chain)
    }

    /// Opens parts until one has an entry, whose digest it says.
    fn skip_empty(&mut self) -> Result<Option<Digest>> {
        loop {
            let head = self.current.as_ref().and_then(|cursor| cursor.peek());
            if let Some(head) = head {
                return Ok(Some(head.key.digest));
            }
            let Some(open) = self.rest.next() else {
                self.current = None;
                return Ok(None);
            };
            self.current = Some(open()?);
        }
    }
}

impl Cursor for Chain {
    fn peek(&self) -> Option<EntryRef<'_>> {
        self.current.as_ref()?.peek()
    }

    fn advance(&mut self) -> Result<Option<Digest>> {
        if let Some(cursor) = &mut self.current
            && let Some(digest) = cursor.advance()?
        {
            return Ok(Some(digest));
        }
        self.skip_empty()
    }

    fn load_value(&mut self) -> Result<()> {
        self.current.as_mut().map_or(Ok(()), |cursor| cursor.load_value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Item, PrefixTombstone};
    use proptest::prelude::*;
    use siltstone_design::{Encoder, HashSecret, PrefixRule, Schema, SuffixOrder};
    use std::collections::{BTreeMap, BTreeSet};

    const SCHEMA: Schema =
        Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 1 }, suffix: SuffixOrder::Ordered };

    struct Listed {
        encoder: Encoder,
        entries: Vec<(Vec<u8>, Option<u8>)>,
        at: usize,
    }

    impl Cursor for Listed {
        fn peek(&self) -> Option<EntryRef<'_>> {
            let (key, value) = self.entries.get(self.at)?;
            let item = match value {
                Some(value) => Item::Put { value: std::slice::from_ref(value), expires_at_ms: 0 },
                None => Item::Deleted,
            };
            Some(EntryRef { key: self.encoder.encode(key).unwrap(), item, older_in: 0 })
        }

        fn advance(&mut self) -> Result<Option<Digest>> {
            self.at += 1;
            Ok(self.peek().map(|entry| entry.key.digest))
        }
    }

    type RunSpec = (BTreeMap<Vec<u8>, Option<u8>>, BTreeSet<u8>);

    fn run_spec() -> impl Strategy<Value = RunSpec> {
        let key = proptest::collection::vec(0u8..3, 1..4);
        (
            proptest::collection::btree_map(key, any::<Option<u8>>(), 0..12),
            proptest::collection::btree_set(0u8..3, 0..2),
        )
    }

    proptest! {
        #[test]
        fn merges_like_a_map_written_oldest_first(runs in proptest::collection::vec(run_spec(), 0..6)) {
            let encoder = Encoder::new(SCHEMA, HashSecret([3; 16]));
            let mut expected: BTreeMap<Vec<u8>, Option<u8>> = BTreeMap::new();
            for (entries, deleted_prefixes) in runs.iter().rev() {
                expected.retain(|key, _| !deleted_prefixes.contains(&key[0]));
                expected.extend(entries.clone());
            }
            let sources = runs.iter().map(|(entries, prefixes)| {
                let mut entries: Vec<_> = entries.clone().into_iter().collect();
                entries.sort_by(|a, b| encoder.encode(&a.0).unwrap().order(&encoder.encode(&b.0).unwrap()));
                let deleted = prefixes.iter().map(|&prefix| PrefixTombstone {
                    hi: encoder.encode_prefix(&[prefix]).unwrap(), prefix: vec![prefix].into(),
                });
                let tombstones = PrefixTombstones::new(deleted.collect());
                Source { cursor: Box::new(Listed { encoder, entries, at: 0 }), tombstones }
            });
            let mut merge = Merge::new(sources.collect(), None).unwrap();
            let mut merged = Vec::new();
            while let Some(entry) = merge.peek() {
                let value = match entry.item { Item::Put { value, .. } => Some(value[0]), _ => None };
                merged.push((entry.key.key.to_vec(), value));
                merge.advance().unwrap();
            }
            let places: Vec<_> = merged.iter().map(|(key, _)| encoder.encode(key).unwrap()).collect();
            prop_assert!(places.windows(2).all(|pair| pair[0].order(&pair[1]).is_lt()));
            prop_assert_eq!(merged.into_iter().collect::<BTreeMap<_, _>>(), expected);
        }
    }
}
