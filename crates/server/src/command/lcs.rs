//! LCS: the longest common subsequence of two strings.

use super::Context;
use super::arguments::Options;
use super::spec::{Keys, Spec, flags::*};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::resp::{Output, Request};

pub const TABLE: &[Spec] = &[Spec::on("lcs", -3, READONLY | LONG, Keys::TWO, lcs).about(
    "string",
    "7.0.0",
    "Finds the longest common subsequence of two strings.",
)];

/// A stretch that both strings have: where it begins and ends (included) in each, and its length.
struct Stretch {
    in_first: (usize, usize),
    in_second: (usize, usize),
}

/// The longest common subsequence, and the stretches of it from the last to the first.
fn common(first: &[u8], second: &[u8]) -> (Vec<u8>, Vec<Stretch>) {
    let width = second.len() + 1;
    let mut lengths = vec![0u32; (first.len() + 1) * width];
    let at = |lengths: &[u32], i: usize, j: usize| lengths.get(i * width + j).copied().unwrap_or(0);
    for (i, one) in first.iter().enumerate() {
        for (j, other) in second.iter().enumerate() {
            let length = if one == other {
                at(&lengths, i, j) + 1
            } else {
                at(&lengths, i, j + 1).max(at(&lengths, i + 1, j))
            };
            if let Some(place) = lengths.get_mut((i + 1) * width + j + 1) {
                *place = length;
            }
        }
    }
    let (mut i, mut j) = (first.len(), second.len());
    let (mut bytes, mut stretches) = (Vec::new(), Vec::<Stretch>::new());
    while i > 0 && j > 0 {
        match (first.get(i - 1), second.get(j - 1)) {
            (Some(one), Some(other)) if one == other => {
                bytes.push(*one);
                (i, j) = (i - 1, j - 1);
                match stretches.last_mut() {
                    Some(last) if last.in_first.0 == i + 1 && last.in_second.0 == j + 1 => {
                        (last.in_first.0, last.in_second.0) = (i, j);
                    }
                    _ => stretches.push(Stretch { in_first: (i, i), in_second: (j, j) }),
                }
            }
            _ if at(&lengths, i - 1, j) > at(&lengths, i, j - 1) => i -= 1,
            _ => j -= 1,
        }
    }
    bytes.reverse();
    (bytes, stretches)
}

fn lcs(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    const MOST_CELLS: usize = 1 << 28;
    let wrong = |_| Failure::coded("ERR The specified keys must contain string values");
    let first = context.lookup(request.get(1))?.string().map_err(wrong)?.unwrap_or_default().to_vec();
    let second = context.lookup(request.get(2))?.string().map_err(wrong)?.unwrap_or_default().to_vec();
    let (mut wants_length, mut wants_places, mut with_length, mut least) = (false, false, false, 0);
    let mut options = Options::new(request.from(3));
    while let Some(option) = options.next() {
        match option.as_str() {
            "LEN" => wants_length = true,
            "IDX" => wants_places = true,
            "WITHMATCHLEN" => with_length = true,
            "MINMATCHLEN" => least = usize::try_from(options.integer()?).unwrap_or(0),
            _ => return Err(SYNTAX),
        }
    }
    if wants_length && wants_places {
        let text = "ERR If you want both the length and indexes, please just use IDX.";
        return Err(Failure::coded(text));
    }
    if (first.len() + 1).saturating_mul(second.len() + 1) > MOST_CELLS {
        return Err(Failure::coded(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    }
    let (bytes, stretches) = common(&first, &second);
    if wants_length {
        out.count(bytes.len());
        return Ok(());
    }
    if !wants_places {
        out.bulk(&bytes);
        return Ok(());
    }
    let length = |stretch: &&Stretch| stretch.in_first.1 - stretch.in_first.0 + 1;
    let shown: Vec<&Stretch> = stretches.iter().filter(|stretch| length(stretch) >= least.max(1)).collect();
    out.map(2);
    out.text("matches");
    out.array(shown.len());
    for stretch in &shown {
        out.array(if with_length { 3 } else { 2 });
        for (from, to) in [stretch.in_first, stretch.in_second] {
            out.array(2);
            out.count(from);
            out.count(to);
        }
        if with_length {
            out.count(length(stretch));
        }
    }
    out.text("len");
    out.count(bytes.len());
    Ok(())
}
