//! The code of one trie node: how many of its n keys go left.
//!
//! Small nodes have a Huffman code each, since the keys of a uniform set split binomially and few outcomes
//! share nearly all the weight; large ones store how far the split is from the middle. Source: SILT (SOSP
//! 2011, §3.3). We differ in the code of large nodes, where Rice replaces gamma and saves 0.08 bits per key,
//! and in the weak form, in which "all keys on one side" is one symbol that doesn't say on which side.
//!
//! Three tables, made at first use, make reading fast. One maps a small n and the next bits of code to the
//! symbol they begin with. The second maps them to how far a reader who *skips* the node's whole subtree gets
//! within these bits, and which subtrees are pending there: about four nodes at a step. The third has the
//! next bits of a key as well, and maps them to how far a reader gets who *descends* with that key.
//!
//! Invariant: reading never fails; what no writer writes reads as an arbitrary split.

use std::sync::LazyLock;

use super::Code;
use crate::code::elias::{gamma, read_gamma, read_rice, rice, unzigzag, zigzag};
use crate::code::huffman::Huffman;

/// Nodes of up to so many keys have a Huffman code.
pub(super) const SMALL: u32 = 16;
/// The most keys of a node in a coded trie.
pub(super) const MOST_KEYS: u32 = 1 << 16;
/// Subtrees of up to so many keys are skipped by table. There are never more than half as many subtrees of
/// two keys or more pending at a time, so that all fit one word.
pub(super) const SKIPPABLE: u32 = 25;
/// Bits of a pending subtree's keys.
pub(super) const PENDING_BITS: u32 = 5;
/// Bits that the table of symbols is indexed by.
const READ_BITS: u32 = 9;
/// Bits that the table of skips is indexed by.
pub(super) const SKIP_BITS: u32 = 9;
/// In the table of symbols: all keys on one side.
const ONE_SIDED: u16 = 31;

/// What a node says about its n keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Split {
    /// So many go left, the rest goes right.
    Left(u32),
    /// All on one side, which one is not said. In the weak form only.
    OneSided,
}

/// How far a skip gets within [`SKIP_BITS`] bits.
///
/// ```text
///  31    24 23    16 15      0
/// +--------+--------+---------+    bits taken, 0 if not even one symbol fits; up to three pending subtrees, five bits
/// |  bits  | width  | pending |    each, the next one lowest; and how many bits these have together
/// +--------+--------+---------+
/// ```
#[derive(Debug, Clone, Copy)]
pub(super) struct Skip(u32);

impl Skip {
    /// Bits taken.
    #[inline]
    pub(super) fn bits(self) -> u32 {
        self.0 >> 24
    }

    /// The stack of pending subtrees after this step from the subtree on top of it, which is in the lowest
    /// bits.
    #[inline]
    pub(super) fn replace_top(self, stack: u64) -> u64 {
        (stack >> PENDING_BITS) << (self.0 >> 16 & 0xff) | u64::from(self.0 & 0xffff)
    }
}

/// Descents from nodes of up to so many keys are tabulated.
pub(super) const DESCENDED: u32 = 6;
/// Bits of code, and bits of the key, that the table of descents is indexed by.
const DESCENT_CODE_BITS: u32 = 8;
const DESCENT_PATH_BITS: u32 = 3;

/// How far a descent gets within [`DESCENT_CODE_BITS`] bits of code and [`DESCENT_PATH_BITS`] bits of the
/// key.
///
/// ```text
///    11   8 7    4 3    0
/// +--------+------+--------+------+
/// |  path  | bits | before | keys |    bits of the key and bits of code taken, the latter 0 if not even one node fits;
/// +--------+------+--------+------+    keys found to be left of the path; keys of the node arrived at
/// ```
#[derive(Debug, Clone, Copy)]
pub(super) struct Descent(u16);

impl Descent {
    /// Bits of the key taken.
    #[inline]
    pub(super) fn path_bits(self) -> u32 {
        u32::from(self.0 >> 12)
    }

    /// Bits of code taken.
    #[inline]
    pub(super) fn bits(self) -> u32 {
        u32::from(self.0 >> 8 & 15)
    }

    /// Keys found to be left of the path.
    #[inline]
    pub(super) fn before(self) -> u32 {
        u32::from(self.0 >> 4 & 15)
    }

    /// Keys of the node arrived at.
    #[inline]
    pub(super) fn keys(self) -> u32 {
        u32::from(self.0 & 15)
    }
}

/// The codes of all nodes in one form.
pub(super) struct Nodes {
    code: Code,
    /// The code of nodes with n keys at `[n]`.
    small: Vec<Huffman>,
    /// `bits << 8 | width` of the symbol for k of n keys at `[n * (SMALL + 1) + k]`.
    codes: Box<[u32]>,
    /// `symbol << 8 | width` for n and a window at `[n << READ_BITS | window]`; width 0 if the symbol is
    /// longer.
    symbols: Box<[u16]>,
    /// [`Skip`] for n and a window at `[n << SKIP_BITS | window]`.
    skips: Box<[Skip]>,
    /// [`Descent`] for n, a window and a path at `[(n << DESCENT_CODE_BITS | window) << DESCENT_PATH_BITS |
    /// path]`.
    descents: Box<[Descent]>,
}

static PAPER: LazyLock<Nodes> = LazyLock::new(|| Nodes::new(Code::Paper));
static STRONG: LazyLock<Nodes> = LazyLock::new(|| Nodes::new(Code::Strong));
static WEAK: LazyLock<Nodes> = LazyLock::new(|| Nodes::new(Code::Weak));

/// The codes of form `code`, made at first use.
pub(super) fn nodes(code: Code) -> &'static Nodes {
    match code {
        Code::Paper => &PAPER,
        Code::Strong => &STRONG,
        Code::Weak => &WEAK,
    }
}

impl PartialEq for Nodes {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code
    }
}

impl Eq for Nodes {}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nodes").field("code", &self.code).finish_non_exhaustive()
    }
}

/// The weights of the symbols of a node with n keys: k keys go left in C(n, k) of 2^n ways. In the weak form
/// symbol 0 stands for both 0 and n.
pub(super) fn weights(code: Code, n: u32) -> Vec<u64> {
    let mut weights = vec![1u64];
    for k in 0..u64::from(n) {
        let last = weights.last().copied().unwrap_or(1);
        weights.push(last * (u64::from(n) - k) / (k + 1));
    }
    if code == Code::Weak && n > 0 {
        weights.pop();
        if let Some(one_sided) = weights.first_mut() {
            *one_sided = 2;
        }
    }
    weights
}

/// The order of the Rice code of large nodes: about log2 of 0.84 times the standard deviation of the
/// zigzagged distance from the middle, which is the square root of n.
#[inline]
fn rice_order(n: u32) -> u32 {
    // floor(log2(0.84 sqrt n)) = floor(log2(0.7056 n) / 2)
    (n * 181 / 256).max(1).ilog2() / 2
}

/// A table of one row for each of `0..=rows` and `columns` columns.
fn tabulate<T>(rows: u32, columns: u32, entry: impl Fn(u32, u32) -> T) -> Box<[T]> {
    (0..=rows)
        .flat_map(|row| (0..columns).map(move |column| (row, column)))
        .map(|(r, c)| entry(r, c))
        .collect()
}

impl Nodes {
    fn new(code: Code) -> Self {
        let small: Vec<Huffman> = (0..=SMALL).map(|n| Huffman::new(&weights(code, n))).collect();
        let mut nodes = Nodes {
            code,
            small,
            codes: [].into(),
            symbols: [].into(),
            skips: [].into(),
            descents: [].into(),
        };
        nodes.codes = tabulate(SMALL, SMALL + 1, |n, left| {
            let symbol = if code == Code::Weak && left == n { 0 } else { left };
            let code = nodes.small.get(n as usize).and_then(|small| small.codes().get(symbol as usize));
            code.map_or(0, |(bits, width)| bits << 8 | width)
        });
        nodes.symbols = tabulate(SMALL, 1 << READ_BITS, |n, window| {
            match nodes.read_small(n, u64::from(window) << (64 - READ_BITS)) {
                (_, width) if width > READ_BITS => 0,
                (Split::Left(left), width) => (left << 8 | width) as u16,
                (Split::OneSided, width) => ONE_SIDED << 8 | width as u16,
            }
        });
        nodes.skips = tabulate(SKIPPABLE, 1 << SKIP_BITS, |n, window| {
            nodes.skip(n, u64::from(window) << (64 - SKIP_BITS))
        });
        let codes = 1 << DESCENT_CODE_BITS;
        nodes.descents = tabulate((DESCENDED + 1) * codes - 1, 1 << DESCENT_PATH_BITS, |row, path| {
            let window = u64::from(row % codes) << (64 - DESCENT_CODE_BITS);
            nodes.descent(row / codes, window, u64::from(path) << (64 - DESCENT_PATH_BITS))
        });
        nodes
    }

    /// How far one gets who follows `path` down from a node of n keys within the first [`DESCENT_CODE_BITS`]
    /// bits of `window` and [`DESCENT_PATH_BITS`] of `path`.
    fn descent(&self, n: u32, window: u64, path: u64) -> Descent {
        let (mut keys, mut taken, mut before, mut depth) = (n, 0, 0, 0);
        while keys > 1 && depth < DESCENT_PATH_BITS {
            let (split, width) = self.read(keys, window << taken);
            let mut end = taken + width;
            let (mut left, mut stay) = (0, keys);
            if let Split::Left(on_left) = split {
                if (path << depth) >> 63 == 0 {
                    stay = on_left;
                } else {
                    end = self.end(on_left, window, end);
                    (left, stay) = (on_left, keys - on_left);
                }
            }
            if end > DESCENT_CODE_BITS {
                break;
            }
            (keys, taken, before, depth) = (stay, end, before + left, depth + 1);
        }
        Descent((depth << 12 | taken << 8 | before << 4 | keys) as u16)
    }

    /// The end, within `window`, of the code of a subtree of n keys that begins at bit `start`; what is past
    /// the limit of descents is not followed.
    fn end(&self, n: u32, window: u64, start: u32) -> u32 {
        let (mut keys, mut taken) = (n, start);
        while keys > 1 && taken <= DESCENT_CODE_BITS {
            let (split, width) = self.read(keys, window << taken);
            taken += width;
            if let Split::Left(left) = split {
                taken = self.end(left, window, taken);
                keys -= left;
            }
        }
        taken
    }

    /// How far one gets who skips the subtree of n keys within the first [`SKIP_BITS`] bits of `window`.
    fn skip(&self, n: u32, window: u64) -> Skip {
        let mut taken = 0;
        let mut best = Skip(0);
        // The next one last. Subtrees of one key have no code.
        let mut pending = vec![n];
        while let Some(keys) = pending.pop_if(|keys| *keys > 1) {
            let (split, width) = self.read(keys, window << taken);
            taken += width;
            if taken > SKIP_BITS {
                break;
            }
            match split {
                Split::Left(left) => pending.extend([keys - left, left].into_iter().filter(|keys| *keys > 1)),
                Split::OneSided => pending.push(keys),
            }
            if pending.len() <= 3 {
                let stack = pending.iter().fold(0, |stack, keys| stack << PENDING_BITS | keys);
                best = Skip(taken << 24 | (pending.len() as u32 * PENDING_BITS) << 16 | stack);
            }
        }
        best
    }

    /// The code of a node with n >= 2 keys of which `left` go left: (bits, width).
    #[inline]
    pub(super) fn write(&self, n: u32, left: u32) -> (u64, u32) {
        if n <= SMALL {
            let code = self.codes.get((n * (SMALL + 1) + left) as usize).copied().unwrap_or(0);
            return (u64::from(code >> 8), code & 0xff);
        }
        let distance = zigzag(i64::from(left) - i64::from(n / 2));
        match self.code {
            Code::Paper => gamma(distance + 1),
            Code::Strong | Code::Weak => rice(distance, rice_order(n)),
        }
    }

    /// The split of a node with n >= 2 keys whose code `window` begins with, and the width of that code.
    #[inline]
    pub(super) fn read(&self, n: u32, window: u64) -> (Split, u32) {
        if n > SMALL {
            return self.read_large(n, window);
        }
        let index = (n as usize) << READ_BITS | (window >> (64 - READ_BITS)) as usize;
        let entry = self.symbols.get(index).copied().unwrap_or(0);
        if entry == 0 {
            return self.read_small(n, window);
        }
        let split =
            if entry >> 8 == ONE_SIDED { Split::OneSided } else { Split::Left(u32::from(entry >> 8)) };
        (split, u32::from(entry & 0xff))
    }

    /// [`Nodes::read`] for small nodes, bit by bit.
    #[cold]
    fn read_small(&self, n: u32, window: u64) -> (Split, u32) {
        let (symbol, width) = self.small.get(n as usize).map_or((0, 1), |code| code.read(window));
        let one_sided = self.code == Code::Weak && symbol == 0;
        (if one_sided { Split::OneSided } else { Split::Left(symbol as u32) }, width)
    }

    /// [`Nodes::read`] for large nodes.
    #[inline]
    fn read_large(&self, n: u32, window: u64) -> (Split, u32) {
        let (distance, width) = match self.code {
            Code::Paper => {
                let (value, width) = read_gamma(window);
                (value.wrapping_sub(1), width)
            }
            Code::Strong | Code::Weak => read_rice(window, rice_order(n)),
        };
        let left = i64::from(n / 2).wrapping_add(unzigzag(distance));
        (Split::Left(left.clamp(0, i64::from(n)) as u32), width)
    }

    /// How far a descent from n <= [`DESCENDED`] keys gets along the first bits of `window` and of `path`.
    #[inline]
    pub(super) fn read_descent(&self, n: u32, window: u64, path: u64) -> Descent {
        let row = (n as usize) << DESCENT_CODE_BITS | (window >> (64 - DESCENT_CODE_BITS)) as usize;
        let index = row << DESCENT_PATH_BITS | (path >> (64 - DESCENT_PATH_BITS)) as usize;
        self.descents.get(index).copied().unwrap_or(Descent(0))
    }

    /// How far a skip of the subtree of n <= [`SKIPPABLE`] keys gets within the first [`SKIP_BITS`] bits of
    /// `window`.
    #[inline]
    pub(super) fn read_skip(&self, n: u32, window: u64) -> Skip {
        let index = (n as usize) << SKIP_BITS | (window >> (64 - SKIP_BITS)) as usize;
        self.skips.get(index).copied().unwrap_or(Skip(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODES: [Code; 3] = [Code::Paper, Code::Strong, Code::Weak];

    #[test]
    fn every_split_reads_back() {
        for code in CODES {
            let nodes = nodes(code);
            for n in (2..=300).chain([1000, 4096, MOST_KEYS - 1, MOST_KEYS]) {
                for left in (0..=n).step_by(if n > 300 { 61 } else { 1 }).chain([n]) {
                    let (bits, width) = nodes.write(n, left);
                    assert!((1..=50).contains(&width), "{code:?} {n} {left}: {width} bits");
                    let one_sided = code == Code::Weak && n <= SMALL && (left == 0 || left == n);
                    let expected = if one_sided { Split::OneSided } else { Split::Left(left) };
                    let window = bits << (64 - width) | u64::MAX >> width;
                    assert_eq!(nodes.read(n, window), (expected, width), "{code:?} {n}");
                }
            }
        }
    }

    #[test]
    fn weights_are_binomial() {
        assert_eq!(weights(Code::Strong, 4), [1, 4, 6, 4, 1]);
        assert_eq!(weights(Code::Weak, 4), [2, 4, 6, 4]);
        assert_eq!(weights(Code::Weak, 2), [2, 2]);
        assert_eq!(weights(Code::Paper, 16).iter().sum::<u64>(), 1 << 16);
    }

    #[test]
    fn any_window_reads_as_some_split() {
        for code in CODES {
            for n in (2..100).chain([MOST_KEYS]) {
                for shift in 0..64 {
                    for window in [0, u64::MAX, u64::MAX >> shift, u64::MAX << shift, 1 << shift] {
                        let (split, width) = nodes(code).read(n, window);
                        assert!((1..=64).contains(&width));
                        assert!(!matches!(split, Split::Left(left) if left > n));
                    }
                }
            }
        }
    }

    #[test]
    fn skips_agree_with_reading_node_by_node() {
        for code in CODES {
            let nodes = nodes(code);
            for n in 2..=SKIPPABLE {
                for seed in 0..2000u64 {
                    let window = seed
                        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                        .rotate_left(29)
                        .wrapping_mul(u64::from(n | 1));
                    let skip = nodes.read_skip(n, window);
                    // Read nodes until as many bits are taken; then the same subtrees must be pending.
                    let (mut pending, mut taken) = (vec![n], 0);
                    while taken < skip.bits() {
                        let keys = pending.pop().expect("no bits are taken without a node");
                        let (split, width) = nodes.read(keys, window << taken);
                        taken += width;
                        match split {
                            Split::Left(left) => {
                                pending.extend([keys - left, left].into_iter().filter(|keys| *keys > 1));
                            }
                            Split::OneSided => pending.push(keys),
                        }
                    }
                    assert_eq!(taken, skip.bits());
                    if taken > 0 {
                        let stack =
                            pending.iter().fold(7, |stack, keys| stack << PENDING_BITS | u64::from(*keys));
                        assert_eq!(skip.replace_top(7 << PENDING_BITS | u64::from(n)), stack);
                    } else {
                        assert!(nodes.read(n, window).1 > SKIP_BITS);
                    }
                }
            }
        }
    }
}
