//! JSON forms of metrics, conditions and behavior of autoscalers in v1's annotations.
//!
//! Each form is a table of members: the name in the annotation, the path in v2, and the value that is written if it is
//! absent. One reader and one writer use the tables.

use thin_vec::ThinVec;

use crate::json_string::write_json_string;
use crate::quantity;
use crate::time::Time;
use crate::value::{Map, Value};

pub(super) fn write_specs(metrics: &[Value]) -> String {
    write_list(metrics, &SPEC)
}

pub(super) fn write_statuses(metrics: &[Value]) -> String {
    write_list(metrics, &STATUS)
}

pub(super) fn write_conditions(conditions: &[Value]) -> String {
    write_list(conditions, &CONDITION)
}

pub(super) fn write_behavior(behavior: &Value) -> String {
    let mut out = Vec::new();
    write_members(&mut out, behavior, &BEHAVIOR);
    String::from_utf8(out).unwrap_or_default()
}

/// Metrics of an annotation; `None` if one of them is invalid.
pub(super) fn read_specs(list: &Value) -> Option<ThinVec<Value>> {
    let mut metrics = read_list(list, &SPEC)?;
    for metric in metrics.iter_mut().filter_map(Value::as_map_mut) {
        for (source, value) in metric.iter_mut() {
            add_target_type(source, value);
        }
    }
    Some(metrics)
}

pub(super) fn read_statuses(list: &Value) -> Option<ThinVec<Value>> {
    read_list(list, &STATUS)
}

pub(super) fn read_conditions(list: &Value) -> Option<ThinVec<Value>> {
    read_list(list, &CONDITION)
}

/// Behavior of an annotation, unless it is empty.
pub(super) fn read_behavior(behavior: &Value) -> Option<Value> {
    let behavior = read_members(behavior, &BEHAVIOR)?;
    (!behavior.is_empty()).then_some(Value::Map(behavior))
}

/// Member of a form.
struct Member {
    /// Name in the annotation.
    name: &'static str,
    /// Path in v2.
    path: &'static [&'static str],
    shape: Shape,
    /// Text in the annotation if v2 has no value; `None` omits the member.
    absent: Option<&'static str>,
}

#[derive(Clone, Copy)]
enum Shape {
    Text,
    Int,
    Quantity,
    Time,
    Texts,
    Labels,
    Struct(&'static [Member]),
    List(&'static [Member]),
}

use Shape::{Int, Labels, List, Quantity, Struct, Text, Texts};

const fn required(
    name: &'static str,
    path: &'static [&'static str],
    shape: Shape,
    absent: &'static str,
) -> Member {
    Member { name, path, shape, absent: Some(absent) }
}

const fn optional(name: &'static str, path: &'static [&'static str], shape: Shape) -> Member {
    Member { name, path, shape, absent: None }
}

const NO_TEXT: &str = r#""""#;
const NO_QUANTITY: &str = r#""0""#;
const NO_REFERENCE: &str = r#"{"kind":"","name":""}"#;
const NULL: &str = "null";

static SPEC: [Member; 6] = [
    required("type", &["type"], Text, NO_TEXT),
    optional("object", &["object"], Struct(&OBJECT_SOURCE)),
    optional("pods", &["pods"], Struct(&PODS_SOURCE)),
    optional("resource", &["resource"], Struct(&RESOURCE_SOURCE)),
    optional("containerResource", &["containerResource"], Struct(&CONTAINER_RESOURCE_SOURCE)),
    optional("external", &["external"], Struct(&EXTERNAL_SOURCE)),
];

static OBJECT_SOURCE: [Member; 5] = [
    required("target", &["describedObject"], Struct(&REFERENCE), NO_REFERENCE),
    required("metricName", &["metric", "name"], Text, NO_TEXT),
    required("targetValue", &["target", "value"], Quantity, NO_QUANTITY),
    optional("selector", &["metric", "selector"], Struct(&SELECTOR)),
    optional("averageValue", &["target", "averageValue"], Quantity),
];

static PODS_SOURCE: [Member; 3] = [
    required("metricName", &["metric", "name"], Text, NO_TEXT),
    required("targetAverageValue", &["target", "averageValue"], Quantity, NO_QUANTITY),
    optional("selector", &["metric", "selector"], Struct(&SELECTOR)),
];

static RESOURCE_SOURCE: [Member; 3] = [
    required("name", &["name"], Text, NO_TEXT),
    optional("targetAverageUtilization", &["target", "averageUtilization"], Int),
    optional("targetAverageValue", &["target", "averageValue"], Quantity),
];

static CONTAINER_RESOURCE_SOURCE: [Member; 4] = [
    required("name", &["name"], Text, NO_TEXT),
    optional("targetAverageUtilization", &["target", "averageUtilization"], Int),
    optional("targetAverageValue", &["target", "averageValue"], Quantity),
    required("container", &["container"], Text, NO_TEXT),
];

static EXTERNAL_SOURCE: [Member; 4] = [
    required("metricName", &["metric", "name"], Text, NO_TEXT),
    optional("metricSelector", &["metric", "selector"], Struct(&SELECTOR)),
    optional("targetValue", &["target", "value"], Quantity),
    optional("targetAverageValue", &["target", "averageValue"], Quantity),
];

static STATUS: [Member; 6] = [
    required("type", &["type"], Text, NO_TEXT),
    optional("object", &["object"], Struct(&OBJECT_STATUS)),
    optional("pods", &["pods"], Struct(&PODS_STATUS)),
    optional("resource", &["resource"], Struct(&RESOURCE_STATUS)),
    optional("containerResource", &["containerResource"], Struct(&CONTAINER_RESOURCE_STATUS)),
    optional("external", &["external"], Struct(&EXTERNAL_STATUS)),
];

static OBJECT_STATUS: [Member; 5] = [
    required("target", &["describedObject"], Struct(&REFERENCE), NO_REFERENCE),
    required("metricName", &["metric", "name"], Text, NO_TEXT),
    required("currentValue", &["current", "value"], Quantity, NO_QUANTITY),
    optional("selector", &["metric", "selector"], Struct(&SELECTOR)),
    optional("averageValue", &["current", "averageValue"], Quantity),
];

static PODS_STATUS: [Member; 3] = [
    required("metricName", &["metric", "name"], Text, NO_TEXT),
    required("currentAverageValue", &["current", "averageValue"], Quantity, NO_QUANTITY),
    optional("selector", &["metric", "selector"], Struct(&SELECTOR)),
];

static RESOURCE_STATUS: [Member; 3] = [
    required("name", &["name"], Text, NO_TEXT),
    optional("currentAverageUtilization", &["current", "averageUtilization"], Int),
    required("currentAverageValue", &["current", "averageValue"], Quantity, NO_QUANTITY),
];

static CONTAINER_RESOURCE_STATUS: [Member; 4] = [
    required("name", &["name"], Text, NO_TEXT),
    optional("currentAverageUtilization", &["current", "averageUtilization"], Int),
    required("currentAverageValue", &["current", "averageValue"], Quantity, NO_QUANTITY),
    required("container", &["container"], Text, NO_TEXT),
];

static EXTERNAL_STATUS: [Member; 4] = [
    required("metricName", &["metric", "name"], Text, NO_TEXT),
    optional("metricSelector", &["metric", "selector"], Struct(&SELECTOR)),
    required("currentValue", &["current", "value"], Quantity, NO_QUANTITY),
    optional("currentAverageValue", &["current", "averageValue"], Quantity),
];

static REFERENCE: [Member; 3] = [
    required("kind", &["kind"], Text, NO_TEXT),
    required("name", &["name"], Text, NO_TEXT),
    optional("apiVersion", &["apiVersion"], Text),
];

static SELECTOR: [Member; 2] = [
    optional("matchLabels", &["matchLabels"], Labels),
    optional("matchExpressions", &["matchExpressions"], List(&REQUIREMENT)),
];

static REQUIREMENT: [Member; 3] = [
    required("key", &["key"], Text, NO_TEXT),
    required("operator", &["operator"], Text, NO_TEXT),
    optional("values", &["values"], Texts),
];

static CONDITION: [Member; 5] = [
    required("type", &["type"], Text, NO_TEXT),
    required("status", &["status"], Text, NO_TEXT),
    required("lastTransitionTime", &["lastTransitionTime"], Shape::Time, NULL),
    optional("reason", &["reason"], Text),
    optional("message", &["message"], Text),
];

// The reference writes the behavior in a form of its own, with Go's names.
static BEHAVIOR: [Member; 2] = [
    required("ScaleUp", &["scaleUp"], Struct(&RULES), NULL),
    required("ScaleDown", &["scaleDown"], Struct(&RULES), NULL),
];

static RULES: [Member; 4] = [
    required("StabilizationWindowSeconds", &["stabilizationWindowSeconds"], Int, NULL),
    required("SelectPolicy", &["selectPolicy"], Text, NULL),
    required("Policies", &["policies"], List(&POLICY), NULL),
    required("Tolerance", &["tolerance"], Quantity, NULL),
];

static POLICY: [Member; 3] = [
    required("Type", &["type"], Text, NO_TEXT),
    required("Value", &["value"], Int, "0"),
    required("PeriodSeconds", &["periodSeconds"], Int, "0"),
];

/// Sets the target type of a metric, which v1 does not have, from the given values.
fn add_target_type(source: &str, metric: &mut Value) {
    let has = |amount| metric.at(&["target", amount]).is_some();
    let (value, average) = (has("value"), has("averageValue"));
    let ty = match source {
        "resource" | "containerResource" if has("averageUtilization") => "Utilization",
        "object" if !average => "Value",
        "external" if value => "Value",
        "object" | "pods" | "resource" | "containerResource" | "external" => "AverageValue",
        _ => return,
    };
    if let Value::Map(metric) = metric
        && let Value::Map(target) = metric.entry_or_insert_with("target", || Value::Map(Map::new()))
    {
        // The zero that v1 cannot omit is not a value.
        if source == "object" && average && is_zero(target.get("value")) {
            target.remove("value");
        }
        target.insert("type", ty.into());
    }
}

fn is_zero(quantity: Option<&Value>) -> bool {
    let quantity = quantity.and_then(Value::as_str);
    quantity.is_some_and(|q| q.parse::<quantity::Quantity>().is_ok_and(|q| q.is_zero()))
}

fn write_list(list: &[Value], members: &'static [Member]) -> String {
    let mut out = Vec::new();
    write_items(&mut out, list, |out, item| write_members(out, item, members));
    String::from_utf8(out).unwrap_or_default()
}

fn write_items(out: &mut Vec<u8>, list: &[Value], item: impl Fn(&mut Vec<u8>, &Value)) {
    out.push(b'[');
    for (index, value) in list.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        item(out, value);
    }
    out.push(b']');
}

fn write_members(out: &mut Vec<u8>, value: &Value, members: &[Member]) {
    out.push(b'{');
    let start = out.len();
    for member in members {
        let found = value.at(member.path);
        let empty = |v: &&Value| matches!(member.shape, List(_) | Texts | Labels) && v.is_empty();
        let found = found.filter(|v| member.absent.is_some() || !empty(v));
        if found.is_none() && member.absent.is_none() {
            continue;
        }
        if out.len() > start {
            out.push(b',');
        }
        write_json_string(out, member.name);
        out.push(b':');
        match (found, member.absent) {
            (Some(value), _) => write_value(out, value, member.shape),
            (None, absent) => out.extend_from_slice(absent.unwrap_or_default().as_bytes()),
        }
    }
    out.push(b'}');
}

fn write_value(out: &mut Vec<u8>, value: &Value, shape: Shape) {
    match (shape, value) {
        (Struct(members), value) => write_members(out, value, members),
        (List(members), Value::List(list)) => {
            write_items(out, list, |out, item| write_members(out, item, members));
        }
        (Texts, Value::List(list)) => {
            write_items(out, list, |out, item| write_value(out, item, Text));
        }
        (Labels, Value::Map(map)) => {
            out.push(b'{');
            for (index, (key, value)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_json_string(out, key);
                out.push(b':');
                write_value(out, value, Text);
            }
            out.push(b'}');
        }
        (_, Value::String(text)) => write_json_string(out, text),
        (_, Value::Int(int)) => out.extend_from_slice(int.to_string().as_bytes()),
        _ => out.extend_from_slice(NULL.as_bytes()),
    }
}

fn read_list(list: &Value, members: &'static [Member]) -> Option<ThinVec<Value>> {
    match list {
        Value::Null => Some(ThinVec::new()),
        Value::List(list) => {
            list.iter().map(|item| read_members(item, members).map(Value::Map)).collect()
        }
        _ => None,
    }
}

fn read_members(value: &Value, members: &[Member]) -> Option<Map> {
    let given = match value {
        Value::Null => &Map::new(),
        value => value.as_map()?,
    };
    let mut read = Map::new();
    for member in members {
        let value = match folded(given, member.name).filter(|value| !value.is_null()) {
            Some(value) => read_value(value, member.shape)?,
            None if member.absent == Some(NO_QUANTITY) => "0".into(),
            None => continue,
        };
        // Only nullable members distinguish zero from absent.
        let zero = match member.shape {
            Text => member.absent != Some(NULL),
            Int => member.absent == Some("0"),
            _ => false,
        };
        if !(zero && value.is_empty()) {
            put(&mut read, member.path, value);
        }
    }
    Some(read)
}

fn read_value(value: &Value, shape: Shape) -> Option<Value> {
    Some(match (shape, value) {
        (Text, Value::String(_)) => value.clone(),
        (Text, Value::Null) => "".into(),
        (Int, Value::Int(int)) => Value::Int(i32::try_from(*int).ok()?.into()),
        (Quantity, Value::String(text)) => quantity::canonicalize_json(text).ok()?.as_ref().into(),
        (Quantity, Value::Int(int)) => int.to_string().as_str().into(),
        (Shape::Time, Value::String(text)) => {
            text.parse::<Time>().ok()?.to_string().as_str().into()
        }
        (Texts, Value::List(list)) => {
            Value::List(list.iter().map(|text| read_value(text, Text)).collect::<Option<_>>()?)
        }
        (Labels, Value::Map(map)) => {
            let label =
                |(key, value): (&str, &Value)| Some((key.to_owned(), read_value(value, Text)?));
            Value::Map(map.iter().map(label).collect::<Option<Vec<_>>>()?.into_iter().collect())
        }
        (Struct(members), value) => Value::Map(read_members(value, members)?),
        (List(members), value) => Value::List(read_list(value, members)?),
        _ => return None,
    })
}

/// Value by name in any case, as in Go.
fn folded<'m>(map: &'m Map, name: &str) -> Option<&'m Value> {
    let any = || map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, v)| v);
    map.get(name).or_else(any)
}

fn put(map: &mut Map, path: &[&str], value: Value) {
    match path {
        [] => {}
        [field] => drop(map.insert(*field, value)),
        [field, rest @ ..] => {
            if let Value::Map(below) = map.entry_or_insert_with(field, || Value::Map(Map::new())) {
                put(below, rest, value);
            }
        }
    }
}
