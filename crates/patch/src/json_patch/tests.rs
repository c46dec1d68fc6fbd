use kevel_api::value::{Map, Value};
use kevel_codec::json::{Unknown, decode_any, encode_any};

use super::{Error, MAX_DEPTH, Patch};

fn patched(document: &str, patch: &str, copy_limit: usize) -> Result<String, Error> {
    let document = decode_any(document.as_bytes(), Unknown::Ignore).unwrap().value;
    let (patch, _) = Patch::decode(patch.as_bytes(), Unknown::Ignore)?;
    let mut out = Vec::new();
    encode_any(&patch.apply(document, copy_limit)?, &mut out);
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn documents_patches_and_results() {
    let cases = [
        (r#"{"a":1}"#, r#"[{"op":"add","path":"/b","value":{"c":[]}}]"#, r#"{"a":1,"b":{"c":[]}}"#),
        (r#"{"a":[1,3]}"#, r#"[{"op":"add","path":"/a/1","value":2}]"#, r#"{"a":[1,2,3]}"#),
        (r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/-","value":2}]"#, r#"{"a":[1,2]}"#),
        (r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/-1","value":2}]"#, r#"{"a":[1,2]}"#),
        (r#"{"a":[1,2]}"#, r#"[{"op":"remove","path":"/a/-1"}]"#, r#"{"a":[1]}"#),
        (r#"{"a":[1,2]}"#, r#"[{"op":"replace","path":"/a/-2","value":0}]"#, r#"{"a":[0,2]}"#),
        (r#"{}"#, r#"[{"op":"add","path":"/a"}]"#, r#"{"a":null}"#),
        (r#"{}"#, r#"[{"op":"replace","path":"/a","value":1}]"#, r#"{"a":1}"#),
        (r#"{"a":1}"#, r#"[{"op":"replace","path":"","value":{"b":2}}]"#, r#"{"b":2}"#),
        (r#"{"a":1,"b":{}}"#, r#"[{"op":"move","from":"/a","path":"/b/c"}]"#, r#"{"b":{"c":1}}"#),
        (r#"{"a":[1,2]}"#, r#"[{"op":"move","from":"/a/0","path":"/a/1"}]"#, r#"{"a":[2,1]}"#),
        (
            r#"{"a":{"x":1}}"#,
            r#"[{"op":"copy","from":"/a","path":"/a/y"}]"#,
            r#"{"a":{"x":1,"y":{"x":1}}}"#,
        ),
        (r#"{}"#, r#"[{"op":"copy","from":"/a","path":"/b"}]"#, r#"{"b":null}"#),
        (r#"{"a/b":{"~c":1}}"#, r#"[{"op":"remove","path":"/a~1b/~0c"}]"#, r#"{"a/b":{}}"#),
        (r#"{"~1":1}"#, r#"[{"op":"remove","path":"/~01"}]"#, r#"{}"#),
        (
            r#"{"a":1}"#,
            r#"[{"op":"test","path":"/a","value":1},{"op":"remove","path":"/a"}]"#,
            "{}",
        ),
        (r#"{}"#, r#"[{"op":"test","path":"/a","value":null}]"#, "{}"),
        (r#"{}"#, r#"[{"op":"test","path":"/a"}]"#, "{}"),
        (
            r#"{"a":{"b":[1]}}"#,
            r#"[{"op":"test","path":"","value":{"a":{"b":[1]}}}]"#,
            r#"{"a":{"b":[1]}}"#,
        ),
        (r#"{"a":1}"#, r#"[{"op":"remove","path":"ignored/a"}]"#, "{}"),
        (r#"{"a":1}"#, "null", r#"{"a":1}"#),
    ];
    for (document, patch, expected) in cases {
        assert_eq!(patched(document, patch, 0).as_deref(), Ok(expected), "{document} + {patch}");
    }
}

#[test]
fn what_does_not_apply() {
    let cases = [
        (
            r#"[{"op":"add","path":"/x/y"}]"#,
            "add operation does not apply: doc is missing path: \"/x/y\": missing value",
        ),
        (
            r#"[{"op":"add","path":"/n/y"}]"#,
            "add operation does not apply: doc is missing path: \"/n/y\": missing value",
        ),
        (
            r#"[{"op":"add","path":"/a/b"}]"#,
            "add operation does not apply: doc is missing path: \"/a/b\": missing value",
        ),
        (
            r#"[{"op":"add","path":"/l/9"}]"#,
            "error in add for path: '/l/9': Unable to access invalid index: 9: invalid index referenced",
        ),
        (
            r#"[{"op":"add","path":"/l/2"}]"#,
            "error in add for path: '/l/2': Unable to access invalid index: 2: invalid index referenced",
        ),
        (
            r#"[{"op":"add","path":"/l/x"}]"#,
            "error in add for path: '/l/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            r#"[{"op":"remove","path":"/zz"}]"#,
            "error in remove for path: '/zz': Unable to remove nonexistent key: zz: missing value",
        ),
        (
            r#"[{"op":"replace","path":"/l/5"}]"#,
            "replace operation does not apply: doc is missing key: /l/5: missing value",
        ),
        (
            r#"[{"op":"replace","path":"","value":1}]"#,
            "replace operation value must be object or array",
        ),
        (
            r#"[{"op":"move","from":"/zz","path":"/a"}]"#,
            "error in move for path: 'zz': Unable to remove nonexistent key: zz: missing value",
        ),
        (
            r#"[{"op":"copy","path":"/a"}]"#,
            "copy operation failed to decode from: operation, missing from field: missing value",
        ),
        (r#"[{"op":"test","path":"/a","value":1.0}]"#, "testing value /a failed: test failed"),
        (r#"[{"op":"test","path":"/a"}]"#, "testing value /a failed: test failed"),
        (r#"[{"op":"jump","path":"/a"}]"#, "Unexpected kind: jump"),
        (r#"[{"path":"/a"}]"#, "Unexpected kind: unknown"),
        (r#"[null]"#, "Unexpected kind: unknown"),
        (r#"[{"op":"remove","path":3}]"#, "remove operation failed to decode path: missing value"),
        (
            r#"[{"op":"copy","from":"/l","path":"/m"},{"op":"copy","from":"/l","path":"/o"}]"#,
            "Unable to complete the copy, the accumulated size increase of copy is 6, exceeding the limit 5",
        ),
    ];
    for (patch, message) in cases {
        let error = patched(r#"{"a":1,"l":[1],"n":null}"#, patch, 5).unwrap_err();
        let expected = match message.ends_with("test failed") {
            true => Error::TestFailed(message.to_owned()),
            false => Error::Apply(message.to_owned()),
        };
        assert_eq!(error, expected, "{patch}");
    }
}

#[test]
fn what_is_no_patch() {
    let cases = [
        ("{", Unknown::Report, "error decoding patch: unexpected end of JSON input"),
        (
            "{}",
            Unknown::Report,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            "{}",
            Unknown::Ignore,
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        ),
        (
            "[1]",
            Unknown::Report,
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
        ),
        (
            "[1]",
            Unknown::Ignore,
            "json: cannot unmarshal number into Go value of type jsonpatch.Operation",
        ),
        (
            r#"[{"op":1}]"#,
            Unknown::Report,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
    ];
    for (patch, fields, message) in cases {
        let error = Patch::decode(patch.as_bytes(), fields).unwrap_err();
        assert_eq!(error, Error::Decode(message.to_owned()), "{patch}");
    }
    let patch = br#"[{"op":"add","path":"","foo":1,"op":"add","value":{"x":1,"x":2}}]"#;
    let (_, strict) = Patch::decode(patch, Unknown::Report).unwrap();
    let strict: Vec<_> = strict.iter().map(|error| format!("json patch {error}")).collect();
    let expected = [
        r#"json patch unknown field "[0].foo""#,
        r#"json patch duplicate field "[0].op""#,
        r#"json patch duplicate field "[0].value.x""#,
    ];
    assert_eq!(strict, expected);
}

#[test]
fn operations_are_counted() {
    let patch = |n: usize| format!("[{}]", vec![r#"{"op":"test","path":"/a"}"#; n].join(","));
    assert!(Patch::decode(patch(10_000).as_bytes(), Unknown::Report).is_ok());
    let error = Patch::decode(patch(10_001).as_bytes(), Unknown::Report).unwrap_err();
    let message = "The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!(error.to_string(), message);
}

#[test]
fn trees_do_not_grow_deeper_than_readers_allow() {
    // Each copy doubles the depth.
    let copies = r#"{"op":"copy","from":"/a","path":"/a/b"},{"op":"move","from":"/a","path":"/c"},{"op":"add","path":"/a","value":{}},{"op":"move","from":"/c","path":"/a/a"}"#;
    let patch = format!("[{}]", vec![copies; 1000].join(","));
    let error = patched(r#"{"a":{"x":1}}"#, &patch, 1 << 20).unwrap_err();
    assert!(matches!(error, Error::Apply(_)), "{error}");
    // Moves alone are not limited.
    let moves = r#"{"op":"move","from":"/a","path":"/b"},{"op":"move","from":"/b","path":"/a"}"#;
    let patch = format!("[{}]", vec![moves; 5000].join(","));
    assert_eq!(patched(r#"{"a":{"x":1}}"#, &patch, 0).as_deref(), Ok(r#"{"a":{"x":1}}"#));
}

#[test]
fn every_operation_keeps_trees_within_the_depth() {
    let nested = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    let below = MAX_DEPTH / 2;
    let place = format!("{}/x", "/a".repeat(below - 1));
    for depth in [MAX_DEPTH - below, MAX_DEPTH - below + 1] {
        let document = format!(r#"{{"a":{},"from":{}}}"#, nested(below - 1), nested(depth));
        let value = nested(depth);
        for operation in [
            format!(r#"{{"op":"add","path":"{place}","value":{value}}}"#),
            format!(r#"{{"op":"replace","path":"{place}","value":{value}}}"#),
            format!(r#"{{"op":"copy","from":"/from","path":"{place}"}}"#),
            format!(r#"{{"op":"move","from":"/from","path":"{place}"}}"#),
        ] {
            let result = patched(&document, &format!("[{operation}]"), 0).map(drop);
            let expected = match below + depth > MAX_DEPTH {
                true => Err(Error::Apply("exceeded max depth".to_owned())),
                false => Ok(()),
            };
            assert_eq!(result, expected, "{depth}: {}", &operation[..14]);
        }
    }
}

#[test]
fn operations_move_no_more_than_half_a_seconds_work() {
    let many = Value::List(vec![Value::Int(1); 1 << 20].into_iter().collect());
    let document = Value::Map(Map::from_iter([("l", many)]));
    for (path, applies) in [("/l/-", true), ("/l/0", false)] {
        let operation = format!(r#"{{"op":"add","path":"{path}","value":1}}"#);
        let patch = format!("[{}]", vec![operation; 500].join(","));
        let (patch, _) = Patch::decode(patch.as_bytes(), Unknown::Ignore).unwrap();
        let applied = patch.apply(document.clone(), 0).map(drop);
        assert_eq!(applied.is_ok(), applies, "{path}: {applied:?}");
        if let Err(error) = applied {
            assert!(error.to_string().contains("move too much of the document"), "{error}");
        }
    }
}
