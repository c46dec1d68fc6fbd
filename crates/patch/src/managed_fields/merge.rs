//! Merge of a configuration into an object.

use kevel_api::value::{Map, Value};
use thin_vec::ThinVec;

use super::atom::{Atom, ListType, MapType, TypeRef};
use super::path::PathElement;
use crate::zip::zip;

/// Tree with all fields of the configuration over those of the live object. Both have been validated.
pub(super) fn merge(live: &Value, config: &Value, ty: TypeRef<'_>) -> Value {
    merged(Some(live), Some(config), ty).unwrap_or_default()
}

fn merged(live: Option<&Value>, config: Option<&Value>, ty: TypeRef<'_>) -> Option<Value> {
    kevel_compute::charge(1);
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

/// Merges lists by element. Elements that only the live object has keep their places between common ones; otherwise the
/// configuration's order decides.
fn merge_lists(live: &[Value], config: &[Value], list: ListType<'_>) -> Option<Value> {
    let (live, config) = (elements(live, list), elements(config, list));
    let Groups { live: live_groups, config: config_groups, groups } = Groups::of(&live, &config);
    let mut out = ThinVec::with_capacity(live.len().max(config.len()));
    let is_live = |group: usize| groups[group].live.is_some();
    let is_config = |group: usize| groups[group].config.is_some();
    let mut shared = config_groups.iter().copied().filter(|group| is_live(*group)).peekable();
    let mut done = vec![false; groups.len()];
    let take = |group: usize| merged(groups[group].live, groups[group].config, list.element);
    let (mut l, mut r) = (0, 0);
    while l < live.len() || r < config.len() {
        if let (Some(&group), Some(&other)) = (live_groups.get(l), config_groups.get(r)) {
            if group == other {
                done[group] = true;
                out.extend(take(group));
                (l, r) = (l + 1, r + 1);
                shared.next();
                continue;
            }
            // In both lists, but later in the configuration.
            let wanted = shared.peek().is_none_or(|next| *next == group);
            if is_config(group) && !wanted {
                l += 1;
                continue;
            }
        }
        if let Some((&group, (_, item))) = live_groups.get(l).zip(live.get(l)) {
            if !is_config(group) {
                out.extend(merged(Some(item), None, list.element));
                l += 1;
                continue;
            }
            if done[group] {
                l += 1;
            }
        }
        if let Some(&group) = config_groups.get(r) {
            done[group] = true;
            out.extend(take(group));
            r += 1;
            shared.next_if(|next| *next == group);
        }
    }
    (!out.is_empty()).then_some(Value::List(out))
}

type Element<'v> = (PathElement, &'v Value);

/// Items of a list with their identities.
fn elements<'v>(items: &'v [Value], list: ListType<'_>) -> Vec<Element<'v>> {
    items.iter().filter_map(|item| Some((list.element_of(item).ok()?, item))).collect()
}

/// Matching of the elements of two lists: the group of each item, and the item of each group in either list.
struct Groups<'v> {
    live: Vec<usize>,
    config: Vec<usize>,
    groups: Vec<Group<'v>>,
}

/// Placeholder of an element that occurs twice, with which the reference does not merge.
static TWICE: Value = Value::Null;

#[derive(Clone, Copy, Default)]
struct Group<'v> {
    live: Option<&'v Value>,
    config: Option<&'v Value>,
}

impl<'v> Groups<'v> {
    fn of(live: &[Element<'v>], config: &[Element<'v>]) -> Self {
        let both = live.iter().map(|e| (e, true)).chain(config.iter().map(|e| (e, false)));
        let mut order: Vec<(usize, &Element<'v>, bool)> =
            both.enumerate().map(|(place, (element, is_live))| (place, element, is_live)).collect();
        order.sort_by(|a, b| a.1.0.cmp(&b.1.0));
        let mut of_item = vec![0; order.len()];
        let mut groups: Vec<Group<'v>> = Vec::new();
        for same in order.chunk_by(|a, b| a.1.0 == b.1.0) {
            let mut group = Group::default();
            for (place, (_, item), is_live) in same {
                let side = if *is_live { &mut group.live } else { &mut group.config };
                *side = if side.is_some() { Some(&TWICE) } else { Some(*item) };
                of_item[*place] = groups.len();
            }
            groups.push(group);
        }
        let config = of_item.split_off(live.len());
        Groups { live: of_item, config, groups }
    }
}
