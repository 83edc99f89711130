//! Made-up data that can be made again: which keys exist follows from a few numbers, so nothing is
//! remembered.

pub mod items;
pub mod permutation;
pub mod zipf;

/// Finaliser of MurmurHash3: a bijection of 64-bit numbers that spreads every input bit over the output.
#[inline]
pub fn mix(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// A bijection of `bits`-bit numbers, 1 to 64: alternates xor-shifts and odd multiplications, both
/// invertible.
#[inline]
pub fn mix_bits(x: u64, bits: u32) -> u64 {
    let mask = u64::MAX >> (64 - bits);
    let half = bits.div_ceil(2);
    let mut x = x & mask;
    for factor in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
        x ^= x >> half;
        x = x.wrapping_mul(factor) & mask;
    }
    x ^ (x >> half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn mixing_is_a_bijection_at_every_width() {
        for bits in 1..=16 {
            let images: HashSet<u64> = (0..1u64 << bits).map(|x| mix_bits(x, bits)).collect();
            assert_eq!(images.len(), 1 << bits);
            assert!(images.iter().all(|&x| x < 1 << bits));
        }
        let wide: HashSet<u64> = (0..100_000u64).map(|x| mix_bits(x, 64)).collect();
        assert_eq!(wide.len(), 100_000);
    }
}
