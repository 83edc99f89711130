//! Caches of other projects, behind one face.

use super::{GROUP, PAGE_BYTES, Serving};
use crate::failure::Result;
use foyer_memory::{CacheBuilder, EvictionConfig, LfuConfig, LruConfig, S3FifoConfig};
use std::sync::Arc;

/// What a cache keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Items.
    Rows,
    /// Pages.
    Pages,
}

type Value = Arc<[u8]>;

#[derive(Clone)]
struct Weight;

impl quick_cache::Weighter<u64, Value> for Weight {
    fn weight(&self, _: &u64, value: &Value) -> u64 {
        value.len() as u64
    }
}

enum Cache {
    Moka(moka::sync::Cache<u64, Value>),
    Quick(quick_cache::sync::Cache<u64, Value, Weight>),
    Foyer(foyer_memory::Cache<u64, Value>),
}

/// A library's cache, and how much was read because it lacked something.
pub struct Library {
    cache: Cache,
    kept: Kept,
    /// Bytes of what it keeps one of.
    each: u64,
    items_of_page: u64,
    reads: u64,
}

impl Library {
    /// All of them; foyer's by the algorithm.
    pub const NAMES: [&'static str; 5] = ["moka", "quick_cache", "foyer-s3fifo", "foyer-lfu", "foyer-lru"];

    /// The cache of this name, of so many bytes of keys and values; what a library takes beside them is not
    /// counted.
    pub fn new(name: &str, bytes: u64, kept: Kept, item_bytes: u64) -> Option<Self> {
        let each = if kept == Kept::Rows { item_bytes } else { PAGE_BYTES };
        let foyer = |eviction: EvictionConfig| {
            let builder = CacheBuilder::new(bytes as usize).with_eviction_config(eviction);
            Cache::Foyer(builder.with_weighter(|_: &u64, value: &Value| value.len()).build())
        };
        let cache = match name {
            "moka" => {
                let builder = moka::sync::Cache::builder().max_capacity(bytes);
                Cache::Moka(builder.weigher(|_, value: &Value| value.len() as u32).build())
            }
            "quick_cache" => {
                Cache::Quick(quick_cache::sync::Cache::with_weighter((bytes / each) as usize, bytes, Weight))
            }
            "foyer-s3fifo" => foyer(S3FifoConfig::default().into()),
            "foyer-lfu" => foyer(LfuConfig::default().into()),
            "foyer-lru" => foyer(LruConfig::default().into()),
            _ => return None,
        };
        Some(Self { cache, kept, each, items_of_page: (PAGE_BYTES / item_bytes).max(1), reads: 0 })
    }

    /// Asks for a row or a page; where it is not there, it is read and kept.
    fn ask(&mut self, key: u64) {
        let is_here = match &self.cache {
            Cache::Moka(cache) => cache.get(&key).is_some(),
            Cache::Quick(cache) => cache.get(&key).is_some(),
            Cache::Foyer(cache) => cache.get(&key).is_some(),
        };
        if is_here {
            return;
        }
        self.reads += 1;
        let value: Value = vec![0; self.each as usize].into();
        match &self.cache {
            Cache::Moka(cache) => cache.insert(key, value),
            Cache::Quick(cache) => cache.insert(key, value),
            Cache::Foyer(cache) => drop(cache.insert(key, value)),
        }
    }
}

impl Serving for Library {
    fn get(&mut self, item: u64) -> Result<()> {
        self.ask(if self.kept == Kept::Rows { item } else { item / self.items_of_page });
        Ok(())
    }

    fn list(&mut self, group: u64) -> Result<()> {
        let (first, last) = (group * GROUP, group * GROUP + GROUP - 1);
        let pages = first / self.items_of_page..=last / self.items_of_page;
        if self.kept == Kept::Pages {
            pages.for_each(|page| self.ask(page));
        } else {
            // Nobody knows whether all rows of a group are here.
            self.reads += pages.count() as u64;
        }
        Ok(())
    }

    fn reads(&self) -> u64 {
        self.reads
    }

    fn cached_bytes(&self) -> u64 {
        match &self.cache {
            Cache::Moka(cache) => {
                cache.run_pending_tasks();
                cache.weighted_size()
            }
            Cache::Quick(cache) => cache.weight(),
            Cache::Foyer(cache) => cache.usage() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trials::caches::KEY_BYTES;

    #[test]
    fn every_library_keeps_what_is_asked_for_and_no_more_than_it_may() {
        for name in Library::NAMES {
            let mut library = Library::new(name, 1 << 20, Kept::Rows, KEY_BYTES + 100).unwrap();
            for round in 0..20 {
                (0..100).for_each(|item| library.get(item).unwrap());
                assert!(round > 3 || library.reads() >= 100, "{name}");
            }
            assert!(library.reads() < 400, "{name}: {}", library.reads());
            (0..100_000).for_each(|item| library.get(item).unwrap());
            assert!(library.cached_bytes() <= 1 << 20, "{name}: {}", library.cached_bytes());
            let before = library.reads();
            library.list(7).unwrap();
            // Items 896 to 1023, 35 a page: pages 25 to 29.
            assert_eq!(library.reads() - before, 5, "{name}");
        }
        assert!(Library::new("none", 1, Kept::Pages, 4096).is_none());
    }
}
