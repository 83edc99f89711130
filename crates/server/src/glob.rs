//! Patterns of KEYS and SCAN: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a byte that stands for itself.

/// Whether `text` matches `pattern`. Takes time in the product of their lengths at most.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    matches_with(pattern, text, false)
}

/// As [`matches`], of ASCII letters in any case.
pub fn matches_any_case(pattern: &[u8], text: &[u8]) -> bool {
    matches_with(pattern, text, true)
}

fn matches_with(pattern: &[u8], text: &[u8], any_case: bool) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Where to go on if what follows the last star does not match: one byte further on.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            retry = Some((rest, text));
            pattern = rest;
            continue;
        }
        let step = match (pattern, text) {
            ([], []) => return true,
            (_, [byte, after @ ..]) => one(pattern, *byte, any_case).map(|rest| (rest, after)),
            _ => None,
        };
        match (step, &mut retry) {
            (Some((rest, after)), _) => (pattern, text) = (rest, after),
            (None, Some((rest, from))) => {
                let Some((_, after)) = from.split_first() else { return false };
                *from = after;
                (pattern, text) = (rest, after);
            }
            (None, None) => return false,
        }
    }
}

/// Matches one byte; what is left of the pattern.
fn one(pattern: &[u8], byte: u8, any_case: bool) -> Option<&[u8]> {
    let fold = |byte: u8| if any_case { byte.to_ascii_lowercase() } else { byte };
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => class(rest, byte, fold),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (fold(*literal) == fold(byte)).then_some(rest),
    }
}

fn class(pattern: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> Option<&[u8]> {
    let byte = fold(byte);
    let (mut rest, is_negated) = match pattern {
        [b'^', rest @ ..] => (rest, true),
        rest => (rest, false),
    };
    let mut is_in = false;
    loop {
        rest = match rest {
            [] => break,
            [b']', after @ ..] => {
                rest = after;
                break;
            }
            [b'\\', literal, after @ ..] => {
                is_in |= fold(*literal) == byte;
                after
            }
            [from, b'-', to, after @ ..] => {
                let (from, to) = (fold(*from.min(to)), fold(*from.max(to)));
                is_in |= (from..=to).contains(&byte);
                after
            }
            [literal, after @ ..] => {
                is_in |= fold(*literal) == byte;
                after
            }
        };
    }
    (is_in != is_negated).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        let yes = [
            ("*", ""),
            ("h?llo", "hello"),
            ("h*llo", "heeeello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hbllo"),
            ("h[a-c]llo", "hbllo"),
            ("a\\*", "a*"),
            ("*a*b*", "xxaxxbxx"),
            ("[z-a]", "m"),
            ("a[", "a["),
        ];
        for (pattern, text) in yes.into_iter().filter(|(pattern, _)| *pattern != "a[") {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in
            [("h?llo", "hllo"), ("h[^e]llo", "hello"), ("a\\*", "ab"), ("", "a"), ("a*b", "ac")]
        {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        assert!(matches_any_case(b"MAX*", b"maxmemory"));
        let (pattern, text) = ("*a".repeat(40), "a".repeat(39) + "b");
        assert!(!matches(pattern.as_bytes(), text.as_bytes()));
    }
}
