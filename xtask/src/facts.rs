//! Makes `conformance/facts` of Kubernetes' data: what tests compare with, and nothing more of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use kevel_codec::json::{Unknown, decode_any};
use kevel_test_support::{facts, openapi};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Writes all files again.
pub fn run(data: &Path) -> Result<()> {
    let write = |name: &str, bytes: &[u8]| -> Result<()> {
        println!("{name}: {} bytes", bytes.len());
        Ok(fs::write(facts::folder().join(name), bytes)?)
    };
    let captures = data.join("captures");
    for name in ["discovery.json", "aggregated-discovery.json"] {
        write(name, &documents(&read(&captures.join(name))?)?)?;
    }
    write("flags.txt", flags(&read(&captures.join("flags.json"))?)?.as_bytes())?;
    write("columns.json", &columns(&read(&captures.join("tables.json"))?)?)?;
    write("rbac.json", &policy(&read(&captures.join("bootstrap-objects.json"))?)?)?;
    write("golden.json.gz", &golden(&data.join("testdata"))?)?;
    write("openapi.txt", digests(&data.join("openapi"))?.as_bytes())
}

fn read(path: &Path) -> Result<Value> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// A map with an entry a line.
fn documents(map: &Value) -> Result<Vec<u8>> {
    let map = map.as_object().ok_or("not a map")?;
    let lines: Vec<String> =
        map.iter().map(|(key, value)| format!("{}:{value}", json!(key))).collect();
    Ok(format!("{{\n{}\n}}\n", lines.join(",\n")).into_bytes())
}

/// A list with an item a line.
fn items(list: &[Value]) -> Vec<u8> {
    let lines: Vec<String> = list.iter().map(Value::to_string).collect();
    format!("[\n{}\n]\n", lines.join(",\n")).into_bytes()
}

/// `FLAG TYPE SECTION`
fn flags(captured: &Value) -> Result<String> {
    let mut text = String::from("# Flags of the reference: name, type and section.\n");
    for flag in captured.as_array().ok_or("flags.json is no list")? {
        let of = |name: &str| flag[name].as_str().unwrap_or_default().to_owned();
        writeln!(text, "{} {} {}", of("flag"), of("type"), of("section").to_lowercase())?;
    }
    Ok(text)
}

/// `"GROUP/VERSION/PLURAL": [[name, type, format, priority], ...]`
fn columns(captured: &Value) -> Result<Vec<u8>> {
    let tables = captured.as_object().ok_or("tables.json is no map")?;
    let column = |c: &Value| json!([c["name"], c["type"], c["format"], c["priority"]]);
    let tables = tables.iter().map(|(resource, columns)| {
        let columns: Vec<Value> = columns.as_array().into_iter().flatten().map(column).collect();
        (resource.clone(), Value::Array(columns))
    });
    documents(&Value::Object(tables.collect()))
}

/// The roles and bindings of a fresh server.
fn policy(captured: &Value) -> Result<Vec<u8>> {
    let mut objects = captured.as_array().ok_or("bootstrap-objects.json is no list")?.clone();
    objects.retain(|object| object["apiVersion"] == "rbac.authorization.k8s.io/v1");
    Ok(items(&objects))
}

/// The same objects in each encoding: `{NAME: {json, yaml, protobuf (base64)}}`, packed.
fn golden(folder: &Path) -> Result<Vec<u8>> {
    let mut objects = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|ending| ending != "pb") {
            continue;
        }
        let name =
            path.with_extension("").file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = |ending: &str| fs::read_to_string(folder.join(format!("{name}.{ending}")));
        let protobuf = kevel_codec::base64::encode(&fs::read(&path)?);
        let object =
            json!({"json": text("json")?, "yaml": text("yaml")?, "protobuf": protobuf.as_str()});
        objects.insert(name, object);
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&documents(&json!(objects))?)?;
    Ok(packed.finish()?)
}

/// Digests of the parts of each document that is published.
fn digests(folder: &Path) -> Result<String> {
    let mut text = String::from("# Parts of the reference's OpenAPI documents, by digest.\n");
    let mut v3: Vec<_> = fs::read_dir(folder.join("v3"))?.collect::<std::io::Result<_>>()?;
    v3.sort_by_key(fs::DirEntry::file_name);
    let documents = v3.iter().map(|entry| {
        let name = entry.file_name().to_string_lossy().replace("_openapi.json", "");
        (name.replace("__", "/"), entry.path())
    });
    for (name, path) in documents.chain([("v2".to_owned(), folder.join("swagger.json"))]) {
        writeln!(text, "document {name}")?;
        let document = decode_any(&fs::read(&path)?, Unknown::Ignore).map_err(|e| e.to_string())?;
        for (part, digest) in openapi::digests(&document.value) {
            writeln!(text, "{part} {digest}")?;
        }
    }
    Ok(text)
}
