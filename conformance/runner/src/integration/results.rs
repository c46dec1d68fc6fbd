//! Results of a package's tests on one server, in a file beside the output of each test.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::output::{TestOutcome, TestOutcomes, TestStatus};
use crate::Result;

/// Results by test and subtest. Results of tests that are not run again stay.
#[derive(Debug, Default)]
pub struct PackageResults {
    file: PathBuf,
    outcomes: TestOutcomes,
}

impl PackageResults {
    /// Reads `results.json` of a folder; empty if it is missing.
    pub fn open(folder: &Path) -> Result<Self> {
        let file = folder.join("results.json");
        let outcomes = match fs::read(&file) {
            Ok(text) => read(&serde_json::from_slice(&text)?),
            Err(_) => TestOutcomes::new(),
        };
        Ok(PackageResults { file, outcomes })
    }

    /// Results of a test and its subtests.
    pub fn of_test(&self, test: &str) -> TestOutcomes {
        let own = |name: &str| belongs(name, test);
        let found = self.outcomes.iter().filter(|(name, _)| own(name));
        found.map(|(name, outcome)| (name.clone(), outcome.clone())).collect()
    }

    /// Replaces the results of a test and its subtests.
    pub fn set(&mut self, test: &str, outcomes: TestOutcomes) -> Result<()> {
        self.outcomes.retain(|name, _| !belongs(name, test));
        self.outcomes.extend(outcomes);
        let new = self.file.with_extension("new");
        fs::write(&new, serde_json::to_vec_pretty(&written(&self.outcomes))?)?;
        Ok(fs::rename(new, &self.file)?)
    }
}

/// Whether a name is that of a test or of one of its subtests.
pub fn belongs(name: &str, test: &str) -> bool {
    name.strip_prefix(test).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn written(outcomes: &TestOutcomes) -> Value {
    let row = |(name, outcome): (&String, &TestOutcome)| {
        let TestOutcome { status, seconds, lines } = outcome;
        (name.clone(), json!({"status": status.name(), "seconds": seconds, "lines": lines}))
    };
    Value::Object(outcomes.iter().map(row).collect::<Map<_, _>>())
}

fn read(value: &Value) -> TestOutcomes {
    let row = |(name, row): (&String, &Value)| {
        let status = TestStatus::parse(row["status"].as_str()?)?;
        let lines = row["lines"].as_array().into_iter().flatten();
        let lines = lines.filter_map(|line| line.as_str().map(str::to_owned)).collect();
        let seconds = row["seconds"].as_f64().unwrap_or_default();
        Some((name.clone(), TestOutcome { status, seconds, lines }))
    };
    value.as_object().into_iter().flatten().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_a_test_replace_older_ones_of_its_subtests() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("integration-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let outcome =
            |status| TestOutcome { status, seconds: 1.5, lines: vec!["a line".to_owned()] };
        let named = |names: &[&str], status| {
            names.iter().map(|name| ((*name).to_owned(), outcome(status))).collect::<TestOutcomes>()
        };
        let mut results = PackageResults::open(&folder)?;
        results.set("TestA", named(&["TestA", "TestA/old"], TestStatus::Fail))?;
        results.set("TestAB", named(&["TestAB"], TestStatus::Skip))?;
        results.set("TestA", named(&["TestA", "TestA/new"], TestStatus::Pass))?;
        let read = PackageResults::open(&folder)?;
        fs::remove_dir_all(&folder)?;
        assert_eq!(read.outcomes, results.outcomes);
        assert_eq!(read.of_test("TestA"), named(&["TestA", "TestA/new"], TestStatus::Pass));
        assert_eq!(read.of_test("TestAB"), named(&["TestAB"], TestStatus::Skip));
        Ok(())
    }
}
