//! Values without a type, as `map[string]interface{}` holds them.

use compact_str::CompactString;
use kevel_api::quote::quote;
use kevel_api::value::{Map, Value};
use thin_vec::ThinVec;

use super::decode::number;
use super::error::{Error, Major, Result, TypeError};
use super::head::{FALSE, ItemHead, NULL, TRUE};
use super::reader::{CborReader, keep_first};
use super::{float, tag};
use crate::json;

/// Number of a map's entries that may be read before their keys are compared.
const MANY: usize = 1 << 16;

/// Reads a value of any type: whole numbers are `Int`, others `Float`.
pub fn decode_any(input: &[u8]) -> std::result::Result<Value, Error> {
    read_any(input).map_err(|error| *error)
}

/// The JSON text of a value of any type, its keys sorted.
pub fn to_json(input: &[u8]) -> std::result::Result<Vec<u8>, Error> {
    let mut text = Vec::with_capacity(input.len() + input.len() / 4);
    json::encode_any(&decode_any(input)?, &mut text);
    Ok(text)
}

/// Reads an object of any type (`map[string]interface{}`); null is one without fields.
///
/// ```
/// use kevel_codec::cbor;
/// assert_eq!(cbor::decode_object(b"\xa1\x41a\xf5")?.get("a"), Some(&true.into()));
/// assert!(cbor::decode_object(b"\x80").is_err());
/// # Ok::<(), cbor::Error>(())
/// ```
pub fn decode_object(input: &[u8]) -> std::result::Result<Map, Error> {
    let read =
        CborReader::new(input, true).and_then(|mut reader| reader.tagged(CborReader::object));
    read.map_err(|error| *error)
}

pub(super) fn read_any(input: &[u8]) -> Result<Value> {
    CborReader::new(input, true)?.any()
}

impl CborReader<'_> {
    pub(super) fn any(&mut self) -> Result<Value> {
        self.check_tags()?;
        let later = self.later;
        let value = self.any_behind_tags();
        self.later = later;
        value
    }

    fn any_behind_tags(&mut self) -> Result<Value> {
        while Major::of(self.peek()) == Major::Tag {
            let tag = self.head()?.argument;
            if matches!(tag, tag::TEXT_TIME | tag::EPOCH_TIME) {
                return self.time(tag).map(Value::String);
            }
            if let Some(later) = super::string::LaterEncoding::of(tag) {
                self.later = Some(later);
            }
        }
        match Major::of(self.peek()) {
            Major::Unsigned | Major::Negative => self.whole_number(),
            Major::Bytes | Major::Text => self.text().map(Value::String),
            Major::Array => self.down(CborReader::list_of_any).map(Value::List),
            Major::Map => self.down(CborReader::map_of_any).map(Value::Map),
            Major::Tag | Major::Other => {
                let head = self.head()?;
                simple(head)
            }
        }
    }

    fn whole_number(&mut self) -> Result<Value> {
        let head = self.head()?;
        let number = integer(head);
        i64::try_from(number).map(Value::Int).map_err(|_| {
            TypeError::with_note(head.major, "int64", format!("{number} overflows Go's int64"))
        })
    }

    fn list_of_any(&mut self) -> Result<ThinVec<Value>> {
        self.list(CborReader::any)
    }

    fn object(&mut self) -> Result<Map> {
        const GO: &str = "map[string]interface {}";
        match Major::of(self.peek()) {
            Major::Map => self.down(CborReader::map_of_any),
            Major::Unsigned | Major::Negative => {
                let head = self.head()?;
                number(head, None, || GO.to_owned()).map(|_| Map::new())
            }
            Major::Other => {
                let head = self.head()?;
                match simple(head)?.is_null() {
                    true => Ok(Map::new()),
                    false => Err(TypeError::boxed(head.major, GO)),
                }
            }
            major => Err(self.other_type(major, GO)?),
        }
    }

    fn map_of_any(&mut self) -> Result<Map> {
        self.map(NullEntry::Value(Value::Null), "string", CborReader::any)
    }

    /// A list, each element read by `read`.
    pub(super) fn list(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<Value>,
    ) -> Result<ThinVec<Value>> {
        let mut items = self.items()?;
        let mut values = ThinVec::new();
        let mut first = None;
        while self.next(&mut items).is_some() {
            let read = self.counted(&mut read);
            values.extend(keep_first(&mut first, read));
        }
        values.shrink_to_fit();
        first.map_or(Ok(values), Err)
    }

    /// A map whose keys are texts, which Go calls `key_type`, and each value is read by `read`.
    pub(super) fn map(
        &mut self,
        null: NullEntry,
        key_type: &str,
        mut read: impl FnMut(&mut Self) -> Result<Value>,
    ) -> Result<Map> {
        let mut items = self.items()?;
        let mut entries = MapEntries { found: Vec::new(), limit: MANY, sorted: false };
        let (mut first, mut key) = (None, CompactString::default());
        while let Some(index) = self.next(&mut items) {
            let text = self.key(key_type);
            match keep_first(&mut first, text) {
                // Null leaves the key that was there.
                Some(text) => key = text.unwrap_or(key),
                None => {
                    self.skip()?;
                    continue;
                }
            }
            let value = self.counted(&mut read);
            let Some(mut value) = keep_first(&mut first, value) else { continue };
            if value.is_null() {
                value = entries.null(&null);
            }
            entries.add(key.clone(), index, value);
            if let Some(error) = entries.duplicate(false) {
                self.skip_pairs(&mut items)?;
                return Err(error);
            }
        }
        match entries.duplicate(true).or(first) {
            Some(error) => Err(error),
            None => Ok(entries.into_map()),
        }
    }

    /// A key; `None` if it is null.
    fn key(&mut self, key_type: &str) -> Result<Option<CompactString>> {
        self.tagged(|reader| match Major::of(reader.peek()) {
            Major::Bytes | Major::Text => reader.text().map(Some),
            Major::Other => {
                let head = reader.head()?;
                match simple(head)? {
                    Value::Null => Ok(None),
                    _ => Err(TypeError::boxed(head.major, key_type)),
                }
            }
            major => Err(reader.other_type(major, key_type)?),
        })
    }

    /// Passes an item of another type than the wanted one: the error. Text is told first that it is none.
    pub(super) fn other_type(&mut self, found: Major, go: impl Into<String>) -> Result<Box<Error>> {
        match found {
            Major::Text => drop(self.utf8()?),
            _ => self.skip()?,
        }
        Ok(TypeError::boxed(found, go))
    }
}

/// The value of a key whose value is null.
pub(super) enum NullEntry {
    /// This one.
    Value(Value),
    /// The one of the key before: plain values stay in Go's memory, and null leaves what is there. This one at first.
    Last(Value),
}

/// The whole number that a head says.
pub(super) fn integer(head: ItemHead) -> i128 {
    match head.major {
        Major::Negative => -1 - i128::from(head.argument),
        _ => head.argument.into(),
    }
}

/// True, false, null, or a float.
pub(super) fn simple(head: ItemHead) -> Result<Value> {
    match head.information {
        FALSE => Ok(Value::Bool(false)),
        TRUE => Ok(Value::Bool(true)),
        NULL => Ok(Value::Null),
        _ => float::of_head(head)
            .map(Value::Float)
            .ok_or_else(|| Error::SimpleValue(head.argument).into()),
    }
}

/// The entries of a map under way.
struct MapEntries {
    found: Vec<(CompactString, usize, Value)>,
    /// Number of entries at which duplicate keys are removed: only different keys may take memory.
    limit: usize,
    /// Whether the last one is not where it was put.
    sorted: bool,
}

impl MapEntries {
    fn add(&mut self, key: CompactString, index: usize, value: Value) {
        self.found.push((key, index, value));
        self.sorted = false;
    }

    fn null(&self, null: &NullEntry) -> Value {
        let last = match self.sorted {
            true => self.found.iter().max_by_key(|(_, index, _)| *index),
            false => self.found.last(),
        };
        match (null, last) {
            (NullEntry::Last(_), Some((.., last))) => last.clone(),
            (NullEntry::Last(value) | NullEntry::Value(value), _) => value.clone(),
        }
    }

    /// The first key that is there twice, where it is looked for: now and then, and at the end.
    fn duplicate(&mut self, end: bool) -> Option<Box<Error>> {
        if !end && self.found.len() < self.limit {
            return None;
        }
        self.limit = self.found.len() * 2;
        if !self.found.is_sorted_by(|a, b| a.0 < b.0) {
            self.found.sort_by(|a, b| a.0.cmp(&b.0));
            self.sorted = true;
        }
        let twice = self.found.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        let first = twice.min_by_key(|pair| pair[1].1)?;
        Some(Box::new(Error::DuplicateKey { key: quote(&first[1].0), index: first[1].1 }))
    }

    fn into_map(self) -> Map {
        Map::from_sorted(self.found.into_iter().map(|(key, _, value)| (key, value)).collect())
    }
}
