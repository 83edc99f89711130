//! Codes for integers of which small ones are likely: Elias gamma, exp-Golomb, Rice with an escape; and
//! zigzag, which folds signed numbers into such.
//!
//! Sources: Elias, "Universal codeword sets and representations of the integers" (1975) for gamma; Teuhola
//! (1978) for exp-Golomb, which is gamma over all but the lowest bits; Rice and Plaunt (1971). Gamma is what
//! SILT (SOSP 2011, §3.3) uses for large trie nodes; Rice costs 0.1 to 0.2 bits over the entropy of a
//! half-normal variable where gamma costs 1.5 or more, so ours uses that. Rice has an escape to gamma, so
//! that no number takes long.
//!
//! ```text
//!  gamma(v), v >= 1      floor(log2 v) zeros, then v in binary (it begins with a one)
//!  exp-Golomb(v, order)  gamma((v >> order) + 1), then the lowest `order` bits of v
//!  Rice(v, order)        q = v >> order ones, a zero, the lowest `order` bits of v          if q < 12
//!                        12 ones, then exp-Golomb(v - (12 << order), order)                 otherwise
//! ```
//!
//! All of them are prefix codes, first bit first. Decoders look at the next 64 bits of a stream and answer
//! `(value, bits taken)`; for windows that no encoder wrote the answer is arbitrary, but at most 64 bits are
//! taken.

/// Ones that announce the escape of a Rice code.
pub const RICE_ESCAPE: u32 = 12;

/// Signed to unsigned: 0, -1, 1, -2, 2 become 0, 1, 2, 3, 4.
#[inline]
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
#[inline]
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The gamma code of `value`, from 1 to 2^32 - 1: (bits, width).
#[inline]
pub const fn gamma(value: u64) -> (u64, u32) {
    debug_assert!(value > 0 && value <= u32::MAX as u64);
    (value, 2 * (63 - value.leading_zeros()) + 1)
}

/// Reads a gamma code: (value, width). A window that begins with 32 zeros is no code; it reads as (0, 64).
#[inline]
pub const fn read_gamma(window: u64) -> (u64, u32) {
    let zeros = window.leading_zeros();
    if zeros >= 32 {
        return (0, 64);
    }
    let width = 2 * zeros + 1;
    (window >> (64 - width), width)
}

/// The exp-Golomb code of `value`, below 2^31, of an order below 32: (bits, width).
#[inline]
pub const fn exp_golomb(value: u64, order: u32) -> (u64, u32) {
    let (bits, width) = gamma((value >> order) + 1);
    (bits << order | value & ((1 << order) - 1), width + order)
}

/// Reads an exp-Golomb code: (value, width).
#[inline]
pub const fn read_exp_golomb(window: u64, order: u32) -> (u64, u32) {
    let (high, width) = read_gamma(window);
    if high == 0 || width + order > 64 {
        return (0, 64);
    }
    let bits = window >> (64 - width - order);
    (((high - 1) << order) | (bits & ((1 << order) - 1)), width + order)
}

/// The Rice code of `value`, below 2^26, of an order up to 12: (bits, width).
#[inline]
pub const fn rice(value: u64, order: u32) -> (u64, u32) {
    let quotient = (value >> order) as u32;
    if quotient < RICE_ESCAPE {
        let ones = (1u64 << quotient) - 1;
        return ((ones << 1) << order | value & ((1 << order) - 1), quotient + 1 + order);
    }
    let (bits, width) = exp_golomb(value - ((RICE_ESCAPE as u64) << order), order);
    (((1u64 << RICE_ESCAPE) - 1) << width | bits, width + RICE_ESCAPE)
}

/// Reads a Rice code: (value, width).
#[inline]
pub const fn read_rice(window: u64, order: u32) -> (u64, u32) {
    let quotient = window.leading_ones();
    if quotient < RICE_ESCAPE {
        let width = quotient + 1 + order;
        let low = (window >> (64 - width)) & ((1 << order) - 1);
        return ((quotient as u64) << order | low, width);
    }
    let (over, width) = read_exp_golomb(window << RICE_ESCAPE, order);
    if width + RICE_ESCAPE > 64 {
        return (0, 64);
    }
    (over + ((RICE_ESCAPE as u64) << order), width + RICE_ESCAPE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window((bits, width): (u64, u32)) -> u64 {
        // Ones behind the code, so that a reader which takes too much is seen.
        let rest = if width == 64 { 0 } else { u64::MAX >> width };
        bits << (64 - width) | rest
    }

    #[test]
    fn gamma_is_the_published_code() {
        let text = |value| {
            let (bits, width) = gamma(value);
            format!("{bits:0width$b}", width = width as usize)
        };
        let codes: Vec<String> = (1..=9).map(text).collect();
        assert_eq!(codes, ["1", "010", "011", "00100", "00101", "00110", "00111", "0001000", "0001001"]);
    }

    #[test]
    fn every_code_reads_back() {
        let values = (0..5000u64).chain((13..26).flat_map(|shift| [(1 << shift) - 1, 1 << shift]));
        for value in values {
            assert_eq!(read_gamma(window(gamma(value + 1))), (value + 1, gamma(value + 1).1));
            for order in 0..=12 {
                let code = exp_golomb(value, order);
                assert_eq!(read_exp_golomb(window(code), order), (value, code.1));
                let code = rice(value, order);
                assert_eq!(read_rice(window(code), order), (value, code.1));
            }
        }
    }

    #[test]
    fn no_window_takes_more_than_it_has() {
        for shift in 0..64 {
            for window in [u64::MAX >> shift, !(u64::MAX >> shift), 1 << shift, u64::MAX << shift] {
                assert!(read_gamma(window).1 <= 64);
                for order in 0..=12 {
                    assert!(read_exp_golomb(window, order).1 <= 64);
                    assert!(read_rice(window, order).1 <= 64);
                }
            }
        }
    }

    #[test]
    fn zigzag_folds_and_unfolds() {
        assert_eq!([0, -1, 1, -2, 2].map(zigzag), [0, 1, 2, 3, 4]);
        for value in [i64::MIN, -77, 0, 5, i64::MAX] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }
}
