//! MetricComparison of scraped metrics with facts.

use std::collections::{BTreeMap, BTreeSet};

use super::exposition::ScrapedFamily;
use crate::Result;
use crate::store::StoreKind;

/// MetricFact about a metric of the reference.
#[derive(Clone, Debug)]
pub struct MetricFact {
    name: String,
    kind: String,
    stability: String,
    labels: BTreeSet<String>,
    /// Upper bounds; the text matters, since it is a label.
    buckets: Vec<f64>,
    /// Whether a running reference showed it; others it may show.
    captured: bool,
}

impl MetricFact {
    /// Facts of a file: name, type, stability, labels, buckets, and `captured` or `known`.
    pub fn all(text: &str) -> Result<Vec<MetricFact>> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|line| MetricFact::read(line).ok_or_else(|| format!("no fact: {line}").into()))
            .collect()
    }

    fn read(line: &str) -> Option<MetricFact> {
        let words: Vec<&str> = line.split(' ').collect();
        let &[name, kind, stability, labels, buckets, seen] = words.as_slice() else { return None };
        let list = |text: &str| -> Vec<String> {
            text.split(',').filter(|word| *word != "-").map(str::to_owned).collect()
        };
        Some(MetricFact {
            name: name.to_owned(),
            kind: kind.to_owned(),
            stability: stability.to_owned(),
            labels: list(labels).into_iter().collect(),
            buckets: list(buckets).iter().map(|bound| bound.parse().ok()).collect::<Option<_>>()?,
            captured: seen == "captured",
        })
    }

    /// Differences of what was scraped.
    fn differences(&self, found: &ScrapedFamily) -> Vec<String> {
        let mut all = Vec::new();
        if found.kind != self.kind {
            all.push(format!("type {} instead of {}", found.kind, self.kind));
        }
        if found.stability != self.stability && self.stability != "-" {
            all.push(format!("{} instead of {}", found.stability, self.stability));
        }
        // Without samples there are no labels to compare.
        if found.samples > 0 && found.labels != self.labels {
            all.push(format!("labels {:?} instead of {:?}", found.labels, self.labels));
        }
        let buckets: Vec<f64> = found.buckets.iter().flat_map(|bound| bound.parse()).collect();
        if found.samples > 0 && self.kind == "histogram" && buckets != self.buckets {
            all.push(format!("buckets {buckets:?} instead of {:?}", self.buckets));
        }
        all
    }
}

/// MetricVerdict about one metric.
#[derive(Debug)]
enum MetricVerdict {
    Same {
        counted: bool,
    },
    Different(Vec<String>),
    /// Absent, with the reason if there is one.
    Absent(Option<String>),
    /// Shown, although there is a reason why it is absent.
    NeedlessReason,
}

/// All metrics beside the reference's.
#[derive(Debug)]
pub struct MetricComparison {
    rows: Vec<(MetricFact, MetricVerdict)>,
    /// Names that Kevel has and the reference has not.
    own: Vec<String>,
}

impl MetricComparison {
    /// Compares every fact with what was scraped.
    pub fn new(
        facts: &[MetricFact],
        found: &BTreeMap<String, ScrapedFamily>,
        reasons: &BTreeMap<String, String>,
        store: StoreKind,
    ) -> Self {
        let store = format!("{store:?}").to_lowercase();
        let reason = |name: &str| {
            let here = format!("{name} ({store})");
            reasons.get(&here).or_else(|| reasons.get(name)).cloned()
        };
        let rows = facts.iter().filter_map(|fact| {
            let verdict = match (found.get(&fact.name), reason(&fact.name)) {
                (None, _) if !fact.captured => return None,
                (None, reason) => MetricVerdict::Absent(reason),
                (Some(_), Some(_)) => MetricVerdict::NeedlessReason,
                (Some(family), None) => match fact.differences(family) {
                    differences if differences.is_empty() => {
                        MetricVerdict::Same { counted: family.counted }
                    }
                    differences => MetricVerdict::Different(differences),
                },
            };
            Some((fact.clone(), verdict))
        });
        let known: BTreeSet<&str> = facts.iter().map(|fact| fact.name.as_str()).collect();
        let own = found.keys().filter(|name| !known.contains(name.as_str())).cloned();
        MetricComparison { rows: rows.collect(), own: own.collect() }
    }

    /// Whether every metric is the same, or absent for a reason.
    pub fn passed(&self) -> bool {
        let well = |verdict: &MetricVerdict| {
            matches!(verdict, MetricVerdict::Same { .. } | MetricVerdict::Absent(Some(_)))
        };
        self.rows.iter().all(|(_, verdict)| well(verdict))
    }

    /// Prints the table and the totals.
    pub fn print(&self) {
        println!("| reference | type | Kevel | reason |\n| --- | --- | --- | --- |");
        for (fact, verdict) in &self.rows {
            let (shown, reason) = verdict.columns();
            println!("| {} | {} | {shown} | {reason} |", fact.name, fact.kind);
        }
        let captured = || self.rows.iter().filter(|(fact, _)| fact.captured);
        let same = captured().filter(|(_, verdict)| matches!(verdict, MetricVerdict::Same { .. }));
        let others = self.rows.iter().filter(|(fact, _)| !fact.captured).count();
        println!("\nKevel's own: {}", self.own.join(", "));
        println!(
            "{} of {} metrics of a running reference are the same; {others} others that it may show",
            same.count(),
            captured().count()
        );
    }
}

impl MetricVerdict {
    /// Columns `Kevel` and `reason`.
    fn columns(&self) -> (String, String) {
        let (shown, reason) = match self {
            MetricVerdict::Same { counted: true } => ("the same", String::new()),
            MetricVerdict::Same { counted: false } => ("the same, all zero", String::new()),
            MetricVerdict::Different(differences) => ("DIFFERENT", differences.join("; ")),
            MetricVerdict::Absent(Some(reason)) => ("absent", reason.clone()),
            MetricVerdict::Absent(None) => ("ABSENT", "no reason given".to_owned()),
            MetricVerdict::NeedlessReason => ("shown", "it has a reason to be absent".to_owned()),
        };
        (shown.to_owned(), reason)
    }
}
