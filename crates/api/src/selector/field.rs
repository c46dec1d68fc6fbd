//! Field selectors: `metadata.name=a,status.phase!=Running`.

use super::{FEW_REQUIREMENTS, MAX_SELECTOR_LENGTH};
use compact_str::CompactString;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Requirements on an object's fields, all of which must hold. An empty selector selects everything.
///
/// ```
/// use kevel_api::selector::field::FieldSelector;
/// let selector: FieldSelector = "metadata.name=a,status.phase!=Failed".parse()?;
/// assert!(selector.matches(|field| (field == "metadata.name").then_some("a")));
/// # Ok::<(), kevel_api::selector::field::ParseFieldSelectorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    requirements: Vec<Requirement>,
}

/// A requirement on one field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The field, such as `metadata.name`.
    pub field: CompactString,
    /// Comparison.
    pub operator: Operator,
    /// The value, without escapes.
    pub value: CompactString,
}

/// Comparison of a field with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// Written `=`; read from `==` too.
    Equals,
    /// Written `!=`.
    NotEquals,
}

impl FieldSelector {
    /// The selector that selects everything.
    pub const EVERYTHING: FieldSelector = FieldSelector { requirements: Vec::new() };

    /// A selector of the given requirements, in the order given.
    pub fn new(requirements: Vec<Requirement>) -> Self {
        FieldSelector { requirements }
    }

    /// The requirements, in the order in which they print.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Mutable requirements.
    pub fn requirements_mut(&mut self) -> &mut [Requirement] {
        &mut self.requirements
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether the fields satisfy every requirement. A missing field is empty. Each field is looked up once, as
    /// requirements on it are adjacent: a selector may name a field many times.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.chunk_by(|one, other| one.field == other.field).all(|of_field| {
            let Some(first) = of_field.first() else { return true };
            let value = lookup(&first.field).unwrap_or_default();
            of_field.iter().all(|requirement| {
                (requirement.value == value) == (requirement.operator == Operator::Equals)
            })
        })
    }

    /// Whether the selector has so many requirements that sharing its evaluation pays off.
    pub fn is_large(&self) -> bool {
        self.requirements.len() > FEW_REQUIREMENTS
    }

    /// Value that the field must have, if the selector requires one.
    pub fn requires_exact_match(&self, field: &str) -> Option<&str> {
        let wanted = |r: &&Requirement| r.operator == Operator::Equals && r.field == field;
        self.requirements.iter().find(wanted).map(|r| r.value.as_str())
    }
}

/// Error of parsing a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseFieldSelectorError {
    /// A term has no operator.
    NoOperator {
        /// The whole selector.
        selector: String,
        /// The term in question.
        term: String,
    },
    /// A backslash precedes a character that needs none.
    InvalidEscape(String),
    /// An operator or separator in a value has no backslash.
    Unescaped(char),
    /// The text is longer than [`MAX_SELECTOR_LENGTH`].
    TooLong,
}

impl fmt::Display for ParseFieldSelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOperator { selector, term } => {
                write!(f, "invalid selector: '{selector}'; can't understand '{term}'")
            }
            Self::InvalidEscape(sequence) => {
                write!(f, "invalid field selector: invalid escape sequence: {sequence}")
            }
            Self::Unescaped(c) => {
                let code = u32::from(*c);
                write!(f, "invalid field selector: unescaped character in value: {code}")
            }
            Self::TooLong => {
                write!(f, "selector must be no more than {MAX_SELECTOR_LENGTH} bytes")
            }
        }
    }
}

impl std::error::Error for ParseFieldSelectorError {}

impl FromStr for FieldSelector {
    type Err = ParseFieldSelectorError;

    fn from_str(selector: &str) -> Result<Self, Self::Err> {
        if selector.len() > MAX_SELECTOR_LENGTH {
            return Err(ParseFieldSelectorError::TooLong);
        }
        let mut terms = split_terms(selector);
        terms.sort_unstable();
        let mut requirements = Vec::with_capacity(terms.len());
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((field, operator, value)) = split_term(term) else {
                let (selector, term) = (selector.to_owned(), term.to_owned());
                return Err(ParseFieldSelectorError::NoOperator { selector, term });
            };
            let value = unescape(value)?;
            // An empty field that equals an empty value is no requirement.
            if !(field.is_empty() && value.is_empty()) {
                let (field, value) = (field.into(), value.into());
                requirements.push(Requirement { field, operator, value });
            }
        }
        Ok(FieldSelector { requirements })
    }
}

/// Splits at the commas that have no backslash before them.
fn split_terms(selector: &str) -> Vec<&str> {
    let mut escaped = false;
    selector
        .split(|c| {
            let separates = c == ',' && !escaped;
            escaped = c == '\\' && !escaped;
            separates
        })
        .collect()
}

/// Splits at the first operator. The field name has no escapes.
fn split_term(term: &str) -> Option<(&str, Operator, &str)> {
    const OPERATORS: [(&str, Operator); 3] =
        [("!=", Operator::NotEquals), ("==", Operator::Equals), ("=", Operator::Equals)];
    let equals = term.find('=')?;
    let at = if term[..equals].ends_with('!') { equals - 1 } else { equals };
    let (field, rest) = term.split_at(at);
    OPERATORS.iter().find_map(|&(text, operator)| Some((field, operator, rest.strip_prefix(text)?)))
}

/// Escapes a value for a field selector.
pub fn escape(value: &str) -> Cow<'_, str> {
    if !value.contains(SPECIAL) {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(value.len() + 8);
    for c in value.chars() {
        out.extend(SPECIAL.contains(&c).then_some('\\'));
        out.push(c);
    }
    Cow::Owned(out)
}

const SPECIAL: [char; 3] = ['\\', ',', '='];

/// The inverse of [`escape`].
pub fn unescape(text: &str) -> Result<Cow<'_, str>, ParseFieldSelectorError> {
    if !text.contains(SPECIAL) {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next) if SPECIAL.contains(&next) => out.push(next),
                next => {
                    let sequence = ['\\'].into_iter().chain(next).collect();
                    return Err(ParseFieldSelectorError::InvalidEscape(sequence));
                }
            },
            ',' | '=' => return Err(ParseFieldSelectorError::Unescaped(c)),
            c => out.push(c),
        }
    }
    Ok(Cow::Owned(out))
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = match self.operator {
            Operator::Equals => "=",
            Operator::NotEquals => "!=",
        };
        write!(f, "{}{operator}{}", self.field, escape(&self.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_parse_and_print() {
        for (text, printed) in [
            ("", ""),
            (",,", ""),
            ("=", ""),
            ("!=", ""),
            ("a=b", "a=b"),
            ("a==b", "a=b"),
            ("a!=b", "a!=b"),
            ("z=1,a=2,,m!=3", "a=2,m!=3,z=1"),
            ("x=", "x="),
            ("=x", "=x"),
            ("!a=b", "!a=b"),
            ("a!!=b", "a!!=b"),
            (r"x=a\,b\=c\\d", r"x=a\,b\=c\\d"),
            (r"x=\\,y=2", r"x=\\,y=2"),
            ("a b = c ", "a b = c "),
        ] {
            assert_eq!(text.parse::<FieldSelector>().unwrap().to_string(), printed, "{text}");
        }
    }

    #[test]
    fn errors_speak_as_the_reference() {
        for (text, message) in [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("b=c,a", "invalid selector: 'b=c,a'; can't understand 'a'"),
            ("a!b", "invalid selector: 'a!b'; can't understand 'a!b'"),
            (r"x=a\b", r"invalid field selector: invalid escape sequence: \b"),
            (r"x=a\", r"invalid field selector: invalid escape sequence: \"),
            ("x=a=b", "invalid field selector: unescaped character in value: 61"),
            ("x===b", "invalid field selector: unescaped character in value: 61"),
        ] {
            assert_eq!(text.parse::<FieldSelector>().unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn selectors_match() {
        let fields = |field: &str| match field {
            "x" => Some("a"),
            "y" => Some("b"),
            _ => None,
        };
        for (text, matches) in [
            ("", true),
            ("x=a", true),
            ("x=b", false),
            ("x!=b,y=b", true),
            ("x=a,y!=b", false),
            ("z=", true),
            ("z!=", false),
            ("z!=a", true),
        ] {
            assert_eq!(text.parse::<FieldSelector>().unwrap().matches(fields), matches, "{text}");
        }
        let selector: FieldSelector = "a=1,b!=2".parse().unwrap();
        assert_eq!(selector.requires_exact_match("a"), Some("1"));
        assert_eq!(selector.requires_exact_match("b"), None);
    }
}
