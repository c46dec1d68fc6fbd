//! RE2's syntax for the `regex` crate.
//!
//! The two agree but for a few points: RE2's classes `\d`, `\w`, `\s` and its word boundaries are
//! ASCII, it quotes with `\Q…\E`, and sets of characters have no operations inside.

use regex::{Regex, RegexBuilder};

/// What a compiled expression may take in memory.
const SIZE_LIMIT: usize = 1 << 20;
/// How deep groups may nest.
const NEST_LIMIT: u32 = 250;

/// Compiles a regular expression as Go reads it; the error is in Go's words as far as they can be
/// told. Matching takes time that is linear in the text.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    compile_within(pattern, SIZE_LIMIT)
}

/// The same with another limit on what the compiled expression takes in memory, in bytes.
pub fn compile_within(pattern: &str, size_limit: usize) -> Result<Regex, String> {
    if let Some(operators) = nested_repetition(pattern) {
        let problem = "invalid nested repetition operator";
        return Err(format!("error parsing regexp: {problem}: `{operators}`"));
    }
    if let Some(problem) = refused(pattern) {
        return Err(format!("error parsing regexp: {problem}"));
    }
    RegexBuilder::new(&translate(pattern))
        .size_limit(size_limit)
        .nest_limit(NEST_LIMIT)
        .build()
        .map_err(|error| complaint(pattern, &error))
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    let mut in_class = false;
    while let Some(c) = rest.chars().next() {
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
        match c {
            '\\' => rest = escape(rest, in_class, &mut out),
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if let Some(negated) = rest.strip_prefix('^') {
                    out.push('^');
                    rest = negated;
                }
                // A bracket that is closed at once is one of the set.
                if let Some(literal) = rest.strip_prefix(']') {
                    out.push_str("\\]");
                    rest = literal;
                }
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            '[' => match rest.starts_with(':').then(|| rest.find(":]")).flatten() {
                Some(end) => {
                    out.push('[');
                    out.push_str(rest.get(..end + 2).unwrap_or_default());
                    rest = rest.get(end + 2..).unwrap_or_default();
                }
                None => out.push_str("\\["),
            },
            // A brace that does not begin a repetition is a brace.
            '{' if !in_class && repetition_len(&format!("{{{rest}")) == 1 => out.push_str("\\{"),
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '-' if in_class && rest.starts_with('-') => out.push_str("\\-"),
            c => out.push(c),
        }
    }
    out
}

/// What RE2 does not take and the crate does, or says differently.
fn refused(pattern: &str) -> Option<String> {
    const CLASSES: &[&str] = &[
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
        "space", "upper", "word", "xdigit",
    ];
    const ESCAPES: &str = "afnrtvxpPdDsSwWbBAzQE01234567";
    const MOST_REPETITIONS: u32 = 1000;
    let mut at = 0;
    while let Some(rest) = pattern.get(at..).filter(|rest| !rest.is_empty()) {
        let mut characters = rest.chars();
        let (first, second) = (characters.next()?, characters.next());
        at += first.len_utf8();
        match (first, second) {
            ('\\', None) => {
                return Some("trailing backslash at end of expression: ``".to_owned());
            }
            ('\\', Some('Q')) => at += rest.find("\\E").unwrap_or(rest.len()),
            ('\\', Some(c)) if c.is_ascii_alphanumeric() && !ESCAPES.contains(c) => {
                return Some(format!("invalid escape sequence: `\\{c}`"));
            }
            ('\\', Some(_)) => at += escape_len(rest) - 1,
            ('(', Some('?')) if rest.starts_with("(?=") || rest.starts_with("(?!") => {
                let syntax = rest.get(..3)?;
                return Some(format!("invalid or unsupported Perl syntax: `{syntax}`"));
            }
            ('{', _) => {
                let repetition = rest.get(..repetition_len(rest))?;
                let counts = repetition.trim_matches(['{', '}']).split(',');
                let counts: Vec<Option<u32>> =
                    counts.filter(|c| !c.is_empty()).map(|c| c.parse().ok()).collect();
                let too_many = |c: &Option<u32>| c.is_none_or(|n| n > MOST_REPETITIONS);
                let wrong = counts.iter().any(too_many) || !counts.is_sorted();
                if repetition.len() > 1 && wrong {
                    return Some(format!("invalid repeat count: `{repetition}`"));
                }
            }
            ('[', Some(':')) => {
                let end = rest.find(":]")?;
                let name = rest.get(2..end)?.trim_start_matches('^');
                if !CLASSES.contains(&name) && name.bytes().all(|b| b.is_ascii_alphabetic()) {
                    let class = rest.get(..end + 2)?;
                    return Some(format!("invalid character class range: `{class}`"));
                }
            }
            _ => {}
        }
    }
    None
}

/// A repetition of a repetition (`a**`), which RE2 does not take.
fn nested_repetition(pattern: &str) -> Option<&str> {
    let bytes = pattern.as_bytes();
    let (mut at, mut in_class, mut previous) = (0, false, None);
    while let Some(byte) = bytes.get(at) {
        let len = match byte {
            b'\\' => escape_len(pattern.get(at..).unwrap_or_default()),
            b'{' if !in_class => repetition_len(pattern.get(at..).unwrap_or_default()),
            _ => 1,
        };
        let repeats =
            !in_class && (matches!(byte, b'*' | b'+' | b'?') || (*byte == b'{' && len > 1));
        match (repeats, previous) {
            (true, Some(start)) => return pattern.get(start..at + len),
            (true, None) => previous = Some(at),
            (false, _) => previous = None,
        }
        match byte {
            b'[' => in_class = true,
            b']' => in_class = false,
            _ => {}
        }
        at += len;
        // A question mark makes the repetition lazy.
        if repeats && bytes.get(at) == Some(&b'?') {
            at += 1;
        }
    }
    None
}

/// The length of an escape: `\\d`, `\\p{Greek}`, `\\x{1F600}`.
fn escape_len(text: &str) -> usize {
    let mut characters = text.chars();
    characters.next();
    let Some(kind) = characters.next() else { return 1 };
    let braces = matches!(kind, 'p' | 'P' | 'x') && characters.next() == Some('{');
    match text.find('}').filter(|_| braces) {
        Some(end) => end + 1,
        None => 1 + kind.len_utf8(),
    }
}

/// The length of `{2,3}`; one where the brace is only a brace.
fn repetition_len(text: &str) -> usize {
    let Some(end) = text.find('}') else { return 1 };
    let inner = text.get(1..end).unwrap_or_default();
    let counts = inner.bytes().all(|b| b.is_ascii_digit() || b == b',');
    if counts && inner.starts_with(|c: char| c.is_ascii_digit()) { end + 1 } else { 1 }
}

/// Translates an escape after its backslash and gives what follows.
fn escape<'r>(rest: &'r str, in_class: bool, out: &mut String) -> &'r str {
    let Some(c) = rest.chars().next() else {
        out.push('\\');
        return rest;
    };
    let after = rest.get(c.len_utf8()..).unwrap_or_default();
    let plain = match (c, in_class) {
        ('d', true) => "0-9",
        ('w', true) => "0-9A-Za-z_",
        ('s', true) => "\\t\\n\\x0c\\r ",
        ('d', false) => "[0-9]",
        ('w', false) => "[0-9A-Za-z_]",
        ('s', false) => "[\\t\\n\\x0c\\r ]",
        ('D', _) => "[^0-9]",
        ('W', _) => "[^0-9A-Za-z_]",
        ('S', _) => "[^\\t\\n\\x0c\\r ]",
        ('b', false) => "(?-u:\\b)",
        ('Q', false) => {
            let (quoted, after) = after.split_once("\\E").unwrap_or((after, ""));
            out.push_str(&regex::escape(quoted));
            return after;
        }
        _ => {
            let len = escape_len(&format!("\\{rest}")) - 1;
            let (escaped, after) = rest.split_at_checked(len).unwrap_or((rest, ""));
            out.push('\\');
            out.push_str(escaped);
            return after;
        }
    };
    out.push_str(plain);
    after
}

fn complaint(pattern: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let reason = match &text {
        t if t.contains("unclosed group") => format!("missing closing ): `{pattern}`"),
        t if t.contains("unopened group") => format!("unexpected ): `{pattern}`"),
        t if t.contains("unclosed character class") => {
            let start = pattern.rfind('[').and_then(|at| pattern.get(at..)).unwrap_or(pattern);
            format!("missing closing ]: `{start}`")
        }
        t if t.contains("invalid character class range") => {
            let characters: Vec<char> = pattern.chars().collect();
            let range = characters.windows(3).find(|w| w[1] == '-' && w[0] > w[2]);
            let range: String = range.map_or(pattern.to_owned(), |w| w.iter().collect());
            format!("invalid character class range: `{range}`")
        }
        t if t.contains("repetition operator missing expression") => {
            let operator = pattern.chars().find(|c| "*+?".contains(*c)).unwrap_or('*');
            format!("missing argument to repetition operator: `{operator}`")
        }
        t if t.contains("size limit") => format!("expression too large: `{pattern}`"),
        _ => format!("invalid or unsupported syntax: `{pattern}`"),
    };
    format!("error parsing regexp: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perl_classes_are_ascii() {
        for (pattern, text, matches) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "\u{661}", false),
            (r"^[\w-]+$", "a_b-c", true),
            (r"^\w$", "\u{e9}", false),
            (r"^[^]a]$", "b", true),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"^[[]$", "[", true),
            (r"\Qa.b\E", "axb", false),
            (r"\bfoo\b", "a foo b", true),
            (r"^.$", "\u{1f600}", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^\p{Greek}+$", "\u{3b1}\u{3b2}", true),
            (r"^\x{41}+$", "AA", true),
        ] {
            assert_eq!(compile(pattern).unwrap().is_match(text), matches, "{pattern} {text}");
        }
        assert_eq!(
            compile("x++").unwrap_err(),
            "error parsing regexp: invalid nested repetition operator: `++`"
        );
        assert!(compile("a{2}?b+?c*[*+]").is_ok());
        for (pattern, problem) in [
            ("x{2,1}", "invalid repeat count: `{2,1}`"),
            ("x{1001}", "invalid repeat count: `{1001}`"),
            ("\\", "trailing backslash at end of expression: ``"),
        ] {
            let expected = format!("error parsing regexp: {problem}");
            assert_eq!(compile(pattern).unwrap_err(), expected, "{pattern}");
        }
        assert_eq!(compile("(").unwrap_err(), "error parsing regexp: missing closing ): `(`");
    }
}
