//! Tests that the bootstrap objects are the reference's, and are maintained as there.

use kevel_api::value::Value;

use super::*;
use crate::notation;

/// All bootstrap objects.
fn all() -> (Vec<Value>, Vec<Value>) {
    let levels = mandatory_priority_levels().chain(suggested_priority_levels());
    (levels.collect(), mandatory_flow_schemas().chain(suggested_flow_schemas()).collect())
}

/// All bootstrap objects, as stored.
fn stored() -> (Vec<Value>, Vec<Value>) {
    let (mut levels, mut schemas) = all();
    for object in levels.iter_mut().chain(&mut schemas) {
        object.make_map(&["metadata"]).insert("generation", 1.into());
        object.make_map(&["metadata"]).insert("resourceVersion", "7".into());
    }
    (levels, schemas)
}

fn find<'a>(objects: &'a mut [Value], name: &str) -> &'a mut Value {
    objects.iter_mut().find(|object| object.str_at(&["metadata", "name"]) == name).unwrap()
}

fn annotate(object: &mut Value, text: Option<&str>) {
    let annotations = object.make_map(&["metadata", "annotations"]);
    annotations.remove(AUTO_UPDATE_ANNOTATION);
    text.map(|text| annotations.insert(AUTO_UPDATE_ANNOTATION, text.into()));
}

#[test]
fn objects_are_the_references() {
    let (mut levels, mut schemas) = all();
    let by_name = |object: &Value| object.str_at(&["metadata", "name"]).to_owned();
    levels.sort_by_key(by_name);
    schemas.sort_by_key(by_name);
    let printed = notation::print(levels.iter().chain(&schemas));
    let facts = include_str!("facts.txt");
    let facts: String = facts.split_inclusive('\n').filter(|line| !line.starts_with('#')).collect();
    assert_eq!(printed, facts);
    for object in levels.iter().chain(&schemas) {
        let kept = object.str_at(&["metadata", "annotations", AUTO_UPDATE_ANNOTATION]);
        assert_eq!(kept, "true");
        assert_eq!(object.str_at(&["apiVersion"]), "flowcontrol.apiserver.k8s.io/v1");
    }
    // Printed text parses to the same objects.
    let (levels, schemas) = notation::parse(&printed);
    assert_eq!(notation::print(levels.iter().chain(&schemas)), printed);
}

#[test]
fn what_is_missing_is_made_in_order() {
    let actions = ensure(&[], &[]);
    let names: Vec<_> = actions
        .iter()
        .map(|action| match action {
            Action::Create(Resource::FlowSchemas, object) => {
                format!("schema {}", object.str_at(&["metadata", "name"]))
            }
            Action::Create(_, object) => object.str_at(&["metadata", "name"]).to_owned(),
            _ => panic!("{action:?}"),
        })
        .collect();
    assert_eq!(names.len(), 19);
    assert_eq!(names[0], "system");
    assert_eq!(names[6], "schema system-nodes");
    assert_eq!(names[15..], ["catch-all", "exempt", "schema exempt", "schema catch-all"]);
}

#[test]
fn what_is_right_is_left_alone() {
    let (levels, schemas) = stored();
    assert_eq!(ensure(&levels, &schemas), []);
}

/// A changed object, and whether spec and annotation are written; `None` if it is left alone.
type Case = (&'static str, Option<&'static str>, i64, bool, Option<(bool, &'static str)>);

#[test]
fn specs_are_kept_as_annotations_say() {
    let cases: &[Case] = &[
        // name, annotation, generation, spec changed, (spec replaced, annotation)
        ("workload-low", Some("true"), 2, true, Some((true, "true"))),
        ("workload-low", Some("1"), 2, true, Some((true, "1"))),
        ("workload-low", Some("false"), 2, true, None),
        ("workload-low", Some("F"), 1, false, None),
        ("workload-low", None, 2, true, Some((false, "false"))),
        ("workload-low", None, 1, true, Some((true, "true"))),
        ("workload-low", Some("perhaps"), 1, false, Some((false, "true"))),
        ("workload-low", Some("perhaps"), 3, false, Some((false, "false"))),
        ("catch-all", Some("true"), 2, true, Some((true, "true"))),
        ("catch-all", Some("false"), 2, true, Some((true, "true"))),
        ("catch-all", Some("false"), 1, false, Some((false, "true"))),
    ];
    for &(name, annotation, generation, changed, expected) in cases {
        let (mut levels, schemas) = stored();
        let object = find(&mut levels, name);
        annotate(object, annotation);
        object.make_map(&["metadata"]).insert("generation", generation.into());
        let shares: &[&str] = &["spec", "limited", "nominalConcurrencyShares"];
        if changed {
            *object.at_mut(shares).unwrap() = 77.into();
        }
        let actions = ensure(&levels, &schemas);
        let found = match &actions[..] {
            [] => None,
            [Action::Update(Resource::PriorityLevelConfigurations, object)] => {
                assert_eq!(object.str_at(&["metadata", "resourceVersion"]), "7");
                let replaced = changed && object.at(shares) != Some(&77.into());
                let said = object.str_at(&["metadata", "annotations", AUTO_UPDATE_ANNOTATION]);
                Some((replaced, said))
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(found, expected, "{name} {annotation:?} {generation} {changed}");
    }
}

#[test]
fn what_the_exempt_level_lends_is_an_administrators_to_say() {
    let (mut levels, schemas) = stored();
    let exempt = find(&mut levels, EXEMPT);
    exempt.make_map(&["spec", "exempt"]).insert("lendablePercent", 50.into());
    exempt.make_map(&["spec", "exempt"]).insert("nominalConcurrencyShares", 5.into());
    assert_eq!(ensure(&levels, &schemas), []);
    find(&mut levels, EXEMPT).make_map(&["spec"]).remove("exempt");
    assert!(matches!(&ensure(&levels, &schemas)[..], [Action::Update(..)]));
}

#[test]
fn what_the_server_kept_and_does_not_know_is_removed() {
    let (mut levels, mut schemas) = stored();
    for (name, annotation) in
        [("old", Some("true")), ("mine", None), ("kept", Some("false")), ("odd", Some("?"))]
    {
        let (mut level, mut schema) = (levels[0].clone(), schemas[0].clone());
        for object in [&mut level, &mut schema] {
            object.make_map(&["metadata"]).insert("name", name.into());
            annotate(object, annotation);
        }
        levels.push(level);
        schemas.push(schema);
    }
    let old = || "old".to_owned();
    let expected = [
        Action::Delete(Resource::FlowSchemas, old()),
        Action::Delete(Resource::PriorityLevelConfigurations, old()),
    ];
    assert_eq!(ensure(&levels, &schemas), expected);
}
