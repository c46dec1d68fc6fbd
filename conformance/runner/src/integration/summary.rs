//! Counts of a run, and unexpected results.

use std::fmt;

use super::expected::{Expectations, Surprise};
use super::results::PackageResults;

/// Verdicts in the order of the columns.
const VERDICTS: [&str; 5] = ["pass", "differs", "neither", "in-process", "unstable"];

/// A row for each package, and all unexpected results.
#[derive(Debug, Default)]
pub struct RunSummary {
    rows: Vec<PackageCounts>,
    surprises: Vec<(String, Surprise)>,
}

#[derive(Clone, Debug, Default)]
struct PackageCounts {
    package: String,
    tests: usize,
    /// Number of tests that ended as expected, by verdict.
    expected: [usize; VERDICTS.len()],
    unexpected: usize,
    seconds: f64,
}

impl RunSummary {
    /// Adds a package whose tests were run; `whole` if all of them were.
    pub fn add(
        &mut self,
        package: &str,
        tests: &[String],
        results: &PackageResults,
        expectations: &Expectations,
        whole: bool,
    ) {
        let mut row = PackageCounts { package: package.to_owned(), ..PackageCounts::default() };
        for test in tests {
            let outcomes = results.of_test(test);
            let surprises = expectations.surprises(package, test, &outcomes);
            row.tests += 1;
            row.seconds += outcomes.get(test).map_or(0.0, |outcome| outcome.seconds);
            match expectations.of(package, test).filter(|_| surprises.is_empty()) {
                Some(expectation) => {
                    let own = VERDICTS.iter().zip(&mut row.expected);
                    let own = own.filter(|(verdict, _)| **verdict == expectation.verdict());
                    own.for_each(|(_, count)| *count += 1);
                }
                None => row.unexpected += 1,
            }
            self.surprises.extend(surprises.into_iter().map(|it| (package.to_owned(), it)));
        }
        let listed = expectations.tests(package).filter(|test| !tests.iter().any(|it| it == test));
        for test in listed.filter(|_| whole) {
            let gone = Surprise::stale(test, "is in expected.txt and not in the package");
            self.surprises.push((package.to_owned(), gone));
        }
        self.rows.push(row);
    }

    /// Whether everything ended as expected.
    pub fn is_well(&self) -> bool {
        self.surprises.is_empty()
    }

    fn total(&self) -> PackageCounts {
        let mut total = PackageCounts { package: "all".to_owned(), ..PackageCounts::default() };
        for row in &self.rows {
            total.tests += row.tests;
            total.unexpected += row.unexpected;
            total.seconds += row.seconds;
            total.expected.iter_mut().zip(row.expected).for_each(|(sum, count)| *sum += count);
        }
        total
    }
}

impl fmt::Display for RunSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| package | tests | {} | unexpected | seconds |", VERDICTS.join(" | "))?;
        writeln!(f, "|{}", " --- |".repeat(VERDICTS.len() + 4))?;
        for row in self.rows.iter().chain([&self.total()]) {
            write!(f, "| {} | {} |", row.package, row.tests)?;
            row.expected.iter().try_for_each(|count| write!(f, " {count} |"))?;
            writeln!(f, " {} | {:.0} |", row.unexpected, row.seconds)?;
        }
        for (package, surprise) in &self.surprises {
            writeln!(f, "UNEXPECTED {package} {}: {}", surprise.test, surprise.text)?;
        }
        Ok(())
    }
}
