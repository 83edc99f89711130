//! How much of the disk has to stay free, so that a full store comes back by deletes.
//!
//! A merge writes what it keeps before what it read can go. So there has to be room for the largest merge
//! that the planner may ask for, with nothing dead in it; then garbage can be cleared away at any time, and
//! deletes make garbage. Beside that there is to be room for tombstones until they have come down, and for
//! write buffers until they are tables.

use super::Catalog;
use super::keyspace::OpenKeyspace;
use crate::db::write_buffer::WriteBuffer;

/// How many bytes of tables there are for each byte of tombstones that there is to be room for.
const TABLES_PER_TOMBSTONES: u64 = 32;

impl Catalog {
    /// Looks whether the disk has room for more than deletes.
    pub fn check_space(&self) {
        self.env.check_space(|| self.needed_bytes());
    }

    /// Bytes of the disk that background work may need.
    fn needed_bytes(&self) -> u64 {
        let (mut largest, mut tables) = (0, 0);
        for keyspace in self.all() {
            let (merge, all) = keyspace.merge_bytes();
            largest = merge.max(largest);
            tables += all;
        }
        let mut unflushed = 0;
        self.each_written(|keyspace| {
            let view = keyspace.view.load();
            unflushed += view.buffers().map(WriteBuffer::user_bytes).sum::<u64>();
        });
        largest + tables / TABLES_PER_TOMBSTONES + self.env.buffer_bytes() + 2 * unflushed
    }
}

impl OpenKeyspace {
    /// Bytes that the largest merge of its regions reads, and those of all tables.
    fn merge_bytes(&self) -> (u64, u64) {
        let version = self.version();
        let (mut largest, mut all) = (0, 0);
        for level in &version.levels {
            let next = version.shown_number(level.depth) + 1;
            let takes_children = version.design.level(next).runs == 1;
            let below = version.numbered(next).filter(|_| takes_children);
            for region in level.regions.iter().filter(|region| !region.runs.is_empty()) {
                let bytes = region.shape.bytes();
                let children = below.map_or(&[][..], |below| below.below(region.path));
                let with_children = bytes + children.iter().map(|child| child.shape.bytes()).sum::<u64>();
                largest = with_children.max(largest);
                all += bytes;
            }
        }
        (largest, all)
    }
}
