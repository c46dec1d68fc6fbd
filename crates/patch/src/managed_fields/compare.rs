//! Comparison of two values of one type (upstream: typed.Comparison).

use kevel_api::value::{Map, Value};

use super::atom::{Atom, ListType, MapType, TypeRef};
use super::filter::Filter;
use super::path::{PathElement, same_values};
use super::set::{Node, Set};
use crate::zip::zip;

/// Fields in which two values differ; no field is in two of the sets.
#[derive(Clone, Debug, Default)]
pub(super) struct Comparison {
    pub(super) removed: Set,
    pub(super) modified: Set,
    pub(super) added: Set,
}

impl Comparison {
    pub(super) fn filtered(self, filter: &Filter) -> Comparison {
        Comparison {
            removed: filter.apply(self.removed),
            modified: filter.apply(self.modified),
            added: filter.apply(self.added),
        }
    }
}

/// Compares two trees.
pub(super) fn compare(
    old: &Value,
    new: &Value,
    ty: TypeRef<'_>,
    of: Of,
) -> Result<Comparison, CompareError> {
    let mut changes = Changes { of, ..Changes::default() };
    differences(Some(old), Some(new), ty, &mut changes).map(|_| changes.finish())
}

/// Origin of the compared trees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Of {
    /// Documents: an object, and the object after a configuration is merged.
    #[default]
    Documents,
    /// Two objects, which are structs in Go.
    Structs,
}

/// Error of a list element without a unique identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CompareError(pub(super) String);

/// Change of one value itself.
#[derive(Clone, Copy, Debug, Default)]
struct Verdict {
    removed: bool,
    modified: bool,
    added: bool,
}

/// Changes of one level, collected for the three sets.
#[derive(Debug, Default)]
struct Changes {
    of: Of,
    removed: Vec<Node>,
    modified: Vec<Node>,
    added: Vec<Node>,
}

impl Changes {
    fn below(&self) -> Changes {
        Changes { of: self.of, ..Changes::default() }
    }

    fn finish(self) -> Comparison {
        let Changes { removed, modified, added, .. } = self;
        Comparison {
            removed: Set::from_nodes(removed),
            modified: Set::from_nodes(modified),
            added: Set::from_nodes(added),
        }
    }

    fn push(&mut self, element: &PathElement, verdict: Verdict, below: Changes) {
        let below = below.finish();
        let sets = [
            (&mut self.removed, verdict.removed, below.removed),
            (&mut self.modified, verdict.modified, below.modified),
            (&mut self.added, verdict.added, below.added),
        ];
        for (nodes, member, children) in sets {
            if member || !children.is_empty() {
                nodes.push(Node { element: element.clone(), member, children });
            }
        }
    }
}

/// Collects the differences below a value, and returns the change of the value itself. At least one of the two sides is
/// present.
fn differences(
    old: Option<&Value>,
    new: Option<&Value>,
    ty: TypeRef<'_>,
    changes: &mut Changes,
) -> Result<Verdict, CompareError> {
    kevel_compute::charge(1);
    let mut verdict = Verdict::default();
    match (old, new) {
        // Only a type that allows every form can have two at once; then both are compared.
        (Some(old), Some(new)) if ty.is_open() => {
            let (before, after) = (ty.atom(Some(old)), ty.atom(Some(new)));
            if std::mem::discriminant(&before) != std::mem::discriminant(&after) {
                visit(Some(old), Some(new), ty, before, changes, &mut verdict)?;
            }
            visit(Some(old), Some(new), ty, after, changes, &mut verdict)?;
        }
        (Some(old), _) => visit(Some(old), new, ty, ty.atom(Some(old)), changes, &mut verdict)?,
        (None, _) => {
            visit(None, new, ty, ty.atom(new), changes, &mut verdict)?;
        }
    }
    verdict.added |= old.is_none();
    verdict.removed |= new.is_none();
    Ok(verdict)
}

fn visit(
    old: Option<&Value>,
    new: Option<&Value>,
    ty: TypeRef<'_>,
    atom: Atom<'_>,
    changes: &mut Changes,
    verdict: &mut Verdict,
) -> Result<(), CompareError> {
    match atom {
        Atom::Map(map) => {
            let (a, b) = (old.and_then(Value::as_map), new.and_then(Value::as_map));
            let empty = |side: Option<&Map>| side.is_none_or(Map::is_empty);
            let whole = map.atomic || empty(a) && empty(b);
            if !whole {
                return map_differences(a, b, &map, changes);
            }
        }
        Atom::List(list) => {
            let (a, b) = (old.and_then(Value::as_list), new.and_then(Value::as_list));
            let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
            let whole = list.is_atomic() || a.is_empty() && b.is_empty();
            if !whole {
                return list_differences(a, b, list, changes);
            }
        }
        Atom::Scalar(_) => {}
    }
    if let (Some(old), Some(new)) = (old, new) {
        let same = match changes.of {
            Of::Documents => same_values(old, new),
            Of::Structs => ty.same_structs(old, new),
        };
        verdict.modified |= !same;
    }
    Ok(())
}

fn map_differences(
    old: Option<&Map>,
    new: Option<&Map>,
    map: &MapType<'_>,
    changes: &mut Changes,
) -> Result<(), CompareError> {
    for (key, old, new) in zip(old, new) {
        let Some(ty) = map.type_of(key) else { continue };
        let mut below = changes.below();
        let verdict = differences(old, new, ty, &mut below)?;
        changes.push(&PathElement::Field(key.clone()), verdict, below);
    }
    Ok(())
}

fn list_differences(
    old: &[Value],
    new: &[Value],
    list: ListType<'_>,
    changes: &mut Changes,
) -> Result<(), CompareError> {
    // Most lists of most writes are unchanged. Lists nest only as deep as the schema, so that nothing is compared more
    // than a few times.
    if old == new {
        return Ok(());
    }
    let (old, new) = (elements(old, list)?, elements(new, list)?);
    let (mut a, mut b) = (old.into_iter().peekable(), new.into_iter().peekable());
    let first = |side: Option<&(PathElement, Vec<&'_ Value>)>| side.map(|s| s.0.clone());
    while let Some(element) = [first(a.peek()), first(b.peek())].into_iter().flatten().min() {
        let old = a.next_if(|(e, _)| *e == element).map(|(_, items)| items).unwrap_or_default();
        let new = b.next_if(|(e, _)| *e == element).map(|(_, items)| items).unwrap_or_default();
        let mut below = changes.below();
        // Duplicate elements are owned as one value, without their fields.
        let verdict = match (&old[..], &new[..]) {
            ([_, _, ..], [_, _, ..]) => {
                let same = old.len() == new.len()
                    && old.iter().zip(&new).all(|(old, new)| same_values(old, new));
                Verdict { modified: !same, ..Verdict::default() }
            }
            ([_, _, ..], _) => {
                let mut verdict = match new.first() {
                    Some(new) => differences(None, Some(new), list.element, &mut below)?,
                    None => Verdict::default(),
                };
                verdict.removed = true;
                verdict
            }
            (_, [_, _, ..]) => {
                let mut verdict = match old.first() {
                    Some(old) => differences(Some(old), None, list.element, &mut below)?,
                    None => Verdict::default(),
                };
                verdict.added = true;
                verdict
            }
            _ => differences(old.first().copied(), new.first().copied(), list.element, &mut below)?,
        };
        changes.push(&element, verdict, below);
    }
    Ok(())
}

/// Elements of a list by identity, sorted.
fn elements<'v>(
    items: &'v [Value],
    list: ListType<'_>,
) -> Result<Vec<(PathElement, Vec<&'v Value>)>, CompareError> {
    let mut elements: Vec<(PathElement, Vec<&Value>)> = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let element = list.element_of(item);
        let element = element.map_err(|error| CompareError(format!("element {i}: {error}")))?;
        elements.push((element, vec![item]));
    }
    elements.sort_by(|a, b| a.0.cmp(&b.0));
    elements.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            kept.1.append(&mut later.1);
        }
        same
    });
    Ok(elements)
}
