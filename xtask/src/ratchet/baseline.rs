//! The committed figures of a ratchet, and what has become of them.

use std::collections::{BTreeMap, BTreeSet};

use super::RatchetError;

/// Crate and measure.
pub type Key = (String, String);

/// Figures by crate and measure: lines `crate measure number`. A crate without any figure has a line `crate - 0`, so
/// that it is known from a new one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    pub counts: BTreeMap<Key, usize>,
    pub crates: BTreeSet<String>,
}

/// Figures that are not those of the baseline.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Key, figure of the baseline, figure of today.
    pub risen: Vec<(Key, usize, usize)>,
    pub fallen: Vec<(Key, usize, usize)>,
}

impl Baseline {
    pub fn parse(text: &str) -> Result<Self, RatchetError> {
        let mut baseline = Baseline::default();
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let malformed = || RatchetError::Malformed { line: number + 1 };
            let [name, measure, count] = line.split(' ').collect::<Vec<_>>()[..] else {
                return Err(malformed());
            };
            baseline.crates.insert(name.to_owned());
            if measure != "-" {
                let count = count.parse().map_err(|_| malformed())?;
                baseline.counts.insert((name.to_owned(), measure.to_owned()), count);
            }
        }
        Ok(baseline)
    }

    pub fn text(&self, head: &str) -> String {
        let mut lines: Vec<String> = self
            .counts
            .iter()
            .map(|((name, measure), count)| format!("{name} {measure} {count}\n"))
            .collect();
        let counted: BTreeSet<&String> = self.counts.keys().map(|(name, _)| name).collect();
        let others = self.crates.iter().filter(|name| !counted.contains(name));
        lines.extend(others.map(|name| format!("{name} - 0\n")));
        lines.sort();
        format!("{head}{}", lines.concat())
    }

    /// Changes since the baseline. A crate that the baseline does not know has no figures: all of its own have risen, from 0.
    pub fn changes(&self, today: &Baseline) -> Changes {
        let keys: BTreeSet<&Key> = self.counts.keys().chain(today.counts.keys()).collect();
        let mut changes = Changes::default();
        for key in keys {
            let count = |baseline: &Baseline| baseline.counts.get(key).copied().unwrap_or(0);
            let (before, now) = (count(self), count(today));
            match now.cmp(&before) {
                std::cmp::Ordering::Greater => changes.risen.push((key.clone(), before, now)),
                std::cmp::Ordering::Less => changes.fallen.push((key.clone(), before, now)),
                std::cmp::Ordering::Equal => {}
            }
        }
        changes
    }

    /// Today's figures where they have fallen; what has risen stays as it was.
    pub fn lowered(&self, today: &Baseline) -> Baseline {
        let lower = |(key, count): (&Key, &usize)| {
            let now = today.counts.get(key).copied().unwrap_or(0).min(*count);
            (now > 0).then(|| (key.clone(), now))
        };
        let counts = self.counts.iter().filter_map(lower).collect();
        Baseline { counts, crates: today.crates.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline(text: &str) -> Baseline {
        Baseline::parse(text).unwrap_or_default()
    }

    #[test]
    fn baseline_reads_what_it_writes() {
        let text = "# head\na string 3\nb - 0\nc dyn 1\n";
        assert_eq!(baseline(text).text("# head\n"), text);
        assert!(matches!(Baseline::parse("a string"), Err(RatchetError::Malformed { line: 1 })));
        assert!(Baseline::parse("a string many").is_err());
    }

    #[test]
    fn baseline_is_lowered_but_never_raised() {
        let (before, today) = (
            baseline("a dyn 3\na string 3\nb string 1\n"),
            baseline("a dyn 4\na string 2\nb - 0\nnew dyn 1\n"),
        );
        let changes = before.changes(&today);
        let names = |list: &[(Key, usize, usize)]| -> Vec<String> {
            list.iter()
                .map(|((name, measure), before, now)| format!("{name} {measure} {before}>{now}"))
                .collect()
        };
        assert_eq!(names(&changes.risen), ["a dyn 3>4", "new dyn 0>1"]);
        assert_eq!(names(&changes.fallen), ["a string 3>2", "b string 1>0"]);
        assert_eq!(before.lowered(&today).text(""), "a dyn 3\na string 2\nb - 0\nnew - 0\n");
    }
}
