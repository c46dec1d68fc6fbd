//! Tests of appliers in different versions of a kind, autoscaling/v1 and v2, against a naive model: a field exists as
//! long as an applier, in any version, applies it.

use std::collections::{BTreeMap, BTreeSet};

use kevel_api::builtin;
use kevel_api::convert::convert;
use kevel_api::gvk::{GroupVersion, GroupVersionKind};
use kevel_api::schema::{Schema, Table, TypeId};
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_codec::json::{Unknown, decode, decode_any, encode_any};

use crate::managed_fields::{FieldManager, Filter, OtherVersions};

const KIND: &str = "HorizontalPodAutoscaler";
const VERSIONS: [&str; 2] = ["autoscaling/v1", "autoscaling/v2"];
const STORED: &str = "autoscaling/v2";

/// Fields that both versions have: path and value. Fields without omitempty are excluded: a conversion writes them as
/// zero, and zero values are not pruned.
const FIELDS: [(&[&str], &str); 5] = [
    (&["metadata", "labels", "x"], r#""1""#),
    (&["metadata", "labels", "y"], r#""1""#),
    (&["metadata", "annotations", "z"], r#""1""#),
    (&["spec", "minReplicas"], "2"),
    (&["metadata", "finalizers"], r#"["example.com/f"]"#),
];

fn schema(api_version: &str) -> Option<Schema<'static>> {
    let version = api_version.strip_prefix("autoscaling/")?;
    builtin::schema("autoscaling", version, KIND)
}

fn converted(object: &Value, from: &str, to: &str) -> Value {
    let of = |text: &str| text.parse::<GroupVersion>().unwrap();
    let kind = GroupVersionKind::new("autoscaling", of(from).version, KIND);
    let read = |text: &str| decode_any(text.as_bytes(), Unknown::Ignore).ok().map(|d| d.value);
    convert(object.clone(), &kind, &of(to), &read).unwrap()
}

/// Both versions, as in the server.
struct Autoscaling;

impl OtherVersions for Autoscaling {
    fn schema(&self, api_version: &str) -> Option<Schema<'_>> {
        schema(api_version)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        Some(converted(object, object.str_at(&["apiVersion"]), api_version))
    }

    fn filter(&self, _: &str) -> Option<&Filter> {
        None
    }
}

/// A stored HorizontalPodAutoscaler, and the fields that each applier applied last.
#[derive(Default)]
struct Autoscaler {
    live: Option<Value>,
    said: BTreeMap<&'static str, BTreeSet<usize>>,
    applied: Vec<String>,
}

impl Autoscaler {
    /// Applies some fields in a version as a manager, and compares with the model.
    fn apply(&mut self, manager: &'static str, api_version: &str, fields: &BTreeSet<usize>) {
        self.applied.push(format!("{manager} {api_version} {fields:?}"));
        let config = config(api_version, fields);
        let live = self.live.as_ref().map(|live| converted(live, STORED, api_version));
        let field_manager = FieldManager {
            schema: schema(api_version).unwrap(),
            api_version,
            kind: KIND,
            subresource: "",
            filter: &Filter::excluding(&[&["status"]]),
            others: &Autoscaling,
        };
        let now = Time { seconds: self.applied.len() as i64 };
        let tree = field_manager.apply(live.as_ref(), &config, manager, false, now);
        let tree = tree.unwrap_or_else(|error| panic!("{error} after {:?}", self.applied));
        let mut json = Vec::new();
        encode_any(&tree, &mut json);
        let object = decode(&json, field_manager.schema, Unknown::Ignore).unwrap().value;
        self.live = Some(converted(&object, api_version, STORED));
        self.said.insert(manager, fields.clone());
        self.check(manager, api_version);
    }

    fn check(&self, manager: &str, api_version: &str) {
        let live = self.live.as_ref().unwrap();
        let wanted: BTreeSet<usize> = self.said.values().flatten().copied().collect();
        for (index, (path, value)) in FIELDS.iter().enumerate() {
            let mut found = Vec::new();
            if let Some(value) = live.at(path) {
                encode_any(value, &mut found);
            }
            let found = String::from_utf8(found).unwrap();
            let expected = if wanted.contains(&index) { *value } else { "" };
            assert_eq!(found, expected, "{path:?} after {:?}", self.applied);
        }
        let entries = live.list_at(&["metadata", "managedFields"]);
        let entry = entries.iter().find(|entry| entry.str_at(&["manager"]) == manager);
        let empty = self.said.get(manager).is_some_and(BTreeSet::is_empty);
        assert_eq!(entry.is_none(), empty, "{:?}", self.applied);
        let version = entry.map_or(api_version, |entry| entry.str_at(&["apiVersion"]));
        assert_eq!(version, api_version, "{:?}", self.applied);
    }
}

/// Configuration with these fields.
fn config(api_version: &str, fields: &BTreeSet<usize>) -> Value {
    let read = |text: &str| decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value;
    let mut config = read(&format!(r#"{{"apiVersion":"{api_version}","kind":"{KIND}"}}"#));
    for (path, value) in fields.iter().filter_map(|index| FIELDS.get(*index)) {
        let mut at = &mut config;
        for step in *path {
            let map = at.as_map_mut().unwrap();
            at = map.entry_or_insert_with(step, || read("{}"));
        }
        *at = read(value);
    }
    config
}

/// Two appliers share a field; one of them drops it: every combination of versions and fields.
#[test]
fn fields_of_appliers_in_other_versions_are_not_pruned() {
    let mut cases = 0;
    for first in VERSIONS {
        for other in VERSIONS {
            for again in VERSIONS {
                for shared in 0..FIELDS.len() {
                    let own = (shared + 1) % FIELDS.len();
                    let mut object = Autoscaler::default();
                    object.apply("a", first, &BTreeSet::from([shared, own]));
                    object.apply("b", other, &BTreeSet::from([shared]));
                    object.apply("a", again, &BTreeSet::from([own]));
                    object.apply("b", other, &BTreeSet::new());
                    object.apply("a", first, &BTreeSet::new());
                    cases += 1;
                }
            }
        }
    }
    assert_eq!(cases, 40);
}

#[test]
fn appliers_in_any_versions_equal_a_naive_model() {
    for seed in 1..=60u64 {
        let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut roll = |sides: usize| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            (dice >> 33) as usize % sides
        };
        let mut object = Autoscaler::default();
        for _ in 0..8 {
            let manager = ["a", "b", "c"][roll(3)];
            let fields = (0..FIELDS.len()).filter(|_| roll(2) == 0).collect();
            object.apply(manager, VERSIONS[roll(2)], &fields);
        }
    }
}

/// A kind whose versions name each other's `data` and `binaryData`.
struct Swapped;

impl OtherVersions for Swapped {
    fn schema(&self, api_version: &str) -> Option<Schema<'_>> {
        ["v1", "old"].contains(&api_version).then(|| builtin::schema("", "v1", "ConfigMap"))?
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        let mut map = object.as_map()?.clone();
        if object.str_at(&["apiVersion"]) != api_version {
            let (data, binary) = (map.remove("data"), map.remove("binaryData"));
            let swapped = [("binaryData", data), ("data", binary)];
            for (field, value) in swapped.into_iter().filter_map(|(f, v)| Some((f, v?))) {
                map.insert(field, value);
            }
        }
        map.insert("apiVersion", Value::from(api_version));
        Some(Value::Map(map))
    }

    fn filter(&self, _: &str) -> Option<&Filter> {
        None
    }
}

/// The same path may name another field in another version: the field that the applier said there is no longer said.
#[test]
fn fields_said_in_another_version_go_although_their_paths_stay() {
    let read = |text: &str| decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value;
    for (first, again) in [("v1", "v1"), ("old", "old"), ("old", "v1"), ("v1", "old")] {
        let mut live: Option<Value> = None;
        for (seconds, api_version) in [(1, first), (2, again)] {
            let manager = FieldManager {
                schema: builtin::schema("", "v1", "ConfigMap").unwrap(),
                api_version,
                kind: "ConfigMap",
                subresource: "",
                filter: &Filter::All,
                others: &Swapped,
            };
            let config = format!(
                r#"{{"apiVersion":"{api_version}","kind":"ConfigMap","data":{{"k":"MQ=="}}}}"#
            );
            let before = live.as_ref().and_then(|live| Swapped.convert(live, api_version));
            let now = Time { seconds };
            let tree = manager.apply(before.as_ref(), &read(&config), "a", false, now).unwrap();
            let mut json = Vec::new();
            encode_any(&tree, &mut json);
            let mut object = decode(&json, manager.schema, Unknown::Ignore).unwrap().value;
            object.as_map_mut().unwrap().insert("apiVersion", Value::from(api_version));
            live = Some(object);
        }
        let live = live.unwrap();
        let found = ["data", "binaryData"].map(|field| {
            let mut json = Vec::new();
            encode_any(live.at(&[field]).unwrap_or(&Value::Null), &mut json);
            String::from_utf8(json).unwrap()
        });
        assert_eq!(found, [r#"{"k":"MQ=="}"#, "null"], "{first} {again}");
    }
}

/// A custom kind whose version `old` does not declare `policy`; nothing is converted.
struct Declared {
    old: (Table, TypeId),
}

impl OtherVersions for Declared {
    fn schema(&self, api_version: &str) -> Option<Schema<'_>> {
        let (table, id) = &self.old;
        (api_version == "old").then(|| Schema::new(table, *id))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        let mut map = object.as_map()?.clone();
        map.insert("apiVersion", Value::from(api_version));
        Some(Value::Map(map))
    }

    fn filter(&self, _: &str) -> Option<&Filter> {
        None
    }
}

#[test]
fn live_fields_must_be_declared_in_the_managers_versions() {
    let read = |text: &str| decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value;
    let table = |properties: &str| {
        let schema = format!(r#"{{"type":"object","properties":{{{properties}}}}}"#);
        kevel_api::crd_schema::table(&read(&schema), &|_| None).unwrap()
    };
    let (newer, id) = table(r#""key":{"type":"string"},"policy":{"type":"string"}"#);
    let others = Declared { old: table(r#""key":{"type":"string"}"#) };
    let manager = FieldManager {
        schema: Schema::new(&newer, id),
        api_version: "v1",
        kind: "Custom",
        subresource: "",
        filter: &Filter::All,
        others: &others,
    };
    let now = Time { seconds: 1 };
    let undeclared = Some(".policy: field not declared in schema");
    let no_version = Some("request to convert CR to an invalid group/version: gone");
    for (version, fields, expected) in [
        ("old", r#""key":"a""#, None),
        ("old", r#""key":"a","policy":"p""#, undeclared),
        ("v1", r#""key":"a","policy":"p""#, None),
        ("gone", r#""key":"a""#, no_version),
    ] {
        let live = read(&format!(
            r#"{{"apiVersion":"v1","kind":"Custom","metadata":{{"uid":"u","managedFields":[
                {{"manager":"o","operation":"Apply","apiVersion":"{version}","fieldsType":"FieldsV1",
                  "fieldsV1":{{"f:key":{{}}}}}}]}},{fields}}}"#
        ));
        let config = read(r#"{"apiVersion":"v1","kind":"Custom","key":"a"}"#);
        for applier in ["o", "other"] {
            let applied = manager.apply(Some(&live), &config, applier, true, now);
            let problem = applied.err().map(|error| error.to_string());
            assert_eq!(problem.as_deref(), expected, "{version} {fields} {applier}");
        }
        let mut new = live.clone();
        new.as_map_mut().unwrap().insert("key", Value::from("b"));
        manager.update(Some(&live), &mut new, "u", now);
        let managed = new.at(&["metadata", "managedFields"]).is_some();
        assert_eq!(managed, expected.is_none(), "an update drops all managers: {version} {fields}");
    }
}
