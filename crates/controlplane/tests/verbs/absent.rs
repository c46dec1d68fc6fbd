//! Absent fields in every format: a missing field, `null` and an empty value are the same to Go, and protobuf cannot
//! distinguish them.

use std::collections::{BTreeMap, BTreeSet};

use http_body_util::BodyExt as _;
use kevel_api::default;
use kevel_api::schema::{Scalar, Schema, Type};
use kevel_api::value::{Map, Value, equivalent};
use kevel_codec::{json, protobuf};
use kevel_registry::resource::Resource;
use kevel_registry::storage::Format;
use kevel_test_support::InMemory;

const FORMS: [Form; 3] = [Form::Absent, Form::Null, Form::Empty];
const MEDIA: [&str; 2] = ["application/json", "application/vnd.kubernetes.protobuf"];

/// Form of an absent field.
#[derive(Clone, Copy, Debug)]
enum Form {
    Absent,
    Null,
    Empty,
}

/// Result of a write: its code, and the object afterwards.
type Outcome = (u16, Value);

/// An object that requests are sent about.
struct Object<'s> {
    server: &'s InMemory,
    row: &'s Resource,
    path: String,
    schema: Schema<'s>,
}

impl<'s> Object<'s> {
    fn new(server: &'s InMemory, row: &'s Resource) -> Self {
        let base = match row.kind.group.is_empty() {
            true => format!("/api/{}", row.kind.version),
            false => format!("/apis/{}/{}", row.kind.group, row.kind.version),
        };
        let namespace = if row.namespaced { "/namespaces/ns" } else { "" };
        let path = format!("{base}{namespace}/{}/it", row.plural);
        Object { server, row, path, schema: row.ty.schema() }
    }

    /// Stores an object past all rules, and reads it back.
    async fn store(&self, mut object: Value) -> Value {
        let metadata = object.make_map(&["metadata"]);
        metadata.insert("name", "it".into());
        if self.row.namespaced {
            metadata.insert("namespace", "ns".into());
        }
        let storage = self.row.storage.as_ref().unwrap();
        let to = storage.kind.group_version();
        let stored = storage.convert(object, &self.row.kind, &to).await.unwrap();
        storage.discard(if self.row.namespaced { "ns" } else { "" }, "it").await.unwrap();
        storage.insert(stored).await.unwrap();
        self.read().await
    }

    async fn read(&self) -> Value {
        let text = self.server.ok(&format!("GET {}?resourceVersion=", self.path), "", 200).await;
        tree(&text, self.schema)
    }

    /// Body of a write to a subresource, and its type: the object, or its scale.
    async fn part(&self, subresource: &str) -> (Value, Schema<'s>) {
        if subresource != "scale" {
            return (self.read().await, self.schema);
        }
        let scale = self.server.ok(&format!("GET {}/scale", self.path), "", 200).await;
        let schema = self.row.subresources["scale"].ty.schema();
        (tree(&scale, schema), schema)
    }

    /// Writes what is there in a format, without what stands at a path.
    async fn put(&self, subresource: &str, path: &[&str], form: Form, media: &str) -> Outcome {
        let (mut object, schema) = self.part(subresource).await;
        leave_out(&mut object, path, form);
        let body = match media {
            "application/vnd.kubernetes.protobuf" => {
                // What is `null` is not written.
                protobuf::encode_object(&object, schema)
            }
            _ => {
                let mut text = Vec::new();
                json::encode_any(&object, &mut text);
                text
            }
        };
        let uri = format!("PUT {}/{subresource}", self.path);
        let response = self.server.send_bytes(&uri, body.into(), media).await;
        let code = response.status().as_u16();
        let answer = response.into_body().collect().await.unwrap().to_bytes();
        assert!(code == 200 || code == 422, "{uri} {path:?}: {}", String::from_utf8_lossy(&answer));
        (code, self.read().await)
    }

    /// The same in all forms and formats, which must come to the same.
    async fn leave_out(&self, subresource: &str, object: &Value, path: &[&str]) -> Outcome {
        let mut first: Option<Outcome> = None;
        for media in MEDIA {
            for form in FORMS {
                self.store(object.clone()).await;
                let (code, after) = self.put(subresource, path, form, media).await;
                let what = format!("{} {subresource} {path:?} {form:?} {media}", self.row.plural);
                match &first {
                    None => first = Some((code, after)),
                    Some((first_code, first)) => {
                        assert_eq!(code, *first_code, "{what}");
                        self.assert_same(first, &after, &what);
                    }
                }
            }
        }
        first.unwrap()
    }

    /// Two objects have the same spec and status, but for what rules put there.
    fn assert_same(&self, one: &Value, other: &Value, what: &str) {
        let put_back = PUT_BACK.iter().find(|(plural, _)| *plural == self.row.plural);
        let shown = |object: &Value, part: &str| {
            let mut part = object.at(&[part]).cloned().unwrap_or_default();
            for field in put_back.into_iter().flat_map(|(_, fields)| *fields) {
                part.as_map_mut().map(|map| map.remove(field));
            }
            part
        };
        for part in ["spec", "status"] {
            let (one, other) = (shown(one, part), shown(other, part));
            assert!(equivalent(Some(&one), Some(&other)), "{what} {part}:\n{one:?}\n{other:?}");
        }
    }
}

fn leave_out(object: &mut Value, path: &[&str], form: Form) {
    let (last, parents) = path.split_last().unwrap();
    let Some(map) = object.at_mut(parents).and_then(Value::as_map_mut) else { return };
    match (form, map.get(last)) {
        (Form::Absent, _) | (Form::Empty, None) => drop(map.remove(last)),
        (Form::Null, _) => drop(map.insert(*last, Value::Null)),
        (Form::Empty, Some(Value::List(_))) => {
            drop(map.insert(*last, Value::List(Default::default())))
        }
        (Form::Empty, Some(Value::Map(_))) => drop(map.insert(*last, Map::new().into())),
        // There is no empty form of the other values that all formats have.
        (Form::Empty, Some(_)) => drop(map.remove(last)),
    }
}

/// A value of a type with something in every field.
pub(super) fn filled(schema: Schema<'_>, depth: usize) -> Value {
    match schema.ty() {
        Type::Struct(_) => {
            let fields = schema.as_struct().unwrap();
            let fields = fields.fields().filter_map(|field| {
                let value = match (field.values().next(), field.schema().ty()) {
                    (Some(first), Type::List { .. }) => {
                        Value::List([first.into()].into_iter().collect())
                    }
                    (Some(first), Type::Scalar(_)) => first.into(),
                    _ if depth == 0 => Value::Null,
                    _ => filled(field.schema(), depth - 1),
                };
                (!value.is_null()).then(|| (field.name(), value))
            });
            Map::from_iter(fields.collect::<Vec<_>>()).into()
        }
        Type::List { item, .. } => {
            Value::List([filled(schema.other(*item), depth)].into_iter().collect())
        }
        Type::Map { value, .. } => {
            Map::from_iter([("a", filled(schema.other(*value), depth))]).into()
        }
        Type::Scalar(scalar) => match scalar {
            Scalar::String => "a".into(),
            Scalar::Bool => true.into(),
            Scalar::Int32 | Scalar::Int64 | Scalar::IntOrString => 1.into(),
            Scalar::Time => "2024-01-01T00:00:00Z".into(),
            Scalar::MicroTime => "2024-01-01T00:00:00.000000Z".into(),
            Scalar::Duration => "1s".into(),
            Scalar::Quantity => "1".into(),
            Scalar::Bytes => "YQ==".into(),
            _ => Value::Null,
        },
        Type::Union { .. } | Type::Any => Value::Null,
    }
}

/// Status fields that the reference's rules and defaults set if they are absent.
const PUT_BACK: &[(&str, &[&str])] = &[
    ("customresourcedefinitions", &["storedVersions"]),
    // Told by an annotation, too.
    ("horizontalpodautoscalers", &["currentCPUUtilizationPercentage"]),
    ("namespaces", &["phase"]),
    ("persistentvolumeclaims", &["phase"]),
    ("persistentvolumes", &["lastPhaseTransitionTime", "phase"]),
    ("pods", &["observedGeneration", "podIP", "podIPs", "qosClass"]),
];

/// Statuses of kinds whose rules want more than something in every field.
const STATUSES: &[(&str, &str)] = &[
    (
        "jobs",
        r#"{"conditions":[{"type":"a","status":"True"}],"startTime":"2024-01-01T00:00:00Z","active":1}"#,
    ),
    (
        "nodes",
        r#"{"capacity":{"cpu":"1"},"conditions":[{"type":"a","status":"True"}],"addresses":[{"type":"InternalIP","address":"10.0.0.1"}],"images":[{"names":["a"]}],"nodeInfo":{"osImage":"a"},"volumesInUse":["a"]}"#,
    ),
    (
        "persistentvolumeclaims",
        r#"{"phase":"Bound","accessModes":["ReadWriteOnce"],"capacity":{"storage":"1"},"conditions":[{"type":"a","status":"True"}]}"#,
    ),
    (
        "poddisruptionbudgets",
        r#"{"conditions":[{"type":"a","status":"True","reason":"a","message":"a","lastTransitionTime":"2024-01-01T00:00:00Z"}],"disruptedPods":{"a":"2024-01-01T00:00:00Z"},"expectedPods":1}"#,
    ),
    (
        "pods",
        r#"{"phase":"Running","conditions":[{"type":"a","status":"True"}],"message":"a","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}],"containerStatuses":[{"name":"a","image":"a","imageID":"a"}],"startTime":"2024-01-01T00:00:00Z"}"#,
    ),
    ("resourcequotas", r#"{"hard":{"pods":"1"},"used":{"pods":"1"}}"#),
    (
        "services",
        r#"{"conditions":[{"type":"a","status":"True","reason":"a","message":"a","lastTransitionTime":"2024-01-01T00:00:00Z"}]}"#,
    ),
];

pub(super) fn tree(text: &str, schema: Schema<'_>) -> Value {
    json::decode(text.as_bytes(), schema, json::Unknown::Ignore).unwrap().value
}

/// An object with a status in which everything is said.
fn with_status(row: &Resource) -> Value {
    let schema = |part: &str| Some(row.ty.schema().field(part)?.schema());
    let known = STATUSES.iter().find(|(plural, _)| *plural == row.plural);
    let status = match (known, schema("status").unwrap()) {
        (Some((_, text)), schema) => tree(text, schema),
        (None, schema) => filled(schema, 3),
    };
    let mut object = Value::Map(Map::from_iter([("status", status)]));
    object.make_map(&["metadata", "labels"]).insert("a", "b".into());
    if let Some(mut spec) = schema("spec").map(|spec| filled(spec, 2)) {
        // Fields of a spec that the rules of a status look at.
        spec.as_map_mut().unwrap().remove("configSource");
        if let Some(Value::Map(source)) = spec.at_mut(&["source"]) {
            source.remove("inlineVolumeSpec");
        }
        object.make_map(&[]).insert("spec", spec);
    }
    object
}

fn has_status(row: &&std::sync::Arc<Resource>) -> bool {
    row.storage.is_some() && row.has_status()
}

#[tokio::test]
async fn a_status_is_what_was_sent() {
    let servers = [InMemory::start(Format::Json).await, InMemory::start(Format::Protobuf).await];
    let rows = servers.each_ref().map(|server| server.delegate.resources.current().clone());
    let (mut taken, mut kinds) = (BTreeMap::new(), 0);
    for (number, row) in rows[0].all().filter(has_status).enumerate() {
        let (server, rows) = (&servers[number % 2], &rows[number % 2]);
        let row = rows.get(&row.kind.group, &row.kind.version, &row.plural).unwrap();
        let (object, full) = (Object::new(server, row), with_status(row));
        let fields: Vec<String> = full
            .at(&["status"])
            .unwrap()
            .as_map()
            .unwrap()
            .iter()
            .map(|f| f.0.to_owned())
            .collect();
        let paths = fields.iter().map(|field| vec!["status", field]).chain([vec!["status"]]);
        kinds += 1;
        for path in paths {
            let mut expected = object.store(full.clone()).await;
            leave_out(&mut expected, &path, Form::Absent);
            let (code, after) = object.leave_out("status", &full, &path).await;
            if code == 422 {
                continue;
            }
            *taken.entry(row.kind.clone()).or_insert(0) += 1;
            object.assert_same(&after, &expected, &format!("{} {path:?}", row.kind));
        }
    }
    // A certificate request is signed, which no made-up one is: its rules have tests of their own.
    let unsigned = 1;
    assert!(
        kinds > 25 && taken.len() + unsigned == kinds,
        "{kinds} kinds, of which taken: {taken:?}"
    );
}

#[tokio::test]
async fn status_write_changes_metadata_if_the_kind_allows() {
    let server = InMemory::start(Format::Json).await;
    let rows = server.delegate.resources.current().clone();
    let mut kept = BTreeSet::new();
    for row in rows.all().filter(has_status) {
        let object = Object::new(&server, row);
        let mut full = with_status(row);
        full.make_map(&["metadata", "annotations"]).insert("a", "b".into());
        for field in ["labels", "annotations"] {
            let (code, after) = object.leave_out("status", &full, &["metadata", field]).await;
            let there = after.at(&["metadata", field, "a"]).is_some();
            let stays = row.strategy.kept_by_status().contains(&field);
            assert!(there == (stays || code == 422), "{} {field} {code}", row.kind);
            if code == 200 && there {
                kept.insert(format!("{} {field}", row.plural));
            }
        }
    }
    for (plural, expected) in [
        ("deployments", [true, false]),
        ("flowschemas", [true, true]),
        ("namespaces", [false, false]),
        ("volumeattachments", [true, true]),
    ] {
        let found = ["labels", "annotations"].map(|f| kept.contains(&format!("{plural} {f}")));
        assert_eq!(found, expected, "{plural}");
    }
}

/// A subresource that writes places of an object: the object, what is left out, what the answer is, and
/// what is there then.
type Case = (&'static str, &'static str, &'static str, Path, u16, Path, &'static str);
type Path = &'static [&'static str];

#[rustfmt::skip]
const PLACES: &[Case] = &[
    ("namespaces", "finalize", NAMESPACE, &["spec"], 200, &["spec"], "{}"),
    ("namespaces", "finalize", NAMESPACE, &["spec", "finalizers"], 200, &["spec"], "{}"),
    ("namespaces", "finalize", NAMESPACE, &["status"], 200, &["status", "phase"], "\"Active\""),
    ("namespaces", "finalize", NAMESPACE, &["metadata", "labels"], 200, &["metadata", "labels", "a"], "null"),
    ("pods", "ephemeralcontainers", POD, &["spec"], 200, &["spec", "containers"], CONTAINERS),
    ("pods", "ephemeralcontainers", POD, &["metadata", "labels"], 200, &["metadata", "labels", "a"], "\"b\""),
    ("pods", "ephemeralcontainers", DEBUGGED, &["spec"], 422, &["spec", "ephemeralContainers"], DEBUG),
    ("pods", "ephemeralcontainers", DEBUGGED, &["spec", "ephemeralContainers"], 422, &["spec", "ephemeralContainers"], DEBUG),
    ("pods", "resize", POD, &["spec"], 422, &["spec", "containers"], CONTAINERS),
    ("pods", "resize", POD, &["spec", "containers"], 422, &["spec", "containers"], CONTAINERS),
    ("pods", "resize", POD, &["spec", "nodeName"], 200, &["spec", "nodeName"], "\"n\""),
    ("pods", "resize", POD, &["metadata", "labels"], 200, &["metadata", "labels", "a"], "\"b\""),
    ("deployments", "scale", DEPLOYMENT, &["spec"], 200, &["spec", "replicas"], "0"),
    ("deployments", "scale", DEPLOYMENT, &["spec", "replicas"], 200, &["spec", "replicas"], "0"),
    ("deployments", "scale", DEPLOYMENT, &["status"], 200, &["spec", "replicas"], "3"),
];

const NAMESPACE: &str = r#"{"metadata":{"labels":{"a":"b"}},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active","conditions":[{"type":"a","status":"True"}]}}"#;
const POD: &str = r#"{"metadata":{"labels":{"a":"b"}},"spec":{"nodeName":"n","containers":[{"name":"a","image":"a"}]}}"#;
const CONTAINERS: &str = r#"[{"name":"a","image":"a"}]"#;
const DEBUGGED: &str = r#"{"spec":{"containers":[{"name":"a","image":"a"}],"ephemeralContainers":[{"name":"b","image":"a"}]}}"#;
const DEBUG: &str = r#"[{"name":"b","image":"a"}]"#;
const DEPLOYMENT: &str = r#"{"spec":{"replicas":3,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"a"}]}}}}"#;

#[tokio::test]
async fn places_are_what_was_sent() {
    for format in [Format::Json, Format::Protobuf] {
        let server = InMemory::start(format).await;
        let rows = server.delegate.resources.current().clone();
        for (plural, subresource, text, left_out, code, path, expected) in PLACES {
            let row =
                rows.get("", "v1", plural).or_else(|| rows.get("apps", "v1", plural)).unwrap();
            let object = Object::new(&server, row);
            let mut full = tree(text, object.schema);
            default::apply(&mut full, object.schema);
            let (found, after) = object.leave_out(subresource, &full, left_out).await;
            let what = format!("{plural}/{subresource} without {left_out:?}");
            assert_eq!(found, *code, "{what}");
            let expected = json::decode_any(expected.as_bytes(), json::Unknown::Ignore).unwrap();
            let there = after.at(path).cloned().unwrap_or_default();
            assert!(includes(&there, &expected.value), "{what}: {there:?}");
        }
    }
}

/// Whether a value has all of another, and its lists no more.
fn includes(value: &Value, part: &Value) -> bool {
    match (value, part) {
        (Value::Map(value), Value::Map(part)) if part.is_empty() => value.is_empty(),
        (Value::Map(value), Value::Map(part)) => {
            part.iter().all(|(key, part)| value.get(key).is_some_and(|value| includes(value, part)))
        }
        (Value::List(value), Value::List(part)) => {
            value.len() == part.len() && value.iter().zip(part).all(|(v, p)| includes(v, p))
        }
        (value, part) => value == part,
    }
}

/// The calls of the real namespace controller, which speaks protobuf, when all content is gone.
#[tokio::test]
async fn a_namespace_that_is_let_go_in_protobuf_goes() {
    for format in [Format::Json, Format::Protobuf] {
        let server = InMemory::start(format).await;
        let rows = server.delegate.resources.current().clone();
        let object = Object::new(&server, rows.get("", "v1", "namespaces").unwrap());
        server.ok("POST /api/v1/namespaces", r#"{"metadata":{"name":"it"}}"#, 201).await;
        server.ok("DELETE /api/v1/namespaces/it", "", 200).await;
        let mut namespace = object.read().await;
        let condition = [("type", "NamespaceContentRemaining"), ("status", "False")];
        let condition = Map::from_iter(condition.map(|(name, value)| (name, value.into())));
        namespace.make_list(&["status"], "conditions").push(condition.into());
        let protobuf = |namespace: &Value| protobuf::encode_object(namespace, object.schema).into();
        let (put, media) = ("PUT /api/v1/namespaces/it", MEDIA[1]);
        let status = format!("{put}/status");
        assert_eq!(server.send_bytes(&status, protobuf(&namespace), media).await.status(), 200);
        let finalize = format!("{put}/finalize");
        namespace.make_map(&["spec"]).remove("finalizers");
        let stale = server.send_bytes(&finalize, protobuf(&namespace), media).await;
        assert_eq!(stale.status(), 409);
        let mut namespace = object.read().await;
        namespace.make_map(&["spec"]).remove("finalizers");
        let let_go = server.send_bytes(&finalize, protobuf(&namespace), media).await;
        assert_eq!(let_go.status(), 200);
        server.ok("GET /api/v1/namespaces/it?resourceVersion=", "", 404).await;
    }
}

/// That there is nothing to write is only true of what is there now, not of what the cache has.
#[tokio::test]
async fn a_write_of_what_was_there_before_is_a_conflict() {
    let server = InMemory::start(Format::Json).await;
    let maps = "/api/v1/namespaces/ns/configmaps";
    let made = r#"{"metadata":{"name":"it"},"data":{"a":"0"}}"#;
    let mut before = server.ok(&format!("POST {maps}"), made, 201).await;
    for round in 0..20 {
        let next = before.replace(&format!(r#""a":"{round}""#), &format!(r#""a":"{}""#, round + 1));
        let after = server.ok(&format!("PUT {maps}/it"), &next, 200).await;
        server.ok(&format!("PUT {maps}/it"), &before, 409).await;
        server.ok(&format!("PUT {maps}/it?dryRun=All"), &before, 409).await;
        before = after;
    }
}
