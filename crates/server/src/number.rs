//! Numbers as Redis reads and writes them.

/// Reads a 64-bit integer in its one spelling: no `+`, no leading zeros, no blanks.
pub fn integer(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let is_plain = match digits {
        [] => false,
        [b'0'] => bytes.len() == 1,
        [b'0', ..] => false,
        digits => digits.len() <= 19 && digits.iter().all(u8::is_ascii_digit),
    };
    if !is_plain {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Reads a number with a fraction; infinities are numbers, NaN is none.
pub fn float(bytes: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(bytes).ok()?;
    if text.is_empty() || text.starts_with(|c: char| c.is_whitespace()) || text.contains('_') {
        return None;
    }
    text.parse::<f64>().ok().filter(|number| !number.is_nan())
}

/// A decimal number: `mantissa / 10^scale`.
#[derive(Clone, Copy, Debug)]
struct Decimal {
    mantissa: i128,
    scale: u32,
}

impl Decimal {
    /// Reads one of few digits; `None` where a `f64` has to do.
    fn read(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (number, exponent) = match text.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{whole}{fraction}");
        if digits.len() > 25 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let mantissa: i128 = digits.parse().ok()?;
        let scale = i32::try_from(fraction.len()).ok()? - exponent;
        match u32::try_from(scale) {
            Ok(scale) if scale <= 17 => Some(Self { mantissa, scale }),
            Ok(_) => None,
            Err(_) if scale >= -12 => {
                Some(Self { mantissa: mantissa.checked_mul(10i128.pow(scale.unsigned_abs()))?, scale: 0 })
            }
            Err(_) => None,
        }
    }

    fn sum(self, other: Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        let raise = |number: Self| number.mantissa.checked_mul(10i128.pow(scale - number.scale));
        Some(Self { mantissa: raise(self)?.checked_add(raise(other)?)?, scale })
    }

    fn text(self) -> String {
        let digits = format!("{:0>width$}", self.mantissa.unsigned_abs(), width = self.scale as usize + 1);
        let (whole, fraction) = digits.split_at(digits.len() - self.scale as usize);
        let sign = if self.mantissa < 0 { "-" } else { "" };
        trim(format!("{sign}{whole}.{fraction}"))
    }
}

/// Removes zeros that say nothing from behind a decimal point.
fn trim(text: String) -> String {
    if !text.contains('.') {
        return text;
    }
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

/// Spells a number without an exponent, with up to 17 decimals.
pub fn float_text(number: f64) -> String {
    if number == number.trunc() && number.abs() < 1e17 {
        return trim(format!("{number:.1}"));
    }
    trim(format!("{number:.17}"))
}

/// Adds two numbers that are spelled in decimals: exactly, where they have few digits, as Redis' long doubles
/// do in effect. `None` where the sum is no number.
pub fn add_floats(one: &[u8], other: &[u8]) -> Option<String> {
    let exact = Decimal::read(one).zip(Decimal::read(other)).and_then(|(one, other)| one.sum(other));
    if let Some(sum) = exact {
        return Some(sum.text());
    }
    let sum = float(one)? + float(other)?;
    sum.is_finite().then(|| float_text(sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_spelling() {
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        for bad in ["", "-", "+1", "01", "-0", " 1", "1 ", "9223372036854775808", "1.0"] {
            assert_eq!(integer(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn sums_of_decimals_are_exact() {
        let sum = |one: &str, other: &str| add_floats(one.as_bytes(), other.as_bytes()).unwrap();
        assert_eq!(sum("1", "-1.1"), "-0.1");
        assert_eq!(sum("1.23", "-1.23"), "0");
        assert_eq!(sum("3.0e3", "200"), "3200");
        assert_eq!(sum("17179869184", "1.5"), "17179869185.5");
        assert_eq!(sum("1.5", "1.5"), "3");
        assert_eq!(sum("1e300", "0").len(), 301);
        assert_eq!(float(b"nan"), None);
        assert_eq!(float(b" 1"), None);
        assert!(add_floats(b"inf", b"1").is_none());
    }
}
