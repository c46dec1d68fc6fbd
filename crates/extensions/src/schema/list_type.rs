//! Uniqueness in lists (`x-kubernetes-list-type`): of the elements of sets, and of the keys of maps.

use std::collections::HashMap;

use kevel_api::field_error::{FieldError, Path};
use kevel_api::value::{Map, Value};

use super::bad_value::{bad_value, json};
use super::node::{ListType, Node};
use super::{MAX_ERRORS, is_full};

/// Adds the errors of duplicate elements in the lists of a value.
pub(crate) fn check(node: &Node, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if !node.inside.lists || is_full(errors) {
        return;
    }
    match value {
        Value::Map(map) => {
            for (key, value) in map.iter() {
                if let Some(schema) = node.additional_schema() {
                    check(schema, value, &path.key(key), errors);
                }
                if let Some(property) = node.property(key) {
                    check(property, value, &path.child(key), errors);
                }
            }
        }
        Value::List(list) => {
            match &node.list {
                ListType::Atomic => {}
                ListType::Set => {
                    for index in repeated(list.iter()) {
                        let element = list.get(index).map_or_else(|| "".into(), bad_value);
                        errors.push(FieldError::duplicate(&path.index(index), element));
                    }
                }
                ListType::Map(keys) => check_keys(keys, list, path, errors),
            }
            if let Some(items) = &node.items {
                for (index, item) in list.iter().enumerate() {
                    check(items, item, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn check_keys(keys: &[Box<str>], list: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let is_other = |item: &Value| !matches!(item, Value::Null | Value::Map(_));
    if let Some((index, item)) = list.iter().enumerate().find(|(_, item)| is_other(item)) {
        let why = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(&path.index(index), bad_value(item), why));
        return;
    }
    let key_of = |item: &Value| {
        let empty = Map::new();
        let item = item.as_map().unwrap_or(&empty);
        let key = keys.iter().filter_map(|key| Some((&**key, item.get(key)?.clone())));
        Value::Map(key.collect())
    };
    let found: Vec<Value> = list.iter().map(key_of).collect();
    for index in repeated(found.iter()) {
        let key = found.get(index).map_or_else(|| "".into(), bad_value);
        errors.push(FieldError::duplicate(&path.index(index), key));
    }
}

/// Index of the second occurrence of each duplicate element.
fn repeated<'v>(elements: impl ExactSizeIterator<Item = &'v Value>) -> Vec<usize> {
    let mut seen: HashMap<(bool, String), u32> = HashMap::with_capacity(elements.len());
    let mut again = Vec::new();
    for (index, element) in elements.enumerate() {
        // Numbers of different types differ.
        let times = seen.entry((matches!(element, Value::Float(_)), json(element))).or_default();
        *times += 1;
        if *times == 2 && again.len() < MAX_ERRORS {
            again.push(index);
        }
    }
    again
}
