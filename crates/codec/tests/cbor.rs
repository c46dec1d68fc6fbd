//! The reference's own CBOR: what its serializer reads, writes and refuses (conformance/cbor).
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

use kevel_api::builtin;
use kevel_api::schema::Schema;
use kevel_api::value::Value;
use kevel_codec::json::{self, Unknown};
use kevel_codec::{base64, cbor};
use kevel_test_support::facts;

/// Number of questions that were asked: a comparison with nothing would hold.
const QUESTIONS: usize = 1_300;

/// Number of objects of facts/golden.json.gz that the reference's scheme has, and of those among them that are of versions that are gone.
const OBJECTS: usize = 125;
const UNDEFINED: usize = 32;

/// A question, and the answer of the reference.
struct Recorded<'a> {
    question: &'a str,
    answer: Vec<&'a str>,
}

fn recorded(text: &str) -> Vec<Recorded<'_>> {
    let mut all: Vec<Recorded<'_>> = Vec::new();
    for line in text.lines() {
        match line.get(..2) {
            Some("= " | "> " | "~ " | "! ") => all.last_mut().unwrap().answer.push(line),
            _ => all.push(Recorded { question: line, answer: Vec::new() }),
        }
    }
    all
}

#[test]
fn answers_are_those_of_the_reference() {
    let path = facts::folder().join("../cbor/recorded.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let all = recorded(&text);
    let mut different = Vec::new();
    for Recorded { question, answer } in &all {
        let (sort, asked) = question.split_once(' ').unwrap();
        let found = match sort {
            "A" => untyped(&unhex(asked)),
            "J" => vec![format!("> {}", hex(&encoded(&read_json(asked))))],
            "D" => notation(&unhex(asked)),
            _ => typed(asked),
        };
        if found != *answer {
            different.push(format!(
                "{question}\n  {}\n  {}",
                answer.join("\n  "),
                found.join("\n  ")
            ));
        }
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
    assert!(all.len() > QUESTIONS, "{}", all.len());
}

fn untyped(data: &[u8]) -> Vec<String> {
    match cbor::decode_any(data) {
        Err(error) => vec![format!("! {error}")],
        Ok(value) => {
            let text = String::from_utf8(cbor::to_json(data).unwrap()).unwrap();
            vec![format!("= {text}"), format!("> {}", hex(&encoded(&value)))]
        }
    }
}

fn notation(data: &[u8]) -> Vec<String> {
    vec![match cbor::diagnose(data) {
        Ok(text) => format!("= {text}"),
        Err(error) => format!("! {error}"),
    }]
}

fn typed(asked: &str) -> Vec<String> {
    let parts: Vec<&str> = asked.split(' ').collect();
    let [version, kind, data] = parts[..] else { panic!("{asked}") };
    let (group, version) = version.split_once('/').unwrap();
    let schema = builtin::schema(group, version, kind).unwrap();
    let data = unhex(data);
    if let Err(error) = cbor::type_meta(&data) {
        return vec![format!("! unable to determine group/version/kind: {error}")];
    }
    let strict = cbor::decode(&data, schema, Unknown::Report);
    let lax = cbor::decode(&data, schema, Unknown::Ignore);
    let mut found = Vec::new();
    if let Ok(cbor::DecodedCbor { strict: Some(unknown), .. }) = &strict {
        found.push(format!("~ strict decoding error: {unknown}"));
    }
    match lax {
        Err(error) => {
            assert_eq!(strict, Err(error.clone()), "{asked}");
            found.push(format!("! {error}"));
        }
        Ok(read) => {
            // Unknown fields are no part of the object.
            assert_eq!(strict.unwrap().value, read.value, "{asked}");
            found.push(format!("= {}", json_of(&read.value, schema)));
        }
    }
    found
}

#[test]
fn golden_objects_are_the_reference_bytes() {
    let (golden, all) = (facts::json("golden.json.gz"), facts::json("cbor.json.gz"));
    let (mut objects, mut undefined, mut different) = (0, 0, Vec::new());
    for (name, data) in all.as_map().unwrap().iter() {
        objects += 1;
        let mut expected = Vec::new();
        base64::decode_into(data.as_str().unwrap(), &mut expected).unwrap();
        let meta = cbor::type_meta(&expected).unwrap();
        let (group, version) = meta.api_version.split_once('/').unwrap_or(("", &meta.api_version));
        let Some(schema) = builtin::schema(group, version, &meta.kind) else {
            undefined += 1;
            continue;
        };
        let text = json::compact(golden.str_at(&[name, "json"]).as_bytes()).unwrap();
        let object = json::decode(text.as_bytes(), schema, Unknown::Report).unwrap().value;
        let mut written = cbor::SELF_DESCRIBED.to_vec();
        cbor::encode(&object, schema, &mut written);
        if written != expected {
            let notation = |data: &[u8]| cbor::diagnose(data).unwrap();
            different.push(format!("{name}\n  {}\n  {}", notation(&expected), notation(&written)));
        }
        let read = cbor::decode(&expected, schema, Unknown::Report).unwrap();
        assert_eq!(read.strict, None, "{name}");
        assert_eq!(json_of(&read.value, schema), json_of(&object, schema), "{name}");
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
    assert_eq!((objects, undefined), (OBJECTS, UNDEFINED));
}

#[test]
fn nesting_and_size_of_trees_are_limited() {
    let deep = |depth: usize| [vec![0x81; depth], vec![0]].concat();
    assert!(cbor::decode_any(&deep(json::MAX_DEPTH)).is_ok());
    let error = cbor::decode_any(&deep(json::MAX_DEPTH + 1)).unwrap_err();
    assert_eq!(error.to_string(), "cbor: exceeded max nested level 1000");
    // What is not read into a tree may be as deep as in the reference.
    assert!(cbor::type_meta(&[b"\xa1\x41a".to_vec(), deep(9_999)].concat()).is_ok());
    let error = cbor::type_meta(&[b"\xa1\x41a".to_vec(), deep(10_000)].concat()).unwrap_err();
    assert_eq!(error.to_string(), "cbor: exceeded max nested level 10000");
    let many = [b"\x9a\x00\x10\x00\x01".to_vec(), vec![0xf6; (1 << 20) + 1]].concat();
    assert_eq!(cbor::decode_any(&many), Err(cbor::Error::TooManyValues));
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    cbor::encode_any(value, &mut out);
    out
}

fn read_json(text: &str) -> Value {
    json::decode_any(text.as_bytes(), Unknown::Report).unwrap().value
}

fn json_of(value: &Value, schema: Schema<'_>) -> String {
    let mut text = Vec::new();
    json::encode(value, schema, &mut text);
    String::from_utf8(text).unwrap()
}

fn hex(data: &[u8]) -> String {
    data.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// A document inside an object begins its own count of levels: what is read of one form must be readable in the other.
#[test]
fn deepest_document_inside_an_object_is_read_in_both_forms() {
    let schema = builtin::schema("apps", "v1", "ControllerRevision").unwrap();
    for depth in [1, json::MAX_DEPTH - 1, json::MAX_DEPTH] {
        let nested = [b"\xa1\x41a".repeat(depth), vec![1]].concat();
        let sent = [&b"\xa1\x44data"[..], &nested].concat();
        let read = cbor::decode(&sent, schema, Unknown::Report).unwrap().value;
        let text = json_of(&read, schema);
        let again = json::decode(text.as_bytes(), schema, Unknown::Report).unwrap().value;
        let mut written = Vec::new();
        cbor::encode(&again, schema, &mut written);
        let ends = written.windows(nested.len()).any(|part| part == nested);
        assert!(ends, "{depth}: {} bytes", written.len());
    }
}

#[test]
fn chunks_of_strings_are_joined() {
    for (data, expected) in [
        (&b"\x7f\x61a\x60\x62bc\xff"[..], Ok("abc")),
        (b"\x5f\x41a\x40\x42bc\xff", Ok("abc")),
        (b"\x7f\xff", Ok("")),
        (b"\x5f\xff", Ok("")),
        // A letter of two bytes, in two chunks: each must be UTF-8.
        (b"\x5f\x41\xc3\x41\xa9\xff", Ok("\u{e9}")),
        (b"\x7f\x61\xc3\x61\xa9\xff", Err(cbor::Error::InvalidUtf8)),
    ] {
        assert_eq!(cbor::decode_any(data), expected.map(Value::from), "{data:x?}");
    }
}
