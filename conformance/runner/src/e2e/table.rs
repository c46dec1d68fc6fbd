//! Table of results in Markdown, written and read.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use kevel_api::time::Time;
use kevel_clock::Clock;

use crate::Result;

/// Longest part of a failure's reason that is kept.
const REASON_LIMIT: usize = 140;

/// Result of a test: `pass`, `fail`, `timeout`, or `absent` if the suite skipped it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// `pass`, `fail`, `timeout` or `absent`.
    pub result: String,
    /// Duration.
    pub seconds: u64,
    /// Reason of a failure, in a line.
    pub reason: String,
}

/// Results by test name.
#[derive(Clone, Debug, Default)]
pub struct Table(BTreeMap<String, Outcome>);

impl Outcome {
    /// Makes a result.
    pub fn new(result: &str, seconds: u64, reason: &str) -> Self {
        let plain = reason.replace('|', "/");
        let reason = plain.chars().take(REASON_LIMIT).collect();
        Outcome { result: result.to_owned(), seconds, reason }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:8} {:3} s", self.result, self.seconds)
    }
}

impl Table {
    /// Reads a table that [`Table::write`] wrote.
    pub fn read(file: &Path) -> Result<Self> {
        let text =
            fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let row = |line: &str| {
            let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
            let cells: Vec<&str> = line.splitn(4, " | ").collect();
            let [result, seconds, reason, test] = cells[..] else { return None };
            Some((test.to_owned(), Outcome::new(result, seconds.parse().ok()?, reason.trim())))
        };
        Ok(Table(text.lines().filter_map(row).collect()))
    }

    /// Writes the table with a description of the environment.
    pub fn write(&self, file: &Path, server: &str, limit: u64, nodes: &str) -> Result<()> {
        let mut text = format!(
            "# The official conformance tests against {server}\n\n\
             Suite and components: Kubernetes v1.36.3; {}; at most {limit} s a test; {nodes}.\n\n{}\n\n\
             | result | seconds | reason | test |\n| --- | --- | --- | --- |\n",
            Time::now(&Clock::system()),
            self.summary(),
        );
        for (test, outcome) in &self.0 {
            let Outcome { result, seconds, reason } = outcome;
            text += &format!("| {result} | {seconds} | {reason} | {test} |\n");
        }
        Ok(fs::write(file, text)?)
    }

    /// Sets the result of a test.
    pub fn set(&mut self, test: String, outcome: Outcome) {
        self.0.insert(test, outcome);
    }

    /// Result of a test, if it was run.
    pub fn outcome(&self, test: &str) -> Option<&Outcome> {
        self.0.get(test)
    }

    /// Whether a test passed, if it was run.
    pub fn passes(&self, test: &str) -> Option<bool> {
        self.outcome(test).map(|outcome| outcome.result == "pass")
    }

    /// Number of tests with this result.
    pub fn count(&self, result: &str) -> usize {
        self.0.values().filter(|outcome| outcome.result == result).count()
    }

    /// Summary in words.
    pub fn summary(&self) -> String {
        let count = |result| self.count(result);
        format!(
            "{} tests: {} passed, {} failed, {} out of time, {} absent.",
            self.0.len(),
            count("pass"),
            count("fail"),
            count("timeout"),
            count("absent")
        )
    }

    /// Tests that this table passes and another one ran and did not pass.
    pub fn passed_only_here(&self, other: &Table) -> Vec<&str> {
        let passes = |table: &Table, test: &str| table.outcome(test).map(|o| o.result == "pass");
        let only =
            |test: &&String| passes(self, test) == Some(true) && passes(other, test) == Some(false);
        self.0.keys().filter(only).map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_reads_back_as_it_was_written() -> Result<()> {
        let file = std::env::temp_dir().join(format!("e2e-table-{}.md", std::process::id()));
        let mut table = Table::default();
        table.set("[sig] a | b".to_owned(), Outcome::new("pass", 3, ""));
        table.set("[sig] c".to_owned(), Outcome::new("fail", 60, "no | reason"));
        table.write(&file, "a server", 60, "nodes")?;
        let read = Table::read(&file)?;
        fs::remove_file(&file)?;
        assert_eq!(read.0, table.0);
        Ok(())
    }
}
