//! Huffman codes over a handful of symbols with known weights.
//!
//! The idea: merge the two lightest subtrees until one is left; a symbol's code is its path from the root.
//! Source: Huffman, "A Method for the Construction of Minimum-Redundancy Codes" (1952). Ties go to what was
//! there first, symbols in order and then merged subtrees in the order of their making, so that the codes
//! follow from the weights alone and may be relied on by bytes on disk. The lighter of two merged subtrees is
//! on the side of the zero.

/// Stands for "no child" in the tree.
const LEAF: u32 = u32::MAX;

/// The code of some symbols `0..n`.
#[derive(Debug, Clone)]
pub struct Huffman {
    codes: Vec<(u32, u32)>,
    /// Children of node i at `[i]`; the first nodes are the symbols, the last is the root.
    children: Vec<(u32, u32)>,
}

impl Huffman {
    /// The code for symbols with these weights. There must be at least one, and no code may pass 32 bits,
    /// which it can't if the weights sum to less than 2^22.
    pub fn new(weights: &[u64]) -> Self {
        let mut children = vec![(LEAF, LEAF); weights.len()];
        // (weight, node), lightest first, ties in order of insertion.
        let mut alive: Vec<(u64, u32)> = weights.iter().copied().zip(0..).collect();
        while alive.len() > 1 {
            alive.sort_unstable();
            let (first, second) = match (alive.first(), alive.get(1)) {
                (Some(first), Some(second)) => (*first, *second),
                _ => break,
            };
            alive.drain(..2);
            alive.push((first.0 + second.0, children.len() as u32));
            children.push((first.1, second.1));
        }
        let mut codes = vec![(0, 0); weights.len()];
        let mut pending = vec![(children.len().saturating_sub(1), 0u32, 0u32)];
        while let Some((node, bits, width)) = pending.pop() {
            match children.get(node) {
                Some((LEAF, _)) | None => {
                    #[expect(clippy::indexing_slicing, reason = "leaves are the symbols, and come first")]
                    let code = &mut codes[node];
                    *code = (bits, width);
                }
                Some((zero, one)) => {
                    pending.push((*zero as usize, bits << 1, width + 1));
                    pending.push((*one as usize, bits << 1 | 1, width + 1));
                }
            }
        }
        Huffman { codes, children }
    }

    /// (bits, width) of each symbol, in order.
    pub fn codes(&self) -> &[(u32, u32)] {
        &self.codes
    }

    /// The symbol at the start of `window`, first bit highest, and its width. Every window starts with a
    /// symbol.
    pub fn read(&self, window: u64) -> (usize, u32) {
        let (mut node, mut width) = (self.children.len().saturating_sub(1), 0);
        while let Some((zero, one)) = self.children.get(node)
            && *zero != LEAF
        {
            node = if (window << width) >> 63 == 0 { *zero } else { *one } as usize;
            width += 1;
        }
        (node, width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_lightest_merge_and_ties_go_to_the_older() {
        // 1 and 1 merge to 2, which is younger than the symbol of weight 2; that one stands on the side of
        // the zero.
        let code = Huffman::new(&[1, 2, 1]);
        assert_eq!(code.codes(), [(0b10, 2), (0b0, 1), (0b11, 2)]);
        // All alike: pairs in order.
        let code = Huffman::new(&[5, 5, 5, 5]);
        assert_eq!(code.codes(), [(0b00, 2), (0b01, 2), (0b10, 2), (0b11, 2)]);
    }

    #[test]
    fn a_single_symbol_takes_no_bits() {
        let code = Huffman::new(&[7]);
        assert_eq!(code.codes(), [(0, 0)]);
        assert_eq!(code.read(0xdead_beef), (0, 0));
    }

    #[test]
    fn binomial_codes_are_complete_near_entropy_and_read_back() {
        for n in 1..=16u64 {
            let mut weights = vec![1u64];
            for k in 0..n {
                weights.push(weights[k as usize] * (n - k) / (k + 1));
            }
            let code = Huffman::new(&weights);
            let total = 2f64.powi(n as i32);
            let (mut kraft, mut bits, mut entropy) = (0.0, 0.0, 0.0);
            for (symbol, (weight, (value, width))) in weights.iter().zip(code.codes()).enumerate() {
                let share = *weight as f64 / total;
                kraft += 0.5f64.powi(*width as i32);
                bits += share * f64::from(*width);
                entropy -= share * share.log2();
                let window = u64::from(*value) << (64 - width) | u64::MAX >> width;
                assert_eq!(code.read(window), (symbol, *width));
            }
            assert_eq!(kraft, 1.0);
            assert!(bits >= entropy && bits < entropy + 0.1, "n = {n}: {bits} bits, entropy {entropy}");
        }
    }
}
