//! Text notation of FlowSchemas and PriorityLevelConfigurations, for tests.
//!
//! ```text
//! level NAME exempt|reject|queue shares=N lendable=N [borrowing=N] [queues=N hand=N length=N]
//! schema NAME PRECEDENCE LEVEL [ByUser|ByNamespace]
//!   for user=NAME group=NAME account=NAMESPACE/NAME      begins a rule
//!   on VERBS GROUPS RESOURCES NAMESPACES [cluster]
//!   at VERBS PATHS
//! ```

use std::fmt::Write as _;

use kevel_api::value::{Map, Value};

/// Parses a text into PriorityLevelConfigurations and FlowSchemas. Each has its name as UID.
pub(crate) fn parse(text: &str) -> (Vec<Value>, Vec<Value>) {
    let (mut levels, mut schemas) = (Vec::new(), Vec::new());
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["level", name, kind, ref said @ ..] => levels.push(level(name, kind, said)),
            ["schema", name, precedence, level, ref method @ ..] => {
                schemas.push(schema(name, precedence, level, method));
            }
            ["for", ref subjects @ ..] => {
                let subjects = subjects.iter().map(|text| subject(text)).collect();
                let rule = Map::from_iter([("subjects", Value::List(subjects))]);
                let schema = schemas.last_mut().unwrap();
                schema.make_list(&["spec"], "rules").push(rule.into());
            }
            ["on", verbs, groups, resources, namespaces, ref scope @ ..] => {
                let mut rule = Map::from_iter([
                    ("verbs", list(verbs)),
                    ("apiGroups", list(groups)),
                    ("resources", list(resources)),
                    ("namespaces", list(namespaces)),
                ]);
                if scope == ["cluster"] {
                    rule.insert("clusterScope", true.into());
                }
                self::rule(&mut schemas).make_list(&[], "resourceRules").push(rule.into());
            }
            ["at", verbs, paths] => {
                let rule =
                    Map::from_iter([("verbs", list(verbs)), ("nonResourceURLs", list(paths))]);
                self::rule(&mut schemas).make_list(&[], "nonResourceRules").push(rule.into());
            }
            _ => panic!("{line:?}"),
        }
    }
    (levels, schemas)
}

/// Prints objects as text.
pub(crate) fn print<'a>(objects: impl IntoIterator<Item = &'a Value>) -> String {
    let mut text = String::new();
    for object in objects {
        let name = object.str_at(&["metadata", "name"]);
        let spec = object.at(&["spec"]).unwrap();
        match object.str_at(&["kind"]) {
            "FlowSchema" => print_schema(&mut text, name, spec),
            _ => print_level(&mut text, name, spec),
        }
    }
    text
}

fn level(name: &str, kind: &str, said: &[&str]) -> Value {
    let mut object = named("PriorityLevelConfiguration", name);
    let exempt = kind == "exempt";
    let (ty, field) = if exempt { ("Exempt", "exempt") } else { ("Limited", "limited") };
    object.make_map(&["spec"]).insert("type", ty.into());
    object.make_map(&["spec", field]);
    if !exempt {
        let response = if kind == "queue" { "Queue" } else { "Reject" };
        object.make_map(&["spec", field, "limitResponse"]).insert("type", response.into());
    }
    for (key, value) in said.iter().map(|said| said.split_once('=').unwrap()) {
        let number = Value::Int(value.parse().unwrap());
        let queuing: &[&str] = &["spec", field, "limitResponse", "queuing"];
        let (place, key) = match key {
            "shares" => (&queuing[..2], "nominalConcurrencyShares"),
            "lendable" => (&queuing[..2], "lendablePercent"),
            "borrowing" => (&queuing[..2], "borrowingLimitPercent"),
            "queues" => (queuing, "queues"),
            "hand" => (queuing, "handSize"),
            "length" => (queuing, "queueLengthLimit"),
            _ => panic!("{key:?}"),
        };
        object.make_map(place).insert(key, number);
    }
    object
}

fn schema(name: &str, precedence: &str, level: &str, method: &[&str]) -> Value {
    let mut object = named("FlowSchema", name);
    object.make_map(&["spec", "priorityLevelConfiguration"]).insert("name", level.into());
    let precedence = Value::Int(precedence.parse().unwrap());
    object.make_map(&["spec"]).insert("matchingPrecedence", precedence);
    if let [method] = method {
        object.make_map(&["spec", "distinguisherMethod"]).insert("type", (*method).into());
    }
    object
}

fn named(kind: &str, name: &str) -> Value {
    let mut object = Value::default();
    object.make_map(&[]).insert("kind", kind.into());
    let metadata = object.make_map(&["metadata"]);
    metadata.insert("name", name.into());
    metadata.insert("uid", format!("uid-{name}").as_str().into());
    object
}

/// The rule that was begun last.
fn rule(schemas: &mut [Value]) -> &mut Value {
    let rules = schemas.last_mut().unwrap().make_list(&["spec"], "rules");
    rules.last_mut().unwrap()
}

fn subject(text: &str) -> Value {
    let (kind, name) = text.split_once('=').unwrap();
    let (kind, field) = match kind {
        "user" => ("User", "user"),
        "group" => ("Group", "group"),
        _ => ("ServiceAccount", "serviceAccount"),
    };
    let mut described = Map::new();
    match name.split_once('/') {
        Some((namespace, name)) => {
            described.insert("namespace", namespace.into());
            described.insert("name", name.into());
        }
        None => drop(described.insert("name", name.into())),
    }
    Map::from_iter([("kind", kind.into()), (field, described.into())]).into()
}

fn list(words: &str) -> Value {
    let word = |word: &str| Value::from(if word == "core" { "" } else { word });
    Value::List(words.split(',').filter(|word| *word != "-").map(word).collect())
}

fn print_level(text: &mut String, name: &str, spec: &Value) {
    let said = spec.at(&["limited"]).or(spec.at(&["exempt"])).unwrap();
    let kind = match said.str_at(&["limitResponse", "type"]) {
        "" => "exempt",
        "Queue" => "queue",
        _ => "reject",
    };
    write!(text, "level {name} {kind}").unwrap();
    for (key, path) in [
        ("shares", &["nominalConcurrencyShares"][..]),
        ("lendable", &["lendablePercent"]),
        ("borrowing", &["borrowingLimitPercent"]),
        ("queues", &["limitResponse", "queuing", "queues"]),
        ("hand", &["limitResponse", "queuing", "handSize"]),
        ("length", &["limitResponse", "queuing", "queueLengthLimit"]),
    ] {
        if let Some(number) = said.at(path).and_then(Value::as_int) {
            write!(text, " {key}={number}").unwrap();
        }
    }
    text.push('\n');
}

fn print_schema(text: &mut String, name: &str, spec: &Value) {
    let level = spec.str_at(&["priorityLevelConfiguration", "name"]);
    let precedence = spec.at(&["matchingPrecedence"]).and_then(Value::as_int).unwrap();
    let method = spec.str_at(&["distinguisherMethod", "type"]);
    let line = format!("schema {name} {precedence} {level} {method}");
    writeln!(text, "{}", line.trim_end()).unwrap();
    for rule in spec.list_at(&["rules"]) {
        text.push_str("  for");
        rule.list_at(&["subjects"]).iter().for_each(|subject| print_subject(text, subject));
        text.push('\n');
        for rule in rule.list_at(&["resourceRules"]) {
            let [verbs, groups, resources, namespaces] =
                ["verbs", "apiGroups", "resources", "namespaces"].map(|field| words(rule, field));
            let cluster = rule.at(&["clusterScope"]).and_then(Value::as_bool) == Some(true);
            let scope = if cluster { " cluster" } else { "" };
            writeln!(text, "  on {verbs} {groups} {resources} {namespaces}{scope}").unwrap();
        }
        for rule in rule.list_at(&["nonResourceRules"]) {
            let (verbs, paths) = (words(rule, "verbs"), words(rule, "nonResourceURLs"));
            writeln!(text, "  at {verbs} {paths}").unwrap();
        }
    }
}

fn print_subject(text: &mut String, subject: &Value) {
    let (key, field) = match subject.str_at(&["kind"]) {
        "User" => ("user", "user"),
        "Group" => ("group", "group"),
        _ => ("account", "serviceAccount"),
    };
    let name = subject.str_at(&[field, "name"]);
    match subject.str_at(&[field, "namespace"]) {
        "" => write!(text, " {key}={name}").unwrap(),
        namespace => write!(text, " {key}={namespace}/{name}").unwrap(),
    }
}

fn words(rule: &Value, field: &str) -> String {
    let word = |word: &Value| match word.as_str() {
        Some("") => "core".to_owned(),
        word => word.unwrap().to_owned(),
    };
    let words: Vec<_> = rule.list_at(&[field]).iter().map(word).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(",") }
}
