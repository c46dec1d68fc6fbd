//! Defaulting of built-in and custom objects.
//!
//! A struct's own fields are defaulted before those below, so that a rule of a kind sees the object as the client sent
//! it, and a struct that a default has made is defaulted in turn. Fields whose defaults depend on siblings come last.

use kevel_clock::Clock;
use thin_vec::ThinVec;

use crate::constant;
use crate::default_rules;
use crate::schema::{
    Constant, DefaultEntry, ElementEntry, Field, FieldFlags, Schema, StructFlags, Table, Type,
};
use crate::value::{Map, Value};

/// A map with more entries is rebuilt rather than inserted into.
const MANY: usize = 128;

/// Applies the defaults of `schema` to absent fields, except those that are the current time.
///
/// ```
/// use kevel_api::{builtin, default, value::{Map, Value}};
/// let schema = builtin::schema("apps", "v1", "ReplicaSet").unwrap();
/// let mut object = Value::Map(Map::new());
/// default::apply(&mut object, schema);
/// assert_eq!(object.at(&["spec", "replicas"]), Some(&Value::Int(1)));
/// ```
pub fn apply(value: &mut Value, schema: Schema<'_>) {
    fill_in(value, schema, None);
}

/// Applies all defaults, including those of built-in kinds that are the current time.
pub fn apply_at(value: &mut Value, schema: Schema<'_>, clock: &Clock) {
    fill_in(value, schema, Some(clock));
}

fn fill_in(value: &mut Value, schema: Schema<'_>, clock: Option<&Clock>) {
    match (value, schema.ty()) {
        (Value::Map(map), Type::Struct(ty)) if ty.flags.has(StructFlags::DEFAULTS) => {
            apply_to_struct(map, schema, clock);
        }
        (Value::Map(map), Type::Map { value, .. }) => {
            let (schema, element) = (schema.other(*value), element(schema));
            map.iter_mut().for_each(|(_, v)| apply_to_element(v, schema, element, clock));
        }
        (Value::List(list), Type::List { item, .. }) => {
            let (schema, element) = (schema.other(*item), element(schema));
            list.iter_mut().for_each(|v| apply_to_element(v, schema, element, clock));
        }
        (value @ Value::Map(_), Type::Union { object, .. }) => {
            fill_in(value, schema.other(object.ty), clock)
        }
        (value, Type::Union { other, .. }) => fill_in(value, schema.other(other.ty), clock),
        _ => {}
    }
}

/// Drops each `null` of a custom resource for which its schema is neither nullable nor has a default. Those with a
/// default are left to [`apply`], which replaces them.
pub fn drop_nulls(value: &mut Value, schema: Schema<'_>) {
    match (value, schema.ty()) {
        (Value::Map(map), Type::Struct(_)) => map.retain(|name, value| {
            let Some(field) = schema.field(name) else { return true };
            let nullable = field.flags().has(FieldFlags::NULLABLE);
            if value.is_null() {
                return nullable || field.default().is_some();
            }
            drop_nulls(value, field.schema());
            true
        }),
        (Value::Map(map), Type::Map { value: of, .. }) => {
            let element = element(schema);
            let keep = element.is_some_and(|e| e.1.nullable || e.1.default != 0);
            map.retain(|_, value| {
                drop_nulls(value, schema.other(*of));
                keep || !value.is_null()
            });
        }
        (Value::List(list), Type::List { item, .. }) => {
            list.iter_mut().for_each(|value| drop_nulls(value, schema.other(*item)));
        }
        _ => {}
    }
}

fn apply_to_struct(map: &mut Map, schema: Schema<'_>, clock: Option<&Clock>) {
    let Some(fields) = schema.as_struct() else { return };
    kevel_compute::charge(1);
    let table = schema.table();
    let (mut dependent, mut below) = (false, false);
    if map.len() > MANY {
        fill_many(map, schema);
    }
    // Fields and entries are both sorted by name.
    let mut place = 0;
    for field in fields.fields() {
        below |= field.flags().has(FieldFlags::DEFAULTS_BELOW);
        match field.default() {
            Some(default) if is_zero(default, field, table) => {}
            Some(default) if depends_on_siblings(default) => dependent = true,
            Some(default) => place = fill(map, place, field, default, table),
            None => {}
        }
    }
    if dependent {
        for field in fields.fields() {
            if let Some(default) = field.default().filter(|d| depends_on_siblings(d)) {
                fill_dependent(map, field, default, table, clock);
            }
        }
    }
    if below {
        let mut place = 0;
        for field in fields.fields().filter(|f| f.flags().has(FieldFlags::DEFAULTS_BELOW)) {
            place = apply_below(map, place, field, schema.defaults_of(field), clock);
        }
    }
}

/// Inserts all missing fields into a map at once, so that entries are moved only once. Only a custom resource that
/// preserves unknown fields has so many.
fn fill_many(map: &mut Map, schema: Schema<'_>) {
    let (Some(fields), table) = (schema.as_struct(), schema.table()) else { return };
    let missing: ThinVec<_> = fields
        .fields()
        .filter(|field| !map.contains_key(field.name()))
        .filter_map(|field| {
            let default = field.default().filter(|default| !depends_on_siblings(default))?;
            if is_zero(default, field, table) {
                return None;
            }
            Some((field.key(), value_of(default.value, map, table)?))
        })
        .collect();
    let mut entries = std::mem::take(map).into_entries();
    entries.extend(missing);
    *map = Map::from_entries(entries);
}

/// Whether a default equals the absent value: such defaults serve as keys of list elements.
fn is_zero(default: &DefaultEntry, field: Field<'_>, table: &Table) -> bool {
    !field.pointer() && matches!(default.value, Constant::Str(text) if table.str(text).is_empty())
}

fn depends_on_siblings(default: &DefaultEntry) -> bool {
    default.when.is_some() || matches!(default.value, Constant::Sibling(_) | Constant::Rule(_))
}

fn fill_dependent(
    map: &mut Map,
    field: Field<'_>,
    default: &DefaultEntry,
    table: &Table,
    clock: Option<&Clock>,
) {
    if let Some((sibling, wanted)) = default.when {
        let found = map.get(table.str(sibling)).and_then(Value::as_str);
        if found != Some(table.str(wanted)) {
            return;
        }
    }
    if let Constant::Rule(name) = default.value {
        default_rules::apply(table.str(name), map, field.name(), clock);
    } else {
        fill(map, 0, field, default, table);
    }
}

/// Fills a field, searching from an entry on; returns the position to search from next.
fn fill(
    map: &mut Map,
    from: usize,
    field: Field<'_>,
    default: &DefaultEntry,
    table: &Table,
) -> usize {
    let place = match map.seek(from, field) {
        Ok(place) => place,
        Err(place) => {
            if let Some(value) = value_of(default.value, map, table) {
                map.insert_at(place, field.key(), value);
            }
            return place;
        }
    };
    let made = match map.value_at_mut(place) {
        Some(Value::Map(present)) => {
            fill_fields(present, default.value, table);
            return place;
        }
        Some(present) if is_missing(present, field) => value_of(default.value, map, table),
        _ => return place,
    };
    match (made, map.value_at_mut(place)) {
        (Some(made), Some(present)) => *present = made,
        // The copied sibling is absent.
        _ => drop(map.remove(field.name())),
    }
    place
}

/// Applies a built-in default that is an object to each of its fields.
fn fill_fields(present: &mut Map, default: Constant, table: &Table) {
    if let Constant::Json(text) = default
        && let Some(Value::Map(wanted)) = constant::parse(table.str(text))
    {
        for (key, value) in wanted.into_entries() {
            present.entry_or_insert_with(&key, || value);
        }
    }
}

/// Whether a present value counts as absent: Go's nil for a pointer, its zero value otherwise.
fn is_missing(value: &Value, field: Field<'_>) -> bool {
    match value {
        Value::Null => !field.flags().has(FieldFlags::NULLABLE),
        value => !field.pointer() && value.is_empty(),
    }
}

fn value_of(constant: Constant, map: &Map, table: &Table) -> Option<Value> {
    Some(match constant {
        Constant::Bool(b) => Value::Bool(b),
        Constant::Int(i) => Value::Int(i),
        Constant::Str(s) => table.str(s).into(),
        Constant::EmptyMap => Value::Map(Map::new()),
        Constant::EmptyList => Value::List(Default::default()),
        Constant::Json(text) => constant::parse(table.str(text))?,
        Constant::Value(index) => table.values.get(index as usize)?.clone(),
        Constant::Sibling(name) => map.get(table.str(name))?.clone(),
        Constant::Rule(_) => return None,
    })
}

/// Applies defaults below a field, searching from an entry on; returns the position to search from next.
fn apply_below(
    map: &mut Map,
    from: usize,
    field: Field<'_>,
    schema: Schema<'_>,
    clock: Option<&Clock>,
) -> usize {
    match map.seek(from, field) {
        Ok(place) => {
            if let Some(value) = map.value_at_mut(place) {
                fill_in(value, schema, clock);
            }
            place
        }
        Err(place) => {
            // In Go the struct is present but empty; here it is made if it gets a default.
            if !field.pointer() && matches!(schema.ty(), Type::Struct(_)) {
                let mut made = Map::new();
                apply_to_struct(&mut made, schema, clock);
                if !made.is_empty() {
                    map.insert_at(place, field.key(), Value::Map(made));
                }
            }
            place
        }
    }
}

type Element<'t> = (&'t Table, &'t ElementEntry);

fn element(schema: Schema<'_>) -> Option<Element<'_>> {
    let table = schema.table();
    let found = table.elements.binary_search_by_key(&schema.id(), |e| e.of).ok()?;
    Some((table, table.elements.get(found)?))
}

fn apply_to_element(
    value: &mut Value,
    schema: Schema<'_>,
    element: Option<Element<'_>>,
    clock: Option<&Clock>,
) {
    if let (Value::Null, Some((table, element))) = (&*value, element)
        && !element.nullable
        && let Some(index) = (element.default as usize).checked_sub(1)
        && let Some(default) = table.defaults.get(index)
        && let Some(made) = value_of(default.value, &Map::new(), table)
    {
        *value = made;
    }
    fill_in(value, schema, clock);
}

#[cfg(test)]
mod tests;
