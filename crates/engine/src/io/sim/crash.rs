//! What survives a crash: a new disk made from an image, a [`CrashMode`] and a seed.
//!
//! The model is that of "All File Systems Are Not Created Equal" (Pillai et al., OSDI 2014) with the fewest
//! promises that POSIX allows: unsynced bytes and names survive in any combination. We differ where real
//! devices never misbehave, because an engine could not be written against less:
//!
//! * a sector is written whole and holds some *version* that the file really had there: of two unsynced
//!   writes into one sector, the later never survives without the earlier;
//! * a rename survives as a whole or not at all;
//! * what was synced is intact, and bytes cut off by a surviving truncation stay gone.
//!
//! ```text
//! file offset   0        512       1024      1536      2048
//!               |  synced  |  write 1 · · · · ·  |
//!                               | write 2 · · · · · · |
//! sector 1      {as synced, write 1, write 1+2}          one of these, at random
//! sector 2      {zeros or garbage, write 1, write 1+2}   … chosen apart
//! length        {as synced, after write 1, after 2}      … chosen apart
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::content::Content;
use super::image::{BytesOp, Image, Inode, InodeId, NameOp, Names, Pending};

/// What a disk writes whole or not at all.
pub const SECTOR_BYTES: u64 = 512;

/// How the machine or the process stops, and so what survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CrashMode {
    /// The process dies: all that was written survives in the page cache.
    Kill,
    /// The power fails: exactly what was synced survives, bytes and names.
    PowerCut,
    /// The power fails and a random prefix of the unsynced operations survives, in the order over the whole
    /// disk; the last of them, if a write, is cut at a random sector boundary.
    Torn,
    /// The power fails and any subset of the unsynced sectors, length changes and name changes survives.
    Reordered,
}

impl CrashMode {
    /// Every mode, mildest first.
    pub const ALL: [Self; 4] = [Self::Kill, Self::PowerCut, Self::Torn, Self::Reordered];
}

/// The disk found after the crash: everything on it is durable.
pub(super) fn crash(image: &Image, mode: CrashMode, seed: u64) -> Image {
    let mut random = SplitMix64(seed);
    let (names, contents) = match mode {
        CrashMode::Kill => (
            image.dirs.iter().map(|(path, dir)| (path.clone(), dir.current.clone())).collect(),
            image.inodes.iter().map(|(id, inode)| (*id, inode.current.clone())).collect(),
        ),
        CrashMode::PowerCut => durable(image),
        CrashMode::Torn => torn(image, &mut random),
        CrashMode::Reordered => reordered(image, &mut random),
    };
    // What comes after two crashes of one disk differs, as it would.
    Image::settled(names, contents, image.now_ms, SplitMix64(image.random.0 ^ seed))
}

type Survivors = (BTreeMap<PathBuf, Names>, BTreeMap<InodeId, Content>);

fn durable(image: &Image) -> Survivors {
    (
        image.dirs.iter().map(|(path, dir)| (path.clone(), dir.durable.clone())).collect(),
        image.inodes.iter().map(|(id, inode)| (*id, inode.durable.clone())).collect(),
    )
}

/// One unsynced operation of any kind.
enum AnyOp<'a> {
    Name(&'a Path, &'a NameOp),
    Bytes(InodeId, &'a BytesOp),
}

fn torn(image: &Image, random: &mut SplitMix64) -> Survivors {
    let mut ops: Vec<(u64, AnyOp<'_>)> = Vec::with_capacity(image.unsynced_ops());
    for (path, dir) in &image.dirs {
        let unsynced = dir.unsynced.oldest_first();
        ops.extend(unsynced.into_iter().map(|pending| (pending.number, AnyOp::Name(path, &pending.op))));
    }
    for (id, inode) in &image.inodes {
        let unsynced = inode.unsynced.oldest_first();
        ops.extend(unsynced.into_iter().map(|pending| (pending.number, AnyOp::Bytes(*id, &pending.op))));
    }
    // By number only: a rename between directories has two operations, each with its own.
    ops.sort_unstable_by_key(|(number, _)| *number);

    // The write in flight is the interesting one, so it is reached more often than chance would have it.
    let whole = random.below(4) == 0;
    let survive = if whole { ops.len() } else { random.below(ops.len() as u64 + 1) as usize };
    ops.truncate(survive);
    let (mut names, mut contents) = durable(image);
    for (rank, (_, op)) in ops.into_iter().enumerate() {
        match op {
            AnyOp::Name(path, op) => op.apply(names.entry(path.to_owned()).or_default()),
            AnyOp::Bytes(id, op) => {
                let content = contents.entry(id).or_default();
                match op {
                    BytesOp::Write { offset, bytes } if rank + 1 == survive => {
                        content.write(*offset, tear(*offset, bytes, random));
                    }
                    _ => op.apply(content),
                }
            }
        }
    }
    (names, contents)
}

/// The part of a write up to a random sector boundary: from nothing to all of it.
fn tear<'a>(offset: u64, bytes: &'a [u8], random: &mut SplitMix64) -> &'a [u8] {
    let end = offset + bytes.len() as u64;
    let first = offset / SECTOR_BYTES;
    let sectors = end.div_ceil(SECTOR_BYTES) - first;
    let cut = (first + random.below(sectors + 1)) * SECTOR_BYTES;
    let kept = cut.clamp(offset, end) - offset;
    bytes.get(..kept as usize).unwrap_or(bytes)
}

/// How much of a file or a directory survives, in quarters: 0 is nothing, 4 is everything.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Share(u64);

impl Share {
    const NONE: Self = Self(0);
    const ALL: Self = Self(4);

    fn any(random: &mut SplitMix64) -> Self {
        Self(random.below(Self::ALL.0 + 1))
    }

    fn survives(self, random: &mut SplitMix64) -> bool {
        random.below(Self::ALL.0) < self.0
    }
}

fn reordered(image: &Image, random: &mut SplitMix64) -> Survivors {
    // Independent choices alone would almost never lose or keep everything, which are cases of their own.
    let whole_disk = match random.below(8) {
        0 => Some(Share::NONE),
        1 => Some(Share::ALL),
        _ => None,
    };
    let share = |random: &mut SplitMix64| whole_disk.unwrap_or_else(|| Share::any(random));

    let (mut names, mut contents) = durable(image);
    for (path, dir) in &image.dirs {
        let share = share(random);
        let names = names.entry(path.clone()).or_default();
        for pending in dir.unsynced.oldest_first() {
            if share.survives(random) {
                pending.op.apply(names);
            }
        }
    }
    for (id, inode) in &image.inodes {
        // What becomes of one file depends on no other's length: event logs say how long things took.
        let mut random = SplitMix64(random.next());
        let share = share(&mut random);
        if inode.unsynced.len() > 0 {
            contents.insert(*id, reordered_content(inode, share, &mut random));
        }
    }
    (names, contents)
}

fn reordered_content(inode: &Inode, share: Share, random: &mut SplitMix64) -> Content {
    let ops = inode.unsynced.oldest_first();
    // Lengths first: how many operations the file's metadata has seen, apart from what its sectors have seen.
    let seen = match share {
        Share::NONE => 0,
        Share::ALL => ops.len(),
        _ if random.below(2) == 0 => ops.len(),
        _ => random.below(ops.len() as u64 + 1) as usize,
    };
    let Touched { sectors, lens } = touched(inode.durable.len(), &ops);
    let len = seen.checked_sub(1).and_then(|last| lens.get(last).copied()).unwrap_or(inode.durable.len());
    let garbage = random.below(4) == 0;

    let mut content = inode.durable.clone();
    for (sector, touching) in sectors {
        let start = sector * SECTOR_BYTES;
        if start >= len {
            continue;
        }
        let version = sector_version(touching.len(), share, random);
        let mut bytes = [0; SECTOR_BYTES as usize];
        inode.durable.read(start, &mut bytes);
        let mut has_data = start < inode.durable.len();
        let mut is_written = false;
        for (place, index) in touching.into_iter().enumerate() {
            let Some(op) = ops.get(index).map(|pending| &pending.op) else { continue };
            // A cut that the metadata has seen cannot be undone, whatever the sector has seen.
            let is_seen_cut = matches!(op, BytesOp::SetLen(_)) && index < seen;
            if place < version || is_seen_cut {
                has_data = overlay(&mut bytes, start, op, has_data);
            }
            is_written |= matches!(op, BytesOp::Write { .. });
        }
        if !has_data && is_written && garbage {
            // The length reached the disk, the data did not: what an earlier file left there shows through.
            for eight in bytes.chunks_mut(8) {
                eight.copy_from_slice(&random.next().to_le_bytes());
            }
        }
        content.write(start, &bytes);
    }
    content.set_len(len);
    content
}

/// What a file's unsynced operations did to it.
struct Touched {
    /// For each sector changed, the places of the operations that changed it, in order.
    sectors: BTreeMap<u64, Vec<usize>>,
    /// The file's length after each operation.
    lens: Vec<u64>,
}

fn touched(durable_len: u64, ops: &[&Pending<BytesOp>]) -> Touched {
    let mut sectors: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut lens = Vec::with_capacity(ops.len());
    let mut len = durable_len;
    // Cutting from the longest length so far covers every sector that any choice of survivors could have
    // filled.
    let mut longest = durable_len;
    for (index, pending) in ops.iter().enumerate() {
        let changed = match &pending.op {
            BytesOp::Write { offset, bytes } => {
                let end = offset + bytes.len() as u64;
                len = len.max(end);
                *offset..end
            }
            BytesOp::SetLen(cut) => {
                len = *cut;
                *cut..longest
            }
        };
        // An extension changes no bytes: what lies past the end already reads as zeros.
        if !changed.is_empty() {
            for sector in changed.start / SECTOR_BYTES..changed.end.div_ceil(SECTOR_BYTES) {
                sectors.entry(sector).or_default().push(index);
            }
        }
        longest = longest.max(len);
        lens.push(len);
    }
    Touched { sectors, lens }
}

/// How many of the operations touching a sector it shows: 0 is the sector as last synced.
fn sector_version(touching: usize, share: Share, random: &mut SplitMix64) -> usize {
    if !share.survives(random) {
        0
    } else if share == Share::ALL || random.below(2) == 0 {
        touching
    } else {
        1 + random.below(touching as u64) as usize
    }
}

/// Applies an operation to one sector; returns whether the sector then holds bytes that were written.
fn overlay(sector: &mut [u8], start: u64, op: &BytesOp, had_data: bool) -> bool {
    match op {
        BytesOp::Write { offset, bytes } => {
            let skip_from = start.saturating_sub(*offset) as usize;
            let skip_to = offset.saturating_sub(start) as usize;
            if let (Some(from), Some(to)) = (bytes.get(skip_from..), sector.get_mut(skip_to..)) {
                to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            }
            true
        }
        BytesOp::SetLen(len) => {
            let keep = len.saturating_sub(start) as usize;
            if let Some(cut) = sector.get_mut(keep..) {
                cut.fill(0);
            }
            had_data && keep > 0
        }
    }
}

/// Steele, Lea and Flood's SplitMix64 (OOPSLA 2014): small, seedable with any number, the same on every
/// platform.
#[derive(Clone, Debug)]
pub(super) struct SplitMix64(pub(super) u64);

impl SplitMix64 {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0. The bias of the remainder is far below what a test could
    /// notice.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
