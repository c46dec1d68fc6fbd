//! Tests of the YAML codec against results of the reference.

use kevel_api::builtin;
use kevel_codec::json::Unknown;
use kevel_codec::yaml;

/// Cases of a file: the parts after `=====` and after `-----`.
fn cases(file: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    file.split("=====\n").skip(1).map(|case| case.split_once("\n-----\n").expect("two parts"))
}

fn to_json(document: &[u8]) -> String {
    match yaml::to_json(document) {
        Ok(json) => {
            let text = String::from_utf8(json.text).expect("UTF-8");
            json.duplicates.map_or(text.clone(), |strict| format!("{text}\nstrict: {strict}"))
        }
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn reads_as_the_reference_reads() {
    for (document, expected) in cases(include_str!("yaml/to_json.txt")) {
        assert_eq!(to_json(document.as_bytes()) + "\n", expected, "{document}");
    }
}

#[test]
fn writes_as_the_reference_writes() {
    for (document, expected) in cases(include_str!("yaml/from_json.txt")) {
        let mut out = Vec::new();
        yaml::from_json(document.as_bytes(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{document}");
    }
}

#[test]
fn what_is_written_is_read_again() {
    for (document, _) in cases(include_str!("yaml/from_json.txt")) {
        // NEL is a line break to the reference too, everywhere.
        let json = yaml::to_json(document.replace("\\u0085", "x").as_bytes()).unwrap().text;
        let mut out = Vec::new();
        yaml::from_json(&json, &mut out).unwrap();
        assert_eq!(to_json(&out).as_bytes(), json, "{document}");
    }
}

#[test]
fn encodings_and_characters() {
    for (document, expected) in [
        (&b"\xef\xbb\xbfa: 1"[..], r#"{"a":1}"#),
        (b"\xff\xfea\0:\0 \x001\0", r#"{"a":1}"#),
        (b"\xfe\xff\0a\0:\0 \x001", r#"{"a":1}"#),
        (b"\xff\xfe\x3d\xd8\x00\xde", r#""😀""#),
        (b"\xff\xfea", "error: yaml: incomplete UTF-16 character"),
        (b"\xff\xfe\x00\xdc", "error: yaml: unexpected low surrogate area"),
        (b"\xff\xfe\x3d\xd8a\0", "error: yaml: expected low surrogate area"),
        (b"\xff\xfe\x3d\xd8", "error: yaml: incomplete UTF-16 surrogate pair"),
        (b"a: \x01", "error: yaml: control characters are not allowed"),
        (b"a: \x7f", "error: yaml: control characters are not allowed"),
        (b"]: \x00", "error: yaml: control characters are not allowed"),
        (b"a: \xc2\x81", "error: yaml: control characters are not allowed"),
        (b"a: \xef\xbf\xbf", "error: yaml: control characters are not allowed"),
        (b"a: \xff", "error: yaml: invalid leading UTF-8 octet"),
        (b"a: \xe2\x82", "error: yaml: incomplete UTF-8 octet sequence"),
        (b"a: \xe2(\xa1", "error: yaml: invalid trailing UTF-8 octet"),
        (b"a: \xc0\x80", "error: yaml: invalid length of a UTF-8 sequence"),
        (b"a: \xed\xa0\x80", "error: yaml: invalid Unicode character"),
        (b"a: 1\r\nb: 2\rc: 3\xc2\x85d: 4", r#"{"a":1,"b":2,"c":3,"d":4}"#),
        (b"\"a\xe2\x80\xa8b\xe2\x80\xa9 c\"", r#""a\u2028b\u2029c""#),
        (b"", "null"),
    ] {
        assert_eq!(to_json(document), expected, "{document:?}");
    }
}

#[test]
fn an_unreadable_piece_is_found_when_it_is_come_to() {
    let mut document = b"a: b: c\n".to_vec();
    document.resize(600, b' ');
    document.push(0);
    assert_eq!(to_json(&document), "error: yaml: mapping values are not allowed in this context");
    assert_eq!(to_json(&document[100..]), "error: yaml: control characters are not allowed");
}

#[test]
fn strict_errors_of_yaml_come_before_those_of_json() {
    let pod = builtin::schema("", "v1", "Pod").unwrap();
    let document =
        b"apiVersion: v1\nkind: Pod\nspec:\n  foo: 1\n  hostNetwork: false\n  hostNetwork: yes\n";
    let read = yaml::decode(document, pod, Unknown::Report).unwrap();
    assert_eq!(
        read.strict,
        [
            "yaml: unmarshal errors:\n  line 6: key \"hostNetwork\" already set in map",
            "unknown field \"spec.foo\""
        ]
    );
    assert_eq!(yaml::decode(document, pod, Unknown::Ignore).unwrap().strict, [""; 0]);

    let mut out = Vec::new();
    yaml::encode(&read.value, pod, &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "apiVersion: v1\nkind: Pod\nmetadata: {}\nspec:\n  containers: null\n  hostNetwork: true\nstatus: {}\n"
    );
}

#[test]
fn what_json_refuses_is_an_error() {
    let pod = builtin::schema("", "v1", "Pod").unwrap();
    let error = yaml::decode(b"spec: 1", pod, Unknown::Ignore).unwrap_err();
    assert_eq!(
        error.to_string(),
        "json: cannot unmarshal number into Go struct field Pod.spec of type v1.PodSpec"
    );
}

/// Runs on a stack as small as a worker's.
fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run).expect("a thread");
    thread.join().expect("no panic");
}

#[test]
fn depth_is_bounded() {
    on_a_small_stack(|| {
        for (open, close) in [("[", "]"), ("{a: ", "}"), ("[a: ", "]"), ("- ", ""), ("? ", "")] {
            let document = |depth| open.repeat(depth) + "1" + &close.repeat(depth);
            let too_deep = to_json(document(10_001).as_bytes());
            assert_eq!(too_deep, "error: yaml: exceeded max depth of 10000");
            let deep = yaml::to_json(document(10_000).as_bytes());
            assert!(deep.is_ok() || open == "? ", "{open}");
            assert!(yaml::decode_any(document(10_000).as_bytes(), Unknown::Report).is_err());
        }
        let merges = "{<<: ".repeat(9_999) + "{a: 1}" + &"}".repeat(9_999);
        assert_eq!(to_json(merges.as_bytes()), r#"{"a":1}"#);
        let keys = "{".repeat(9_999) + &"}: 1".repeat(9_999);
        assert!(to_json(keys.as_bytes()).starts_with("error: "));
    });
}

#[test]
fn deep_documents_are_written() {
    on_a_small_stack(|| {
        let lists = "[".repeat(9_000) + &"]".repeat(9_000);
        let mut out = Vec::new();
        yaml::from_json(lists.as_bytes(), &mut out).unwrap();
        assert_eq!(to_json(&out), lists);
        // Each of these is on a line of its own, indented by twice its depth.
        let maps = "{\"a\":".repeat(9_000) + "1" + &"}".repeat(9_000);
        let error = yaml::from_json(maps.as_bytes(), &mut out).unwrap_err();
        assert_eq!(error.to_string(), "yaml: the document to write is nested too deep");
    });
}

#[test]
fn aliases_do_not_multiply() {
    let mut laughs = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n".to_owned();
    for level in 1..10 {
        let inner = format!("*a{}, ", level - 1).repeat(10);
        laughs += &format!("a{level}: &a{level} [{inner}]\n");
    }
    let long = format!("a: &a {}\nb: [{}]", "x".repeat(1 << 20), "*a, ".repeat(100));
    let long_keys = format!("? &a {}\n: {{{}}}", "x".repeat(1 << 20), "*a : 1, ".repeat(100));
    for document in [laughs, long, long_keys] {
        let error = "error: yaml: document contains excessive aliasing";
        assert_eq!(to_json(document.as_bytes()), error);
    }
    let some = format!("a: &a {{b: [1, 2]}}\nc: [{}]", "*a, ".repeat(50));
    assert_eq!(to_json(some.as_bytes()).matches(r#"{"b":[1,2]}"#).count(), 51);
}

#[test]
fn nodes_and_messages_are_bounded() {
    let nodes = "[".to_owned() + &"a,".repeat(3 << 19) + "]";
    let error = "error: yaml: document has more than 1048576 nodes";
    assert_eq!(to_json(nodes.as_bytes()), error);
    let duplicates =
        yaml::to_json("a: 1\n".repeat(100_000).as_bytes()).unwrap().duplicates.unwrap();
    assert_eq!(duplicates.lines().count(), 1001);
    let key = "{".to_owned() + &"[a, ".repeat(1000) + &"]".repeat(1000) + ": 1}";
    assert!(to_json(key.as_bytes()).len() < 5000);
}
