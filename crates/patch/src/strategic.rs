//! Strategic merge patch: a merge patch that uses the schema's patch strategies and merge keys of lists.

mod error;
mod list;
mod order;
mod schema;
#[cfg(test)]
mod tests;

use compact_str::CompactString;
pub use error::Error;
use kevel_api::schema::Schema;
use kevel_api::value::{Map, Value};
use schema::Cursor;
use thin_vec::ThinVec;

/// Directive in a map or list element: `replace`, `delete` or `merge`.
const PATCH: &str = "$patch";
/// Directive with the fields of a map to keep; all others are removed.
const RETAIN_KEYS: &str = "$retainKeys";
/// Directive, with `/` and a field name: elements to delete from a list of scalars.
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
/// Directive, with `/` and a field name: order of the list.
const SET_ORDER: &str = "$setElementOrder";

/// Limit on merged fields per patch; fields of a map that is merged again count again. An object has a million at most;
/// only a list with one key again and again takes more.
const MAX_MERGED: usize = 16 << 20;

/// Applies a patch to an object's tree of the given type.
///
/// ```
/// use kevel_api::builtin;
/// use kevel_codec::json::{Unknown, decode_any, encode_any};
/// let tree = |json: &str| decode_any(json.as_bytes(), Unknown::Ignore).unwrap().value;
/// let pod = builtin::schema("", "v1", "Pod").unwrap();
/// let document = tree(r#"{"spec":{"containers":[{"name":"a","image":"x"},{"name":"b"}]}}"#);
/// let patch = tree(r#"{"spec":{"containers":[{"name":"b","image":"y"}]}}"#);
/// let mut out = Vec::new();
/// encode_any(&kevel_patch::strategic::apply(document, patch, pod)?, &mut out);
/// let expected = br#"{"spec":{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}]}}"#;
/// assert_eq!(out, expected);
/// # Ok::<(), kevel_patch::strategic::Error>(())
/// ```
pub fn apply(document: Value, patch: Value, schema: Schema<'_>) -> Result<Value, Error> {
    if schema.is_custom() {
        return Err(Error::UNSUPPORTED);
    }
    match (document, patch) {
        (Value::Map(document), Value::Map(patch)) => {
            merge_map(document, patch, Cursor::root(schema), &mut Merged(0)).map(Value::Map)
        }
        // The decoder of patches accepts only an object or null.
        (document, _) => Ok(document),
    }
}

/// Counter of merged fields.
struct Merged(usize);

impl Merged {
    fn count(&mut self, fields: usize) -> Result<(), Error> {
        self.0 = self.0.saturating_add(fields);
        if self.0 > MAX_MERGED { Err(Error::TOO_MUCH) } else { Ok(()) }
    }
}

fn merge_map(
    mut original: Map,
    mut patch: Map,
    at: Cursor<'_>,
    merged: &mut Merged,
) -> Result<Map, Error> {
    merged.count(original.len() + patch.len())?;
    if let Some(directive) = patch.get(PATCH) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(PATCH);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(Error::unknown_directive(directive, &patch)),
        };
    }
    if let Some(keys) = patch.remove(RETAIN_KEYS) {
        retain_keys(&mut original, &patch, &keys)?;
    }
    order::set_element_orders(&mut original, &mut patch, at, merged)?;
    merge_fields(original, patch, at, merged)
}

/// Drops the fields that `$retainKeys` does not name. A patch may set only named fields.
fn retain_keys(original: &mut Map, patch: &Map, keys: &Value) -> Result<(), Error> {
    let Value::List(keys) = keys else { return Err(Error::RETAIN_KEYS) };
    let mut keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
    keys.sort_unstable();
    let named = |key: &str| keys.binary_search(&key).is_ok();
    let fits = |(key, value): (&str, &Value)| {
        value.is_null()
            || key.starts_with(DELETE_FROM_LIST)
            || key.starts_with(SET_ORDER)
            || named(key)
    };
    if !patch.iter().all(fits) {
        return Err(Error::RETAIN_KEYS);
    }
    original.retain(|key, _| named(key));
    Ok(())
}

/// Patch of one field: the key without a directive's prefix, and whether the value lists elements to delete.
struct FieldPatch {
    key: CompactString,
    value: Value,
    deletes: bool,
}

/// Merges field by field. Both sides are sorted by key, so that one pass suffices.
fn merge_fields(
    original: Map,
    patch: Map,
    at: Cursor<'_>,
    count: &mut Merged,
) -> Result<Map, Error> {
    let mut merged = ThinVec::with_capacity(original.len() + patch.len());
    let mut original = original.into_entries().into_iter().peekable();
    let mut patches = field_patches(patch)?.into_iter().peekable();
    while let Some(first) = patches.next() {
        let key = first.key.clone();
        while let Some(entry) = original.next_if(|(other, _)| *other < key) {
            merged.push(entry);
        }
        let mut value = original.next_if(|(other, _)| *other == key).map(|(_, value)| value);
        value = merge_field(value, first, at, count)?;
        // Deletions from a list and its merge are two patches of one field.
        while let Some(next) = patches.next_if(|next| next.key == key) {
            value = merge_field(value, next, at, count)?;
        }
        if let Some(value) = value {
            merged.push((key, value));
        }
    }
    merged.extend(original);
    Ok(Map::from_sorted(merged))
}

fn field_patches(patch: Map) -> Result<Vec<FieldPatch>, Error> {
    let mut patches = Vec::with_capacity(patch.len());
    for (key, value) in patch.into_entries() {
        let deletes = key.starts_with(DELETE_FROM_LIST);
        let key = if deletes {
            field_of(&key, DELETE_FROM_LIST).ok_or(Error::DELETE_FROM_LIST)?.into()
        } else {
            key
        };
        patches.push(FieldPatch { key, value, deletes });
    }
    // A stable sort keeps the deletions of a field before its merge.
    patches.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(patches)
}

/// Field name of a directive with a prefix.
fn field_of<'k>(key: &'k str, prefix: &str) -> Option<&'k str> {
    key.strip_prefix(prefix)?.strip_prefix('/')
}

fn merge_field(
    original: Option<Value>,
    patch: FieldPatch,
    at: Cursor<'_>,
    count: &mut Merged,
) -> Result<Option<Value>, Error> {
    let FieldPatch { key, value, deletes } = patch;
    match (original, value) {
        (_, Value::Null) => Ok(None),
        (Some(Value::Map(original)), Value::Map(patch)) => {
            let (below, merge) = at.field(&key)?;
            if merge.replace {
                return Ok(Some(Value::Map(patch)));
            }
            merge_map(original, patch, below, count).map(|map| Some(Value::Map(map)))
        }
        (Some(Value::List(original)), Value::List(patch)) => {
            let (item, merge) = at.list(&key)?;
            let merged = if merge.merge || deletes {
                list::merge(original, patch, item, merge.key, deletes, count)?
            } else {
                patch
            };
            Ok(Some(Value::List(merged)))
        }
        (Some(original), patch) if same_type(&original, &patch) => Ok(Some(patch)),
        // There is nothing to merge into, or a value of another type.
        (original, patch) => Ok(if deletes { original } else { fresh(patch) }),
    }
}

/// Patch as it is left after its application to a document: without the directives that were carried out, the lists
/// that they ordered, and nulls for missing fields.
pub fn without_done(document: &Value, patch: &Value) -> Value {
    match patch {
        Value::Map(map) => {
            let ordered = |key: &str| map.contains_key(&format!("{SET_ORDER}/{key}"));
            let done = |key: &str, value: &Value| {
                key == RETAIN_KEYS
                    || key.starts_with(SET_ORDER)
                    || key == PATCH && value.as_str() == Some("replace")
                    || ordered(key)
            };
            let left = map.iter().filter(|(key, value)| !done(key, value));
            let left = left.map(|(key, value)| match document.at(&[key]) {
                Some(old) if same_type(old, value) => (key, without_done(old, value)),
                _ => {
                    let mut fresh = without_done(value, value);
                    discard_nulls(&mut fresh);
                    (key, fresh)
                }
            });
            Value::Map(left.collect())
        }
        Value::List(items) => {
            Value::List(items.iter().map(|item| without_done(item, item)).collect())
        }
        other => other.clone(),
    }
}

fn same_type(a: &Value, b: &Value) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// Value of a patch for a field that did not exist.
fn fresh(mut patch: Value) -> Option<Value> {
    discard_nulls(&mut patch);
    without_directives(patch)
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Map(map) => map.retain(|_, value| {
            discard_nulls(value);
            !value.is_null()
        }),
        Value::List(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Value without the maps that have a `$patch`.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Map(map) if map.contains_key(PATCH) => None,
        Value::Map(map) => {
            let entries = map.into_entries().into_iter();
            let kept = entries.filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Map(Map::from_sorted(kept.collect())))
        }
        Value::List(items) => Some(Value::List(list_without_directives(items))),
        other => Some(other),
    }
}

fn list_without_directives(items: ThinVec<Value>) -> ThinVec<Value> {
    items.into_iter().filter_map(without_directives).collect()
}
