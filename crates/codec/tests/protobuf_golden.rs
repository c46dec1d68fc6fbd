//! The reference's own objects in JSON and protobuf: each must become the other exactly.
//!
//! They are not part of the project. Without them the test says so and passes; another folder of
//! the same form can be named in `KEVEL_TESTDATA`.

use std::path::{Path, PathBuf};

use kevel_api::builtin;
use kevel_codec::{json, protobuf};

#[test]
fn golden_objects() {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/kubernetes-1.36/testdata");
    let folder = std::env::var_os("KEVEL_TESTDATA").map_or(PathBuf::from(beside), PathBuf::from);
    let Ok(files) = std::fs::read_dir(&folder) else {
        println!("SKIPPED: there are no golden objects at {}", folder.display());
        return;
    };
    let (mut same, mut undefined, mut different) = (0, 0, Vec::new());
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "pb"));
    paths.sort();
    for path in paths {
        match compare(&path) {
            Some(Ok(())) => same += 1,
            Some(Err(why)) => different.push(format!("{}: {why}", path.display())),
            None => undefined += 1,
        }
    }
    println!("{same} golden objects are the same, {undefined} are of kinds that are not defined");
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}

/// None if the kind is not defined.
fn compare(path: &Path) -> Option<Result<(), String>> {
    let read = |path: &Path| std::fs::read(path).expect("a golden object");
    let (message, text) = (read(path), read(&path.with_extension("json")));
    let envelope = protobuf::decode_object(&message).expect("an object in its envelope");
    let (group, version) =
        envelope.api_version.split_once('/').unwrap_or(("", &envelope.api_version));
    let schema = builtin::schema(group, version, &envelope.kind)?;
    let check = || {
        let value = envelope.decode(schema).map_err(|error| error.to_string())?;
        let again = protobuf::encode_object(&value, schema);
        if again != message {
            return Err(format!("protobuf to protobuf {}", difference(&again, &message)));
        }
        let read = json::decode(&text, schema, json::Unknown::Report)
            .map_err(|error| format!("JSON: {error}"))?;
        if !read.strict.is_empty() {
            return Err(json::strict_message(&read.strict));
        }
        let from_json = protobuf::encode_object(&read.value, schema);
        if from_json != message {
            return Err(format!("JSON to protobuf {}", difference(&from_json, &message)));
        }
        let (mut from_message, mut from_text) = (Vec::new(), Vec::new());
        json::encode(&value, schema, &mut from_message);
        json::encode(&read.value, schema, &mut from_text);
        if from_message != from_text {
            return Err(format!("protobuf to JSON {}", difference(&from_message, &from_text)));
        }
        Ok(())
    };
    Some(check())
}

/// Where two byte strings part.
fn difference(ours: &[u8], theirs: &[u8]) -> String {
    let at = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let around = |bytes: &[u8]| {
        let part = bytes.get(at.saturating_sub(24)..bytes.len().min(at + 24)).unwrap_or_default();
        part.escape_ascii().to_string()
    };
    format!("at byte {at}: {} instead of {}", around(ours), around(theirs))
}
