//! Strings that are borrowed or shared, and numbers as Go prints them.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// String: borrowed from an object, or computed during evaluation.
#[derive(Clone)]
pub enum Text<'a> {
    /// Borrowed from an object.
    Borrowed(&'a str),
    /// Computed during evaluation.
    Shared(Arc<str>),
}

impl Text<'_> {
    /// Substring, without a copy if borrowed. Both ends are character boundaries.
    pub(crate) fn slice(&self, from: usize, to: usize) -> Self {
        match self {
            Text::Borrowed(text) => Text::Borrowed(text.get(from..to).unwrap_or_default()),
            Text::Shared(text) => Text::Shared(text.get(from..to).unwrap_or_default().into()),
        }
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text<'_> {}

impl Hash for Text<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Text::Shared(text.into())
    }
}

/// Number as `%g` prints it: the fewest digits that identify it, with an exponent from a million on.
pub(crate) fn shortest(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        return with_exponent(mantissa, exponent);
    }
    format!("{value}")
}

/// Mantissa and signed exponent of at least two digits.
fn with_exponent(mantissa: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}
