//! Sets that were written when the schema was another one.

use super::atom::{Atom, TypeRef};
use super::path::PathElement;
use super::set::Set;

/// Where a map or list is owned as one value now, its owner owns it instead of parts of it.
pub(super) fn reconcile(set: &mut Set, ty: TypeRef<'_>) {
    let atom = ty.atom(None);
    if matches!(&atom, Atom::Map(map) if map.is_deduced()) {
        return;
    }
    for node in set.nodes_mut().filter(|node| !node.children.is_empty()) {
        let below = match (&atom, &node.element) {
            (Atom::Map(map), PathElement::Field(name)) => map.type_of(name),
            (Atom::List(list), _) => Some(list.element),
            _ => None,
        };
        let Some(below) = below else { continue };
        let atomic = match below.atom(None) {
            Atom::Map(map) => map.atomic,
            Atom::List(list) => list.is_atomic(),
            Atom::Scalar(_) => false,
        };
        if atomic {
            node.member = true;
            node.children = Set::new();
        } else {
            reconcile(&mut node.children, below);
        }
    }
}
