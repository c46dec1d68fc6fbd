//! Removal of fields from a value.

use kevel_api::value::{Map, Value};

use super::atom::{Atom, TypeRef};
use super::path::PathElement;
use super::set::Set;

/// Tree without the fields and elements of a set. Maps and lists that become empty become `null`.
pub(super) fn remove_items(value: &Value, items: &Set, ty: TypeRef<'_>) -> Value {
    match (ty.atom(Some(value)), value) {
        (Atom::Scalar(_), _) => value.clone(),
        (Atom::List(list), Value::List(values)) if !list.is_atomic() => {
            let kept = values.iter().filter_map(|value| {
                let Ok(element) = list.element_of(value) else { return Some(value.clone()) };
                match items.get(&element) {
                    Some(node) if node.member => None,
                    Some(node) => Some(remove_items(value, &node.children, list.element)),
                    None => Some(value.clone()),
                }
            });
            let kept: thin_vec::ThinVec<_> = kept.collect();
            if kept.is_empty() { Value::Null } else { Value::List(kept) }
        }
        (Atom::Map(map_type), Value::Map(map)) if !map_type.atomic => {
            let kept = map.entries().iter().filter_map(|(key, value)| {
                let value = match items.get(&PathElement::Field(key.clone())) {
                    Some(node) if node.member => return None,
                    Some(node) => match map_type.type_of(key) {
                        Some(ty) => remove_items(value, &node.children, ty),
                        None => value.clone(),
                    },
                    None => value.clone(),
                };
                Some((key.clone(), value))
            });
            let kept = Map::from_sorted(kept.collect());
            if kept.is_empty() { Value::Null } else { Value::Map(kept) }
        }
        _ => Value::Null,
    }
}

/// Set with every struct field on the way to its members: `spec` is removed with its last owned field (upstream:
/// EnsureNamedFieldsAreMembers).
pub(super) fn with_named_fields(set: &Set, ty: Option<TypeRef<'_>>) -> Set {
    let atom = ty.map(|ty| ty.atom(None));
    let mut set = set.clone();
    for node in set.nodes_mut().filter(|node| !node.children.is_empty()) {
        let below = match (&node.element, &atom) {
            (PathElement::Field(name), Some(Atom::Map(map))) => {
                node.member |= map.field(name).is_some();
                map.type_of(name)
            }
            (PathElement::Key(_), Some(Atom::List(list))) => Some(list.element),
            _ => None,
        };
        node.children = with_named_fields(&node.children, below);
    }
    set
}
