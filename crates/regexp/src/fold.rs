//! Case folding of character sets (`(?i)`), by Unicode's simple case folding.

use std::sync::LazyLock;

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// Range of code points with case folding.
const FOLDING: std::ops::RangeInclusive<char> = 'A'..='\u{1e943}';

/// Neighbouring code points that fold alike. Some hundreds of runs cover all of Unicode, so that folding a range does
/// not take a step for each of its code points.
#[derive(Debug)]
enum Run {
    /// Each folds to the code point at this distance.
    Shift { low: u32, high: u32, distance: i64 },
    /// Each folds to its neighbour: the first to the second, the third to the fourth.
    Pairs { low: u32, high: u32 },
}

static RUNS: LazyLock<Vec<Run>> = LazyLock::new(runs);

/// Adds the case variants of a range's characters to `ranges`.
pub(crate) fn add_folded(low: u32, high: u32, ranges: &mut Vec<(u32, u32)>) {
    for run in RUNS.iter() {
        match *run {
            Run::Shift { low: first, high: last, distance } => {
                let (from, to) = (low.max(first), high.min(last));
                if from <= to {
                    ranges.push((shifted(from, distance), shifted(to, distance)));
                }
            }
            Run::Pairs { low: first, high: last } => {
                let (from, to) = (low.max(first), high.min(last));
                if from <= to {
                    ranges.push((from - (from - first) % 2, to + 1 - (to - first) % 2));
                }
            }
        }
    }
}

fn shifted(rune: u32, distance: i64) -> u32 {
    u32::try_from(i64::from(rune) + distance).unwrap_or(rune)
}

fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    let mut shifts = Vec::new();
    let mut equal: Vec<(u32, Vec<u32>)> = FOLDING.filter_map(equal_to).collect();
    equal.sort_unstable();
    let mut at = 0;
    while let Some((rune, others)) = equal.get(at) {
        if is_pair(&equal, at) {
            match runs.last_mut() {
                Some(Run::Pairs { high, .. }) if *high + 1 == *rune => *high += 2,
                _ => runs.push(Run::Pairs { low: *rune, high: rune + 1 }),
            }
            at += 2;
            continue;
        }
        let distance = |other: &u32| (i64::from(*other) - i64::from(*rune), *rune);
        shifts.extend(others.iter().map(distance));
        at += 1;
    }
    shifts.sort_unstable();
    for (distance, rune) in shifts {
        match runs.last_mut() {
            Some(Run::Shift { high, distance: same, .. })
                if *same == distance && *high + 1 == rune =>
            {
                *high = rune;
            }
            _ => runs.push(Run::Shift { low: rune, high: rune, distance }),
        }
    }
    runs
}

/// Whether this code point and the next one fold to one another and to nothing else.
fn is_pair(equal: &[(u32, Vec<u32>)], at: usize) -> bool {
    match equal.get(at..at + 2) {
        Some([(first, one), (second, other)]) => {
            *second == first + 1 && *one == [*second] && *other == [*first]
        }
        _ => false,
    }
}

/// The other case variants of a character, if there are any.
fn equal_to(character: char) -> Option<(u32, Vec<u32>)> {
    // Characters that fold have another case; checking that is much cheaper than folding.
    let cased = character.to_lowercase().next() != Some(character)
        || character.to_uppercase().next() != Some(character);
    if !cased {
        return None;
    }
    let mut class = ClassUnicode::new([ClassUnicodeRange::new(character, character)]);
    class.try_case_fold_simple().ok()?;
    let all = class.iter().flat_map(|range| range.start()..=range.end());
    let others: Vec<u32> = all.filter(|other| *other != character).map(u32::from).collect();
    (!others.is_empty()).then_some((u32::from(character), others))
}
