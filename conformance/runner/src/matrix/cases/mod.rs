//! Cases: every form of path, verb, selector, name in the body and identity that parts of a server could understand
//! differently.

mod bodies;
mod identity;
mod node;
mod paths;
mod selectors;
mod verbs;

use std::collections::HashSet;

/// A request, and the users that send it.
#[derive(Clone, Debug)]
pub struct Case {
    pub method: &'static str,
    pub path: String,
    /// Media type and text.
    pub body: Option<(&'static str, String)>,
    pub headers: Vec<(String, Vec<u8>)>,
    /// Whether the headers have all credentials.
    pub own_credentials: bool,
    /// Whether it changes state. Other writes are dry runs.
    pub real: bool,
    pub users: &'static [&'static str],
}

/// All cases, always in the same order, without duplicates.
pub fn all() -> Vec<Case> {
    let parts =
        [paths::cases, selectors::cases, bodies::cases, verbs::cases, identity::cases, node::cases];
    let mut known = HashSet::new();
    let cases = parts.into_iter().flat_map(|cases| cases());
    cases.filter(|case| known.insert(case.title())).collect()
}

impl Case {
    pub fn new(method: &'static str, path: impl Into<String>) -> Self {
        Case {
            method,
            path: path.into(),
            body: None,
            headers: Vec::new(),
            own_credentials: false,
            real: false,
            users: &[],
        }
    }

    pub fn body(self, media: &'static str, body: impl Into<String>) -> Self {
        Case { body: Some((media, body.into())), ..self }
    }

    fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    fn by(self, users: &'static [&'static str]) -> Self {
        Case { users, ..self }
    }

    /// Unique title, in one line.
    pub fn title(&self) -> String {
        let mut title = format!("{} {}", self.method, self.path);
        if let Some((media, body)) = &self.body {
            let media = media.strip_prefix("application/").unwrap_or(media);
            title.push_str(&format!(" {media} {body}"));
        }
        for (name, value) in &self.headers {
            title.push_str(&format!(" [{name}: {}]", value.escape_ascii()));
        }
        if self.real {
            title.push_str(" for real");
        }
        title
    }
}

/// Adds a query parameter.
fn with(path: &str, parameter: &str) -> String {
    match (parameter, path.contains('?')) {
        ("", _) => path.to_owned(),
        (_, true) => format!("{path}&{parameter}"),
        (_, false) => format!("{path}?{parameter}"),
    }
}

/// Parameters of a watch that ends: the initial state, then a bookmark.
const WATCH: &str = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                     &allowWatchBookmarks=true&timeoutSeconds=2";
const DRY: &str = "dryRun=All";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::users::USERS;

    #[test]
    fn every_case_is_sent_by_a_user() {
        let cases = all();
        for case in &cases {
            let known = |name: &&str| USERS.iter().any(|user| user.name == *name);
            assert!(!case.users.is_empty() && case.users.iter().all(known), "{case:?}");
            assert!(case.path.parse::<http::Uri>().is_ok(), "{case:?}");
        }
        let requests: usize = cases.iter().map(|case| case.users.len()).sum();
        assert!((1_000..7_000).contains(&requests), "{requests}");
    }
}
