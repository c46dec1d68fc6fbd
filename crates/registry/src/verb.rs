//! Verbs of the API, and HTTP methods of plain paths.

use std::fmt;
use std::str::FromStr;

/// A verb of a request. Rules and policies may name any verb as text, which is compared with [`Verb::as_str`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Verb {
    /// An unknown method.
    #[default]
    Unknown,
    /// `get`: one object, or a document at a plain path.
    Get,
    /// `list`: a collection of objects.
    List,
    /// `watch`: changes of objects.
    Watch,
    /// `create`: a new object.
    Create,
    /// `update`: replacement of an object.
    Update,
    /// `patch`: a patch of an object, or server-side apply.
    Patch,
    /// `delete`: deletion of an object.
    Delete,
    /// `deletecollection`: deletion of a collection.
    DeleteCollection,
    /// `proxy`: a deprecated form of path, which is not served.
    Proxy,
    /// `head`: the method, for plain paths.
    Head,
    /// `post`: the method, for plain paths.
    Post,
    /// `put`: the method, for plain paths.
    Put,
    /// `options`: the method, for plain paths.
    Options,
    /// `connect`: the method, for plain paths.
    Connect,
    /// `trace`: the method, for plain paths.
    Trace,
}

/// Verbs and their names.
const NAMES: [(Verb, &str); 16] = [
    (Verb::Unknown, ""),
    (Verb::Get, "get"),
    (Verb::List, "list"),
    (Verb::Watch, "watch"),
    (Verb::Create, "create"),
    (Verb::Update, "update"),
    (Verb::Patch, "patch"),
    (Verb::Delete, "delete"),
    (Verb::DeleteCollection, "deletecollection"),
    (Verb::Proxy, "proxy"),
    (Verb::Head, "head"),
    (Verb::Post, "post"),
    (Verb::Put, "put"),
    (Verb::Options, "options"),
    (Verb::Connect, "connect"),
    (Verb::Trace, "trace"),
];

impl Verb {
    /// Name in rules, logs and discovery.
    pub const fn as_str(self) -> &'static str {
        // In the order of the variants, which a test verifies.
        NAMES[self as usize].1
    }

    /// The verbs of a list of names, as definitions have it.
    ///
    /// ```
    /// use kevel_registry::verb::Verb;
    /// assert_eq!(Verb::parse_all(&["get", "list"]), Ok(vec![Verb::Get, Verb::List]));
    /// assert!(Verb::parse_all(&["gte"]).is_err());
    /// ```
    pub fn parse_all(names: &[&str]) -> Result<Vec<Verb>, String> {
        names.iter().map(|name| name.parse()).collect()
    }
}

impl FromStr for Verb {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = NAMES.iter().skip(1).find(|(_, known)| *known == name);
        found.map(|(verb, _)| *verb).ok_or_else(|| format!("{name:?} is not a verb"))
    }
}

impl AsRef<str> for Verb {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_its_own_name() {
        for (position, (verb, name)) in NAMES.into_iter().enumerate() {
            assert_eq!(verb as usize, position);
            assert_eq!(verb.as_str(), name);
            assert_eq!(name.parse().ok(), (verb != Verb::Unknown).then_some(verb));
        }
    }
}
