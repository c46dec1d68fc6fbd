//! Objects and patches out of bytes, along a schema: each byte is a decision, and when there are no
//! more, what has been made ends.

use kevel_api::schema::{Field, Scalar, Schema, Type};
use kevel_api::value::{Map, Value};

/// Greatest depth of a generated tree.
const MAX_DEPTH: usize = 24;

/// Texts that rules look for: names, paths, references, expressions, and what is wrong with them.
const WORDS: [&str; 64] = [
    "",
    "a",
    "b",
    "default",
    "kube-system",
    "A_b",
    "-a",
    "a.b",
    "a/b",
    "a.b/c",
    "*",
    "a-",
    "..",
    "/",
    "/a",
    "/a/../b",
    "a:b",
    "a=b",
    "1",
    "0",
    "-1",
    "80",
    "65536",
    "50%",
    "101%",
    "1Gi",
    "100m",
    "1e3",
    "9Ei",
    "10.0.0.1",
    "10.0.0.0/24",
    "::1",
    "fd00::/64",
    "::ffff:1.2.3.4",
    "http",
    "TCP",
    "cpu",
    "memory",
    "nvidia.com/gpu",
    "requests.cpu",
    "kubernetes.io/hostname",
    "node.kubernetes.io/not-ready",
    "kubernetes.io/config.mirror",
    "In",
    "Exists",
    "NotIn",
    "Always",
    "Never",
    "None",
    "True",
    "v1",
    "apps/v1",
    "Pod",
    "* * * * *",
    "Europe/Berlin",
    "0,1-3",
    "self > 0",
    "self.a == oldSelf.a",
    "^a+$",
    ".spec.a",
    "object",
    "string",
    "2024-02-29T12:00:00Z",
    "\u{fffd}\u{1F600}",
];

/// Numbers at the borders of what rules allow.
const NUMBERS: [i64; 16] = [
    0,
    1,
    -1,
    2,
    3,
    10,
    80,
    100,
    101,
    3600,
    32767,
    65535,
    65536,
    i32::MAX as i64,
    i32::MIN as i64,
    i64::MAX,
];

/// Documents in documents: field sets, embedded objects, defaults.
const DOCUMENTS: [&str; 8] = [
    "null",
    "{}",
    "1",
    r#""a""#,
    r#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}"#,
    r#"{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:image":{}}}}}"#,
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#,
    r#"[{"a":[null,1.5,"b"]}]"#,
];

/// Makes trees out of bytes.
#[derive(Debug)]
pub struct Generator<'d> {
    bytes: &'d [u8],
    /// Whether what is made is a patch: nulls and directives among the fields.
    patches: bool,
}

impl<'d> Generator<'d> {
    pub fn new(bytes: &'d [u8]) -> Self {
        Generator { bytes, patches: false }
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// An object of a type; `None` when no bytes are left.
    pub fn object(&mut self, schema: Schema<'_>) -> Option<Value> {
        self.patches = false;
        (!self.bytes.is_empty()).then(|| self.value(schema, None, 0))
    }

    /// A merge patch for an object of a type, or a JSON patch for this document.
    pub fn patch(&mut self, document: &Value, schema: Schema<'_>) -> Option<Value> {
        if self.bytes.is_empty() {
            return None;
        }
        if self.below(3) == 0 {
            let count = 1 + self.below(6);
            return Some(Value::List(
                (0..count).map(|_| self.operation(document, schema)).collect(),
            ));
        }
        self.patches = true;
        let patch = self.value(schema, None, 0);
        self.patches = false;
        Some(patch)
    }

    fn value(&mut self, schema: Schema<'_>, field: Option<Field<'_>>, depth: usize) -> Value {
        if depth == MAX_DEPTH || self.bytes.is_empty() {
            return Value::Null;
        }
        match schema.ty() {
            Type::Struct(_) => Value::Map(self.fields(schema, depth)),
            Type::List { item, .. } => {
                let item = schema.other(*item);
                let count = self.below(4);
                Value::List((0..count).map(|_| self.value(item, field, depth + 1)).collect())
            }
            Type::Map { value, .. } => {
                let element = schema.other(*value);
                let mut map = Map::new();
                for _ in 0..self.below(4) {
                    let key = self.word();
                    map.insert(key, self.value(element, None, depth + 1));
                }
                Value::Map(map)
            }
            Type::Union { object, other } => {
                let ty = if self.byte() & 1 == 0 { object.ty } else { other.ty };
                self.value(schema.other(ty), None, depth + 1)
            }
            Type::Scalar(scalar) => self.scalar(*scalar, field),
            Type::Any => self.any(depth),
        }
    }

    /// Some of a struct's fields, the required ones among them unless decided otherwise.
    fn fields(&mut self, schema: Schema<'_>, depth: usize) -> Map {
        let mut map = Map::new();
        let Some(structure) = schema.as_struct() else { return map };
        let choice = self.byte();
        let fields: Vec<Field<'_>> = structure.fields().collect();
        let required = fields.iter().filter(|field| choice & 0x80 == 0 && field.required());
        let others = (0..choice & 7).map(|_| self.below(fields.len().max(1)));
        let others: Vec<usize> = others.collect();
        let others = others.iter().filter_map(|index| fields.get(*index));
        for field in required.chain(others) {
            let removed = self.patches && self.below(8) == 0;
            let value = match removed {
                true => Value::Null,
                false => self.value(field.schema(), Some(*field), depth + 1),
            };
            map.insert(field.key(), value);
        }
        if choice & 0x60 == 0x60 {
            self.extra(&mut map, &fields, depth);
        }
        map
    }

    /// Adds a field that the struct does not have: an unknown one, or a patch directive.
    fn extra(&mut self, map: &mut Map, fields: &[Field<'_>], depth: usize) {
        if !self.patches {
            let key = self.word();
            map.insert(key, self.any(depth + 1));
            return;
        }
        let name = fields.get(self.below(fields.len().max(1))).map_or("a", |field| field.name());
        let names = |generator: &mut Self| {
            let count = generator.below(4);
            Value::List((0..count).map(|_| Value::from(generator.word().as_str())).collect())
        };
        match self.below(4) {
            0 => {
                let directives = ["replace", "delete", "merge", "other"];
                map.insert("$patch", Value::from(directives[self.below(4)]));
            }
            1 => {
                map.insert("$retainKeys", names(self));
            }
            2 => {
                map.insert(format!("$deleteFromPrimitiveList/{name}"), names(self));
            }
            _ => {
                let order = match self.below(2) {
                    0 => names(self),
                    _ => self.any(depth + 1),
                };
                map.insert(format!("$setElementOrder/{name}"), order);
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar, field: Option<Field<'_>>) -> Value {
        match scalar {
            Scalar::String => {
                let values = field.map_or(0, |field| field.values().len());
                let choice = self.below(16);
                match field.and_then(|field| field.values().nth(choice % values.max(1))) {
                    Some(value) if choice < 14 => Value::from(value),
                    _ => Value::from(self.word().as_str()),
                }
            }
            Scalar::Bool => Value::Bool(self.byte() & 1 == 1),
            Scalar::Int32 | Scalar::Int64 | Scalar::Integer => Value::Int(self.number()),
            Scalar::Double | Scalar::Number => match self.byte() & 1 {
                0 => Value::Int(self.number()),
                _ => Value::Float(self.number() as f64 / 7.0),
            },
            Scalar::Bytes => Value::from(["", "YQ==", "e30=", "/w==", "?"][self.below(5)]),
            Scalar::Time => Value::from(
                ["2024-02-29T12:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "a"]
                    [self.below(4)],
            ),
            Scalar::MicroTime => Value::from(["2024-02-29T12:00:00.000001Z", "a"][self.below(2)]),
            Scalar::Duration => {
                Value::from(["0s", "1h2m3s", "-1s", "2562047h47m16s", "a"][self.below(5)])
            }
            Scalar::Quantity => Value::from(
                ["0", "1", "-1", "100m", "1Gi", "1.5", "9223372036854775807", "1e18", "0.1n", "a"]
                    [self.below(10)],
            ),
            Scalar::IntOrString => match self.byte() & 1 {
                0 => Value::Int(self.number()),
                _ => Value::from(self.word().as_str()),
            },
            Scalar::Raw | Scalar::Json | Scalar::FieldsV1 => {
                let text = DOCUMENTS[self.below(DOCUMENTS.len())];
                let read = kevel_codec::json::decode_any(
                    text.as_bytes(),
                    kevel_codec::json::Unknown::Ignore,
                );
                read.map(|read| read.value).unwrap_or_default()
            }
        }
    }

    /// JSON of no type in particular.
    fn any(&mut self, depth: usize) -> Value {
        if depth >= MAX_DEPTH || self.bytes.is_empty() {
            return Value::Null;
        }
        match self.below(8) {
            0 => Value::Null,
            1 => Value::Bool(self.byte() & 1 == 1),
            2 => Value::Int(self.number()),
            3 => Value::Float(self.number() as f64 / 3.0),
            4 | 5 => Value::from(self.word().as_str()),
            6 => {
                let count = self.below(4);
                Value::List((0..count).map(|_| self.any(depth + 1)).collect())
            }
            _ => {
                let mut map = Map::new();
                for _ in 0..self.below(4) {
                    let key = self.word();
                    map.insert(key, self.any(depth + 1));
                }
                Value::Map(map)
            }
        }
    }

    fn number(&mut self) -> i64 {
        match self.byte() {
            choice @ 0..0x80 => NUMBERS[usize::from(choice) % NUMBERS.len()],
            choice => i64::from(choice) << self.below(56),
        }
    }

    /// One of the words, or what the bytes say.
    fn word(&mut self) -> String {
        let choice = usize::from(self.byte());
        if choice < 0xe0 {
            return WORDS[choice % WORDS.len()].to_owned();
        }
        let length = (choice & 0x1f).min(self.bytes.len());
        let (text, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        String::from_utf8_lossy(text).into_owned()
    }

    /// An operation of a JSON patch, at a place that is in the document or near one.
    fn operation(&mut self, document: &Value, schema: Schema<'_>) -> Value {
        let name = ["add", "remove", "replace", "move", "copy", "test", "other"][self.below(7)];
        let mut operation = Map::new();
        operation.insert("op", Value::from(name));
        operation.insert("path", Value::from(self.pointer(document).as_str()));
        if matches!(name, "move" | "copy") {
            operation.insert("from", Value::from(self.pointer(document).as_str()));
        }
        if matches!(name, "add" | "replace" | "test" | "other") {
            let value = match self.below(2) {
                0 => self.any(0),
                _ => self.value(schema, None, 0),
            };
            operation.insert("value", value);
        }
        Value::Map(operation)
    }

    /// A JSON pointer.
    fn pointer(&mut self, document: &Value) -> String {
        let mut pointer = String::new();
        let mut at = Some(document);
        for _ in 0..self.below(8) {
            let choice = self.below(32);
            let (step, next) = match at {
                Some(Value::Map(map)) if choice < 28 && !map.is_empty() => {
                    let entry = map.iter().nth(choice % map.len());
                    entry.map(|(key, value)| (key.to_owned(), Some(value))).unwrap_or_default()
                }
                Some(Value::List(list)) if choice < 28 => {
                    let index = choice % (list.len() + 1);
                    (index.to_string(), list.get(index))
                }
                _ if choice == 28 => ("-".to_owned(), None),
                _ if choice == 29 => ("-1".to_owned(), None),
                _ => (self.word(), None),
            };
            pointer.push('/');
            pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
            at = next;
        }
        pointer
    }
}
