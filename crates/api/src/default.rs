//! Filling in what a client left out, for built-in and custom kinds alike.
//!
//! A struct's own fields come before what is below them, so that a rule of a kind sees its object
//! as the client sent it, and a struct that a default has made is defaulted in turn. Among a
//! struct's fields, those that look at their siblings come last.

use crate::constant;
use crate::default_rules;
use crate::schema::{
    Constant, DefaultEntry, ElementEntry, Field, FieldFlags, Schema, StructFlags, Table, Type,
};
use crate::value::{Map, Value};

/// Fills in the defaults of `schema` wherever `value` has nothing.
///
/// ```
/// use kevel_api::{builtin, default, value::{Map, Value}};
/// let schema = builtin::schema("apps", "v1", "ReplicaSet").unwrap();
/// let mut object = Value::Map(Map::new());
/// default::apply(&mut object, schema);
/// assert_eq!(object.at(&["spec", "replicas"]), Some(&Value::Int(1)));
/// ```
pub fn apply(value: &mut Value, schema: Schema<'_>) {
    match (value, schema.ty()) {
        (Value::Map(map), Type::Struct(ty)) => {
            if ty.flags.has(StructFlags::DEFAULTS) {
                apply_to_struct(map, schema);
            }
        }
        (Value::Map(map), Type::Map { value, .. }) => {
            let (schema, element) = (schema.other(*value), element(schema));
            if element.is_some() || reaches_default(schema) {
                map.iter_mut().for_each(|(_, v)| apply_to_element(v, schema, element));
            }
        }
        (Value::List(list), Type::List { item, .. }) => {
            let (schema, element) = (schema.other(*item), element(schema));
            if element.is_some() || reaches_default(schema) {
                list.iter_mut().for_each(|v| apply_to_element(v, schema, element));
            }
        }
        (value @ Value::Map(_), Type::Union { object, .. }) => {
            apply(value, schema.other(object.ty))
        }
        (value, Type::Union { other, .. }) => apply(value, schema.other(other.ty)),
        _ => {}
    }
}

/// Drops each `null` of a custom resource that its schema neither allows nor has a default for.
/// Those with a default are left to [`apply`], which replaces them.
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

fn apply_to_struct(map: &mut Map, schema: Schema<'_>) {
    let Some(fields) = schema.as_struct() else { return };
    let table = schema.table();
    let mut dependent = false;
    for field in fields.fields() {
        match field.default() {
            Some(default) if depends_on_siblings(default) => dependent = true,
            Some(default) => fill(map, field, default, table),
            None => {}
        }
    }
    if dependent {
        for field in fields.fields() {
            if let Some(default) = field.default().filter(|d| depends_on_siblings(d)) {
                fill(map, field, default, table);
            }
        }
    }
    for field in fields.fields() {
        apply_below(map, field);
    }
}

fn depends_on_siblings(default: &DefaultEntry) -> bool {
    default.when.is_some() || matches!(default.value, Constant::Sibling(_) | Constant::Rule(_))
}

fn fill(map: &mut Map, field: Field<'_>, default: &DefaultEntry, table: &Table) {
    if let Some((sibling, wanted)) = default.when {
        let found = map.get(table.str(sibling)).and_then(Value::as_str);
        if found != Some(table.str(wanted)) {
            return;
        }
    }
    if let Constant::Rule(name) = default.value {
        if let Some(rule) = default_rules::find(table.str(name)) {
            rule(map, field.name());
        }
        return;
    }
    match map.get_mut(field.name()) {
        Some(Value::Map(present)) => {
            // An object given as a built-in default stands for a default of each of its fields.
            if let Constant::Json(text) = default.value
                && let Some(Value::Map(wanted)) = constant::parse(table.str(text))
            {
                for (key, value) in wanted.into_entries() {
                    present.entry_or_insert_with(&key, || value);
                }
            }
        }
        Some(present) if !is_missing(present, field) => {}
        _ => match value_of(default.value, map, table) {
            Some(value) => drop(map.insert(field.key(), value)),
            // A copy of nothing is nothing.
            None => drop(map.remove(field.name())),
        },
    }
}

/// Whether a value that is there counts as none: Go's nil for a pointer, its zero value otherwise.
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

fn apply_below(map: &mut Map, field: Field<'_>) {
    let schema = field.schema();
    if !reaches_default(schema) {
        return;
    }
    if let Some(value) = map.get_mut(field.name()) {
        apply(value, schema);
    } else if !field.pointer() && matches!(schema.ty(), Type::Struct(_)) {
        // In Go the struct is there, only empty; here it is made if a default is in it.
        let mut made = Map::new();
        apply_to_struct(&mut made, schema);
        if !made.is_empty() {
            map.insert(field.key(), Value::Map(made));
        }
    }
}

fn reaches_default(mut schema: Schema<'_>) -> bool {
    loop {
        schema = match schema.ty() {
            Type::Struct(ty) => return ty.flags.has(StructFlags::DEFAULTS),
            Type::List { item, .. } | Type::Map { value: item, .. } => {
                if element(schema).is_some_and(|(_, e)| e.default != 0) {
                    return true;
                }
                schema.other(*item)
            }
            Type::Union { object, other } => {
                if reaches_default(schema.other(object.ty)) {
                    return true;
                }
                schema.other(other.ty)
            }
            Type::Scalar(_) | Type::Any => return false,
        }
    }
}

type Element<'t> = (&'t Table, &'t ElementEntry);

fn element(schema: Schema<'_>) -> Option<Element<'_>> {
    let table = schema.table();
    let found = table.elements.binary_search_by_key(&schema.id(), |e| e.of).ok()?;
    Some((table, table.elements.get(found)?))
}

fn apply_to_element(value: &mut Value, schema: Schema<'_>, element: Option<Element<'_>>) {
    if let (Value::Null, Some((table, element))) = (&*value, element)
        && !element.nullable
        && let Some(index) = (element.default as usize).checked_sub(1)
        && let Some(default) = table.defaults.get(index)
        && let Some(made) = value_of(default.value, &Map::new(), table)
    {
        *value = made;
    }
    apply(value, schema);
}

#[cfg(test)]
mod tests;
