//! Escaping of field names as identifiers: `__dash__`, `__dot__`, `__namespace__`.

use crate::parser::RESERVED;

const ESCAPES: &[(&str, &str)] =
    &[("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];

/// Identifier of a field; `None` if the name cannot be escaped.
///
/// ```
/// use kevel_cel::escape;
/// assert_eq!(escape("a-b/c").as_deref(), Some("a__dash__b__slash__c"));
/// assert_eq!(escape("namespace").as_deref(), Some("__namespace__"));
/// assert_eq!(escape("1st"), None);
/// ```
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let known = ESCAPES.iter().find(|(from, _)| rest.starts_with(from));
        let (from, to) = match known {
            Some((from, to)) => (*from, *to),
            None if first.is_ascii_alphanumeric() || first == '_' => (&rest[..1], &rest[..1]),
            None => return None,
        };
        escaped.push_str(to);
        rest = rest.get(from.len()..).unwrap_or_default();
    }
    Some(escaped)
}

/// Field name of an escaped identifier.
pub fn unescape(identifier: &str) -> Option<String> {
    let mut name = String::with_capacity(identifier.len());
    let mut rest = identifier;
    while let Some(start) = rest.find("__") {
        let inner = rest.get(start + 2..).unwrap_or_default();
        let end = inner.find('_').filter(|end| *end > 0 && inner[*end..].starts_with("__"));
        let Some(end) = end else {
            // No escape begins here; one may begin at the next underscore.
            name.push_str(rest.get(..=start)?);
            rest = rest.get(start + 1..)?;
            continue;
        };
        name.push_str(rest.get(..start)?);
        let word = inner.get(..end)?;
        let whole = identifier.len() == word.len() + 4;
        match ESCAPES.iter().find(|(_, to)| to.trim_matches('_') == word) {
            Some((from, _)) => name.push_str(from),
            None if RESERVED.contains(&word) && whole => name.push_str(word),
            None => return None,
        }
        rest = inner.get(end + 2..)?;
    }
    name.push_str(rest);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_identifiers() {
        for (name, identifier) in [
            ("plain", "plain"),
            ("a.b", "a__dot__b"),
            ("a__b", "a__underscores__b"),
            ("a-b_c", "a__dash__b_c"),
            ("in", "__in__"),
            ("_a", "_a"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(identifier));
            assert_eq!(unescape(identifier).as_deref(), Some(name));
        }
        assert_eq!((escape("ä"), escape("")), (None, None));
        assert_eq!(unescape("a__other__b"), None);
    }
}
