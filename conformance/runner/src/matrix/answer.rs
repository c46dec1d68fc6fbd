//! Relevant parts of an answer: its code, reason, and the served objects.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::wire::Response;
use crate::mask::mask_text;

/// An answer in one line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answer(pub String);

/// Namespaces of relevant objects, and names of relevant cluster-scoped ones: others are the server's own.
const NAMESPACES: [&str; 3] = ["a", "b", "c"];
const NAMES: [&str; 8] = ["a", "b", "foo", "bar", "new", "evil", "n1", "n2"];

impl Answer {
    pub fn of(response: &Response) -> Self {
        let Response { code, headers, body } = response;
        let json = headers.get("content-type").is_some_and(|media| media == "application/json");
        let said = match (code, json) {
            (200..300, true) => served(body),
            (200..300, false) => "text".to_owned(),
            // These messages name the user, which differs.
            (401 | 403, _) => String::new(),
            (_, true) => why(body),
            (_, false) => String::from_utf8_lossy(body).lines().next().unwrap_or("").to_owned(),
        };
        // In dry runs the reference omits the prefix of keys.
        let said = said.replace("Key: /registry/", "Key: /");
        Answer(mask_text(format!("{code} {said}").trim_end()))
    }

    /// Adds the state after a write.
    pub fn then(self, there: &str) -> Self {
        Answer(format!("{} then {there}", self.0))
    }

    /// Served objects, if the request succeeded.
    fn objects(&self) -> Option<BTreeSet<&str>> {
        let (code, said) = self.0.split_once(' ').unwrap_or((&self.0, ""));
        code.starts_with('2').then(|| said.split_whitespace().collect())
    }

    /// Whether it serves objects that the reference does not. A server error of the reference is no refusal.
    pub fn lets_in(&self, reference: &Answer) -> bool {
        match (self.objects(), reference.objects()) {
            (None, _) => false,
            (Some(_), None) => !reference.0.starts_with('5'),
            (Some(ours), Some(theirs)) => !ours.is_subset(&theirs),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names of the objects in an answer: a single object, a list, or the events of a watch.
fn served(body: &[u8]) -> String {
    let documents: Vec<Value> =
        serde_json::Deserializer::from_slice(body).into_iter().filter_map(Result::ok).collect();
    let mut names = BTreeSet::new();
    for document in &documents {
        match (document["items"].as_array(), document.get("object")) {
            (Some(items), _) => names.extend(items.iter().filter_map(name)),
            (None, Some(_)) if document["type"] == "BOOKMARK" => {}
            (None, Some(object)) => names.extend(name(object)),
            (None, None) if document["kind"] == "Status" => {
                names.extend(
                    document["details"]["name"].as_str().map(|name| format!("gone:{name}")),
                );
            }
            (None, None) => names.extend(name(document)),
        }
    }
    names.into_iter().collect::<Vec<_>>().join(" ")
}

/// Namespace and name of a relevant object.
fn name(object: &Value) -> Option<String> {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    // A generated name begins with its generateName.
    let name = if name.starts_with("evil-") { "evil-*" } else { name };
    let counts = match namespace {
        "" => NAMES.contains(&name) || name == "evil-*",
        namespace => NAMESPACES.contains(&namespace),
    };
    counts.then(|| match namespace {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    })
}

fn why(body: &[u8]) -> String {
    let Ok(status) = serde_json::from_slice::<Value>(body) else { return "no JSON".to_owned() };
    let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
    let message = text("message").replace('\n', "\\n");
    // The message may have generated names.
    let message = match message.find("evil-") {
        Some(at) => message[..at + 5].to_owned(),
        None => message,
    };
    format!("{}: {message}", text("reason"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serving_more_is_letting_in() {
        let answer = |text: &str| Answer(text.to_owned());
        for (ours, theirs, expected) in [
            ("200 a/foo", "200 a/foo", false),
            ("200", "200 a/foo", false),
            ("200 a/bar a/foo", "200 a/foo", true),
            ("200", "403", true),
            ("201 a/evil", "400 BadRequest: no", true),
            ("404 NotFound: no", "403", false),
            ("200 a/foo", "500 no", false),
            ("403", "200 a/foo", false),
        ] {
            assert_eq!(answer(ours).lets_in(&answer(theirs)), expected, "{ours}, {theirs}");
        }
    }

    #[test]
    fn what_is_served_is_named() {
        let events = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"foo\",\"namespace\":\"a\"}}}\n\
                      {\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"name\":\"\"}}}\n";
        assert_eq!(served(events.as_bytes()), "a/foo");
        let list = r#"{"items":[{"metadata":{"name":"n1"}},{"metadata":{"name":"x","namespace":"kube-system"}}]}"#;
        assert_eq!(served(list.as_bytes()), "n1");
    }
}
