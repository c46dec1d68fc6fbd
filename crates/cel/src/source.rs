//! Source text of an expression, and issues with positions in it.

use std::fmt;

/// Position in an expression: line from 1 and column from 0, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// Line, from 1.
    pub line: i32,
    /// Column, from 0.
    pub column: i32,
}

impl Location {
    /// Position of issues with the expression as a whole.
    pub const NONE: Location = Location { line: -1, column: -1 };
}

/// Source text, addressed by character.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub characters: Vec<char>,
    /// Start of each line but the first, and one past the end.
    line_starts: Vec<u32>,
}

impl Source {
    pub fn new(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let ends = characters.iter().enumerate().filter(|(_, c)| **c == '\n').map(|(i, _)| i);
        let line_starts =
            ends.chain([characters.len()]).map(|end| end as u32 + 1).collect::<Vec<_>>();
        Source { characters, line_starts }
    }

    pub fn location(&self, offset: u32) -> Location {
        let before = self.line_starts.partition_point(|start| *start <= offset);
        let start = before.checked_sub(1).and_then(|i| self.line_starts.get(i)).copied();
        Location { line: before as i32 + 1, column: (offset - start.unwrap_or(0)) as i32 }
    }

    fn line(&self, line: i32) -> Option<String> {
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        let start = match index.checked_sub(1) {
            None => 0,
            Some(previous) => *self.line_starts.get(previous)? as usize,
        };
        let end = *self.line_starts.get(index)? as usize - 1;
        let text = self.characters.get(start..end)?;
        (!self.characters.is_empty()).then(|| text.iter().collect())
    }

    /// Line of an issue, with a mark under its position.
    fn snippet(&self, location: Location) -> Option<String> {
        const LONGEST_SNIPPET: usize = 16384;
        let line = self.line(location.line)?;
        if line.len() > LONGEST_SNIPPET {
            return None;
        }
        let line = line.replace('\t', " ");
        let mut characters = line.chars();
        let mut marks = String::new();
        for c in characters.by_ref().take(usize::try_from(location.column).unwrap_or(0)) {
            marks.push(if c.is_ascii() { '.' } else { '\u{ff0e}' });
        }
        let here = characters.next().is_none_or(|c| c.is_ascii());
        marks.push(if here { '^' } else { '\u{ff3e}' });
        Some(format!("\n | {line}\n | {marks}"))
    }
}

/// An issue with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Position in the expression.
    pub location: Location,
    /// Message.
    pub message: String,
}

/// Issues with an expression; prints as in the reference, with the affected lines.
#[derive(Clone, Debug)]
pub struct Issues {
    source: Source,
    issues: Vec<Issue>,
    /// Number of issues; those beyond [`MAX_ISSUES`] are not kept.
    count: usize,
}

/// Limit on reported issues.
pub const MAX_ISSUES: usize = 100;

impl Issues {
    pub(crate) fn new(source: &Source) -> Self {
        Issues { source: source.clone(), issues: Vec::new(), count: 0 }
    }

    pub(crate) fn report(&mut self, location: Location, message: impl Into<String>) {
        self.count += 1;
        if self.count <= MAX_ISSUES {
            self.issues.push(Issue { location, message: message.into() });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.issues.is_empty()
    }

    pub(crate) fn or_else<T>(mut self, value: T) -> Result<T, Issues> {
        if self.is_empty() {
            return Ok(value);
        }
        self.issues.sort_by_key(|issue| issue.location);
        Err(self)
    }

    /// Issues in the order of their positions.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Issue> {
        self.issues.iter()
    }
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Issue { location, message }) in self.issues.iter().enumerate() {
            let end = if i == 0 { "" } else { "\n" };
            let Location { line, column } = location;
            write!(f, "{end}ERROR: <input>:{line}:{}: {message}", column + 1)?;
            f.write_str(&self.source.snippet(*location).unwrap_or_default())?;
        }
        if self.count > MAX_ISSUES {
            write!(f, "\n{} more errors were truncated", self.count - MAX_ISSUES)?;
        }
        Ok(())
    }
}

impl std::error::Error for Issues {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issues_show_the_line_and_the_place() {
        let source = Source::new("a +\n\tб.c");
        let mut issues = Issues::new(&source);
        issues.report(source.location(6), "second");
        issues.report(source.location(2), "first");
        issues.report(Location::NONE, "whole");
        assert_eq!(
            issues.or_else(()).unwrap_err().to_string(),
            "ERROR: <input>:-1:0: whole\n\
             ERROR: <input>:1:3: first\n | a +\n | ..^\n\
             ERROR: <input>:2:3: second\n |  б.c\n | .\u{ff0e}^"
        );
    }
}
