//! Sizes, counts and durations as people type and read them.
//!
//! Sizes follow the convention of the core utilities: `K`, `M`, `G`, `T` (also `KiB`, …) are powers of 1,024
//! and `KB`, `MB`, … powers of 1,000. Counts are decimal: `10M` is ten million.

use std::time::Duration;

/// Parses a number of bytes: `4096`, `64M`, `1.5G`, `100MB`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let scale: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(format!("unknown unit {unit:?}; write a size like 4096, 64M or 1.5G")),
    };
    scaled(number, scale).ok_or_else(|| "write a size like 4096, 64M or 1.5G".to_owned())
}

/// Parses a count: `1000`, `10M`, `1.5k`, `1e8`.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let scale = match unit.to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" | "b" => 1_000_000_000,
        _ => return Err(format!("unknown unit {unit:?}; write a count like 1000, 10M or 1e8")),
    };
    scaled(number, scale).ok_or_else(|| "write a whole count like 1000, 10M or 1e8".to_owned())
}

/// Parses a count that may not be zero.
pub fn parse_positive(text: &str) -> Result<u64, String> {
    match parse_count(text)? {
        0 => Err("must be at least 1".to_owned()),
        count => Ok(count),
    }
}

/// Parses a time span: `500ms`, `90` or `90s`, `10m`, `1.5h`, `2d`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split_unit(text);
    let seconds_per_unit = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(format!("unknown unit {unit:?}; write a time like 500ms, 90s, 10m, 1h or 2d")),
    };
    let number: f64 = number.parse().map_err(|_| "write a time like 500ms, 90s, 10m, 1h or 2d".to_owned())?;
    Duration::try_from_secs_f64(number * seconds_per_unit).map_err(|_| "out of range".to_owned())
}

/// Splits the trailing unit off; the `e` of `1e8` belongs to the number.
fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let unit_at = text.rfind(|c: char| !c.is_ascii_alphabetic()).map_or(0, |last| last + 1);
    let (number, unit) = text.split_at_checked(unit_at).unwrap_or((text, ""));
    (number.trim_end(), unit)
}

/// `number × scale` if that is a whole number of at most 64 bits (fractions of a unit are rounded).
fn scaled(number: &str, scale: u64) -> Option<u64> {
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(scale);
    }
    let number = number.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0)?;
    let product = number * scale as f64;
    let whole = product.round();
    if (scale == 1 && whole != product) || whole >= u64::MAX as f64 {
        return None;
    }
    Some(whole as u64)
}

/// `1.5 GiB`, `64.0 MiB`, `812 B`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut name = "B";
    for unit in UNITS {
        // 1023.95 would print as 1024.0.
        if value < 1023.95 {
            break;
        }
        value /= 1024.0;
        name = unit;
    }
    format!("{value:.1} {name}")
}

/// `1,234,567`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A rate with three or four digits that matter: `812/s`, `41.2 K/s`, `1.53 M/s`.
pub fn rate(per_second: f64) -> String {
    let (value, unit) = match per_second {
        r if !r.is_finite() => return "–".to_owned(),
        r if r < 1_000.0 => return format!("{r:.0}/s"),
        r if r < 1_000_000.0 => (r / 1e3, "K/s"),
        r => (r / 1e6, "M/s"),
    };
    if value < 100.0 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// `part / whole`, or 0 where there is nothing to divide by.
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A time span: `812 ms`, `4.2 s`, `3 min 05 s`.
pub fn seconds(seconds: f64) -> String {
    if seconds < 1.0 {
        return format!("{:.0} ms", seconds * 1e3);
    }
    if seconds < 120.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    format!("{} min {:02} s", whole / 60, whole % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_unless_they_end_in_b() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64M", 64 << 20),
            ("64m", 64 << 20),
            ("64MiB", 64 << 20),
            ("1.5G", 3 << 29),
            ("1.5 G", 3 << 29),
            ("100MB", 100_000_000),
            ("10b", 10),
            ("1e3", 1000),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn counts_are_decimal() {
        for (text, count) in
            [("10M", 10_000_000), ("1e8", 100_000_000), ("1.5k", 1500), ("7", 7), ("2G", 2_000_000_000)]
        {
            assert_eq!(parse_count(text), Ok(count), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for text in ["", "M", "-1", "1.5", "64Q", "1e30", "nan", "inf", "0x10", "1 2", "99999999999999999999"]
        {
            assert!(parse_count(text).is_err(), "{text}");
        }
        for text in ["", "G", "-1M", "64Q", "17000000T", "1.5"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert!(parse_size("lots").unwrap_err().contains("64M"));
        assert!(parse_positive("0").is_err());
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("1.5h"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("2d"), Ok(Duration::from_secs(172_800)));
        assert!(parse_duration("-3s").is_err());
        assert!(parse_duration("3 weeks").is_err());
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(bytes(812), "812 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes((1 << 20) - 1), "1.0 MiB");
        assert_eq!(bytes(u64::MAX), "16384.0 PiB");
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(rate(41_234.0), "41.2 K/s");
        assert_eq!(rate(812.3), "812/s");
        assert_eq!(rate(412_000.0), "412 K/s");
        assert_eq!(seconds(0.0421), "42 ms");
        assert_eq!(seconds(185.0), "3 min 05 s");
    }
}
