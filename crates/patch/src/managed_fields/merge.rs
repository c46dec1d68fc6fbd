//! Laying a configuration over an object.

use std::collections::{BTreeMap, BTreeSet};

use kevel_api::value::{Map, Value};
use thin_vec::ThinVec;

use super::atom::{Atom, ListType, MapType, TypeRef};
use super::path::PathElement;
use crate::zip::zip;

/// A tree with everything that another one says, and what it had besides. Both have been
/// validated.
pub(super) fn merge(live: &Value, config: &Value, ty: TypeRef<'_>) -> Value {
    merged(Some(live), Some(config), ty).unwrap_or_default()
}

fn merged(live: Option<&Value>, config: Option<&Value>, ty: TypeRef<'_>) -> Option<Value> {
    match ty.atom(config.or(live)) {
        Atom::Map(map) => {
            let (a, b) = (live.and_then(Value::as_map), config.and_then(Value::as_map));
            let empty = |side: Option<&Map>| side.is_none_or(Map::is_empty);
            let whole = map.atomic || empty(a) && empty(b);
            if !whole {
                return merge_maps(a, b, &map);
            }
        }
        Atom::List(list) => {
            let (a, b) = (live.and_then(Value::as_list), config.and_then(Value::as_list));
            let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
            let whole = list.is_atomic() || a.is_empty() && b.is_empty();
            if !whole {
                return merge_lists(a, b, list);
            }
        }
        Atom::Scalar(_) => {}
    }
    config.or(live).cloned()
}

fn merge_maps(live: Option<&Map>, config: Option<&Map>, map: &MapType<'_>) -> Option<Value> {
    let mut out = ThinVec::new();
    for (key, live, config) in zip(live, config) {
        let Some(ty) = map.type_of(key) else { continue };
        if let Some(value) = merged(live, config, ty) {
            out.push((key.clone(), value));
        }
    }
    (!out.is_empty()).then(|| Value::Map(Map::from_sorted(out)))
}

/// Elements that only the object has keep their places between those that both have; the
/// configuration's order decides about the rest.
fn merge_lists(live: &[Value], config: &[Value], list: ListType<'_>) -> Option<Value> {
    let (live, config) = (Index::of(live, list), Index::of(config, list));
    let mut out = ThinVec::with_capacity(live.items.len().max(config.items.len()));
    let mut shared = config.items.iter().map(|(e, _)| e).filter(|e| live.contains(e)).peekable();
    let mut done: BTreeSet<&PathElement> = BTreeSet::new();
    let take =
        |element: &PathElement| merged(live.unique(element), config.unique(element), list.element);
    let (mut l, mut r) = (0, 0);
    while l < live.items.len() || r < config.items.len() {
        if let (Some((element, _)), Some((other, _))) = (live.items.get(l), config.items.get(r)) {
            if element == other {
                done.insert(other);
                out.extend(take(element));
                (l, r) = (l + 1, r + 1);
                shared.next();
                continue;
            }
            // In both, but its turn comes later.
            let wanted = shared.peek().is_none_or(|next| *next == element);
            if config.contains(element) && !wanted {
                l += 1;
                continue;
            }
        }
        if let Some((element, item)) = live.items.get(l) {
            if !config.contains(element) {
                out.extend(merged(Some(item), None, list.element));
                l += 1;
                continue;
            }
            if done.contains(element) {
                l += 1;
            }
        }
        if let Some((element, _)) = config.items.get(r) {
            done.insert(element);
            out.extend(take(element));
            r += 1;
            shared.next_if(|next| *next == element);
        }
    }
    (!out.is_empty()).then_some(Value::List(out))
}

/// A list's elements in their order and by what tells them apart.
struct Index<'v> {
    items: Vec<(PathElement, &'v Value)>,
    /// Nothing for an element that is there twice: such are not merged with.
    unique: BTreeMap<PathElement, Option<&'v Value>>,
}

impl<'v> Index<'v> {
    fn of(items: &'v [Value], list: ListType<'_>) -> Self {
        let items: Vec<_> =
            items.iter().filter_map(|item| Some((list.element_of(item).ok()?, item))).collect();
        let mut unique = BTreeMap::new();
        for (element, item) in &items {
            unique.entry(element.clone()).and_modify(|kept| *kept = None).or_insert(Some(*item));
        }
        Index { items, unique }
    }

    fn contains(&self, element: &PathElement) -> bool {
        self.unique.contains_key(element)
    }

    fn unique(&self, element: &PathElement) -> Option<&'v Value> {
        // To the reference an element that is there twice is `null` here.
        self.unique.get(element).map(|item| item.unwrap_or(&Value::Null))
    }
}
