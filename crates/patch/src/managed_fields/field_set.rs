//! Set of the fields in a value (upstream: TypedValue.ToFieldSet).

use kevel_api::value::Value;

use super::atom::{Atom, ListType, MapType, TypeRef};
use super::path::PathElement;
use super::set::{Node, Set};

/// All leaves, list elements and map keys in a tree.
pub(super) fn field_set(value: &Value, ty: TypeRef<'_>) -> Set {
    fields(value, ty).1
}

/// Whether the value itself is a member, and the members below it.
fn fields(value: &Value, ty: TypeRef<'_>) -> (bool, Set) {
    match (ty.atom(Some(value)), value) {
        (Atom::Scalar(_), _) => (true, Set::new()),
        (Atom::List(list), _) if list.is_atomic() => (true, Set::new()),
        (Atom::Map(map), _) if map.atomic => (true, Set::new()),
        (Atom::List(list), Value::List(items)) => (false, list_fields(items, list)),
        (Atom::Map(ty), Value::Map(map)) => {
            let fields = map.iter().filter_map(|(key, value)| map_field(key, value, &ty));
            (false, Set::from_nodes(fields.collect()))
        }
        _ => (false, Set::new()),
    }
}

fn map_field(key: &str, value: &Value, map: &MapType<'_>) -> Option<Node> {
    let (mut member, children) = fields(value, map.type_of(key)?);
    let empty = value.is_null() || value.as_map().is_some_and(|map| map.is_empty());
    member |= empty || map.field(key).is_none();
    Some(Node { element: PathElement::field(key), member, children })
}

fn list_fields(items: &[Value], list: ListType<'_>) -> Set {
    // While fields are pruned an element may have lost its keys, but is still an element.
    let element = |item| list.element_of(item).unwrap_or(PathElement::Index(0));
    let mut elements: Vec<(PathElement, &Value)> =
        items.iter().map(|item| (element(item), item)).collect();
    elements.sort_by(|a, b| a.0.cmp(&b.0));
    let mut nodes: Vec<Node> = Vec::with_capacity(elements.len());
    for (element, item) in elements {
        match nodes.last_mut() {
            // Duplicate elements are owned as one value, without their fields.
            Some(last) if last.element == element => last.children = Set::new(),
            _ => {
                let children = fields(item, list.element).1;
                nodes.push(Node { element, member: true, children });
            }
        }
    }
    Set::from_nodes(nodes)
}
