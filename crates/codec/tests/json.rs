//! Tests of the JSON codec against results of the reference.

use kevel_api::schema::Schema;
use kevel_api::value::{Map, Value};
use kevel_codec::json::{self, Unknown};

const POD: &str = include_str!("data/pod.json");

fn schema(kind: &str) -> Schema<'static> {
    let (group, version) = match kind {
        "CustomResourceDefinition" => ("apiextensions.k8s.io", "v1"),
        "ControllerRevision" | "Deployment" => ("apps", "v1"),
        "Lease" => ("coordination.k8s.io", "v1"),
        "PodDisruptionBudget" => ("policy", "v1"),
        _ => ("", "v1"),
    };
    kevel_api::builtin::schema(group, version, kind).expect(kind)
}

/// Decodes a document strictly: an error, or the strict errors and the encoded document.
fn outcome(kind: &str, document: &[u8]) -> Result<(String, String), String> {
    let schema = schema(kind);
    let read = json::decode(document, schema, Unknown::Report).map_err(|e| e.to_string())?;
    let lenient = json::decode(document, schema, Unknown::Ignore).expect("it was right before");
    assert_eq!((&lenient.value, lenient.strict.len()), (&read.value, 0));
    let mut out = Vec::new();
    json::encode(&read.value, schema, &mut out);
    let strict: Vec<String> = read.strict.iter().map(ToString::to_string).collect();
    Ok((strict.join(", "), String::from_utf8(out).expect("UTF-8")))
}

fn written(kind: &str, document: &str) -> String {
    outcome(kind, document.as_bytes()).expect(document).1
}

fn error(kind: &str, document: &str) -> String {
    outcome(kind, document.as_bytes()).expect_err(document)
}

#[test]
fn a_pod_is_written_as_it_was() {
    assert_eq!(outcome("Pod", POD.as_bytes()), Ok((String::new(), POD.to_owned())));
}

#[test]
fn the_order_of_fields_does_not_matter() {
    let schema = schema("Pod");
    let value = json::decode(POD.as_bytes(), schema, Unknown::Report).expect("a Pod").value;
    let mut sorted = Vec::new();
    json::encode_any(&value, &mut sorted);
    assert_ne!(sorted, POD.as_bytes());
    assert_eq!(json::decode(&sorted, schema, Unknown::Report).expect("a Pod").value, value);
}

#[test]
fn what_is_empty_is_written_as_the_reference_does() {
    for (kind, document, expected) in [
        ("Pod", "{}", r#"{"metadata":{},"spec":{"containers":null},"status":{}}"#),
        ("Pod", "null", r#"{"metadata":{},"spec":{"containers":null},"status":{}}"#),
        (
            "Pod",
            r#"{"metadata":null,"spec":{"containers":[],"volumes":[],"priority":0,"nodeName":"","hostPID":false},"status":{"phase":null}}"#,
            r#"{"metadata":{},"spec":{"containers":[],"priority":0},"status":{}}"#,
        ),
        (
            "Deployment",
            "{}",
            r#"{"metadata":{},"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}}"#,
        ),
        (
            "ControllerRevision",
            r#"{"data":{"b": [1, 2.50], "a": "<"}}"#,
            r#"{"metadata":{},"data":{"b": [1, 2.50], "a": "\u003c"},"revision":0}"#,
        ),
        ("ControllerRevision", r#"{"data":null}"#, r#"{"metadata":{},"data":null,"revision":0}"#),
        (
            "ConfigMap",
            r#"{"data":{"b":null,"a":"1"}}"#,
            r#"{"metadata":{},"data":{"a":"1","b":""}}"#,
        ),
    ] {
        assert_eq!(written(kind, document), expected, "{document}");
    }
}

#[test]
fn leaves_are_normalised() {
    for (kind, document, expected) in [
        (
            "Secret",
            r#"{"data":{"a":"aG\nk=","b":null,"c":"","d":[104,105]}}"#,
            r#""data":{"a":"aGk=","b":null,"c":"","d":"aGk="}"#,
        ),
        (
            "Lease",
            r#"{"spec":{"renewTime":"2020-01-02T03:04:05.500000+01:00"}}"#,
            r#""renewTime":"2020-01-02T02:04:05.500000Z""#,
        ),
        (
            "Pod",
            r#"{"metadata":{"creationTimestamp":"2020-01-02T03:04:05.5+01:00"}}"#,
            r#""creationTimestamp":"2020-01-02T02:04:05Z""#,
        ),
        (
            "Pod",
            r#"{"spec":{"overhead":{"cpu":"1000m","memory":1e3,"x":null}}}"#,
            r#""overhead":{"cpu":"1","memory":"1e3","x":"0"}"#,
        ),
        (
            "PodDisruptionBudget",
            r#"{"spec":{"minAvailable":"10%","maxUnavailable":3}}"#,
            r#""minAvailable":"10%""#,
        ),
        (
            "PodDisruptionBudget",
            r#"{"status":{"disruptedPods":{"a":null}}}"#,
            r#""disruptedPods":{"a":null}"#,
        ),
        (
            "Pod",
            r#"{"metadata":{"managedFields":[{"fieldsV1":{ "f:a" : {} }},null]}}"#,
            r#""managedFields":[{"fieldsV1":{"f:a":{}}},{}]"#,
        ),
        (
            "ConfigMap",
            "{\"data\":{\"a\":\"\u{2028}<&>\\ud800\\u0001\"}}",
            r#""a":"\u2028\u003c\u0026\u003e�\u0001""#,
        ),
    ] {
        let written = written(kind, document);
        assert!(written.contains(expected), "{document}: {written}");
    }
}

#[test]
fn wrong_types_are_told_in_the_words_of_go() {
    for (kind, document, expected) in [
        ("Pod", "[]", "json: cannot unmarshal array into Go value of type v1.Pod"),
        (
            "Deployment",
            r#"{"spec":{"replicas":"3"}}"#,
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "Deployment",
            r#"{"spec":{"replicas":1.5}}"#,
            "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "Deployment",
            r#"{"spec":{"replicas":3000000000}}"#,
            "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "Pod",
            r#"{"kind":1}"#,
            "json: cannot unmarshal number into Go struct field Pod.TypeMeta.kind of type string",
        ),
        (
            "Pod",
            r#"{"metadata":{"labels":{"a":1}}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            "Pod",
            r#"{"metadata":{"labels":[]}}"#,
            "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
        (
            "Pod",
            r#"{"spec":{"containers":{}}}"#,
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[1]}}"#,
            "json: cannot unmarshal number into Go struct field PodSpec.spec.containers of type v1.Container",
        ),
        (
            "Pod",
            r#"{"spec":{"volumes":[{"hostPath":"/"}]}}"#,
            "json: cannot unmarshal string into Go struct field Volume.spec.volumes.VolumeSource.hostPath of type v1.HostPathVolumeSource",
        ),
        (
            "Pod",
            r#"{"spec":{"restartPolicy":true}}"#,
            "json: cannot unmarshal bool into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
        ),
        ("Secret", r#"{"data":{"a":"x"}}"#, "illegal base64 data at input byte 0"),
        // The error of a type's own decoder goes before an earlier wrong type.
        (
            "Deployment",
            r#"{"spec":{"replicas":"x","template":{"metadata":{"creationTimestamp":5}}}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.spec.template.metadata.creationTimestamp of type string",
        ),
        (
            "Pod",
            r#"{"metadata":{"creationTimestamp":"x"}}"#,
            r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#,
        ),
        (
            "Pod",
            r#"{"spec":{"overhead":{"cpu":"x"}}}"#,
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            "PodDisruptionBudget",
            r#"{"spec":{"minAvailable":1.5}}"#,
            "json: cannot unmarshal number 1.5 into Go struct field PodDisruptionBudgetSpec.spec.minAvailable of type int32",
        ),
        (
            "CustomResourceDefinition",
            r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"additionalProperties":1}}}]}}"#,
            "boolean or JSON schema expected",
        ),
        // A syntax error goes before all others.
        ("Pod", r#"{"kind":1"#, "unexpected end of JSON input"),
    ] {
        assert_eq!(error(kind, document), expected, "{document}");
    }
}

#[test]
fn strict_errors_name_the_path() {
    for (kind, document, expected) in [
        (
            "Pod",
            r#"{"foo":{"bar":1,"bar":2},"Kind":""}"#,
            r#"unknown field "foo", unknown field "Kind""#,
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[{},{"foo":1,"ports":[{"bar":1}]}]}}"#,
            r#"unknown field "spec.containers[1].foo", unknown field "spec.containers[1].ports[0].bar""#,
        ),
        (
            "Pod",
            r#"{"spec":{"nodeName":"a","nodeName":"b"},"kind":"","kind":"","kind":""}"#,
            r#"duplicate field "spec.nodeName", duplicate field "kind""#,
        ),
        (
            "ConfigMap",
            r#"{"data":{"b":"","a":"","b":"","a\u0062":""},"x\ny":1}"#,
            r#"duplicate field "data.b", unknown field "x\ny""#,
        ),
        (
            "CustomResourceDefinition",
            r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"x":1,"items":{"x":1}}}}]}}"#,
            r#"unknown field "spec.versions[0].schema.openAPIV3Schema.x""#,
        ),
        ("ControllerRevision", r#"{"data":{"a":1,"a":2}}"#, ""),
    ] {
        assert_eq!(outcome(kind, document.as_bytes()).expect(document).0, expected, "{document}");
    }
}

#[test]
fn a_hundred_strict_errors_are_enough() {
    let fields: Vec<String> = (0..150).map(|i| format!("\"x{i:03}\":1")).collect();
    let document = format!("{{{}}}", fields.join(","));
    let read = json::decode(document.as_bytes(), schema("Pod"), Unknown::Report).expect("a Pod");
    assert_eq!(read.strict.len(), json::MAX_STRICT_ERRORS);
    assert_eq!(read.strict[99].path, "x099");
}

#[test]
fn duplicates_are_read_into_what_is_there() {
    for (document, expected) in [
        (
            r#"{"spec":{"nodeName":"a","priority":1,"nodeName":"","priority":null}}"#,
            r#"{"containers":null}"#,
        ),
        (
            r#"{"spec":{"nodeName":"a"},"spec":null,"spec":{"hostname":"b"}}"#,
            r#"{"containers":null,"nodeName":"a","hostname":"b"}"#,
        ),
        (
            r#"{"spec":{"nodeSelector":{"b":"1","a":"1"},"nodeSelector":{"b":"2"}}}"#,
            r#"{"containers":null,"nodeSelector":{"a":"1","b":"2"}}"#,
        ),
        (
            r#"{"spec":{"containers":[{"name":"a"},{"name":"b"}],"containers":[{"image":"i"}]}}"#,
            r#"{"containers":[{"name":"a","image":"i","resources":{}}]}"#,
        ),
        (
            r#"{"spec":{"tolerations":[{"key":"a"}],"tolerations":null,"tolerations":[{"value":"b"}]}}"#,
            r#"{"containers":null,"tolerations":[{"value":"b"}]}"#,
        ),
    ] {
        let expected = format!(r#"{{"metadata":{{}},"spec":{expected},"status":{{}}}}"#);
        assert_eq!(written("Pod", document), expected, "{document}");
    }
}

#[test]
fn syntax_errors_are_told_in_the_words_of_go() {
    for (document, expected) in [
        (&b""[..], "unexpected end of JSON input"),
        (b" {", "unexpected end of JSON input"),
        (b"{n", "invalid character 'n' looking for beginning of object key string"),
        (b"{\"a\" 1}", "invalid character '1' after object key"),
        (b"{\"a\":1 \"", "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"[1,]", "invalid character ']' looking for beginning of value"),
        (b"{}}", "invalid character '}' after top-level value"),
        (b"{} '", r"invalid character '\'' after top-level value"),
        (b"txue", "invalid character 'x' in literal true (expecting 'r')"),
        (b"nul", "invalid character ' ' in literal null (expecting 'l')"),
        (b"-", "invalid character ' ' in numeric literal"),
        (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
        (b"1e+", "invalid character ' ' in exponent of numeric literal"),
        (b"\"a\nb\"", r"invalid character '\n' in string literal"),
        (b"\"\\x\"", "invalid character 'x' in string escape code"),
        (b"\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"),
        (b"\xff", "invalid character 'ÿ' looking for beginning of value"),
        (b"[\"\xff\xfe\", \x80]", r"invalid character '\u0080' looking for beginning of value"),
    ] {
        let any = json::decode_any(document, Unknown::Ignore).expect_err(expected);
        assert_eq!(any, json::Error::Syntax(expected.to_owned()));
        let typed = json::decode(document, schema("Pod"), Unknown::Ignore).expect_err(expected);
        assert_eq!(typed, any);
        assert_eq!(json::type_meta(document).expect_err(expected), any);
        assert_eq!(json::compact(document).expect_err(expected), any);
    }
}

#[test]
fn untyped_numbers_are_integers_where_they_fit() {
    for (document, expected) in [
        ("9223372036854775807", Value::Int(i64::MAX)),
        ("-0", Value::Int(0)),
        ("9223372036854775808", Value::Float(9223372036854775808.0)),
        ("1e3", Value::Float(1000.0)),
        ("1.0", Value::Float(1.0)),
    ] {
        let read = json::decode_any(document.as_bytes(), Unknown::Report).expect(document);
        assert_eq!(read.value, expected);
    }
    let error = json::decode_any(b"[1e999]", Unknown::Report).expect_err("it is too large");
    let expected = "json: cannot unmarshal number 1e999 into Go value of type float64";
    assert_eq!(error, json::Error::Value(expected.to_owned()));
}

#[test]
fn invalid_utf8_reads_as_replacement_characters() {
    let read = json::decode_any(b"\"a\xe2\x80z\xff\"", Unknown::Report).expect("it is JSON");
    assert_eq!(read.value, Value::from("a\u{fffd}\u{fffd}z\u{fffd}"));
}

#[test]
fn a_document_says_its_kind() {
    for (document, api_version, kind) in [
        (r#"{"kind":"Pod","apiVersion":"v1"}"#, "v1", "Pod"),
        (r#" {"KIND":"a","spec":{"kind":"b"},"apiversion":null} "#, "", "a"),
        ("{\"\u{212a}ind\":\"a\",\"apiVer\u{17f}ion\":\"b\"}", "b", "a"),
        ("null", "", ""),
    ] {
        let meta = json::type_meta(document.as_bytes()).expect(document);
        assert_eq!((&*meta.api_version, &*meta.kind), (api_version, kind), "{document}");
    }
    for (document, expected) in [
        (
            r#"{"kind":1}"#,
            "json: cannot unmarshal number into Go struct field .kind of type string",
        ),
        (
            "[]",
            r#"json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#,
        ),
    ] {
        let error = json::type_meta(document.as_bytes()).expect_err(document);
        assert_eq!(error, json::Error::Value(expected.to_owned()));
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |open: &str, middle: &str, close: &str, levels: usize| {
        open.repeat(levels) + middle + &close.repeat(levels)
    };
    let deepest = nested("[", "", "]", json::MAX_DEPTH);
    assert!(json::decode_any(deepest.as_bytes(), Unknown::Report).is_ok());
    let error = json::decode_any(format!("[{deepest}]").as_bytes(), Unknown::Report);
    let expected = json::Error::Syntax("invalid character '[' exceeded max depth".to_owned());
    assert_eq!(error.expect_err("it is too deep"), expected);
    // Skipped text may be as deep as in the reference.
    let document = |levels| format!(r#"{{"data":{}}}"#, nested("[", "", "]", levels));
    assert!(outcome("ControllerRevision", document(9_999).as_bytes()).is_ok());
    assert_eq!(error_of_depth(&document(10_000)), expected.to_string());
}

fn error_of_depth(document: &str) -> String {
    error("ControllerRevision", document)
}

/// Reads deeply nested JSON on a small stack: debug builds have the largest frames; a request's task has 2 MiB.
#[test]
fn the_deepest_trees_fit_in_a_small_stack() {
    let schemas =
        r#"{"items":"#.repeat(json::MAX_DEPTH - 6) + "{}" + &"}".repeat(json::MAX_DEPTH - 6);
    let document =
        format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{schemas}}}}}]}}}}"#);
    let deep = move || {
        let out = written("CustomResourceDefinition", &document);
        assert!(out.contains(&schemas));
        let any = json::decode_any(document.as_bytes(), Unknown::Report).expect("it is JSON");
        let mut again = Vec::new();
        json::encode_any(&any.value, &mut again);
        assert_eq!(again, document.as_bytes());
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(deep).expect("a thread");
    thread.join().expect("the stack is large enough");
}

/// Each strict error is reported once, and errors after very many repetitions are not reported.
#[test]
fn repeated_strict_errors_are_told_once() {
    let document = format!(r#"{{{}"b":0}}"#, r#""a":0,"#.repeat(1000));
    let (told, _) = outcome("Pod", document.as_bytes()).expect("it is a pod");
    assert_eq!(told, r#"unknown field "a", unknown field "b""#);
    let document = format!(r#"{{{}"b":0}}"#, r#""a":0,"#.repeat(20_000));
    let (told, _) = outcome("Pod", document.as_bytes()).expect("it is a pod");
    assert_eq!(told, r#"unknown field "a""#);
}

#[test]
fn hostile_duplicates_are_refused() {
    let big: Vec<String> = (0..2000).map(|i| format!("\"k{i}\":\"\"")).collect();
    let again = r#","data":{"a":""}"#.repeat(2000);
    let document = format!(r#"{{"data":{{{}}}{again}}}"#, big.join(","));
    assert_eq!(error("ConfigMap", &document), "too many duplicate fields");
}

/// A custom resource: `spec` is known, `spec.any` and `spec.template` preserve unknown fields.
fn widget() -> (kevel_api::schema::Table, u32) {
    let definition = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{
        "size":{"type":"integer"},
        "names":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"}}}},
        "labels":{"type":"object","additionalProperties":{"type":"string"}},
        "any":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
        "template":{"type":"object","x-kubernetes-embedded-resource":true}}}}}"#;
    let any = |text: &str| Some(json::decode_any(text.as_bytes(), Unknown::Ignore).ok()?.value);
    let definition = any(definition).expect("it is JSON");
    kevel_api::crd_schema::table(&definition, &any).expect("it is structural")
}

#[test]
fn custom_kinds_keep_what_they_are_given_but_unknown_fields() {
    let (table, id) = widget();
    let schema = Schema::new(&table, id);
    for (spec, kept, strict) in [
        (
            r#"{"size":null,"labels":{"b":0,"a":""}}"#,
            r#"{"labels":{"a":"","b":0},"size":null}"#,
            "",
        ),
        (
            r#"{"size":"x","names":{"a":1},"labels":[1]}"#,
            r#"{"labels":[1],"names":{},"size":"x"}"#,
            r#"unknown field "spec.names.a""#,
        ),
        (
            r#"{"names":[{"name":"a","x":1},null,5],"y":{}}"#,
            r#"{"names":[{"name":"a"},null,5]}"#,
            r#"unknown field "spec.names[0].x", unknown field "spec.y""#,
        ),
        (
            r#"{"any":{"b":{"c":[1.50]},"a":1,"a":2}}"#,
            r#"{"any":{"a":2,"b":{"c":[1.5]}}}"#,
            r#"duplicate field "spec.any.a""#,
        ),
        (
            r#"{"template":{"kind":"A","apiVersion":"b","foo":1}}"#,
            r#"{"template":{"apiVersion":"b","kind":"A"}}"#,
            r#"unknown field "spec.template.foo""#,
        ),
        (
            r#"{"labels":{"a":1},"labels":{"b":2}}"#,
            r#"{"labels":{"b":2}}"#,
            r#"duplicate field "spec.labels""#,
        ),
    ] {
        let document = format!(r#"{{"kind":"Widget","spec":{spec}}}"#);
        let read = json::decode(document.as_bytes(), schema, Unknown::Report).expect(spec);
        let mut out = Vec::new();
        json::encode(&read.value, schema, &mut out);
        let kept = format!(r#"{{"kind":"Widget","spec":{kept}}}"#);
        assert_eq!(String::from_utf8(out).expect("UTF-8"), kept);
        let found: Vec<String> = read.strict.iter().map(ToString::to_string).collect();
        assert_eq!(found.join(", "), strict, "{spec}");
    }
    let error = json::decode(b"[]", schema, Unknown::Report).expect_err("it is no object");
    let expected = "json: cannot unmarshal array into Go value of type map[string]interface {}";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn an_entry_without_a_field_is_not_written() {
    let map = Map::from_iter([
        ("aaa", Value::Int(1)),
        ("data", Value::Map(Map::new())),
        ("kind", Value::from("ConfigMap")),
    ]);
    let mut out = Vec::new();
    json::encode(&Value::Map(map), schema("ConfigMap"), &mut out);
    assert_eq!(String::from_utf8(out).expect("UTF-8"), r#"{"kind":"ConfigMap","metadata":{}}"#);
}

#[test]
fn pretty_is_two_spaces_a_level() {
    let read = json::decode(
        br#"{"data":{"a":"{\"x\":[1,2]}","b":""}}"#,
        schema("ConfigMap"),
        Unknown::Report,
    );
    let mut out = Vec::new();
    json::encode_pretty(&read.expect("a ConfigMap").value, schema("ConfigMap"), &mut out);
    let expected = "{\n  \"metadata\": {},\n  \"data\": {\n    \"a\": \"{\\\"x\\\":[1,2]}\",\n    \"b\": \"\"\n  }\n}";
    assert_eq!(String::from_utf8(out).expect("UTF-8"), expected);
}
