//! Answers lines of `operation TAB argument TAB object` with one line each, so that another
//! implementation can be compared in bulk: `default`; `convert` with a group and version; `round` to
//! settle an object in its own version; `crd-default` and `crd-prune` with a custom kind's schema.

use std::io::{BufRead, Write};

use kevel_api::gvk::{GroupVersion, GroupVersionKind};
use kevel_api::schema::Schema;
use kevel_api::value::Value;
use kevel_api::{builtin, convert, crd_schema, default, prune};
use kevel_codec::json;

fn main() -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let mut parts = line.splitn(3, '\t');
        let mut part = || parts.next().unwrap_or_default();
        let (operation, argument, object) = (part(), part(), part());
        match answer(operation, argument, object) {
            Ok(json) => out.write_all(&json)?,
            Err(error) => write!(out, "ERR {error}")?,
        }
        out.write_all(b"\n")?;
    }
    out.flush()
}

fn answer(operation: &str, argument: &str, object: &str) -> Result<Vec<u8>, String> {
    if let Some(operation) = operation.strip_prefix("crd-") {
        return custom(operation, argument, object);
    }
    let meta = json::type_meta(object.as_bytes()).map_err(|e| e.to_string())?;
    let from = GroupVersionKind::from_api_version_and_kind(&meta.api_version, &meta.kind);
    let schema = builtin::schema(&from.group, &from.version, &from.kind).ok_or("unknown kind")?;
    let read = json::decode(object.as_bytes(), schema, json::Unknown::Ignore);
    let mut value = read.map_err(|e| e.to_string())?.value;
    if operation != "convert-raw" {
        default::apply(&mut value, schema);
    }
    let mut out = Vec::new();
    if operation == "default" {
        json::encode(&value, schema, &mut out);
        return Ok(out);
    }
    let to: GroupVersion = match operation {
        "round" => from.group_version(),
        _ => argument.parse().map_err(|_| "bad version".to_owned())?,
    };
    let value = convert::convert(value, &from, &to, &read_json)?;
    let schema = builtin::schema(&to.group, &to.version, &from.kind).ok_or("unknown kind")?;
    json::encode(&value, schema, &mut out);
    Ok(out)
}

/// Defaults or prunes an object of a custom kind, whose schema is the argument.
fn custom(operation: &str, schema: &str, object: &str) -> Result<Vec<u8>, String> {
    let definition = builtin::schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let versions = definition.and_then(|d| d.field("spec")?.schema().field("versions"));
    let version = versions.and_then(|v| v.schema().item()?.field("schema"));
    let props = version.and_then(|v| v.schema().field("openAPIV3Schema")).ok_or("no schema")?;
    let props = json::decode(schema.as_bytes(), props.schema(), json::Unknown::Ignore);
    let props = props.map_err(|e| e.to_string())?.value;
    let (table, id) = crd_schema::table(&props, &read_json).map_err(|e| e.to_string())?;
    let schema = Schema::new(&table, id);
    let mut value = read_json(object).ok_or("not JSON")?;
    let mut paths = Value::Null;
    if operation == "default" {
        default::drop_nulls(&mut value, schema);
        default::apply(&mut value, schema);
    } else {
        let dropped = prune::prune(&mut value, schema);
        if !dropped.is_empty() {
            paths = Value::List(dropped.iter().map(|path| path.as_str().into()).collect());
        }
    }
    let mut out = Vec::new();
    json::encode_any(&Value::List([value, paths].into_iter().collect()), &mut out);
    Ok(out)
}

fn read_json(text: &str) -> Option<Value> {
    Some(json::decode_any(text.as_bytes(), json::Unknown::Ignore).ok()?.value)
}
