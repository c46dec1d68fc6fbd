//! Tests with hostile expressions: parsing is linear in the length, and compiling in the size of Go's program.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use kevel_regexp::{Code, Exhausted, MAX_LENGTH, MAX_SIZE, Regexp};

/// Generous, for debug builds on busy machines; quadratic work takes minutes.
const PATIENCE: Duration = Duration::from_secs(60);

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let begun = kevel_clock::monotonic_now();
    let result = work();
    let took = begun.elapsed();
    assert!(took < PATIENCE, "{what:.40}: {took:?}");
    result
}

/// A naive parser would scan each of these to the end from every position.
#[test]
fn expressions_are_read_in_linear_time() {
    for part in [
        "{",
        "{1,",
        "\\p{",
        "\\x{",
        "[[:",
        "[:",
        "\\.",
        "\\Q",
        "[^]",
        "a-",
        "(?:",
        "}",
        "(",
        "(?P<",
        "a|",
        "(?i)[\\x{0}-\\x{ffff}]",
        "[\\pL0]",
        "\\pL",
        "(?i)\\pL",
        "[^\\pL\\pN]",
        "(a|b)*",
        "()",
        "a{1000}",
    ] {
        let pattern = part.repeat(MAX_LENGTH / part.len());
        let _ = timed(part, || Regexp::new(&pattern));
    }
    let different: String =
        ('\u{4e00}'..'\u{9fff}').step_by(2).take(16_000).flat_map(|c| [c, '|']).collect();
    timed("alternatives", || Regexp::new(&different).unwrap());
}

#[test]
fn size_of_expressions_is_limited() {
    let size = usize::try_from(MAX_SIZE).unwrap();
    let code = |pattern: &str| Regexp::new(pattern).err().map(|error| error.code);
    assert_eq!(code(&"a".repeat(size)), None);
    assert_eq!(code(&format!("{}b*", "a".repeat(size))), Some(Code::Large));
    assert_eq!(code(&"(?:.{1000})".repeat(size / 1000)), None);
    assert_eq!(code(&"(?:.{1000})".repeat(size / 1000 + 1)), Some(Code::Large));
    assert_eq!(code(&"\\pL".repeat(10_000)), Some(Code::Large));
}

/// 1,500 different expressions, each as large as Go allows one repetition to be.
#[test]
fn many_large_expressions_are_compiled_and_forgotten() {
    let patterns: Vec<Regexp> = (0..1_500)
        .map(|i| Regexp::new(&format!("^(?:\\pL{{1,1000}}){{1}}\\d{{{}}}$", i % 1000)).unwrap())
        .collect();
    timed("1,500 expressions", || {
        for pattern in &patterns {
            assert_eq!(pattern.is_match("a b"), Ok(false));
        }
    });
}

/// Searches whose steps are text times program: the machine gives up rather than run for minutes.
#[test]
fn a_search_of_too_many_steps_is_given_up() {
    let text = "a".repeat(1 << 20);
    let pattern = Regexp::new("(?:.{1,900}.{1,900}.{1,900})b").unwrap();
    assert_eq!(timed("search", || pattern.is_match(&text)), Err(Exhausted));
}
