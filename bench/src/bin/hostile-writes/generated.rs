//! Cases that follow from the types: every list, map and text of every kind, filled.

use std::collections::HashSet;

use kevel_api::builtin::{self, Resource};
use kevel_api::schema::{Scalar, Schema, Type};
use kevel_conformance::client::Request;
use serde_json::{Value, json};

use crate::fill::{MARK, list, map, put, string};
use crate::world::{Object, World};
use crate::{Case, Undo};

/// Types that hold themselves are followed so far.
const MAX_DEPTH: usize = 12;

/// The way from an object to one of its fields.
#[derive(Clone, Debug)]
enum Step {
    Field(&'static str),
    /// The first of a list.
    Item,
    /// An entry of a map.
    Entry,
}

/// Generator of a field's value, with its name.
type Filling = (&'static str, fn(Schema<'static>) -> Option<String>);

const LISTS: [Filling; 3] = [
    ("empty items", |item| Some(list(|_| empty(item)))),
    ("same items", |item| Some(list(|_| full(item, 0)))),
    ("distinct items", |item| Some(list(|index| distinct(item, index)))),
];
const MAPS: [Filling; 1] =
    [("keys", |value| Some(map(|index| format!("\"k{index}\":{}", empty(value)))))];
const TEXTS: [Filling; 1] = [("long text", |_| Some(string()))];

/// All cases. A type that several kinds have is filled in the first of them.
pub fn cases(world: &World) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut seen = HashSet::new();
    for resource in writable() {
        let Some(schema) =
            builtin::schema(resource.kind_group, resource.kind_version, resource.kind)
        else {
            continue;
        };
        let object = world.object(resource);
        walk(schema, &mut Vec::new(), &mut seen, &mut |path, fillings, of| {
            for (what, filling) in fillings {
                add(&object, path, what, *filling, of, &mut cases);
            }
        });
    }
    cases
}

/// The resources that objects are made of, in one version each, Pods first: most rules are theirs.
fn writable() -> Vec<&'static Resource> {
    let mut groups = HashSet::new();
    let mut all: Vec<&Resource> = builtin::resources()
        .iter()
        .filter(|r| r.on && !r.path.contains('/') && r.verbs.contains(&"create"))
        .filter(|r| groups.insert((r.group, r.path)))
        .collect();
    all.sort_by_key(|resource| (resource.path != "pods", !resource.namespaced));
    all
}

/// Is told of a place in an object, how it can be filled, and its type.
type Visit<'a> = &'a mut dyn FnMut(&[Step], &[Filling], Schema<'static>);

fn walk(schema: Schema<'static>, path: &mut Vec<Step>, seen: &mut HashSet<u32>, visit: Visit<'_>) {
    if path.len() > MAX_DEPTH {
        return;
    }
    match schema.ty() {
        Type::Struct(_) => {
            let Some(structure) = schema.as_struct().filter(|_| seen.insert(schema.id())) else {
                return;
            };
            for field in structure.fields() {
                path.push(Step::Field(field.name()));
                walk(field.schema(), path, seen, visit);
                path.pop();
            }
        }
        Type::List { .. } => {
            let Some(item) = schema.item() else { return };
            visit(path, &LISTS, item);
            path.push(Step::Item);
            walk(item, path, seen, visit);
            path.pop();
        }
        Type::Map { .. } => {
            let Some(value) = schema.value() else { return };
            visit(path, &MAPS, value);
            path.push(Step::Entry);
            walk(value, path, seen, visit);
            path.pop();
        }
        Type::Scalar(Scalar::String | Scalar::Bytes | Scalar::Quantity | Scalar::IntOrString) => {
            visit(path, &TEXTS, schema);
        }
        Type::Scalar(_) | Type::Union { .. } | Type::Any => {}
    }
}

fn add(
    object: &Object,
    path: &[Step],
    what: &'static str,
    filling: fn(Schema<'static>) -> Option<String>,
    of: Schema<'static>,
    cases: &mut Vec<Case>,
) {
    let named = |verb: &str| {
        let path: String = path
            .iter()
            .map(|step| match step {
                Step::Field(name) => format!(".{name}"),
                Step::Item => "[0]".to_owned(),
                Step::Entry => ".k".to_owned(),
            })
            .collect();
        format!("{verb} {} {path} {what}", object.kind)
    };
    // Texts are one value to all that merges and owns.
    let verbs: &[&str] = match (what, object.place) {
        ("long text", _) | (_, None) => &["POST"],
        ("same items", Some(_)) => &["POST", "PUT"],
        _ => &["POST", "PUT", "MERGE", "STRATEGIC", "APPLY", "JSON"],
    };
    for verb in verbs {
        let (object, path) = (object.clone(), path.to_vec());
        let after = match *verb {
            "POST" => Undo::Delete(format!("{}/hostile", object.collection)),
            _ => Undo::Restore(object.place.unwrap_or_default()),
        };
        let verb = *verb;
        let request = move || {
            let filling = filling(of).unwrap_or_default();
            request(&object, verb, &path, &filling)
        };
        cases.push(Case { name: named(verb), request: Box::new(request), after });
    }
}

fn request(object: &Object, verb: &str, path: &[Step], filling: &str) -> Request {
    let one = format!("{}/base", object.collection);
    let identity = |name: &str| json!({"apiVersion": object.api_version, "kind": object.kind, "metadata": {"name": name}});
    let filled = |mut value: Value| {
        mark(&mut value, path);
        put(&value, filling)
    };
    let whole = |name: &str| {
        let mut value = object.base.clone();
        value["metadata"]["name"] = name.into();
        filled(value)
    };
    let patch = |kind: &str, body: String| object.patch(&one, kind, body);
    match verb {
        "POST" => object.send(http_method("POST"), &object.collection, whole("hostile")),
        "PUT" => object.send(http_method("PUT"), &one, whole("base")),
        "MERGE" => patch("merge-patch+json", filled(json!({}))),
        "STRATEGIC" => patch("strategic-merge-patch+json", filled(json!({}))),
        "APPLY" => object.patch(
            &format!("{one}?fieldManager=hostile&force=true"),
            "apply-patch+yaml",
            filled(identity("base")),
        ),
        _ => {
            let mut value = object.base.clone();
            mark(&mut value, path);
            // The first field that a patch can add as a whole.
            let first = path.first().map(|step| match step {
                Step::Field(name) => *name,
                Step::Item | Step::Entry => "",
            });
            let field = first.unwrap_or_default();
            let operation =
                json!([{"op": "add", "path": format!("/{field}"), "value": value[field]}]);
            patch("json-patch+json", put(&operation, filling))
        }
    }
}

fn http_method(name: &str) -> http::Method {
    name.parse().unwrap_or_default()
}

/// Puts the mark at a place, making what leads to it.
fn mark(value: &mut Value, path: &[Step]) {
    let Some((step, rest)) = path.split_first() else {
        *value = Value::String(MARK.trim_matches('"').to_owned());
        return;
    };
    match step {
        Step::Field(_) | Step::Entry => {
            let name = if let Step::Field(name) = step { name } else { "k" };
            if !value.is_object() {
                *value = json!({});
            }
            mark(&mut value[name], rest);
        }
        Step::Item => {
            if value.as_array().is_none_or(Vec::is_empty) {
                *value = json!([{}]);
            }
            mark(&mut value[0], rest);
        }
    }
}

/// The smallest value of a type.
fn empty(schema: Schema<'static>) -> String {
    match schema.ty() {
        Type::List { .. } => "[]",
        Type::Scalar(scalar) => match scalar {
            Scalar::Bool => "true",
            Scalar::Int32 | Scalar::Int64 | Scalar::Double | Scalar::IntOrString => "1",
            Scalar::Quantity => "\"1\"",
            Scalar::Duration => "\"1s\"",
            Scalar::Time => "\"2020-01-01T00:00:00Z\"",
            Scalar::MicroTime => "\"2020-01-01T00:00:00.000000Z\"",
            Scalar::Raw | Scalar::Json | Scalar::FieldsV1 => "{}",
            _ => "\"\"",
        },
        _ => "{}",
    }
    .to_owned()
}

/// A value of a type with all of its fields that are scalars.
fn full(schema: Schema<'static>, number: usize) -> String {
    let Some(structure) = schema.as_struct() else { return scalar(schema, number) };
    let fields = structure.fields().filter(|field| field.schema().scalar().is_some());
    let fields = fields.map(|field| {
        let first = field.values().next().map(|value| format!("{value:?}"));
        format!("{:?}:{}", field.name(), first.unwrap_or_else(|| scalar(field.schema(), number)))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// Fields that identify list items, the most specific first.
const KEYS: [&str; 16] = [
    "name",
    "key",
    "uid",
    "ip",
    "containerPort",
    "port",
    "devicePath",
    "mountPath",
    "path",
    "host",
    "hostname",
    "topologyKey",
    "id",
    "driver",
    "type",
    "weight",
];

/// A small value that is like no other.
fn distinct(schema: Schema<'static>, number: usize) -> String {
    let Some(structure) = schema.as_struct() else { return scalar(schema, number) };
    let named = KEYS.iter().find_map(|key| structure.field(key));
    let first = || structure.fields().find(|field| field.schema().scalar().is_some());
    match named.filter(|field| field.schema().scalar().is_some()).or_else(first) {
        Some(field) => format!("{{{:?}:{}}}", field.name(), scalar(field.schema(), number)),
        None => "{}".to_owned(),
    }
}

fn scalar(schema: Schema<'static>, number: usize) -> String {
    match schema.scalar() {
        Some(Scalar::String) => format!("\"x{number}\""),
        Some(Scalar::Int32 | Scalar::Int64) => (number % 65_000 + 1).to_string(),
        _ => empty(schema),
    }
}
