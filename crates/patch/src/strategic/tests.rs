use kevel_api::builtin;
use kevel_api::value::{Map, Value};
use kevel_codec::json::{Unknown, decode_any, encode_any};

use super::{Error, apply};

fn tree(json: &str) -> Value {
    decode_any(json.as_bytes(), Unknown::Ignore).unwrap().value
}

fn patched(kind: &str, document: &str, patch: &str) -> Result<String, Error> {
    let group = match kind {
        "Deployment" => "apps",
        "PodDisruptionBudget" => "policy",
        _ => "",
    };
    let schema = builtin::schema(group, "v1", kind).unwrap();
    let mut out = Vec::new();
    encode_any(&apply(tree(document), tree(patch), schema)?, &mut out);
    Ok(String::from_utf8(out).unwrap())
}

/// Kind, document, patch, result.
type Case = (&'static str, &'static str, &'static str, &'static str);

fn check(cases: &[Case]) {
    for (kind, document, patch, expected) in cases {
        let result = patched(kind, document, patch);
        assert_eq!(result.as_deref(), Ok(*expected), "{document} + {patch}");
    }
}

#[test]
fn maps_merge_field_by_field() {
    check(&[
        (
            "ConfigMap",
            r#"{"data":{"a":"1","b":"2"}}"#,
            r#"{"data":{"b":null,"c":"3"}}"#,
            r#"{"data":{"a":"1","c":"3"}}"#,
        ),
        ("ConfigMap", r#"{}"#, r#"{"data":{"a":null,"b":"1"}}"#, r#"{"data":{"b":"1"}}"#),
        (
            "ConfigMap",
            r#"{"data":{"a":"1"}}"#,
            r#"{"data":{"$patch":"replace","b":"2"}}"#,
            r#"{"data":{"b":"2"}}"#,
        ),
        ("ConfigMap", r#"{"data":{"a":"1"}}"#, r#"{"data":{"$patch":"delete"}}"#, r#"{"data":{}}"#),
        ("ConfigMap", r#"{}"#, r#"{"data":{"$patch":"delete"}}"#, r#"{}"#),
        ("ConfigMap", r#"{"data":{"a":"1"}}"#, r#"{"data":5}"#, r#"{"data":5}"#),
        // A field whose patch strategy is `replace`.
        (
            "PodDisruptionBudget",
            r#"{"spec":{"selector":{"matchLabels":{"a":"1"}}}}"#,
            r#"{"spec":{"selector":{"matchLabels":{"b":"2"}}}}"#,
            r#"{"spec":{"selector":{"matchLabels":{"b":"2"}}}}"#,
        ),
    ]);
}

#[test]
fn retain_keys_drops_the_other_fields() {
    check(&[
        (
            "Deployment",
            r#"{"spec":{"strategy":{"rollingUpdate":{"maxSurge":1},"type":"RollingUpdate"}}}"#,
            r#"{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}"#,
            r#"{"spec":{"strategy":{"type":"Recreate"}}}"#,
        ),
        (
            "Pod",
            r#"{"spec":{"volumes":[{"emptyDir":{},"name":"v"}]}}"#,
            r#"{"spec":{"volumes":[{"$retainKeys":["hostPath","name"],"hostPath":{"path":"/"},"name":"v"}]}}"#,
            r#"{"spec":{"volumes":[{"hostPath":{"path":"/"},"name":"v"}]}}"#,
        ),
    ]);
}

#[test]
fn lists_merge_by_their_key() {
    check(&[
        // Elements of the patch are in its order, the others keep their places.
        (
            "Pod",
            r#"{"spec":{"containers":[{"name":"a"},{"name":"b"},{"name":"c"}]}}"#,
            r#"{"spec":{"containers":[{"name":"d"},{"name":"b","image":"x"}]}}"#,
            r#"{"spec":{"containers":[{"name":"d"},{"name":"a"},{"image":"x","name":"b"},{"name":"c"}]}}"#,
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}"#,
            r#"{"spec":{"containers":[{"$patch":"delete","name":"a"}]}}"#,
            r#"{"spec":{"containers":[{"name":"b"}]}}"#,
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}"#,
            r#"{"spec":{"containers":[{"$patch":"replace"},{"name":"c"}]}}"#,
            r#"{"spec":{"containers":[{"name":"c"}]}}"#,
        ),
        // Two elements with the same key: the first is merged with.
        (
            "Pod",
            r#"{"spec":{"containers":[{"name":"a","ports":[{"containerPort":53,"protocol":"TCP"},{"containerPort":53,"protocol":"UDP"}]}]}}"#,
            r#"{"spec":{"containers":[{"name":"a","ports":[{"containerPort":53,"name":"dns"}]}]}}"#,
            r#"{"spec":{"containers":[{"name":"a","ports":[{"containerPort":53,"name":"dns","protocol":"TCP"},{"containerPort":53,"protocol":"UDP"}]}]}}"#,
        ),
        // Atomic lists are replaced.
        (
            "Pod",
            r#"{"spec":{"tolerations":[{"key":"a"}]}}"#,
            r#"{"spec":{"tolerations":[{"key":"b","value":null}]}}"#,
            r#"{"spec":{"tolerations":[{"key":"b","value":null}]}}"#,
        ),
    ]);
}

#[test]
fn lists_of_scalars_merge_as_sets() {
    check(&[
        (
            "Pod",
            r#"{"metadata":{"finalizers":["a","b"]}}"#,
            r#"{"metadata":{"finalizers":["c","b"]}}"#,
            r#"{"metadata":{"finalizers":["c","a","b"]}}"#,
        ),
        (
            "Pod",
            r#"{"metadata":{"finalizers":["a","b","c"]}}"#,
            r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a","x"],"finalizers":["d"]}}"#,
            r#"{"metadata":{"finalizers":["d","b","c"]}}"#,
        ),
        (
            "Pod",
            r#"{"metadata":{}}"#,
            r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"]}}"#,
            r#"{"metadata":{}}"#,
        ),
    ]);
}

#[test]
fn lists_take_the_order_that_is_asked_for() {
    check(&[
        (
            "Pod",
            r#"{"spec":{"containers":[{"name":"a"},{"name":"s"},{"name":"b"}]}}"#,
            r#"{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}]}}"#,
            r#"{"spec":{"containers":[{"name":"s"},{"name":"b"},{"name":"a"}]}}"#,
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}"#,
            r#"{"spec":{"$setElementOrder/containers":[{"name":"c"},{"name":"b"},{"name":"a"}],"containers":[{"name":"c"},{"image":"x","name":"a"}]}}"#,
            r#"{"spec":{"containers":[{"name":"c"},{"name":"b"},{"image":"x","name":"a"}]}}"#,
        ),
        (
            "Pod",
            r#"{"metadata":{"finalizers":["a","b"]}}"#,
            r#"{"metadata":{"$setElementOrder/finalizers":["b","a"]}}"#,
            r#"{"metadata":{"finalizers":["b","a"]}}"#,
        ),
        // A container replaces another: one that only the server has stays before it.
        (
            "Pod",
            r#"{"spec":{"containers":[{"name":"a"},{"name":"s"}]}}"#,
            r#"{"spec":{"$setElementOrder/containers":[{"name":"c"}],"containers":[{"name":"c"},{"$patch":"delete","name":"a"}]}}"#,
            r#"{"spec":{"containers":[{"name":"s"},{"name":"c"}]}}"#,
        ),
    ]);
}

#[test]
fn what_cannot_be_merged() {
    let document = r#"{"metadata":{"finalizers":["f"]},"spec":{"containers":[{"name":"a"}],"nodeSelector":{"x":"y"},"tolerations":[{"key":"k"}]}}"#;
    let other = |message: &str| Error::Other(message.to_owned());
    let cases = [
        (
            r#"{"spec":{"containers":[{"image":"x"}]}}"#,
            other("map: map[image:x] does not contain declared merge key: name"),
        ),
        (
            r#"{"spec":{"containers":[{"$patch":"delete"}]}}"#,
            other("map: map[$patch:delete] does not contain declared merge key: name"),
        ),
        (
            r#"{"spec":{"containers":[{"$patch":"merge","name":"a"}]}}"#,
            other("merging lists cannot yet be specified in the patch"),
        ),
        (
            r#"{"spec":{"containers":[{"$patch":"foo","name":"a"}]}}"#,
            other("unknown patch type: foo in map: map[$patch:foo name:a]"),
        ),
        (
            r#"{"spec":{"$patch":1}}"#,
            other("unknown patch type: %!s(int64=1) in map: map[$patch:1]"),
        ),
        (
            r#"{"spec":{"containers":["a"]}}"#,
            other("list element types are not identical: [[map[name:a]] [a]]"),
        ),
        (
            r#"{"metadata":{"finalizers":[1]}}"#,
            other("list element types are not identical: [[f] [1]]"),
        ),
        (
            r#"{"spec":{"$deleteFromPrimitiveList/tolerations":[{"key":"k"}]}}"#,
            other("cannot merge lists without merge key for struct"),
        ),
        (r#"{"spec":{"$deleteFromPrimitiveListX":[]}}"#, Error::DELETE_FROM_LIST),
        (r#"{"spec":{"$retainKeys":"x"}}"#, Error::RETAIN_KEYS),
        (r#"{"spec":{"$retainKeys":["containers"],"nodeName":"n"}}"#, Error::RETAIN_KEYS),
        (
            r#"{"spec":{"$setElementOrder/containers":"x"}}"#,
            other("expected a []interface {}, but received a string"),
        ),
        (r#"{"spec":{"$setElementOrder":[]}}"#, Error::SET_ORDER),
        (
            r#"{"spec":{"$setElementOrder/nope":[]}}"#,
            other(r#"unable to find api field in struct PodSpec for the json field "nope""#),
        ),
        (
            r#"{"spec":{"$setElementOrder/nodeSelector":[]}}"#,
            other("expected a []interface {}, but received a map[string]interface {}"),
        ),
        (
            r#"{"spec":{"$setElementOrder/hostname":[]}}"#,
            other("expected slice or array type, but got: struct"),
        ),
        (
            r#"{"spec":{"$setElementOrder/containers":[{"name":"b"}],"containers":[{"name":"a"}]}}"#,
            other(
                "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
            ),
        ),
    ];
    for (patch, error) in cases {
        assert_eq!(patched("Pod", document, patch), Err(error), "{patch}");
    }
    assert_eq!(Error::RETAIN_KEYS.to_string(), "invalid patch format of retainKeys");
}

#[test]
fn large_lists_merge_in_time() {
    let list = |from: i64| {
        let item =
            |i| Value::Map(Map::from_iter([("name", Value::from(format!("c{i}").as_str()))]));
        Value::List((from..from + 50_000).map(item).collect())
    };
    let object = |containers| {
        let spec = Map::from_iter([("containers", containers)]);
        Value::Map(Map::from_iter([("spec", Value::Map(spec))]))
    };
    let pod = builtin::schema("", "v1", "Pod").unwrap();
    let merged = apply(object(list(0)), object(list(25_000)), pod).unwrap();
    assert_eq!(merged.at(&["spec", "containers"]).unwrap().as_list().unwrap().len(), 75_000);
}

#[test]
fn one_large_element_is_not_merged_without_end() {
    let limits = |keys: std::ops::Range<usize>| {
        let keys: Vec<String> = keys.map(|key| format!(r#""k{key:04}":"1""#)).collect();
        format!(r#"{{"name":"a","resources":{{"limits":{{{}}}}}}}"#, keys.join(","))
    };
    let pod = |containers: &[String]| {
        format!(r#"{{"spec":{{"containers":[{}]}}}}"#, containers.join(","))
    };
    let document = pod(&[limits(0..4000)]);
    assert!(patched("Pod", &document, &pod(&vec![limits(0..1); 10])).is_ok());
    assert_eq!(patched("Pod", &document, &pod(&vec![limits(0..1); 5000])), Err(Error::TOO_MUCH));
}
