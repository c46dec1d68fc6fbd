//! Managers who apply and update one object in turn: no panic, and what is recorded of them is true.
#![no_main]

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use kevel_api::schema::Schema;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_codec::json;
use kevel_fuzz::{Source, shown, text, trace, typed};
use kevel_patch::managed_fields::{ApplyError, FieldManager, Filter, PathElement, Set, check};
use kevel_patch::unstructured;
use libfuzzer_sys::fuzz_target;

/// Most writes to an object.
const MAX_WRITES: usize = 12;
const MANAGERS: [&str; 3] = ["a", "b", "c"];

fuzz_target!(|data: &[u8]| {
    let Some(mut source) = Source::new(data) else { return };
    let api_version = source.api_version();
    let (schema, kind) = (source.kind().schema(), source.kind().name);
    if schema.field("metadata").is_none() {
        return;
    }
    // Who sends records of their own may say in them what they like.
    let honest = source.below(4) != 0;
    // What one writer's filter hides from another is kept by the server: here, all have the same.
    let filters = [Filter::All, Filter::excluding(&[&["status"]]), Filter::excluding(&[&["spec"]])];
    let filter = &filters[source.below(3)];
    let mut object =
        Object { schema, honest, applied: false, live: None, clock: Time { seconds: 0 } };
    for _ in 0..MAX_WRITES {
        let manager = FieldManager {
            schema,
            api_version: &api_version,
            kind,
            subresource: ["", "status"][source.below(2)],
            filter,
            others: &(),
        };
        let (name, force) = (MANAGERS[source.below(3)], source.below(2) == 0);
        let applies = source.below(2) == 0;
        let Some(mut tree) = source.tree(schema) else { return };
        if honest {
            let Some(sent) = as_sent(&tree, schema) else { continue };
            tree = sent;
        }
        let how = if applies { "applies" } else { "updates" };
        trace(|| format!("{name} {how}, force {force}, {manager:?}, {filter:?}: {}", shown(&tree)));
        match applies {
            true => object.apply(&manager, tree, name, force),
            false => object.update(&manager, &tree, name),
        }
        object.check();
    }
});

/// An object that is written again and again.
struct Object<'s> {
    schema: Schema<'s>,
    honest: bool,
    /// Whether a configuration was applied. What is pruned then may leave an owner of a map without it.
    applied: bool,
    live: Option<Value>,
    clock: Time,
}

impl Object<'_> {
    fn update(&mut self, manager: &FieldManager<'_>, tree: &Value, name: &str) {
        let Some(mut new) = typed(tree, self.schema) else { return };
        self.clock.seconds += 1;
        manager.update(self.live.as_ref(), &mut new, name, self.clock);
        self.store(new);
    }

    /// Applies a configuration. Applied again, it changes nothing.
    fn apply(&mut self, manager: &FieldManager<'_>, mut config: Value, name: &str, force: bool) {
        let Value::Map(map) = &mut config else { return };
        map.insert("apiVersion", Value::from(manager.api_version));
        map.insert("kind", Value::from(manager.kind));
        let before = self.live.clone();
        self.applied = true;
        match self.apply_once(manager, &config, name, force) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                let conflict = matches!(error, ApplyError::Conflicts(_));
                assert!(!(force && conflict), "{error}");
                assert_eq!(self.live, before, "what is refused changes nothing");
                return;
            }
        }
        let once = self.without_times();
        // To an unmanaged object every apply is like the first one.
        if !self.honest || once.1.is_empty() {
            return;
        }
        // What it owns it does not have to fight for.
        let again = self.apply_once(manager, &config, name, false);
        assert_eq!(again, Ok(true), "{}", shown(&config));
        assert_eq!(self.without_times(), once, "{}", shown(&config));
    }

    /// Whether what was applied is an object of the kind.
    fn apply_once(
        &mut self,
        manager: &FieldManager<'_>,
        config: &Value,
        name: &str,
        force: bool,
    ) -> Result<bool, ApplyError> {
        self.clock.seconds += 1;
        let tree = manager.apply(self.live.as_ref(), config, name, force, self.clock)?;
        let Some(new) = typed(&tree, self.schema) else { return Ok(false) };
        self.store(new);
        Ok(true)
    }

    fn store(&mut self, mut new: Value) {
        new.make_map(&["metadata"]).insert("uid", Value::from("u"));
        self.live = Some(new);
    }

    /// The object as a client sees it, and its managers with their fields, without times.
    fn without_times(&self) -> (String, BTreeMap<String, String>) {
        let Some(live) = &self.live else { return Default::default() };
        let managers = live.list_at(&["metadata", "managedFields"]).iter().map(|entry| {
            let part = |key: &str| entry.str_at(&[key]);
            let id = ["manager", "operation", "apiVersion", "subresource"].map(part).join(" ");
            (id, entry.at(&["fieldsV1"]).map(shown).unwrap_or_default())
        });
        let managers = managers.collect();
        let mut tree = unstructured(live, self.schema);
        without_record(&mut tree);
        (shown(&tree), managers)
    }

    /// The record can be read, is written as it was read, and names no field that is not there, as long as
    /// all update. (An applier owns what it said, also where that is what an object has without saying so.)
    fn check(&self) {
        let Some(live) = &self.live else { return };
        if !self.honest {
            let _ = check(live);
            return;
        }
        check(live).expect("what was recorded can be read");
        let tree = unstructured(live, self.schema);
        for entry in live.list_at(&["metadata", "managedFields"]) {
            let Some(Value::Raw(fields)) = entry.at(&["fieldsV1"]) else { panic!("{entry:?}") };
            let set = Set::from_fields(fields).expect("a set");
            // Not the text: on its way through JSON some characters are escaped.
            let again = Set::from_fields(&set.to_fields()).expect("a set");
            assert_eq!(again.to_fields(), set.to_fields());
            if self.applied {
                continue;
            }
            let _ = set.try_for_each(|path| {
                assert!(exists(&tree, path), "{path:?} of {} in {}", shown(entry), shown(&tree));
                ControlFlow::<()>::Continue(())
            });
        }
    }
}

/// Whether there is something at a path.
fn exists(tree: &Value, path: &[&PathElement]) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    match (first, tree) {
        (PathElement::Field(name), Value::Map(map)) => {
            map.get(name).is_some_and(|value| exists(value, rest))
        }
        (PathElement::Index(index), Value::List(list)) => {
            let item = usize::try_from(*index).ok().and_then(|index| list.get(index));
            item.is_some_and(|item| exists(item, rest))
        }
        (PathElement::Value(value), Value::List(list)) => {
            rest.is_empty() && list.iter().any(|item| shown(item) == shown(value))
        }
        (PathElement::Key(keys), Value::List(list)) => {
            let is = |item: &Value| {
                let says = |name: &str| item.as_map().and_then(|map| map.get(name));
                keys.iter()
                    .all(|(name, value)| says(name).is_none_or(|said| shown(said) == shown(value)))
            };
            list.iter().any(|item| is(item) && exists(item, rest))
        }
        _ => false,
    }
}

/// Tree as a typed client sends it. Explicit zero values (`false`, `{}`, `null`) would own absent fields and change
/// their owner with each apply, and removing a map's or list's items may leave nothing where `{}` was applied.
fn as_sent(tree: &Value, schema: Schema<'_>) -> Option<Value> {
    let object = json::decode(&text(tree), schema, json::Unknown::Ignore).ok()?.value;
    let mut sent = unstructured(&object, schema);
    without_record(&mut sent);
    without_empty(&mut sent);
    Some(sent)
}

fn without_empty(tree: &mut Value) {
    match tree {
        Value::Map(map) => map.retain(|_, value| {
            without_empty(value);
            !is_empty(value)
        }),
        Value::List(list) => {
            list.iter_mut().for_each(without_empty);
            list.retain(|item| !is_empty(item));
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Map(map) => map.is_empty(),
        Value::List(list) => list.is_empty(),
        other => other.is_null(),
    }
}

fn without_record(tree: &mut Value) {
    if let Some(Value::Map(metadata)) = tree.at_mut(&["metadata"]) {
        metadata.remove("managedFields");
    }
}
