//! Words of a search: what is looked for, and how well an object fits.

use kevel_api::value::Value;
use kevel_registry::resource::Resource;
use kevel_registry::storage::Storage;
use kevel_registry::verb::Verb;
use kevel_store::cache::Object;

/// Longest text of a search in bytes.
const MAX_TEXT: usize = 256;
/// Most words of a search: each is looked for in each object.
const MAX_WORDS: usize = 8;
/// Shortest word that is looked for in whole objects: shorter ones are in all of them.
const SHORTEST_TEXT: usize = 3;
/// Most values that one field path leads to (`spec.containers.image`).
const MAX_FIELD_VALUES: usize = 1000;
/// Resources whose content is no text to be searched or shown in passing.
const WITHOUT_TEXT: [(&str, &str); 1] = [("", "secrets")];

/// Error of a search's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum QueryError {
    #[error("a word is needed")]
    Empty,
    #[error("at most {MAX_WORDS} words, of {MAX_TEXT} bytes together")]
    TooLong,
}

/// The words, all of which an object must fit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SearchQuery {
    terms: Vec<Term>,
}

/// A word of a search.
#[derive(Debug, PartialEq, Eq)]
enum Term {
    /// In names, kinds, or anywhere in the object. In lower case.
    Word(String),
    /// `kind:pod`: plural, singular, short name or kind. In lower case.
    Kind(String),
    /// `ns:default`
    Namespace(String),
    /// `owner:UID`: owned by this object.
    Owner(String),
    /// `app=web`, `spec.nodeName=a`: a label, or a field at a path, that begins so.
    Equals(String, String),
}

/// Fitness of an object: the sum over all words.
pub(super) type Score = u32;

const EXACT_NAME: Score = 100;
const NAME_BEGINS: Score = 60;
const NAME_CONTAINS: Score = 40;
const OTHER_NAME: Score = 20;
const IN_TEXT: Score = 1;

impl SearchQuery {
    /// Reads the text of a search.
    pub(super) fn parse(text: &str) -> Result<Self, QueryError> {
        let words: Vec<_> = text.split_whitespace().take(MAX_WORDS + 1).collect();
        if text.len() > MAX_TEXT || words.len() > MAX_WORDS {
            return Err(QueryError::TooLong);
        }
        let mut terms: Vec<_> = words.into_iter().map(Term::parse).collect();
        // Names cost less than fields, which need the object's tree.
        terms.sort_by_key(Term::is_costly);
        if terms.is_empty() { Err(QueryError::Empty) } else { Ok(SearchQuery { terms }) }
    }

    /// Whether objects of the resource can fit.
    pub(super) fn admits(&self, row: &Resource) -> bool {
        let of_kind = |term: &Term| match term {
            Term::Kind(kind) => is_name_of(kind, row),
            Term::Namespace(_) => row.namespaced,
            _ => true,
        };
        row.verbs.contains(&Verb::List) && self.terms.iter().all(of_kind)
    }

    /// The namespace, if the search is about one alone.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.terms.iter().find_map(|term| match term {
            Term::Namespace(namespace) => Some(namespace.as_str()),
            _ => None,
        })
    }

    /// Whether a word may be looked for in whole objects.
    pub(super) fn has_text(&self) -> bool {
        let long = |term: &Term| matches!(term, Term::Word(word) if word.len() >= SHORTEST_TEXT);
        self.terms.iter().any(long)
    }

    /// Score of an object by its names alone or with its text; `None` if it does not fit.
    pub(super) fn score(
        &self,
        object: &Object,
        row: &Resource,
        storage: &Storage,
        with_text: bool,
    ) -> Option<Score> {
        let with_text =
            with_text && !WITHOUT_TEXT.contains(&(row.kind.group.as_str(), row.plural.as_str()));
        let mut score: Score = 0;
        for term in &self.terms {
            score = score.saturating_add(term.score(object, row, storage, with_text)?);
        }
        Some(score)
    }

    /// The words in the text of an object: the first that is there, with what stands around it.
    pub(super) fn excerpt(&self, object: &Object) -> Option<String> {
        let text = object.wire().ok()?;
        let words = self.terms.iter().filter_map(|term| match term {
            Term::Word(word) => Some(word),
            _ => None,
        });
        let mut found = words
            .filter(|word| !contains(object.name().as_bytes(), word.as_bytes()))
            .filter_map(|word| Some((find(text, word.as_bytes())?, word.len())));
        let (place, length) = found.next()?;
        Some(around(text, place, length))
    }
}

impl Term {
    fn is_costly(&self) -> bool {
        matches!(self, Term::Owner(_) | Term::Equals(..))
    }

    fn parse(word: &str) -> Term {
        let lower = || word.to_ascii_lowercase();
        match (word.split_once(':'), word.split_once('=')) {
            (Some(("kind", kind)), _) if !kind.is_empty() => Term::Kind(kind.to_ascii_lowercase()),
            (Some(("ns" | "namespace", name)), _) if !name.is_empty() => {
                Term::Namespace(name.into())
            }
            (Some(("owner", uid)), _) if !uid.is_empty() => Term::Owner(uid.into()),
            (_, Some((key, value))) if !key.is_empty() => Term::Equals(key.into(), value.into()),
            _ => Term::Word(lower()),
        }
    }

    fn score(
        &self,
        object: &Object,
        row: &Resource,
        storage: &Storage,
        with_text: bool,
    ) -> Option<Score> {
        match self {
            Term::Word(word) => word_score(word, object, row, with_text),
            // Asked of the resource.
            Term::Kind(_) => Some(0),
            Term::Namespace(namespace) => (object.namespace() == namespace).then_some(0),
            Term::Owner(uid) => {
                let tree = tree_with(object, storage, uid)?;
                let owners = tree.list_at(&["metadata", "ownerReferences"]);
                owners.iter().any(|owner| owner.str_at(&["uid"]) == uid).then_some(0)
            }
            Term::Equals(key, value) => {
                if object.label(key).is_some_and(|found| found.starts_with(value.as_str())) {
                    return Some(OTHER_NAME);
                }
                if !key.contains('.') {
                    return None;
                }
                let tree = tree_with(object, storage, value)?;
                let path: Vec<_> = key.split('.').collect();
                let mut left = MAX_FIELD_VALUES;
                has_value(&tree, &path, value, &mut left).then_some(OTHER_NAME)
            }
        }
    }
}

fn word_score(word: &str, object: &Object, row: &Resource, with_text: bool) -> Option<Score> {
    let (name, sought) = (object.name().as_bytes(), word.as_bytes());
    let begins = name.get(..sought.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(sought));
    if begins {
        return Some(if name.len() == sought.len() { EXACT_NAME } else { NAME_BEGINS });
    }
    if contains(name, sought) {
        return Some(NAME_CONTAINS);
    }
    if contains(object.namespace().as_bytes(), sought) || is_name_of(word, row) {
        return Some(OTHER_NAME);
    }
    let text = object.wire().ok().filter(|_| with_text && sought.len() >= SHORTEST_TEXT)?;
    contains(text, sought).then_some(IN_TEXT)
}

/// Whether a word in lower case is a name of the resource.
fn is_name_of(word: &str, row: &Resource) -> bool {
    let group = || format!("{}.{}", row.plural, row.kind.group);
    row.plural == word
        || row.singular == word
        || row.kind.kind.eq_ignore_ascii_case(word)
        || row.short_names.iter().any(|short| short == word)
        || (word.contains('.') && group() == word)
}

/// The tree of an object whose text has the value.
fn tree_with(object: &Object, storage: &Storage, value: &str) -> Option<Value> {
    let text = object.wire().ok()?;
    kevel_compute::charge_bytes(text.len());
    memchr::memmem::find(text, value.as_bytes())?;
    storage.tree(object).ok()
}

/// Whether a value at the path, in any item of lists on it, begins with the text.
fn has_value(tree: &Value, path: &[&str], wanted: &str, left: &mut usize) -> bool {
    if *left == 0 {
        return false;
    }
    *left -= 1;
    if let Some(items) = tree.as_list() {
        return items.iter().any(|item| has_value(item, path, wanted, left));
    }
    match path.split_first() {
        Some((field, rest)) => {
            tree.at(&[field]).is_some_and(|value| has_value(value, rest, wanted, left))
        }
        None => match (tree.as_str(), tree.as_int(), tree.as_bool()) {
            (Some(text), ..) => text.starts_with(wanted),
            (_, Some(number), _) => number.to_string() == wanted,
            (.., Some(truth)) => truth.to_string() == wanted,
            _ => false,
        },
    }
}

fn contains(text: &[u8], sought: &[u8]) -> bool {
    find(text, sought).is_some()
}

/// Position of a text in lower case, in any case.
fn find(text: &[u8], sought: &[u8]) -> Option<usize> {
    let (first, rest) = sought.split_first()?;
    let upper = first.to_ascii_uppercase();
    memchr::memchr2_iter(*first, upper, text).find(|place| {
        let found = text.get(place + 1..place + 1 + rest.len());
        found.is_some_and(|found| found.eq_ignore_ascii_case(rest))
    })
}

/// The text around a place, without half characters.
fn around(text: &[u8], place: usize, length: usize) -> String {
    /// Bytes shown before and after a word.
    const CONTEXT: usize = 40;
    let (start, end) = (place.saturating_sub(CONTEXT), (place + length + CONTEXT).min(text.len()));
    let shown = String::from_utf8_lossy(text.get(start..end).unwrap_or_default());
    shown.trim_matches(char::REPLACEMENT_CHARACTER).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        let word = |text: &str| Term::Word(text.to_owned());
        for (text, expected) in [
            ("Web", vec![word("web")]),
            ("kind:Pod web", vec![Term::Kind("pod".into()), word("web")]),
            ("ns:a owner:1-2", vec![Term::Namespace("a".into()), Term::Owner("1-2".into())]),
            ("app=", vec![Term::Equals("app".into(), String::new())]),
            ("a.b/c=D", vec![Term::Equals("a.b/c".into(), "D".into())]),
            ("kind: =x nginx:1.27", vec![word("kind:"), word("=x"), word("nginx:1.27")]),
        ] {
            assert_eq!(SearchQuery::parse(text), Ok(SearchQuery { terms: expected }), "{text}");
        }
        assert_eq!(SearchQuery::parse(" \t"), Err(QueryError::Empty));
        assert_eq!(SearchQuery::parse(&"a ".repeat(9)), Err(QueryError::TooLong));
        assert_eq!(SearchQuery::parse(&"a".repeat(257)), Err(QueryError::TooLong));
    }

    #[test]
    fn text_is_found_in_any_case() {
        for (text, sought, expected) in [
            ("abc", "bc", Some(1)),
            ("aBC", "bc", Some(1)),
            ("bbc", "bc", Some(1)),
            ("ab", "bc", None),
            ("", "a", None),
            ("a", "", None),
            ("grüße", "ße", Some(4)),
        ] {
            assert_eq!(find(text.as_bytes(), sought.as_bytes()), expected, "{sought} in {text}");
        }
    }

    #[test]
    fn excerpts_have_whole_characters() {
        let text = "ü".repeat(40) + "word" + &"ü".repeat(40);
        for shift in 0..2 {
            let text = "x".repeat(shift) + &text;
            let shown = around(text.as_bytes(), text.find("word").unwrap(), 4);
            assert!(shown.contains("üwordü"), "{shown}");
            assert!(!shown.contains(char::REPLACEMENT_CHARACTER), "{shown}");
        }
    }
}
