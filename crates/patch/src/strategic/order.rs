//! `$setElementOrder`: the order of a list after the merge.

use std::collections::HashSet;

use kevel_api::value::{Map, Value};
use thin_vec::ThinVec;

use super::list::{Key, Positions, arrange, element_type};
use super::schema::Cursor;
use super::{Error, Merged, PATCH, SET_ORDER, field_of, list, list_without_directives, same_type};

/// Merges and orders each list with a `$setElementOrder`, and removes it from the patch.
pub(super) fn set_element_orders(
    original: &mut Map,
    patch: &mut Map,
    at: Cursor<'_>,
    merged: &mut Merged,
) -> Result<(), Error> {
    // Keys are sorted, so that those with the prefix are adjacent.
    let from = patch.entries().partition_point(|(key, _)| key.as_str() < SET_ORDER);
    let orders = patch.entries()[from..].iter().take_while(|(key, _)| key.starts_with(SET_ORDER));
    let orders: Vec<(String, Value)> =
        orders.map(|(key, order)| (key.to_string(), order.clone())).collect();
    if orders.is_empty() {
        return Ok(());
    }
    patch.retain(|key, _| !key.starts_with(SET_ORDER));
    for (key, order) in orders {
        let Value::List(order) = order else { return Err(Error::not_a_list(&order)) };
        let field = field_of(&key, SET_ORDER).ok_or(Error::SET_ORDER)?;
        let ordered = ordered(original.get(field), patch.get(field), &order, field, at, merged)?;
        if let Some(list) = ordered {
            original.insert(field, Value::List(list));
            patch.remove(field);
        }
    }
    Ok(())
}

fn ordered(
    original: Option<&Value>,
    patch: Option<&Value>,
    order: &[Value],
    field: &str,
    at: Cursor<'_>,
    count: &mut Merged,
) -> Result<Option<ThinVec<Value>>, Error> {
    let list = |value: Option<&Value>| match value {
        Some(Value::List(list)) => Ok(Some(list.clone())),
        Some(other) => Err(Error::not_a_list(other)),
        None => Ok(None),
    };
    let (original, patch) = (list(original)?, list(patch)?);
    let (item, merge) = at.list(field)?;
    check_order(patch.as_deref().unwrap_or_default(), order, merge.key)?;
    let original_items = original.clone().unwrap_or_default();
    let patch_items = patch.clone().unwrap_or_default();
    let merged = match (original, patch) {
        (None, None) => return Ok(None),
        (Some(original), None) => original,
        (None, Some(patch)) => list_without_directives(patch),
        (Some(original), Some(patch)) if merge.merge => {
            list::merge(original, patch, item, merge.key, false, count)?
        }
        (Some(_), Some(patch)) => patch,
    };
    element_type(&original_items, &patch_items)?;
    let stray = order.iter().position(|item| !merge.key.is_empty() && item.as_map().is_none());
    if let (Some(i), false) = (stray, merged.is_empty()) {
        return Err(Error::Other(format!("value for key {i} is not a map")));
    }
    let ranks = Positions::of(order, merge.key)?;
    let server = server_order(original_items, &patch_items, merge.key);
    let server = Positions::of(&server, merge.key)?;
    arrange(merged, merge.key, &ranks, &server).map(Some)
}

/// Order of the elements that `$setElementOrder` does not name. In the reference, added elements take the places of
/// deleted ones, and so get the original's order.
fn server_order(mut original: ThinVec<Value>, patch: &[Value], merge_key: &str) -> ThinVec<Value> {
    let directive = |item: &Value| item.as_map().and_then(|map| map.get(PATCH)).cloned();
    let keys = |items: &[Value]| -> HashSet<Key> {
        items.iter().filter_map(|item| Key::of(item, merge_key).ok()).collect()
    };
    let deletes = patch.iter().filter(|item| directive(item) == Some(Value::from("delete")));
    let deleted = keys(&deletes.cloned().collect::<Vec<_>>());
    if deleted.is_empty() || patch.iter().any(|i| directive(i) == Some(Value::from("replace"))) {
        return original;
    }
    let before = original.len();
    original.retain(|item| Key::of(item, merge_key).is_ok_and(|key| !deleted.contains(&key)));
    let kept = keys(&original);
    let added = patch.iter().filter(|item| {
        directive(item).is_none() && Key::of(item, merge_key).is_ok_and(|key| !kept.contains(&key))
    });
    original.extend(added.take(before - original.len()).cloned().collect::<Vec<_>>());
    original
}

/// Checks that the elements of a patch, except deleted ones, are in the given order.
fn check_order(patch: &[Value], order: &[Value], merge_key: &str) -> Result<(), Error> {
    if order.is_empty() || patch.is_empty() {
        return Ok(());
    }
    if let (false, Some(stray)) =
        (merge_key.is_empty(), patch.iter().find(|item| item.as_map().is_none()))
    {
        return Err(Error::not_a_map(stray));
    }
    let directive = |item: &Value| item.as_map().and_then(|map| map.get(PATCH)).cloned();
    let delete = Some(Value::from("delete"));
    let mut items = patch.iter().filter(|item| directive(item) != delete).peekable();
    for next in order {
        while items.next_if(|item| directive(item).is_some()).is_some() {}
        let Some(item) = items.peek() else { return Ok(()) };
        if same_key(item, next, merge_key)? {
            items.next();
        }
    }
    match items.next() {
        Some(_) => Err(Error::wrong_order(patch, order)),
        None => Ok(()),
    }
}

/// Whether two elements have the same key. Keys of different types differ.
fn same_key(a: &Value, b: &Value, merge_key: &str) -> Result<bool, Error> {
    let (a, b) = (key_value(a, merge_key)?, key_value(b, merge_key)?);
    Ok(same_type(a, b) && Key::of_scalar(a)? == Key::of_scalar(b)?)
}

fn key_value<'v>(element: &'v Value, merge_key: &str) -> Result<&'v Value, Error> {
    if merge_key.is_empty() {
        return Ok(element);
    }
    let map = element.as_map().ok_or_else(|| Error::not_a_map(element))?;
    map.get(merge_key).ok_or_else(|| Error::no_merge_key(map, merge_key))
}
