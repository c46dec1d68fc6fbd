//! Tests of the parser and both engines against results recorded from Go (`conformance/regexp`).

use crate::Regexp;
use crate::automaton;
use crate::engine::Engine;
use crate::program::Program;

const RECORDED: &str = include_str!("../../../conformance/regexp/recorded.txt");
/// Maximum size for automata, as a build without optimization is slow.
const SMALL: u64 = 3_000;

struct Case {
    pattern: String,
    /// Expected error message.
    error: Option<String>,
    /// Texts with the positions of matches.
    searches: Vec<(String, Vec<(usize, usize)>)>,
}

#[test]
fn recorded_patterns_are_accepted_or_refused_as_go_does() {
    let cases = cases();
    assert_eq!(cases.len(), 1805);
    let wrong = cases.iter().filter_map(|case| {
        let said = Regexp::new(&case.pattern).err().map(|error| error.to_string());
        (said != case.error)
            .then(|| format!("{:.200}: {said:.200?}, not {:.200?}", case.pattern, case.error))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn recorded_matches_are_found_by_both_engines() {
    let mut searches = 0;
    let mut wrong = Vec::new();
    for case in cases().iter().filter(|case| case.error.is_none()) {
        let regexp = Regexp::new(&case.pattern).unwrap();
        let piece = regexp.piece();
        let automaton = (piece.size <= SMALL && piece.height < 100)
            .then(|| automaton::build(piece).map(Engine::Automaton))
            .flatten();
        let machine = (piece.height < 100).then(|| Engine::Program(Program::new(piece)));
        for (text, expected) in &case.searches {
            searches += 1;
            let chosen = regexp.find_all(text, usize::MAX);
            let others = automaton.iter().chain(&machine);
            let found = others.map(|engine| engine.find_all(text, usize::MAX)).chain([chosen]);
            for found in found.filter(|found| found.as_ref() != Ok(expected)) {
                wrong.push(format!("{:.200} {text:?}: {found:?}, not {expected:?}", case.pattern));
            }
            assert_eq!(regexp.is_match(text), Ok(!expected.is_empty()), "{} {text}", case.pattern);
        }
    }
    assert!(wrong.is_empty(), "{} of {searches}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(searches > 4_000, "{searches}");
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in RECORDED.lines() {
        let (kind, rest) = line.split_at_checked(2).unwrap_or((line, ""));
        let Some(case) = (if kind == "P " { None } else { cases.last_mut() }) else {
            cases.push(Case { pattern: unescape(rest), error: None, searches: Vec::new() });
            continue;
        };
        match kind {
            "E " => {
                let (code, expression) = rest.split_once(": ").unwrap();
                let expression = match expression {
                    "\\=" => case.pattern.clone(),
                    other => unescape(other),
                };
                case.error = Some(format!("error parsing regexp: {code}: `{expression}`"));
            }
            "M " => case.searches.push((unescape(rest), Vec::new())),
            _ => {
                let places = rest.split_whitespace().map(|place| {
                    let (start, end) = place.split_once('-').unwrap();
                    (start.parse().unwrap(), end.parse().unwrap())
                });
                case.searches.last_mut().unwrap().1.extend(places);
            }
        }
    }
    cases
}

/// Text with escapes expanded: `\n`, and `\*3(ab\)` for three times `ab`.
fn unescape(written: &str) -> String {
    let mut text = String::new();
    let mut rest = written;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        text.push_str(plain);
        let mut characters = escaped.chars();
        let escape = characters.next().unwrap();
        rest = characters.as_str();
        match escape {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            '*' => {
                let (count, after) = rest.split_once('(').unwrap();
                let end = end_of_repeated(after);
                let repeated = unescape(&after[..end]);
                text.push_str(&repeated.repeat(count.parse().unwrap()));
                rest = &after[end + 2..];
            }
            other => text.push(other),
        }
    }
    text + rest
}

/// Position of a `\)` that is not part of another escape.
fn end_of_repeated(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while bytes[at] != b'\\' || bytes[at + 1] != b')' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at
}
