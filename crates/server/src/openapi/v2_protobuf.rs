//! The document of OpenAPI 2 as protobuf: the messages that clients of older versions read, written
//! from the same pieces as the JSON.

use kevel_api::value::{Map, Value};
use kevel_codec::{json, yaml};

use super::v2::Sink;

/// The document as protobuf.
#[derive(Debug, Default)]
pub(super) struct Protobuf {
    version: String,
    paths: Message,
    definitions: Message,
    parameters: Message,
}

impl Protobuf {
    pub fn new(version: &str) -> Self {
        Protobuf { version: version.to_owned(), ..Protobuf::default() }
    }

    pub fn finish(self) -> Vec<u8> {
        let mut info = Message::default();
        info.text(1, "Kubernetes");
        info.text(2, &self.version);
        let mut requirement = Message::default();
        requirement.named(1, "BearerToken", &Message::default());
        let mut key = Message::default();
        key.text(1, "apiKey");
        key.text(2, "authorization");
        key.text(3, "header");
        let mut definition = Message::default();
        definition.message(2, &key);
        let mut security = Message::default();
        security.named(1, "BearerToken", &definition);
        let mut document = Message::default();
        document.text(1, "2.0");
        document.message(2, &info);
        document.message(8, &self.paths);
        document.message(9, &self.definitions);
        document.message(10, &self.parameters);
        document.message(12, &requirement);
        document.message(13, &security);
        document.0
    }
}

impl Sink for Protobuf {
    fn path(&mut self, path: &str, item: Value) {
        self.paths.named(2, path, &path_item(&item));
    }

    fn definition(&mut self, name: &str, value: Value) {
        self.definitions.named(1, name, &schema(&value));
    }

    fn parameter(&mut self, name: &str, value: Value) {
        self.parameters.named(1, name, &parameter(&value));
    }
}

const METHODS: [(&str, u32); 7] =
    [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("options", 6), ("head", 7), ("patch", 8)];

fn path_item(item: &Value) -> Message {
    let mut out = Message::default();
    for (method, tag) in METHODS {
        if let Some(value) = item.at(&[method]) {
            out.message(tag, &operation(value));
        }
    }
    for value in items(item, "parameters") {
        out.message(9, &parameters_item(value));
    }
    out
}

fn operation(value: &Value) -> Message {
    let mut out = Message::default();
    out.texts(1, items(value, "tags"));
    out.text(3, value.str_at(&["description"]));
    out.text(5, value.str_at(&["operationId"]));
    out.texts(6, items(value, "produces"));
    out.texts(7, items(value, "consumes"));
    for value in items(value, "parameters") {
        out.message(8, &parameters_item(value));
    }
    let mut responses = Message::default();
    for (code, response) in entries(value, "responses") {
        let mut message = Message::default();
        message.text(1, response.str_at(&["description"]));
        if let Some(of) = response.at(&["schema"]) {
            let mut item = Message::default();
            item.message(1, &schema(of));
            message.message(2, &item);
        }
        let mut value = Message::default();
        value.message(1, &message);
        responses.named(1, code, &value);
    }
    out.message(9, &responses);
    out.texts(10, items(value, "schemes"));
    out.extensions(13, value);
    out
}

/// A parameter, or a reference to one.
fn parameters_item(value: &Value) -> Message {
    let mut item = Message::default();
    match value.str_at(&["$ref"]) {
        "" => item.message(1, &parameter(value)),
        name => {
            let mut reference = Message::default();
            reference.text(1, name);
            item.message(2, &reference);
        }
    }
    item
}

fn parameter(value: &Value) -> Message {
    let required = value.at(&["required"]).and_then(Value::as_bool).unwrap_or_default();
    let place = value.str_at(&["in"]);
    let mut parameter = Message::default();
    if place == "body" {
        let mut body = Message::default();
        body.text(2, value.str_at(&["name"]));
        body.text(3, place);
        body.flag(4, required);
        if let Some(of) = value.at(&["schema"]) {
            body.message(5, &schema(of));
        }
        parameter.message(1, &body);
    } else {
        // The two messages number their fields alike up to `name`.
        let (kind, ty, unique) = if place == "path" { (4, 5, 19) } else { (3, 6, 20) };
        let mut plain = Message::default();
        plain.flag(1, required);
        plain.text(2, place);
        plain.text(3, value.str_at(&["description"]));
        plain.text(4, value.str_at(&["name"]));
        plain.text(ty, value.str_at(&["type"]));
        plain.flag(unique, true);
        let mut other = Message::default();
        other.message(kind, &plain);
        parameter.message(2, &other);
    }
    parameter
}

fn schema(value: &Value) -> Message {
    let mut out = Message::default();
    out.text(1, value.str_at(&["$ref"]));
    out.text(2, value.str_at(&["format"]));
    out.text(4, value.str_at(&["description"]));
    out.texts(19, items(value, "required"));
    for value in items(value, "enum") {
        out.message(20, &any(value));
    }
    if let Some(of) = value.at(&["additionalProperties"]) {
        let mut item = Message::default();
        item.message(1, &schema(of));
        out.message(21, &item);
    }
    if let Some(ty) = value.at(&["type"]) {
        let mut item = Message::default();
        item.texts(1, std::slice::from_ref(ty).iter());
        out.message(22, &item);
    }
    if let Some(of) = value.at(&["items"]) {
        let mut item = Message::default();
        item.message(1, &schema(of));
        out.message(23, &item);
    }
    if value.at(&["properties"]).is_some() {
        let mut properties = Message::default();
        for (name, property) in entries(value, "properties") {
            properties.named(1, name, &schema(property));
        }
        out.message(25, &properties);
    }
    out.extensions(31, value);
    out
}

/// Any value, as YAML in the block style that clients compare with; as JSON, which is YAML, where that fails.
fn any(value: &Value) -> Message {
    let mut text = Vec::new();
    if yaml::encode_any(value, &mut text).is_err() {
        text.clear();
        json::encode_any(value, &mut text);
        text.push(b'\n');
    }
    let mut any = Message::default();
    any.bytes(2, &text);
    any
}

fn items<'v>(value: &'v Value, key: &str) -> std::slice::Iter<'v, Value> {
    value.at(&[key]).and_then(Value::as_list).unwrap_or_default().iter()
}

fn entries<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = (&'v str, &'v Value)> {
    value.at(&[key]).and_then(Value::as_map).into_iter().flat_map(Map::iter)
}

/// The bytes of a message.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn bytes(&mut self, tag: u32, bytes: &[u8]) {
        self.number(u64::from(tag) << 3 | 2);
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, tag: u32, text: &str) {
        if !text.is_empty() {
            self.bytes(tag, text.as_bytes());
        }
    }

    fn texts<'v>(&mut self, tag: u32, texts: impl Iterator<Item = &'v Value>) {
        texts.filter_map(Value::as_str).for_each(|text| self.bytes(tag, text.as_bytes()));
    }

    fn flag(&mut self, tag: u32, flag: bool) {
        if flag {
            self.number(u64::from(tag) << 3);
            self.number(1);
        }
    }

    fn message(&mut self, tag: u32, message: &Message) {
        self.bytes(tag, &message.0);
    }

    /// An entry of a map: a message of a name and a value.
    fn named(&mut self, tag: u32, name: &str, value: &Message) {
        let mut entry = Message::default();
        entry.text(1, name);
        entry.message(2, value);
        self.message(tag, &entry);
    }

    fn extensions(&mut self, tag: u32, value: &Value) {
        let all = value.as_map().into_iter().flat_map(Map::iter);
        for (name, value) in all.filter(|(name, _)| name.starts_with("x-")) {
            self.named(tag, name, &any(value));
        }
    }
}
