//! Sets of characters as sorted ranges of code points.
//!
//! Code points rather than `char`s: Go's classes may name surrogates, which no text contains.

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// The last code point.
pub(crate) const MAX_RUNE: u32 = 0x10_FFFF;
const SURROGATES: (u32, u32) = (0xD800, 0xDFFF);

/// A set of code points: ranges in order that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runes(Vec<(u32, u32)>);

impl Runes {
    /// The set of these ranges, in any order.
    pub fn new(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for range in ranges {
            append(&mut merged, range);
        }
        Runes(merged)
    }

    pub fn of(class: &ClassUnicode) -> Self {
        let range = |r: &ClassUnicodeRange| (u32::from(r.start()), u32::from(r.end()));
        Runes::new(class.iter().map(range).collect())
    }

    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// The only code point, if there is exactly one.
    pub fn single(&self) -> Option<u32> {
        match self.0.as_slice() {
            [(low, high)] if low == high => Some(*low),
            _ => None,
        }
    }

    pub fn contains(&self, rune: u32) -> bool {
        let after = self.0.partition_point(|(low, _)| *low <= rune);
        after.checked_sub(1).and_then(|at| self.0.get(at)).is_some_and(|(_, high)| rune <= *high)
    }

    /// Union of two sets: one pass over both.
    pub fn union(&self, other: &Runes) -> Runes {
        let mut merged = Vec::with_capacity(self.0.len() + other.0.len());
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        loop {
            let next = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) if a <= b => left.next(),
                (_, Some(_)) => right.next(),
                (_, None) => left.next(),
            };
            let Some(range) = next else { return Runes(merged) };
            append(&mut merged, *range);
        }
    }

    pub fn negated(&self) -> Runes {
        let mut ranges = Vec::with_capacity(self.0.len() + 1);
        let mut next = 0;
        for (low, high) in &self.0 {
            if next < *low {
                ranges.push((next, low - 1));
            }
            next = high + 1;
        }
        if next <= MAX_RUNE {
            ranges.push((next, MAX_RUNE));
        }
        Runes(ranges)
    }

    /// Set for the `regex` crates: without surrogates, which they do not have.
    pub fn class(&self) -> ClassUnicode {
        let (first, last) = SURROGATES;
        let parts = self.0.iter().flat_map(|(low, high)| {
            let below = (*low, (*high).min(first - 1));
            let above = ((*low).max(last + 1), *high);
            [below, above].into_iter().filter(|(low, high)| low <= high)
        });
        let range =
            |(low, high)| Some(ClassUnicodeRange::new(char::from_u32(low)?, char::from_u32(high)?));
        ClassUnicode::new(parts.filter_map(range))
    }
}

/// Appends a range that begins no earlier than the last one.
fn append(merged: &mut Vec<(u32, u32)>, (low, high): (u32, u32)) {
    match merged.last_mut() {
        Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
        _ => merged.push((low, high)),
    }
}
