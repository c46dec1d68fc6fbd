//! Tests of JSONPath expressions.

#![allow(clippy::unwrap_used)]

use kevel_api::json_path::JsonPath;
use kevel_api::value::Value;
use kevel_codec::json;

#[test]
fn paths_find_what_they_say() {
    let object = json::decode_any(
        br#"{"spec": {"n": 3, "a.b": "dotted", "list": [1, 2, 3], "null": null,
            "map": {"x": {"v": 1}, "y": {"v": 2}}},
          "status": {"conditions": [{"type": "Ready", "status": "True", "n": 1},
            {"type": "Old", "status": "False"}]}}"#,
        json::Unknown::Ignore,
    );
    let object = object.unwrap().value;
    for (path, expected) in [
        (".spec.n", "[3]"),
        ("$.spec.n", "[3]"),
        (".spec.missing.deeper", "[]"),
        (".spec.null.deeper", "[]"),
        (".spec.a\\.b", r#"["dotted"]"#),
        (".spec['a\\.b']", r#"["dotted"]"#),
        (".spec.list[0]", "[1]"),
        (".spec.list[-1]", "[3]"),
        (".spec.list[1:]", "[2,3]"),
        (".spec.list[0:3:2]", "[1,3]"),
        (".spec.list[*]", "[1,2,3]"),
        (".spec.list[0,2]", "[1,3]"),
        (".spec.map.*.v", "[1,2]"),
        (".spec.map..v", "[1,2]"),
        (".spec.map['x'].v", "[1]"),
        (r#".status.conditions[?(@.type=="Ready")].status"#, r#"["True"]"#),
        (".status.conditions[?(@.type!='Ready')].status", r#"["False"]"#),
        (".status.conditions[?(@.n)].type", r#"["Ready"]"#),
        (".status.conditions[?(@.n>=1)].type", r#"["Ready"]"#),
        // Paths that do not apply to this object.
        (".spec.list[7]", "-"),
        (".spec.n[0]", "-"),
        ("spec.n", "-"),
        (".spec.list[?(@=!1)]", "-"),
    ] {
        let path_read = JsonPath::parse(path).unwrap();
        let found = path_read.find(&object).map(|found| {
            let mut text = Vec::new();
            let found = Value::List(found.into_iter().cloned().collect());
            json::encode_any(&found, &mut text);
            String::from_utf8(text).unwrap()
        });
        assert_eq!(found.as_deref().unwrap_or("-"), expected, "{path}");
    }
}

#[test]
fn what_is_no_path_is_refused() {
    for (path, why) in [
        (".a[", "unterminated array"),
        (".a[x]", "invalid array index x"),
        (".a[?(@.b", "unterminated filter"),
        (".a[?(@.b)", "unclosed array expect ]"),
        (".a....b", "invalid multiple recursive descent"),
        (".a{", "unrecognized character in action: U+007B '{'"),
        ("#", "unrecognized character in action: U+0023 '#'"),
        ("\u{1}", "unrecognized character in action: U+0001"),
        (".a\nb", "unclosed action"),
        (".a}{\n", "unclosed action"),
        ("1.2.3", "cannot parse number 1.2.3"),
        (".a[-]", "array index - is not a number"),
        (".a[1:2:3:4]", "invalid array index 1:2:3:4"),
        (".a['b']['c", "unterminated array"),
        (".a[?(@.b==)]", "unrecognized character in action: U+003D '='"),
        ("'a", "unterminated quoted string"),
    ] {
        assert_eq!(JsonPath::parse(path).unwrap_err(), why, "{path}");
    }
    let deep = "[?(".repeat(500) + &")]".repeat(500);
    assert!(JsonPath::parse(&deep).is_err());
}
