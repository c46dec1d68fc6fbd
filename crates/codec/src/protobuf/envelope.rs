//! Envelope of an object: four bytes that cannot begin JSON, then a `runtime.Unknown`.

use compact_str::CompactString;
use kevel_api::schema::{FieldFlags, Schema};
use kevel_api::value::Value;

use super::encode::Writer;
use super::error;
use super::{Error, decode, scalar, wire};

/// First bytes of an object in protobuf.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// An object whose kind is known and whose message is not decoded yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope<'i> {
    /// apiVersion of the object.
    pub api_version: CompactString,
    /// The kind of the object.
    pub kind: CompactString,
    /// Encoded message.
    pub raw: &'i [u8],
}

impl Envelope<'_> {
    /// Decodes the object, with `apiVersion` and `kind` of the envelope.
    pub fn decode(&self, schema: Schema<'_>) -> Result<Value, Error> {
        let mut value = decode(self.raw, schema)?;
        if let Value::Map(map) = &mut value {
            for (name, text) in [("apiVersion", &self.api_version), ("kind", &self.kind)] {
                match schema.field(name) {
                    Some(field) if field.flags().has(FieldFlags::TYPE_META) && !text.is_empty() => {
                        map.insert(field.key(), Value::String(text.clone()));
                    }
                    _ => {}
                }
            }
        }
        Ok(value)
    }
}

/// Decodes an envelope.
///
/// ```
/// use kevel_codec::{json, protobuf};
/// let schema = kevel_api::builtin::schema("", "v1", "Namespace").unwrap();
/// let text = br#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"default"}}"#;
/// let value = json::decode(text, schema, json::Unknown::Report)?.value;
///
/// let bytes = protobuf::encode_object(&value, schema);
/// let envelope = protobuf::decode_object(&bytes)?;
/// assert_eq!((&*envelope.api_version, &*envelope.kind), ("v1", "Namespace"));
/// assert_eq!(envelope.decode(schema)?, value);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn decode_object(input: &[u8]) -> Result<Envelope<'_>, Error> {
    let body = match input.strip_prefix(MAGIC) {
        _ if input.is_empty() => return Err(Error::EmptyData),
        None => return Err(Error::NoMagic),
        Some([]) => return Err(Error::EmptyBody),
        Some(body) => body,
    };
    let mut envelope = Envelope {
        api_version: CompactString::default(),
        kind: CompactString::default(),
        raw: &[],
    };
    wire::members(body, "Unknown", |key, rest| {
        let name = match key.tag {
            1 => "TypeMeta",
            2 => "Raw",
            3 => "ContentEncoding",
            4 => "ContentType",
            _ => return Ok(false),
        };
        let bytes = key.delimited(rest, || name.to_owned())?;
        match key.tag {
            1 => read_type_meta(bytes, &mut envelope)?,
            2 => envelope.raw = bytes,
            _ => {}
        }
        Ok(true)
    })
    .map_err(|error| *error)?;
    Ok(envelope)
}

fn read_type_meta(input: &[u8], envelope: &mut Envelope<'_>) -> error::Result<()> {
    wire::members(input, "TypeMeta", |key, rest| {
        let (name, text) = match key.tag {
            1 => ("APIVersion", &mut envelope.api_version),
            2 => ("Kind", &mut envelope.kind),
            _ => return Ok(false),
        };
        *text = scalar::text(key.delimited(rest, || name.to_owned())?);
        Ok(true)
    })
}

/// Encodes an object in its envelope, with its `apiVersion` and `kind`.
pub fn encode_object(value: &Value, schema: Schema<'_>) -> Vec<u8> {
    let mut writer = Writer::new();
    // Content encoding and content type are empty: the message is plain protobuf.
    writer.out.text(4, b"");
    writer.out.text(3, b"");
    let end = writer.out.len();
    writer.object(value, schema);
    writer.out.delimit(2, end);
    let end = writer.out.len();
    writer.out.text(2, value.str_at(&["kind"]).as_bytes());
    writer.out.text(1, value.str_at(&["apiVersion"]).as_bytes());
    writer.out.delimit(1, end);
    writer.out.bytes(MAGIC);
    writer.out.finish()
}

/// Tag of `items` in every list; that of its metadata comes before.
const ITEMS: u8 = 2;

/// Bytes before and after the items of a list in its envelope. `items` is their total size as [`encode_item`] writes
/// them; `list` has none.
pub fn encode_list(list: &Value, schema: Schema<'_>, items: usize) -> (Vec<u8>, Vec<u8>) {
    let message = super::encode(list, schema);
    let mut type_meta = Vec::new();
    for (tag, name) in [(1, "apiVersion"), (2, "kind")] {
        let text = list.str_at(&[name]);
        write_length(tag, text.len(), &mut type_meta);
        type_meta.extend_from_slice(text.as_bytes());
    }
    let mut head = MAGIC.to_vec();
    write_length(1, type_meta.len(), &mut head);
    head.extend_from_slice(&type_meta);
    write_length(2, message.len() + items, &mut head);
    head.extend_from_slice(&message);
    let mut tail = Vec::new();
    write_length(3, 0, &mut tail);
    write_length(4, 0, &mut tail);
    (head, tail)
}

/// Appends an item of a list.
pub fn encode_item(item: &Value, schema: Schema<'_>, out: &mut Vec<u8>) {
    let message = super::encode(item, schema);
    write_length(ITEMS, message.len(), out);
    out.extend_from_slice(&message);
}

/// Appends the key and length of a member.
fn write_length(tag: u8, length: usize, out: &mut Vec<u8>) {
    out.push(tag << 3 | 2);
    let mut rest = length;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
