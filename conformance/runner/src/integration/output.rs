//! Results of tests, parsed from the output of a Go test program with `-test.v=test2json`.

use std::collections::{BTreeMap, BTreeSet};

/// First character of a line of the testing package, even after unfinished output of a test.
const MARK: char = '\u{16}';
/// Number of last messages of a test that are kept.
const LINES: usize = 8;
/// Longest part of a message that is kept, in characters.
const LINE: usize = 900;
/// Messages that every test prints, without information: its feature gates, the server that it started.
const NOISE: [&str; 2] = ["feature_gate.go:", "external kube-apiserver: pid"];

/// Status of a test or subtest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestStatus {
    /// The test passed.
    Pass,
    /// The test skipped itself, or the shim skipped it.
    Skip,
    /// The test failed.
    Fail,
    /// The test was running at the time limit.
    Timeout,
    /// The test was running when its process ended.
    Crash,
}

/// Result of a test or subtest.
#[derive(Clone, Debug, PartialEq)]
pub struct TestOutcome {
    /// Status.
    pub status: TestStatus,
    /// Duration.
    pub seconds: f64,
    /// Last messages, if it did not pass.
    pub lines: Vec<String>,
}

/// A test and its subtests, by name.
pub type TestOutcomes = BTreeMap<String, TestOutcome>;

impl TestStatus {
    const ALL: [TestStatus; 5] = [
        TestStatus::Pass,
        TestStatus::Skip,
        TestStatus::Fail,
        TestStatus::Timeout,
        TestStatus::Crash,
    ];

    /// Name in results.
    pub fn name(self) -> &'static str {
        match self {
            TestStatus::Pass => "pass",
            TestStatus::Skip => "skip",
            TestStatus::Fail => "fail",
            TestStatus::Timeout => "timeout",
            TestStatus::Crash => "crash",
        }
    }

    /// Status by name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// Whether the test neither passed nor was skipped.
    pub fn is_failure(self) -> bool {
        !matches!(self, TestStatus::Pass | TestStatus::Skip)
    }
}

/// Parses the output of one test that took `seconds`. `out_of_time` if it was ended.
pub fn parse(text: &str, test: &str, seconds: f64, out_of_time: bool) -> TestOutcomes {
    let mut reader = OutputReader { current: test.to_owned(), ..OutputReader::default() };
    for line in text.lines() {
        match line.rsplit_once(MARK) {
            Some((_, framed)) => reader.framed(framed),
            None => reader.said(line),
        }
    }
    let OutputReader { mut outcomes, mut lines, mut running, .. } = reader;
    if !outcomes.contains_key(test) {
        running.insert(test.to_owned());
    }
    let timed_out = out_of_time || text.contains("panic: test timed out after ");
    let status = if timed_out { TestStatus::Timeout } else { TestStatus::Crash };
    for test in running {
        outcomes.insert(test, TestOutcome { status, seconds, lines: Vec::new() });
    }
    if let Some(outcome) = outcomes.get_mut(test) {
        // A test whose subtests are parallel says that it took no time.
        outcome.seconds = seconds;
    }
    for (test, outcome) in outcomes.iter_mut().filter(|(_, o)| o.status != TestStatus::Pass) {
        let mut own = lines.remove(test).unwrap_or_default();
        outcome.lines = own.split_off(own.len().saturating_sub(LINES));
    }
    outcomes
}

#[derive(Default)]
struct OutputReader {
    current: String,
    running: BTreeSet<String>,
    outcomes: TestOutcomes,
    lines: BTreeMap<String, Vec<String>>,
}

impl OutputReader {
    /// Handles `=== RUN   TestA/b`, `--- PASS: TestA/b (0.01s)`.
    fn framed(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("==="), Some(event), Some(test)) => {
                if event == "RUN" {
                    self.running.insert(test.to_owned());
                }
                self.current = test.to_owned();
            }
            (Some("---"), Some(result), Some(test)) => {
                let result = result.trim_end_matches(':').to_lowercase();
                let Some(status) = TestStatus::parse(&result) else { return };
                let time = words.next().unwrap_or_default();
                let time = time.trim_start_matches('(').trim_end_matches("s)");
                let seconds = time.parse().unwrap_or_default();
                self.running.remove(test);
                self.outcomes
                    .insert(test.to_owned(), TestOutcome { status, seconds, lines: Vec::new() });
                self.current = test.to_owned();
            }
            _ => {}
        }
    }

    /// Handles `    file_test.go:12: a message`, its continuation lines, and panics.
    fn said(&mut self, line: &str) {
        let text = line.trim();
        let lines = self.lines.entry(self.current.clone()).or_default();
        if is_message(line) || line.starts_with("panic: ") {
            if !NOISE.iter().any(|noise| text.contains(noise)) {
                lines.push(shortened(text, LINE));
            }
        } else if let Some(last) = lines.last_mut().filter(|_| line.starts_with("        ")) {
            *last = shortened(&format!("{last} | {text}"), LINE);
        }
    }
}

/// Whether a line has the Go source location with which `testing` begins messages.
fn is_message(line: &str) -> bool {
    let Some((place, rest)) = line.trim_start().split_once(".go:") else { return false };
    let number = rest.split(':').next().unwrap_or_default();
    line.starts_with("    ")
        && !place.contains(char::is_whitespace)
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// First characters of a text.
pub fn shortened(text: &str, limit: usize) -> String {
    text.chars().take(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\u{16}=== RUN   TestA
    a_test.go:7: external kube-apiserver: pid 1, port 2, log 3
\u{16}=== RUN   TestA/one
    a_test.go:9: first
        goes on
\u{16}=== RUN   TestA/two
noise without an end\u{16}=== NAME  TestA/one
    a_test.go:10: second
    \u{16}--- FAIL: TestA/one (1.50s)
    \u{16}--- SKIP: TestA/two (0.00s)
";

    #[test]
    fn subtests_have_their_own_messages() {
        let text = format!("{PRINTED}\u{16}--- FAIL: TestA (2.00s)\nFAIL\n");
        let outcomes = parse(&text, "TestA", 3.0, false);
        let one = &outcomes["TestA/one"];
        assert_eq!(one.status, TestStatus::Fail);
        assert_eq!(one.seconds, 1.5);
        assert_eq!(one.lines, ["a_test.go:9: first | goes on", "a_test.go:10: second"]);
        assert_eq!(outcomes["TestA/two"].status, TestStatus::Skip);
        assert_eq!(outcomes["TestA"].status, TestStatus::Fail);
        assert_eq!(outcomes["TestA"].seconds, 3.0);
        assert!(outcomes["TestA"].lines.is_empty());
    }

    #[test]
    fn unfinished_tests_timed_out_or_crashed() {
        let status = |text: &str| parse(text, "TestA", 3.0, false)["TestA"].status;
        assert_eq!(status(PRINTED), TestStatus::Crash);
        let timed_out = format!("{PRINTED}panic: test timed out after 2m0s\n");
        assert_eq!(status(&timed_out), TestStatus::Timeout);
        assert_eq!(status(""), TestStatus::Crash);
        assert_eq!(parse("", "TestA", 3.0, true)["TestA"].status, TestStatus::Timeout);
    }
}
