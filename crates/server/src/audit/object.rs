//! Objects in events: compact JSON, whatever the media type.

use bytes::Bytes;
use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::schema::Schema;
use kevel_api::value::Value;
use kevel_codec::json::{self, Unknown};
use kevel_codec::{cbor, protobuf, yaml};

use crate::negotiate::MediaType;

/// JSON of a typed object.
pub(super) fn typed(value: &Value, schema: Schema<'_>, omit_managed_fields: bool) -> Bytes {
    let mut out = Vec::with_capacity(1024);
    if omit_managed_fields && has_managed_fields(value) {
        let mut value = value.clone();
        strip(&mut value);
        json::encode(&value, schema, &mut out);
    } else {
        json::encode(value, schema, &mut out);
    }
    out.into()
}

/// A patch as JSON, converted from YAML if needed; `None` if it is neither.
pub(super) fn patch(body: &[u8]) -> Option<Bytes> {
    compact(body).or_else(|| compact(&yaml::to_json(body).ok()?.text))
}

/// The object in a response; `None` if there is none, as for `/version`.
pub(super) fn answer(content_type: &str, body: &[u8], omit_managed_fields: bool) -> Option<Bytes> {
    let media = content_type.split(';').next().unwrap_or_default().trim();
    let media_is = |wanted: MediaType| wanted.name() == media;
    if media_is(MediaType::Json) {
        return json_answer(body, omit_managed_fields);
    }
    if media_is(MediaType::Yaml) {
        return json_answer(&yaml::to_json(body).ok()?.text, omit_managed_fields);
    }
    if media_is(MediaType::Cbor) {
        return cbor_answer(body, omit_managed_fields);
    }
    if !media_is(MediaType::Protobuf) {
        return None;
    }
    let envelope = protobuf::decode_object(body).ok()?;
    let schema = schema(&envelope.api_version, &envelope.kind)?;
    Some(typed(&envelope.decode(schema).ok()?, schema, omit_managed_fields))
}

/// The Status in a response, without metadata and with the response's code; `None` if the body is no Status, which its
/// first bytes tell.
pub(super) fn status(content_type: &str, body: &[u8], code: u16) -> Option<Bytes> {
    const BEGIN: usize = 64;
    const KIND: &[u8] = b"Status";
    let begin = body.get(..body.len().min(BEGIN)).unwrap_or_default();
    begin.windows(KIND.len()).find(|window| *window == KIND)?;
    let status = answer(content_type, body, false)?;
    let meta = json::type_meta(&status).ok()?;
    let schema = schema(&meta.api_version, &meta.kind).filter(|_| meta.kind == "Status")?;
    let mut value = json::decode(&status, schema, Unknown::Ignore).ok()?.value;
    let fields = value.as_map_mut()?;
    fields.remove("metadata");
    fields.insert("code", Value::Int(code.into()));
    let mut out = Vec::with_capacity(status.len());
    json::encode(&value, schema, &mut out);
    Some(out.into())
}

fn cbor_answer(body: &[u8], omit_managed_fields: bool) -> Option<Bytes> {
    let meta = cbor::type_meta(body).ok()?;
    let Some(schema) = schema(&meta.api_version, &meta.kind) else {
        return json_answer(&cbor::to_json(body).ok()?, omit_managed_fields);
    };
    let decoded = cbor::decode(body, schema, Unknown::Ignore).ok()?;
    Some(typed(&decoded.value, schema, omit_managed_fields))
}

fn json_answer(body: &[u8], omit_managed_fields: bool) -> Option<Bytes> {
    let meta = json::type_meta(body).ok().filter(|meta| !meta.kind.is_empty())?;
    if !omit_managed_fields || !names_managed_fields(body) {
        return compact(body);
    }
    // Built-in types keep their field order; others are sorted.
    let schema = schema(&meta.api_version, &meta.kind);
    let mut value = match schema {
        Some(schema) => json::decode(body, schema, Unknown::Ignore).ok()?.value,
        None => json::decode_any(body, Unknown::Ignore).ok()?.value,
    };
    strip(&mut value);
    let mut out = Vec::with_capacity(body.len());
    match schema {
        Some(schema) => json::encode(&value, schema, &mut out),
        None => json::encode_any(&value, &mut out),
    }
    Some(out.into())
}

fn names_managed_fields(body: &[u8]) -> bool {
    const KEY: &[u8] = br#""managedFields""#;
    body.windows(KEY.len()).any(|window| window == KEY)
}

fn schema(api_version: &str, kind: &str) -> Option<Schema<'static>> {
    let kind = GroupVersionKind::from_api_version_and_kind(api_version, kind);
    builtin::schema(&kind.group, &kind.version, &kind.kind)
}

/// JSON without white space, and with HTML characters escaped.
fn compact(body: &[u8]) -> Option<Bytes> {
    let text = json::compact(body).ok()?;
    let mut out = Vec::with_capacity(text.len());
    json::encode_any(&Value::Raw(text), &mut out);
    Some(out.into())
}

fn has_managed_fields(value: &Value) -> bool {
    value.at(&["metadata", "managedFields"]).is_some()
}

/// Removes managedFields from an object, a list's items, and the objects of a Table's rows.
fn strip(value: &mut Value) {
    if let Some(metadata) = value.at_mut(&["metadata"]).and_then(Value::as_map_mut) {
        metadata.remove("managedFields");
    }
    if let Some(items) = value.at_mut(&["items"]).and_then(Value::as_list_mut) {
        items.iter_mut().for_each(strip);
    }
    if let Some(rows) = value.at_mut(&["rows"]).and_then(Value::as_list_mut) {
        let objects = rows.iter_mut().filter_map(|row| row.at_mut(&["object"]));
        objects.for_each(|object| match object {
            Value::Raw(text) => {
                let stripped = json_answer(text.as_bytes(), true);
                let stripped = stripped.and_then(|text| String::from_utf8(text.into()).ok());
                if let Some(stripped) = stripped {
                    *object = Value::Raw(stripped.into_boxed_str());
                }
            }
            object => strip(object),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","managedFields":[{"manager":"m","operation":"Update"}]},"spec":{"containers":null},"status":{}}"#;
    const BARE: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"containers":null},"status":{}}"#;

    fn text(bytes: Option<Bytes>) -> String {
        String::from_utf8(bytes.unwrap_or_default().to_vec()).unwrap()
    }

    #[test]
    fn answers_are_kept_as_compact_json() {
        let json = "application/json";
        assert_eq!(text(answer(json, format!("{POD}\n").as_bytes(), false)), POD);
        let mut pretty = Vec::new();
        json::indent(POD.as_bytes(), &mut pretty);
        assert_eq!(text(answer(json, &pretty, false)), POD);
        let mut yaml = Vec::new();
        yaml::from_json(BARE.as_bytes(), &mut yaml).unwrap();
        let kept = text(answer("application/yaml", &yaml, false));
        assert!(kept.contains(r#""kind":"Pod""#) && kept.contains(r#""name":"a""#), "{kept}");
        let schema = builtin::schema("", "v1", "Pod").unwrap();
        let pod = json::decode(POD.as_bytes(), schema, Unknown::Ignore).unwrap().value;
        let protobuf = protobuf::encode_object(&pod, schema);
        let media = "application/vnd.kubernetes.protobuf";
        assert_eq!(text(answer(media, &protobuf, false)), POD);
        assert_eq!(text(answer(media, &protobuf, true)), BARE);
        for (media, body) in
            [(json, r#"{"major":"1"}"#), ("text/plain", "ok"), (json, "no"), (media, "no")]
        {
            assert_eq!(answer(media, body.as_bytes(), true), None, "{body}");
        }
    }

    #[test]
    fn managed_fields_can_be_left_out() {
        let list = |pod: &str| {
            format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{}},"items":[{pod}]}}"#)
        };
        let inner = |pod: &str| pod.replace(r#""kind":"Pod","apiVersion":"v1","#, "");
        let table = |pod: &str| {
            format!(
                r#"{{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{{}},"columnDefinitions":[],"rows":[{{"cells":["a"],"object":{pod}}}]}}"#
            )
        };
        let custom = r#"{"apiVersion":"a/v1","kind":"B","metadata":{"managedFields":[],"name":"c"},"spec":{}}"#;
        for (whole, expected) in [
            (POD.to_owned(), BARE.to_owned()),
            (list(&inner(POD)), list(&inner(BARE))),
            (custom.to_owned(), custom.replace(r#""managedFields":[],"#, "")),
        ] {
            assert_eq!(text(answer("application/json", whole.as_bytes(), true)), expected);
        }
        let kept = text(answer("application/json", table(POD).as_bytes(), true));
        assert!(kept.contains(BARE), "{kept}");
    }

    #[test]
    fn patches_are_kept_as_they_came() {
        for (body, expected) in [
            (r#"[ {"op":"remove", "path":"/a<b"} ]"#, r#"[{"op":"remove","path":"/a\u003cb"}]"#),
            ("a: [1, b]\n", r#"{"a":[1,"b"]}"#),
            ("{", ""),
        ] {
            assert_eq!(text(patch(body.as_bytes())), expected, "{body}");
        }
    }
}
