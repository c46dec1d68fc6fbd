//! Adaptation of stored field sets to a changed schema (upstream: ReconcileFieldSetWithSchema).

use super::atom::{Atom, TypeRef};
use super::path::PathElement;
use super::set::Set;

/// Replaces fields below a map or list that is atomic now by the map or list itself.
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
