//! Table cells of objects.

mod pod;

use kevel_api::builtin;
use kevel_api::time::MicroTime;
use kevel_api::value::{Map, Value};
use kevel_codec::json;
use kevel_registry::columns::Columns as _;
use kevel_test_support::facts;

use super::Columns;
use crate::kinds::{self, KINDS};

/// Columns of a kind.
fn of(group: &str, plural: &str) -> Columns {
    kinds::find(group, plural).unwrap().columns
}

fn now() -> MicroTime {
    "2026-01-01T00:05:00.000000Z".parse().unwrap()
}

/// Object in its storage version, named `n` and five minutes old.
fn object(group: &str, version: &str, kind: &str, rest: &str) -> Value {
    let metadata = r#""name":"n","creationTimestamp":"2026-01-01T00:00:00Z""#;
    let text = match rest.strip_prefix(r#"{"metadata":{"#) {
        Some(rest) => format!(r#"{{"metadata":{{{metadata},{rest}"#),
        None => format!(r#"{{"metadata":{{{metadata}}},{}"#, &rest[1..]).replace(",}", "}"),
    };
    let schema = builtin::schema(group, version, kind).unwrap();
    json::decode(text.as_bytes(), schema, json::Unknown::Report).unwrap().value
}

fn cells(text: &str) -> Vec<Value> {
    let read = json::decode_any(text.as_bytes(), json::Unknown::Report).unwrap().value;
    read.as_list().unwrap().to_vec()
}

#[test]
fn kinds_are_shown_as_people_know_them() {
    let cases = include_str!("kinds.txt").split("\n\n").skip(1);
    let mut seen = 0;
    for case in cases {
        let mut lines = case.trim().lines();
        let (what, rest, expected) =
            (lines.next().unwrap(), lines.next().unwrap(), lines.next().unwrap());
        let [api_version, kind, plural] = what.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{what}");
        };
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let object = object(group, version, kind, rest);
        assert_eq!(of(group, plural).cells(&object, now()), cells(expected), "{case}");
        seen += 1;
    }
    assert!(seen > 70, "{seen}");
}

#[test]
fn services_are_told_by_where_they_are_reached() {
    for (spec, status, expected) in [
        (
            r#""type":"ClusterIP","clusterIPs":["10.0.0.1"],"ports":[{"port":80,"protocol":"TCP"}],"selector":{"a":"b"}"#,
            "",
            r#"["n","ClusterIP","10.0.0.1","<none>","80/TCP","5m","a=b"]"#,
        ),
        (
            r#""type":"NodePort","externalIPs":["1.1.1.1","2.2.2.2"],"ports":[{"port":80,"nodePort":30080,"protocol":"TCP"},{"port":53,"protocol":"UDP"}]"#,
            "",
            r#"["n","NodePort","<none>","1.1.1.1,2.2.2.2","80:30080/TCP,53/UDP","5m","<none>"]"#,
        ),
        (
            r#""type":"LoadBalancer""#,
            "",
            r#"["n","LoadBalancer","<none>","<pending>","<none>","5m","<none>"]"#,
        ),
        (
            r#""type":"LoadBalancer","externalIPs":["9.9.9.9"]"#,
            r#"{"hostname":"lb"},{"ip":"8.8.8.8","hostname":"x"}"#,
            r#"["n","LoadBalancer","<none>","8.8.8.8,lb,9.9.9.9","<none>","5m","<none>"]"#,
        ),
        (
            r#""type":"ExternalName","externalName":"example.com""#,
            "",
            r#"["n","ExternalName","<none>","example.com","<none>","5m","<none>"]"#,
        ),
        ("", "", r#"["n","","<none>","<unknown>","<none>","5m","<none>"]"#),
    ] {
        let rest = format!(
            r#"{{"spec":{{{spec}}},"status":{{"loadBalancer":{{"ingress":[{status}]}}}}}}"#
        );
        let object = object("", "v1", "Service", &rest);
        assert_eq!(of("", "services").cells(&object, now()), cells(expected), "{spec}");
    }
}

#[test]
fn of_endpoints_the_first_few_are_shown() {
    for (subsets, expected) in [
        ("", "<none>"),
        (r#"{"addresses":[{"ip":"1.1.1.1"}]}"#, "1.1.1.1"),
        (
            r#"{"addresses":[{"ip":"1.1.1.1"},{"ip":"fd00::1"}],"ports":[{"port":80}]}"#,
            "1.1.1.1:80,[fd00::1]:80",
        ),
        (
            r#"{"addresses":[{"ip":"1"},{"ip":"2"}],"ports":[{"port":1},{"port":2}]},{"addresses":[{"ip":"3"}]}"#,
            "1:1,2:1,1:2 + 2 more...",
        ),
        (r#"{"notReadyAddresses":[{"ip":"1"}],"ports":[{"port":1}]}"#, ""),
    ] {
        let object = object("", "v1", "Endpoints", &format!(r#"{{"subsets":[{subsets}]}}"#));
        let shown = of("", "endpoints").cells(&object, now());
        assert_eq!(shown[1].as_str(), Some(expected), "{subsets}");
    }
}

#[test]
fn flow_schemas_are_listed_by_matching_precedence() {
    let rank = of("flowcontrol.apiserver.k8s.io", "flowschemas").rank().unwrap();
    let spec = Map::from_iter([("matchingPrecedence", Value::from(9000))]);
    assert_eq!(rank(&Value::Map(Map::from_iter([("spec", Value::Map(spec))]))), 9000);
    assert!(of("", "pods").rank().is_none());
}

#[test]
fn an_object_without_anything_has_a_cell_for_every_column() {
    for kind in KINDS {
        let more = usize::from(kind.plural == "ipaddresses");
        let shown = kind.columns.cells(&Value::Map(Map::new()), now());
        assert_eq!(shown.len(), kind.columns.definitions().len() + more, "{kind}");
    }
}

#[test]
fn columns_are_the_reference_s() {
    let tables = facts::json("columns.json");
    let tables = tables.as_map().unwrap();
    assert!(tables.len() > 50, "{}", tables.len());
    for (resource, expected) in tables.iter() {
        let parts: Vec<&str> = resource.split('/').collect();
        let group = if parts[0] == "core" { "" } else { parts[0] };
        let columns = of(group, parts[2]);
        let ours: Vec<_> = columns
            .definitions()
            .iter()
            .map(|c| {
                let [name, ty, format] = [&*c.name, &*c.ty, &*c.format].map(str::to_owned);
                (name, ty, format, i64::from(c.priority))
            })
            .collect();
        let theirs: Vec<_> = expected
            .as_list()
            .unwrap()
            .iter()
            .map(|column| {
                let [name, ty, format, priority] = column.as_list().unwrap() else {
                    panic!("{column:?}");
                };
                let text = |value: &'_ Value| value.as_str().unwrap().to_owned();
                (text(name), text(ty), text(format), priority.as_int().unwrap())
            })
            .collect();
        assert_eq!(ours, theirs, "{resource}");
    }
}
