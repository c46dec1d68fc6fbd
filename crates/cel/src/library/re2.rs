//! RE2's syntax for the `regex` crate.
//!
//! The two agree but for a few points: RE2's classes `\d`, `\w`, `\s` and its word boundaries are
//! ASCII, it quotes with `\Q…\E`, and sets of characters have no operations inside.

use regex::{Regex, RegexBuilder};

/// What a compiled expression may take in memory.
const SIZE_LIMIT: usize = 1 << 20;
/// How deep groups may nest.
const NEST_LIMIT: u32 = 250;
/// The longest expression. RE2 limits what it is compiled to, which hundreds of kilobytes are over
/// anyhow; to read them as a tree takes a hundred times their size before that is known.
const MAX_PATTERN: usize = 64 << 10;

/// Compiles a regular expression as Go reads it; the error is in Go's words as far as they can be
/// told. Compiling takes time that is linear in the expression, matching in the text.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    compile_within(pattern, SIZE_LIMIT)
}

/// The same with another limit on what the compiled expression takes in memory, in bytes.
pub fn compile_within(pattern: &str, size_limit: usize) -> Result<Regex, String> {
    if pattern.len() > MAX_PATTERN {
        return Err(too_large(pattern));
    }
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

fn too_large(pattern: &str) -> String {
    format!("error parsing regexp: expression too large: `{pattern}`")
}

/// A pattern that is read from left to right. What is looked for further on is remembered until it
/// is reached, so that nothing is searched twice.
struct Reader<'p> {
    pattern: &'p str,
    brace: Ahead,
    class: Ahead,
}

/// Where something stands next, as far as that is known.
struct Ahead {
    what: &'static str,
    from: usize,
    found: Option<usize>,
}

impl Ahead {
    const fn new(what: &'static str) -> Self {
        Ahead { what, from: usize::MAX, found: None }
    }

    /// The next place at or after a position. Positions only grow.
    fn find(&mut self, pattern: &str, at: usize) -> Option<usize> {
        let known = self.from <= at && self.found.is_none_or(|found| found >= at);
        if !known {
            self.from = at;
            self.found = pattern.get(at..)?.find(self.what).map(|found| at + found);
        }
        self.found
    }
}

impl<'p> Reader<'p> {
    fn new(pattern: &'p str) -> Self {
        Reader { pattern, brace: Ahead::new("}"), class: Ahead::new(":]") }
    }

    fn rest(&self, at: usize) -> &'p str {
        self.pattern.get(at..).unwrap_or_default()
    }

    fn part(&self, from: usize, len: usize) -> &'p str {
        self.pattern.get(from..from + len).unwrap_or_default()
    }

    /// The length of an escape: `\\d`, `\\p{Greek}`, `\\x{1F600}`.
    fn escape_len(&mut self, at: usize) -> usize {
        let mut characters = self.rest(at).chars();
        characters.next();
        let Some(kind) = characters.next() else { return 1 };
        let braces = matches!(kind, 'p' | 'P' | 'x') && characters.next() == Some('{');
        match self.brace.find(self.pattern, at).filter(|_| braces) {
            Some(end) => end + 1 - at,
            None => 1 + kind.len_utf8(),
        }
    }

    /// The length of `{2,3}`; one where the brace is only a brace.
    fn repetition_len(&self, at: usize) -> usize {
        let inner = self.rest(at + 1).as_bytes();
        let counts = inner.iter().take_while(|b| b.is_ascii_digit() || **b == b',').count();
        let whole = inner.get(counts) == Some(&b'}');
        if whole && inner.first().is_some_and(u8::is_ascii_digit) { counts + 2 } else { 1 }
    }

    /// The length of a class inside a set: `[:alpha:]`.
    fn class_len(&mut self, at: usize) -> Option<usize> {
        let begins = self.rest(at).starts_with("[:");
        let end = begins.then(|| self.class.find(self.pattern, at + 1)).flatten()?;
        Some(end + 2 - at)
    }
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut reader = Reader::new(pattern);
    let mut in_class = false;
    let mut at = 0;
    while let Some(c) = reader.rest(at).chars().next() {
        let next = at + c.len_utf8();
        let rest = reader.rest(next);
        at = match c {
            '\\' => escape(&mut reader, at, in_class, &mut out),
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                let negated = rest.starts_with('^');
                if negated {
                    out.push('^');
                }
                // A bracket that is closed at once is one of the set.
                let closed = reader.rest(next + usize::from(negated)).starts_with(']');
                if closed {
                    out.push_str("\\]");
                }
                next + usize::from(negated) + usize::from(closed)
            }
            ']' => {
                in_class = false;
                out.push(']');
                next
            }
            '[' => match reader.class_len(at) {
                Some(len) => {
                    out.push_str(reader.part(at, len));
                    at + len
                }
                None => {
                    out.push_str("\\[");
                    next
                }
            },
            // A brace that does not begin a repetition is a brace.
            '{' if !in_class && reader.repetition_len(at) == 1 => {
                out.push_str("\\{");
                next
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
                next
            }
            '-' if in_class && rest.starts_with('-') => {
                out.push_str("\\-");
                next
            }
            c => {
                out.push(c);
                next
            }
        };
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
    let mut reader = Reader::new(pattern);
    let mut at = 0;
    while let Some(rest) = pattern.get(at..).filter(|rest| !rest.is_empty()) {
        let mut characters = rest.chars();
        let (first, second) = (characters.next()?, characters.next());
        match (first, second) {
            ('\\', None) => {
                return Some("trailing backslash at end of expression: ``".to_owned());
            }
            ('\\', Some('Q')) => at += rest.find("\\E").unwrap_or(rest.len()),
            ('\\', Some(c)) if c.is_ascii_alphanumeric() && !ESCAPES.contains(c) => {
                return Some(format!("invalid escape sequence: `\\{c}`"));
            }
            ('\\', Some(_)) => at += reader.escape_len(at) - 1,
            ('(', Some('?')) if rest.starts_with("(?=") || rest.starts_with("(?!") => {
                let syntax = rest.get(..3)?;
                return Some(format!("invalid or unsupported Perl syntax: `{syntax}`"));
            }
            ('{', _) => {
                let repetition = reader.part(at, reader.repetition_len(at));
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
                let class = reader.class_len(at).map(|len| reader.part(at, len))?;
                let name = class.get(2..class.len() - 2)?.trim_start_matches('^');
                if !CLASSES.contains(&name) && name.bytes().all(|b| b.is_ascii_alphabetic()) {
                    return Some(format!("invalid character class range: `{class}`"));
                }
            }
            _ => {}
        }
        at += first.len_utf8();
    }
    None
}

/// A repetition of a repetition (`a**`), which RE2 does not take.
fn nested_repetition(pattern: &str) -> Option<&str> {
    let bytes = pattern.as_bytes();
    let mut reader = Reader::new(pattern);
    let (mut at, mut in_class, mut previous) = (0, false, None);
    while let Some(byte) = bytes.get(at) {
        let len = match byte {
            b'\\' => reader.escape_len(at),
            b'{' if !in_class => reader.repetition_len(at),
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

/// Translates the escape at a position and gives where it ends.
fn escape(reader: &mut Reader<'_>, at: usize, in_class: bool, out: &mut String) -> usize {
    let rest = reader.rest(at + 1);
    let Some(c) = rest.chars().next() else {
        out.push('\\');
        return at + 1;
    };
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
            let quoted = rest.get(1..).unwrap_or_default();
            let end = quoted.find("\\E");
            out.push_str(&regex::escape(quoted.get(..end.unwrap_or(quoted.len())).unwrap_or("")));
            return end.map_or(reader.pattern.len(), |end| at + 2 + end + 2);
        }
        _ => {
            let len = reader.escape_len(at);
            out.push_str(reader.part(at, len));
            return at + len;
        }
    };
    out.push_str(plain);
    at + 1 + c.len_utf8()
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
        t if t.contains("size limit") => return too_large(pattern),
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

    /// Each of these was searched to its end from every place in it, or copied.
    #[test]
    fn expressions_are_read_in_linear_time() {
        for part in ["{", "{1,", "\\p{", "\\x{", "[[:", "[:", "\\.", "\\Q", "[^]", "a-", "(?:", "}"]
        {
            let pattern = part.repeat((256 << 10) / part.len());
            let start = std::time::Instant::now();
            // The length is refused before any of this; it must not be what the others rest on.
            let _ = (nested_repetition(&pattern), refused(&pattern), translate(&pattern));
            let took = start.elapsed();
            assert!(took < std::time::Duration::from_secs(30), "{part}: {took:?}");
            assert!(compile(&pattern).unwrap_err().contains("expression too large"), "{part}");
        }
    }
}
