//! Operations as lines of JSON, which client processes print.

use serde_json::{Value, json};

use crate::history::{At, Nanos, Operation, Outcome, Request, Version};

/// Line of a client: the start or the outcome of an operation.
#[derive(Debug, Clone)]
pub enum Line {
    /// The client is about to send this.
    Begun(Request, Nanos),
    /// Outcome of the operation that it began.
    Done(Outcome, Nanos),
}

impl Line {
    /// Prints without line end.
    pub fn print(&self) -> String {
        match self {
            Line::Begun(request, at) => json!(["begun", at, request_json(request)]),
            Line::Done(outcome, at) => json!(["done", at, outcome_json(outcome)]),
        }
        .to_string()
    }

    /// Parses a line.
    pub fn parse(text: &str) -> Option<Line> {
        let line: Value = serde_json::from_str(text).ok()?;
        let at = line[1].as_u64()?;
        Some(match line[0].as_str()? {
            "begun" => Line::Begun(request_of(&line[2])?, at),
            _ => Line::Done(outcome_of(&line[2])?, at),
        })
    }
}

/// Collects lines to operations. The outcome of an operation without end is unknown.
#[derive(Debug, Default)]
pub struct Operations {
    begun: Option<(Request, Nanos)>,
    /// Completed operations.
    pub done: Vec<Operation>,
}

impl Operations {
    /// Adds the next line of a client.
    pub fn hear(&mut self, client: usize, line: Line) {
        match line {
            Line::Begun(request, at) => self.begun = Some((request, at)),
            Line::Done(outcome, end) => {
                let Some((request, start)) = self.begun.take() else { return };
                self.done.push(Operation { client, request, start, end, outcome });
            }
        }
    }

    /// Records that the client is dead.
    pub fn end(&mut self, client: usize, at: Nanos) {
        self.hear(client, Line::Done(Outcome::Unknown("the client is dead".to_owned()), at));
    }
}

fn request_json(request: &Request) -> Value {
    match request {
        Request::Create { key, value } => json!(["create", key, value]),
        Request::Update { key, value, expected } => json!(["update", key, value, expected]),
        Request::Patch { key, value } => json!(["patch", key, value]),
        Request::Delete { key, revision, uid } => json!(["delete", key, revision, uid]),
        Request::Get { key, at } => json!(["get", key, at_json(*at)]),
        Request::List { at, limit } => json!(["list", at_json(*at), limit]),
    }
}

fn request_of(json: &Value) -> Option<Request> {
    let text = |place: usize| json[place].as_str().map(str::to_owned);
    let key = || text(1);
    Some(match json[0].as_str()? {
        "create" => Request::Create { key: key()?, value: text(2)? },
        "update" => Request::Update { key: key()?, value: text(2)?, expected: json[3].as_u64() },
        "patch" => Request::Patch { key: key()?, value: text(2)? },
        "delete" => Request::Delete { key: key()?, revision: json[2].as_u64(), uid: text(3) },
        "get" => Request::Get { key: key()?, at: at_of(&json[2])? },
        "list" => Request::List { at: at_of(&json[1])?, limit: json[2].as_u64() },
        _ => return None,
    })
}

fn at_json(at: At) -> Value {
    match at {
        At::Consistent => json!(["consistent"]),
        At::Any => json!(["any"]),
        At::NotOlderThan(revision) => json!(["not-older", revision]),
        At::Exact(revision) => json!(["exact", revision]),
    }
}

fn at_of(json: &Value) -> Option<At> {
    Some(match json[0].as_str()? {
        "consistent" => At::Consistent,
        "any" => At::Any,
        "not-older" => At::NotOlderThan(json[1].as_u64()?),
        "exact" => At::Exact(json[1].as_u64()?),
        _ => return None,
    })
}

fn version_json(version: &Version) -> Value {
    json!([version.value, version.uid, version.revision, version.selected])
}

fn version_of(json: &Value) -> Option<Version> {
    Some(Version {
        value: json[0].as_str()?.to_owned(),
        uid: json[1].as_str()?.to_owned(),
        revision: json[2].as_u64()?,
        selected: json[3].as_bool()?,
    })
}

fn outcome_json(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Object(version) => json!(["object", version_json(version)]),
        Outcome::Deleted => json!(["deleted"]),
        Outcome::NotFound => json!(["not-found"]),
        Outcome::Exists => json!(["exists"]),
        Outcome::Conflict => json!(["conflict"]),
        Outcome::List { revision, items, pages } => {
            let items = items.iter().map(|(key, version)| json!([key, version_json(version)]));
            json!(["list", revision, items.collect::<Vec<_>>(), pages])
        }
        Outcome::Gone => json!(["gone"]),
        Outcome::Refused(why) => json!(["refused", why]),
        Outcome::Broken(why) => json!(["broken", why]),
        Outcome::Unknown(why) => json!(["unknown", why]),
    }
}

fn outcome_of(json: &Value) -> Option<Outcome> {
    let why = || json[1].as_str().map(str::to_owned);
    Some(match json[0].as_str()? {
        "object" => Outcome::Object(version_of(&json[1])?),
        "deleted" => Outcome::Deleted,
        "not-found" => Outcome::NotFound,
        "exists" => Outcome::Exists,
        "conflict" => Outcome::Conflict,
        "list" => {
            let item = |item: &Value| Some((item[0].as_str()?.to_owned(), version_of(&item[1])?));
            Outcome::List {
                revision: json[1].as_u64()?,
                items: json[2].as_array()?.iter().map(item).collect::<Option<_>>()?,
                pages: usize::try_from(json[3].as_u64()?).ok()?,
            }
        }
        "gone" => Outcome::Gone,
        "refused" => Outcome::Refused(why()?),
        "broken" => Outcome::Broken(why()?),
        "unknown" => Outcome::Unknown(why()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_what_is_heard() {
        let (key, value) = ("k".to_owned(), "c1.2.in".to_owned());
        let version =
            Version { value: value.clone(), uid: "u".to_owned(), revision: 7, selected: true };
        let requests = [
            Request::Create { key: key.clone(), value: value.clone() },
            Request::Update { key: key.clone(), value: value.clone(), expected: Some(3) },
            Request::Update { key: key.clone(), value: value.clone(), expected: None },
            Request::Patch { key: key.clone(), value },
            Request::Delete { key: key.clone(), revision: None, uid: Some("u".to_owned()) },
            Request::Get { key: key.clone(), at: At::Any },
            Request::List { at: At::Exact(5), limit: Some(2) },
            Request::List { at: At::NotOlderThan(5), limit: None },
            Request::Get { key: key.clone(), at: At::Consistent },
            Request::Delete { key: key.clone(), revision: Some(4), uid: None },
        ];
        let outcomes = [
            Outcome::Object(version.clone()),
            Outcome::Deleted,
            Outcome::NotFound,
            Outcome::Exists,
            Outcome::Conflict,
            Outcome::List { revision: 9, items: vec![(key, version)], pages: 2 },
            Outcome::Gone,
            Outcome::Refused("429\n".to_owned()),
            Outcome::Broken("?".to_owned()),
            Outcome::Unknown("reset".to_owned()),
        ];
        let mut heard = Operations::default();
        for (request, outcome) in requests.iter().zip(&outcomes) {
            for line in [Line::Begun(request.clone(), 1), Line::Done(outcome.clone(), 2)] {
                assert!(!line.print().contains('\n'));
                heard.hear(3, Line::parse(&line.print()).unwrap());
            }
        }
        let told: Vec<_> = heard.done.iter().map(|o| (&o.request, &o.outcome)).collect();
        assert_eq!(told, requests.iter().zip(&outcomes).collect::<Vec<_>>());
        heard.hear(3, Line::Begun(requests[0].clone(), 4));
        heard.end(3, 5);
        assert!(matches!(heard.done.last().unwrap().outcome, Outcome::Unknown(_)));
    }
}
