//! Operations of a JSON patch, and JSON pointers.

use std::borrow::Cow;

use compact_str::CompactString;
use kevel_api::value::{Map, Value};
use kevel_codec::json::{Unknown, decode_any, encode_any, open, open_all};

use super::{Error, Limits, depth};
use crate::merge_patch::opened;

/// One operation of a JSON patch. Missing fields are reported when it is applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    op: Option<String>,
    path: Option<String>,
    from: Option<String>,
    /// A missing value is `null`.
    value: Value,
}

impl From<Value> for Operation {
    fn from(value: Value) -> Self {
        let Value::Map(mut map) = value else {
            return Operation { op: None, path: None, from: None, value: Value::Null };
        };
        let text = |key| map.get(key).and_then(Value::as_str).map(str::to_owned);
        let (op, path, from) = (text("op"), text("path"), text("from"));
        Operation { op, path, from, value: map.remove("value").unwrap_or_default() }
    }
}

impl Operation {
    /// Operation name: `add`, `remove`, `replace`, `move`, `copy` or `test`.
    pub fn op(&self) -> &str {
        self.op.as_deref().unwrap_or("unknown")
    }

    /// Value to add, replace with or test; `null` if missing.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// JSON pointers of the operation; missing ones are reported when it is applied.
    pub(super) fn places(&self) -> impl Iterator<Item = &str> {
        self.path.as_deref().into_iter().chain(self.from.as_deref())
    }

    /// Makes an operation whose value stays undecoded text.
    pub(super) fn unread(operation: Value) -> Self {
        let Value::Map(mut map) = opened(operation) else {
            return <Operation as From<Value>>::from(Value::Null);
        };
        let mut text = |key| match map.remove(key) {
            Some(Value::Raw(text)) => {
                let read = decode_any(text.as_bytes(), Unknown::Ignore).ok()?;
                read.value.as_str().map(str::to_owned)
            }
            _ => None,
        };
        let (op, path, from) = (text("op"), text("path"), text("from"));
        Operation { op, path, from, value: map.remove("value").unwrap_or_default() }
    }

    /// Applies an operation that is known to apply, to a document with undecoded parts. A passed `test` only decodes
    /// the tested value, as it does in the reference.
    pub(super) fn replay(&self, document: &mut Value, limits: &mut Limits) -> Option<()> {
        if self.op() != "test" {
            return self.change(document, limits).ok();
        }
        let tested = match self.path.as_deref()? {
            "" => Some(document),
            path => PatchTarget::find(document, path)?.into_value(),
        };
        if let Some(tested) = tested {
            open_all_of(tested);
        }
        Some(())
    }

    pub(super) fn apply(&self, document: &mut Value, limits: &mut Limits) -> Result<(), Error> {
        if self.op() == "test" {
            return self.test(document);
        }
        self.change(document, limits).map_err(Error::Apply)
    }

    fn change(&self, document: &mut Value, limits: &mut Limits) -> Result<(), String> {
        match self.op() {
            "add" => self.add(document, limits),
            "remove" => self.remove(document, limits),
            "replace" => self.replace(document, limits),
            "move" => self.move_from(document, limits),
            "copy" => self.copy_from(document, limits),
            other => Err(format!("Unexpected kind: {other}")),
        }
    }

    fn path(&self) -> Result<&str, String> {
        self.path.as_deref().ok_or_else(|| {
            let op = self.op();
            match op {
                "add" | "remove" | "copy" => {
                    format!("{op} operation failed to decode path: {MISSING}")
                }
                _ => format!(
                    "{op} operation failed to decode path: operation missing path field: {MISSING}"
                ),
            }
        })
    }

    fn from(&self) -> Result<&str, String> {
        self.from.as_deref().ok_or_else(|| {
            let op = self.op();
            format!(
                "{op} operation failed to decode from: operation, missing from field: {MISSING}"
            )
        })
    }

    fn add(&self, document: &mut Value, limits: &mut Limits) -> Result<(), String> {
        let path = self.path()?;
        let place = PatchTarget::find(document, path).ok_or_else(|| {
            format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}")
        })?;
        limits.put(place.depth, depth(&self.value));
        place
            .add(self.value.clone(), limits)
            .map_err(|error| format!("error in add for path: '{path}': {error}"))
    }

    fn remove(&self, document: &mut Value, limits: &mut Limits) -> Result<(), String> {
        let path = self.path()?;
        let place = PatchTarget::find(document, path).ok_or_else(|| {
            format!("remove operation does not apply: doc is missing path: \"{path}\": {MISSING}")
        })?;
        let removed = place.remove(limits);
        removed.map_err(|error| format!("error in remove for path: '{path}': {error}"))?;
        Ok(())
    }

    fn replace(&self, document: &mut Value, limits: &mut Limits) -> Result<(), String> {
        let path = self.path()?;
        if path.is_empty() {
            let value = opened(self.value.clone());
            if !matches!(value, Value::Map(_) | Value::List(_)) {
                return Err("replace operation value must be object or array".to_owned());
            }
            limits.put(0, depth(&value));
            *document = value;
            return Ok(());
        }
        let place = PatchTarget::find(document, path).ok_or_else(|| {
            format!("replace operation does not apply: doc is missing path: {path}: {MISSING}")
        })?;
        limits.put(place.depth, depth(&self.value));
        place.set(self.value.clone(), limits).map_err(|_| {
            format!("replace operation does not apply: doc is missing key: {path}: {MISSING}")
        })
    }

    fn move_from(&self, document: &mut Value, limits: &mut Limits) -> Result<(), String> {
        let from = self.from()?;
        let source = PatchTarget::find(document, from).ok_or_else(|| {
            format!("move operation does not apply: doc is missing from path: {from}: {MISSING}")
        })?;
        let (key, below) = (source.key.clone().into_owned(), source.depth);
        let removed = source.remove(limits);
        let value = removed.map_err(|error| format!("error in move for path: '{key}': {error}"))?;
        let path = self.path()?;
        let place = PatchTarget::find(document, path).ok_or_else(|| {
            format!(
                "move operation does not apply: doc is missing destination path: {path}: {MISSING}"
            )
        })?;
        limits.put(place.depth, limits.depth.saturating_sub(below));
        let added = place.add(value, limits);
        added.map_err(|error| format!("error in move for path: '{path}': {error}"))
    }

    fn copy_from(&self, document: &mut Value, limits: &mut Limits) -> Result<(), String> {
        let from = self.from()?;
        let source = PatchTarget::find(document, from).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing from path: {from}: {MISSING}")
        })?;
        let found =
            source.get().map_err(|error| format!("error in copy for from: '{from}': {error}"))?;
        // The value is copied only after its size is known to be within the limit.
        let mut json = Vec::new();
        if let Some(value) = found.filter(|value| !value.is_null()) {
            encode_any(value, &mut json);
        }
        limits.count_copy(json.len())?;
        let value = found.cloned().unwrap_or_default();
        let path = self.path()?;
        let place = PatchTarget::find(document, path).ok_or_else(|| {
            format!(
                "copy operation does not apply: doc is missing destination path: {path}: {MISSING}"
            )
        })?;
        limits.put(place.depth, depth(&value));
        let added = place.add(value, limits);
        added.map_err(|error| format!("error while adding value during copy: {error}"))
    }

    fn test(&self, document: &mut Value) -> Result<(), Error> {
        let path = self.path().map_err(Error::Apply)?;
        let failed = || Error::TestFailed(format!("testing value {path} failed: test failed"));
        if path.is_empty() {
            return if *document == self.value { Ok(()) } else { Err(failed()) };
        }
        let missing =
            || format!("test operation does not apply: is missing path: {path}: {MISSING}");
        let place = PatchTarget::find(document, path).ok_or_else(|| Error::Apply(missing()))?;
        let wrong = |error| Error::Apply(format!("error in test for path: '{path}': {error}"));
        let found = place.get().map_err(wrong)?;
        // A missing field equals `null`.
        if *found.unwrap_or(&Value::Null) == self.value { Ok(()) } else { Err(failed()) }
    }
}

const MISSING: &str = "missing value";

/// A key or index in an existing object or list.
struct PatchTarget<'d, 'p> {
    container: &'d mut Value,
    key: Cow<'p, str>,
    /// Depth of the value at this place in the document.
    depth: usize,
}

impl<'d, 'p> PatchTarget<'d, 'p> {
    /// PatchTarget that a JSON pointer (RFC 6901) names. Text before its first `/` is ignored.
    fn find(document: &'d mut Value, path: &'p str) -> Option<Self> {
        let (_, path) = path.split_once('/')?;
        let mut tokens = path.split('/').map(unescape).peekable();
        let mut container = document;
        let mut depth = 1;
        loop {
            let key = tokens.next()?;
            if tokens.peek().is_none() {
                return Some(PatchTarget { container, key, depth });
            }
            let next = match container {
                Value::Map(map) => map.get_mut(&key)?,
                Value::List(items) => {
                    let index = index(&key, items.len()).ok()?;
                    items.get_mut(index)?
                }
                _ => return None,
            };
            if let Value::Raw(text) = next {
                *next = open(text);
            }
            if !matches!(next, Value::Map(_) | Value::List(_)) {
                return None;
            }
            container = next;
            depth += 1;
        }
    }

    fn get(&self) -> Result<Option<&Value>, String> {
        match &*self.container {
            Value::Map(map) => Ok(map.get(&self.key)),
            Value::List(items) => Ok(items.get(index(&self.key, items.len())?)),
            _ => Ok(None),
        }
    }

    fn into_value(self) -> Option<&'d mut Value> {
        match self.container {
            Value::Map(map) => map.get_mut(&self.key),
            Value::List(items) => {
                let index = index(&self.key, items.len()).ok()?;
                items.get_mut(index)
            }
            _ => None,
        }
    }

    fn add(self, value: Value, limits: &mut Limits) -> Result<(), String> {
        match self.container {
            Value::Map(map) => put(map, &self.key, value, limits)?,
            Value::List(items) if self.key == "-" => items.push(value),
            Value::List(items) => {
                let index = index(&self.key, items.len() + 1).map_err(|error| match error {
                    error if error.starts_with("strconv") => {
                        format!("value was not a proper array index: '{}': {error}", self.key)
                    }
                    error => error,
                })?;
                limits.count_move::<Value>(items.len() - index)?;
                items.insert(index, value);
            }
            _ => {}
        }
        Ok(())
    }

    fn set(self, value: Value, limits: &mut Limits) -> Result<(), String> {
        match self.container {
            Value::Map(map) => put(map, &self.key, value, limits)?,
            Value::List(items) => {
                let index = index(&self.key, items.len())?;
                items[index] = value;
            }
            _ => {}
        }
        Ok(())
    }

    fn remove(self, limits: &mut Limits) -> Result<Value, String> {
        match self.container {
            Value::Map(map) => {
                limits.count_move::<(CompactString, Value)>(behind(map, &self.key))?;
                map.remove(&self.key).ok_or_else(|| {
                    format!("Unable to remove nonexistent key: {}: {MISSING}", self.key)
                })
            }
            Value::List(items) => {
                let index = index(&self.key, items.len())?;
                limits.count_move::<Value>(items.len() - index)?;
                Ok(items.remove(index))
            }
            _ => Ok(Value::Null),
        }
    }
}

/// Decodes all parts of a value that are still text.
fn open_all_of(value: &mut Value) {
    match value {
        Value::Raw(text) => *value = open_all(text),
        Value::Map(map) => map.iter_mut().for_each(|(_, value)| open_all_of(value)),
        Value::List(items) => items.iter_mut().for_each(open_all_of),
        _ => {}
    }
}

/// Sets a field of an object.
fn put(map: &mut Map, key: &str, value: Value, limits: &mut Limits) -> Result<(), String> {
    if !map.contains_key(key) {
        limits.count_move::<(CompactString, Value)>(behind(map, key))?;
    }
    map.insert(key, value);
    Ok(())
}

/// Number of entries of an object behind a key.
fn behind(map: &Map, key: &str) -> usize {
    map.len() - map.entries().partition_point(|(known, _)| known.as_str() < key)
}

/// Index that a token names, with `places` positions in the list; a negative one counts from the end.
fn index(token: &str, places: usize) -> Result<usize, String> {
    let number: i64 = token.parse().map_err(|_| {
        let quoted = kevel_api::quote::quote(token);
        format!("strconv.Atoi: parsing {quoted}: invalid syntax")
    })?;
    let index = if number < 0 { number.saturating_add(places as i64) } else { number };
    match usize::try_from(index) {
        Ok(index) if index < places => Ok(index),
        _ => Err(format!("Unable to access invalid index: {number}: invalid index referenced")),
    }
}

/// Unescapes a token: `~1` is `/` and `~0` is `~`.
fn unescape(token: &str) -> Cow<'_, str> {
    if !token.contains('~') {
        return Cow::Borrowed(token);
    }
    let mut out = String::with_capacity(token.len());
    let mut rest = token;
    while let Some((before, after)) = rest.split_once('~') {
        out.push_str(before);
        let (c, skip) = match after.as_bytes().first() {
            Some(b'1') => ('/', 1),
            Some(b'0') => ('~', 1),
            _ => ('~', 0),
        };
        out.push(c);
        rest = &after[skip..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}
