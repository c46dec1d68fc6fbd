//! Reads an object in one format and writes it in another, as the reference stores and speaks it.

use std::io::{Read as _, Write as _};

use kevel_api::schema::Schema;
use kevel_api::value::Value;
use kevel_api::{builtin, gvk::GroupVersion};
use kevel_codec::{json, protobuf, yaml};

/// A way to write an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
    Protobuf,
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "json" => Ok(Format::Json),
            "yaml" => Ok(Format::Yaml),
            "protobuf" => Ok(Format::Protobuf),
            _ => Err(format!("{name:?} is not a format: json, yaml or protobuf")),
        }
    }
}

/// Standard input to standard output.
pub fn run(from: Format, to: Format) -> Result<(), Box<dyn std::error::Error>> {
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input)?;
    let output = convert(&input, from, to)?;
    std::io::stdout().write_all(&output)?;
    Ok(())
}

/// One object from one format to another. No defaults are filled in.
pub fn convert(input: &[u8], from: Format, to: Format) -> Result<Vec<u8>, String> {
    let (value, schema) = read(input, from)?;
    write(&value, schema, to)
}

/// A value, and its schema where its kind is built in.
type Object = (Value, Option<Schema<'static>>);

fn read(input: &[u8], from: Format) -> Result<Object, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    match from {
        Format::Json => {
            let meta = json::type_meta(input)
                .map_err(|e| format!("couldn't get version/kind; json parse error: {e}"))?;
            let schema = schema_of(&meta.api_version, &meta.kind)?;
            let decoded = match schema {
                Some(schema) => json::decode(input, schema, json::Unknown::Ignore),
                None => json::decode_any(input, json::Unknown::Ignore),
            };
            Ok((decoded.map_err(|e| text(&e))?.value, schema))
        }
        Format::Yaml => {
            let json = yaml::to_json(input).map_err(|e| text(&e))?;
            read(&json.text, Format::Json)
        }
        Format::Protobuf => {
            let envelope = protobuf::decode_object(input).map_err(|e| text(&e))?;
            let schema = schema_of(&envelope.api_version, &envelope.kind)?
                .ok_or(format!("no kind {:?} in {:?}", envelope.kind, envelope.api_version))?;
            Ok((envelope.decode(schema).map_err(|e| text(&e))?, Some(schema)))
        }
    }
}

fn write(value: &Value, schema: Option<Schema<'_>>, to: Format) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    match (to, schema) {
        (Format::Json | Format::Yaml, Some(schema)) => json::encode(value, schema, &mut out),
        (Format::Json | Format::Yaml, None) => json::encode_any(value, &mut out),
        (Format::Protobuf, Some(schema)) => out = protobuf::encode_object(value, schema),
        (Format::Protobuf, None) => return Err("custom kinds have no protobuf form".into()),
    }
    match to {
        Format::Json => out.push(b'\n'),
        Format::Yaml => {
            let json = std::mem::take(&mut out);
            yaml::from_json(&json, &mut out).map_err(|error| error.to_string())?;
        }
        Format::Protobuf => {}
    }
    Ok(out)
}

fn schema_of(api_version: &str, kind: &str) -> Result<Option<Schema<'static>>, String> {
    if api_version.is_empty() || kind.is_empty() {
        return Err("the object must say its apiVersion and kind".into());
    }
    let gv: GroupVersion = api_version.parse().map_err(|error| format!("{error}"))?;
    Ok(builtin::schema(&gv.group, &gv.version, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_turns_into_every_other() {
        let json = b"{\"kind\":\"Namespace\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"},\"spec\":{},\"status\":{}}\n";
        let yaml = b"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\nspec: {}\nstatus: {}\n";
        let protobuf = convert(json, Format::Json, Format::Protobuf).unwrap();
        assert!(protobuf.starts_with(b"k8s\0\n\x0f\n\x02v1\x12\tNamespace"));
        for (from, input) in [
            (Format::Json, &json[..]),
            (Format::Yaml, &yaml[..]),
            (Format::Protobuf, &protobuf[..]),
        ] {
            for (to, expected) in [
                (Format::Json, &json[..]),
                (Format::Yaml, &yaml[..]),
                (Format::Protobuf, &protobuf[..]),
            ] {
                assert_eq!(convert(input, from, to).as_deref(), Ok(expected), "{from:?} {to:?}");
            }
        }
    }

    #[test]
    fn custom_kinds_keep_what_they_say() {
        let json = b"{\"apiVersion\":\"e.x/v1\",\"kind\":\"X\",\"spec\":{\"a\":null,\"b\":0}}\n";
        assert_eq!(convert(json, Format::Json, Format::Json).as_deref(), Ok(&json[..]));
        assert!(convert(json, Format::Json, Format::Protobuf).is_err());
    }
}
