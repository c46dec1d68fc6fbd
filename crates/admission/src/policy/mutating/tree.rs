//! What an expression made, as a patch.

use kevel_api::quote::quote;
use kevel_api::value::{Map, Value as Tree};
use kevel_cel::{Key, ObjectValue, Value};
use kevel_patch::json_patch::{Operation, Patch};

/// From here on JSON's readers take numbers for others; CEL writes them as text then.
const MAX_JSON_INT: u64 = (1 << 53) - 1;

/// The configuration that an `Object{…}` is.
pub(super) fn apply_configuration(value: &Value<'_>) -> Result<Tree, String> {
    let Value::Object(object) = value else {
        let found = value.runtime_type();
        return Err(format!("unsupported return type from ApplyConfiguration expression: {found}"));
    };
    check_type_names(object)?;
    configuration(value)
}

/// The operations that a list of `JSONPatch{…}` is.
pub(super) fn json_patch(value: &Value<'_>) -> Result<Patch, String> {
    let Some(list) = value.as_list() else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    let operation = |element: Result<Value<'_>, kevel_cel::Error>| match element {
        Ok(Value::Object(object)) => operation(&object),
        Ok(other) => Err(format!(
            "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch: \
             found {}",
            other.runtime_type()
        )),
        Err(error) => Err(error.to_string()),
    };
    list.iter().map(operation).collect::<Result<Vec<Operation>, _>>().map(Patch::new)
}

fn operation(object: &ObjectValue<'_>) -> Result<Operation, String> {
    let mut operation = Map::from_iter([("op", Tree::from("")), ("path", Tree::from(""))]);
    for (name, value) in &object.fields {
        let tree = match &**name {
            "value" => {
                if let Value::Object(object) = value {
                    check_type_names(object)?;
                }
                json(value).map_err(|error| {
                    format!(
                        "JSONPath valueExpression evaluated to a type that could not marshal to \
                         JSON: {error}"
                    )
                })?
            }
            _ => Tree::from(value.as_str().unwrap_or_default()),
        };
        // An empty `from` is none.
        if &**name != "from" || !tree.is_empty() {
            operation.insert(&**name, tree);
        }
    }
    Ok(Operation::from(Tree::Map(operation)))
}

/// Objects are told apart by name alone: one that stands in a field must be named for it.
fn check_type_names(object: &ObjectValue<'_>) -> Result<(), String> {
    let mut errors = Vec::new();
    let mut path = object.type_name.to_string();
    check_object(object, &mut path, &mut errors);
    if errors.is_empty() { Ok(()) } else { Err(format!("type mismatch: {}", errors.join("\n"))) }
}

fn check_object(object: &ObjectValue<'_>, path: &mut String, errors: &mut Vec<String>) {
    if *object.type_name != **path {
        errors.push(format!(
            "unexpected type name {}, expected {}, which matches field name path from root Object \
             type",
            quote(&object.type_name),
            quote(path)
        ));
    }
    for (name, value) in &object.fields {
        let length = path.len();
        path.push('.');
        path.push_str(name);
        check_value(value, path, errors);
        path.truncate(length);
    }
}

/// Lists and maps in between have no names.
fn check_value(value: &Value<'_>, path: &mut String, errors: &mut Vec<String>) {
    match value {
        Value::Object(object) => check_object(object, path, errors),
        Value::List(list) => {
            list.iter().flatten().for_each(|element| check_value(&element, path, errors));
        }
        Value::Map(map) => {
            let values = map.entries().into_iter().filter_map(|(_, value)| value.ok());
            values.for_each(|value| check_value(&value, path, errors));
        }
        _ => {}
    }
}

/// A part of a configuration. Keys must be texts.
fn configuration(value: &Value<'_>) -> Result<Tree, String> {
    let unusable = || "invalid return type: *dynamic.ObjectVal".to_owned();
    part(value, &|key| match key {
        Key::String(text) => Ok(text.to_string()),
        _ => Err(unusable()),
    })
}

/// A value as JSON.
fn json(value: &Value<'_>) -> Result<Tree, String> {
    match value {
        Value::Int(int) if int.unsigned_abs() > MAX_JSON_INT => Ok(Tree::from(&*int.to_string())),
        Value::Uint(uint) if *uint > MAX_JSON_INT => Ok(Tree::from(&*uint.to_string())),
        _ => part(value, &|key| Ok(key.to_string())),
    }
}
