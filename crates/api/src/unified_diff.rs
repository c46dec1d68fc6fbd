//! Unified diff of two texts, as difflib makes it (Python's, and Go's port).
//!
//! The longest run of common lines is found first, then the longest on either side of it, and so on. Very frequent
//! lines do not begin a run.

use std::collections::HashMap;

/// Number of context lines around a change.
const CONTEXT: usize = 3;
/// Number of lines from which on a text's frequent lines do not begin a run.
const LONG: usize = 200;
/// Limit on compared pairs of lines. A change of a Pod needs some thousands; more than this takes a tenth of a second,
/// and no diff is returned.
const MAX_PAIRS: usize = 10_000_000;

/// Unified diff; empty if the texts are equal, or if it takes too long.
///
/// ```
/// use kevel_api::unified_diff::unified_diff;
/// assert_eq!(unified_diff("a\nb\nc", "a\nc"), "@@ -1,3 +1,2 @@\n a\n-b\n c\n");
/// assert_eq!(unified_diff("a", "a"), "");
/// ```
pub fn unified_diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let Some(runs) = common_runs(&old, &new) else { return String::new() };
    let mut out = String::new();
    for group in groups(changes(&runs)) {
        write_group(&group, &old, &new, &mut out);
    }
    out
}

/// Run of common lines: start in the old text, start in the new one, length.
type Run = (usize, usize, usize);

/// Change of lines: start and end in the old text, and in the new one.
#[derive(Clone, Copy)]
struct Change {
    equal: bool,
    old: (usize, usize),
    new: (usize, usize),
}

/// All runs, in order; the last one is empty, at the end of both texts.
fn common_runs(old: &[&str], new: &[&str]) -> Option<Vec<Run>> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(index);
    }
    if new.len() >= LONG {
        places.retain(|_, at| at.len() <= new.len() / 100 + 1);
    }
    let mut search = Search { old, new, places, pairs: 0 };
    let (mut todo, mut found) = (vec![((0, old.len()), (0, new.len()))], Vec::new());
    while let Some((a, b)) = todo.pop() {
        let run @ (i, j, length) = search.longest(a, b)?;
        if length > 0 {
            found.push(run);
            for (a, b) in [((a.0, i), (b.0, j)), ((i + length, a.1), (j + length, b.1))] {
                if a.0 < a.1 && b.0 < b.1 {
                    todo.push((a, b));
                }
            }
        }
    }
    found.sort_unstable();
    let mut runs: Vec<Run> = Vec::new();
    for (i, j, length) in found {
        match runs.last_mut() {
            Some(last) if last.0 + last.2 == i && last.1 + last.2 == j => last.2 += length,
            _ => runs.push((i, j, length)),
        }
    }
    runs.push((old.len(), new.len(), 0));
    Some(runs)
}

struct Search<'t> {
    old: &'t [&'t str],
    new: &'t [&'t str],
    /// Positions of each line in the new text, without too frequent lines.
    places: HashMap<&'t str, Vec<usize>>,
    pairs: usize,
}

impl Search<'_> {
    /// Longest run in parts of both texts, the first of several.
    fn longest(&mut self, a: (usize, usize), b: (usize, usize)) -> Option<Run> {
        let (mut i, mut j, mut length) = (a.0, b.0, 0);
        // Length of the run that ends at a line of the new text and at the previous line of the old one.
        let mut ending: Vec<(usize, usize)> = Vec::new();
        for at in a.0..a.1 {
            let all = self.places.get(self.old[at]).map_or(&[][..], Vec::as_slice);
            let part = &all[all.partition_point(|place| *place < b.0)..];
            let part = &part[..part.partition_point(|place| *place < b.1)];
            self.pairs += part.len() + 1;
            if self.pairs > MAX_PAIRS {
                return None;
            }
            let mut before = ending.iter().peekable();
            let mut now = Vec::with_capacity(part.len());
            for place in part {
                while before.next_if(|(end, _)| end + 1 < *place).is_some() {}
                let run =
                    before.next_if(|(end, _)| end + 1 == *place).map_or(0, |(_, run)| *run) + 1;
                now.push((*place, run));
                if run > length {
                    (i, j, length) = (at + 1 - run, place + 1 - run, run);
                }
            }
            ending = now;
        }
        while i > a.0 && j > b.0 && self.old[i - 1] == self.new[j - 1] {
            (i, j, length) = (i - 1, j - 1, length + 1);
        }
        while i + length < a.1 && j + length < b.1 && self.old[i + length] == self.new[j + length] {
            length += 1;
        }
        Some((i, j, length))
    }
}

/// Changes between the runs.
fn changes(runs: &[Run]) -> Vec<Change> {
    let (mut changes, mut i, mut j) = (Vec::new(), 0, 0);
    for (a, b, length) in runs {
        if i < *a || j < *b {
            changes.push(Change { equal: false, old: (i, *a), new: (j, *b) });
        }
        (i, j) = (a + length, b + length);
        if *length > 0 {
            changes.push(Change { equal: true, old: (*a, i), new: (*b, j) });
        }
    }
    changes
}

/// Groups of adjacent changes, with context lines.
fn groups(mut changes: Vec<Change>) -> Vec<Vec<Change>> {
    if let Some(first) = changes.first_mut().filter(|change| change.equal) {
        first.old.0 = first.old.0.max(first.old.1.saturating_sub(CONTEXT));
        first.new.0 = first.new.0.max(first.new.1.saturating_sub(CONTEXT));
    }
    if let Some(last) = changes.last_mut().filter(|change| change.equal) {
        last.old.1 = last.old.1.min(last.old.0 + CONTEXT);
        last.new.1 = last.new.1.min(last.new.0 + CONTEXT);
    }
    let (mut groups, mut group) = (Vec::new(), Vec::new());
    for change in changes {
        let (old, new) = (change.old, change.new);
        if change.equal && old.1 - old.0 > 2 * CONTEXT {
            let end = (old.1.min(old.0 + CONTEXT), new.1.min(new.0 + CONTEXT));
            group.push(Change { old: (old.0, end.0), new: (new.0, end.1), ..change });
            groups.push(std::mem::take(&mut group));
            let start = (old.1.saturating_sub(CONTEXT), new.1.saturating_sub(CONTEXT));
            group.push(Change { old: (start.0, old.1), new: (start.1, new.1), ..change });
        } else {
            group.push(change);
        }
    }
    groups.push(group);
    groups.retain(|group| group.iter().any(|change| !change.equal));
    groups
}

fn write_group(group: &[Change], old: &[&str], new: &[&str], out: &mut String) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
    let (was, is) = ((first.old.0, last.old.1), (first.new.0, last.new.1));
    let mut line = |mark: &str, line: &str| {
        out.push_str(mark);
        out.push_str(line);
        out.push('\n');
    };
    line("", &format!("@@ -{} +{} @@", range(was), range(is)));
    for change in group {
        let (was, is) = (&old[change.old.0..change.old.1], &new[change.new.0..change.new.1]);
        if change.equal {
            was.iter().for_each(|text| line(" ", text));
        } else {
            was.iter().for_each(|text| line("-", text));
            is.iter().for_each(|text| line("+", text));
        }
    }
}

/// Range of lines: `3,7` is seven lines from the third on.
fn range((start, end): (usize, usize)) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        length => format!("{},{length}", start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_told_as_difflib_tells_them() {
        for (old, new, expected) in [
            ("", "", ""),
            ("a", "b", "@@ -1 +1 @@\n-a\n+b\n"),
            ("a\nb\nc\nd\ne", "a\nb\nX\nd\ne", "@@ -1,5 +1,5 @@\n a\n b\n-c\n+X\n d\n e\n"),
            // The longest run is the last two lines, not the first one.
            ("a\nb", "a\nc\na\nb", "@@ -1,2 +1,4 @@\n+a\n+c\n a\n b\n"),
            (
                "1\n2\n3\n4\n5\n6\n7\n8\n9",
                "0\n2\n3\n4\n5\n6\n7\n8\n0",
                "@@ -1,4 +1,4 @@\n-1\n+0\n 2\n 3\n 4\n@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+0\n",
            ),
        ] {
            assert_eq!(unified_diff(old, new), expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn what_takes_too_long_is_not_told() {
        let lines = |from: usize| (from..from + 100_000).map(|i| (i % 199).to_string());
        let text = |from| lines(from).collect::<Vec<_>>().join("\n");
        let _ = unified_diff(&text(0), &text(7));
        let many = |odd: &str| (0..150).map(|_| odd).collect::<Vec<_>>().join("\n");
        assert!(!unified_diff(&many("a"), &many("b")).is_empty());
    }
}
