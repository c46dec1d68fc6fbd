//! Fields that the writer of a new object owns: all that are set, written in one walk. The result is that of
//! [comparing](super::compare) the object with an empty one, without building trees and sets.

use kevel_api::schema::{FieldFlags, List, Scalar, Schema, StructFlags, StructSchema, Type};
use kevel_api::value::{Map, Value};

use super::atom::{Atom, TypeRef};
use super::fields_v1::{write_element, write_key};
use super::path::{PathElement, same_values};
use super::set::{Node, Set};
use crate::unstructured::{unstructured_but_fields, zero};

/// FieldsV1 of a new object of a built-in type: all fields except `excluded` with everything below, and `unowned`
/// themselves. `None` if a comparison is needed: for documents inside the object, and for list elements without
/// identity.
pub(super) fn fields_of_new(
    object: &Value,
    schema: Schema<'_>,
    excluded: &Set,
    unowned: &Set,
) -> Option<String> {
    let (map, structure) = (object.as_map()?, schema.as_struct()?);
    let mut fields = Fields(String::with_capacity(1024));
    fields.0.push('{');
    fields.structure(map, structure, Before::Zero, Bounds { excluded, unowned })?;
    fields.0.push('}');
    Some(fields.0)
}

/// Value that an empty object has in the same place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Null,
    /// Go's zero value; `null` for a list or map.
    Zero,
}

/// Whether a value itself is owned, apart from its content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Own {
    Yes,
    No,
    /// Owned if it has no owned content.
    Empty,
}

/// Fields below a struct that are not owned.
#[derive(Clone, Copy)]
struct Bounds<'s> {
    excluded: &'s Set,
    unowned: &'s Set,
}

static NONE: Set = Set::new();
const UNBOUND: Bounds<'static> = Bounds { excluded: &NONE, unowned: &NONE };

/// Path element of a key.
#[derive(Clone, Copy)]
enum Key<'k> {
    Field(&'k str),
    Element(&'k PathElement),
}

/// FieldsV1 text under construction.
struct Fields(String);

impl Fields {
    fn structure(
        &mut self,
        map: &Map,
        structure: StructSchema<'_>,
        before: Before,
        bounds: Bounds<'_>,
    ) -> Option<()> {
        let entries = map.entries();
        let mut told = Some(());
        structure.for_each_field(entries, |index, entry, place| {
            let written_empty = entry.flags.has(FieldFlags::WRITTEN_EMPTY);
            let was_zero = written_empty && before == Before::Zero;
            let value = place.and_then(|place| entries.get(place)).map(|(_, value)| value);
            if told.is_none() || value.is_none() && (was_zero || !written_empty) {
                return;
            }
            let Some(field) = structure.field_at(index).filter(|field| field.is_written(value))
            else {
                return;
            };
            let (excluded, unowned) =
                (bounds.excluded.field(field.name()), bounds.unowned.field(field.name()));
            if excluded.is_some_and(|node| node.member) {
                return;
            }
            let bounds = Bounds { excluded: below(excluded), unowned: below(unowned) };
            let before = match (was_zero, field.pointer()) {
                (false, _) => Before::Nothing,
                (true, true) => Before::Null,
                (true, false) => Before::Zero,
            };
            let empty = Value::Map(Map::new());
            let is_struct = matches!(field.schema().ty(), Type::Struct(_));
            let value = value.or_else(|| (is_struct && !field.pointer()).then_some(&empty));
            let (key, owned) = (Key::Field(field.name()), unowned.is_none_or(|node| !node.member));
            told = match value {
                Some(value) => self.value(key, value, field.schema(), before, bounds, owned),
                None => self.leaf(key, owned),
            };
        });
        told
    }

    fn value(
        &mut self,
        key: Key<'_>,
        value: &Value,
        schema: Schema<'_>,
        before: Before,
        bounds: Bounds<'_>,
        owned: bool,
    ) -> Option<()> {
        // A value without a counterpart is owned itself.
        let new = if owned && before == Before::Nothing { Own::Yes } else { Own::No };
        match (schema.ty(), value) {
            (Type::Struct(s), Value::Map(_)) if s.flags.has(StructFlags::ATOMIC) => {
                let same = || same_values(&zero(schema), &unstructured_but_fields(value, schema));
                self.leaf(key, owned && (before != Before::Zero || !same()))
            }
            (Type::Struct(_), Value::Map(map)) => {
                let structure = schema.as_struct()?;
                let (own, before) = match before {
                    Before::Zero => (new, Before::Zero),
                    Before::Null if owned => (Own::Empty, Before::Nothing),
                    Before::Null | Before::Nothing => (new, Before::Nothing),
                };
                self.node(key, own, |fields| fields.structure(map, structure, before, bounds))
            }
            (Type::Map { value: of, atomic: false }, Value::Map(map)) if !map.is_empty() => {
                let of = schema.other(*of);
                self.node(key, new, |fields| {
                    map.iter().try_for_each(|(name, value)| {
                        fields.value(Key::Field(name), value, of, Before::Nothing, UNBOUND, true)
                    })
                })
            }
            (Type::List { list, .. }, Value::List(items))
                if *list != List::Atomic && !items.is_empty() =>
            {
                self.node(key, new, |fields| fields.elements(items, schema))
            }
            (Type::Map { .. }, Value::Map(_)) | (Type::List { .. }, Value::List(_)) => {
                self.leaf(key, owned)
            }
            (Type::Scalar(Scalar::Raw | Scalar::Json | Scalar::FieldsV1), _) => None,
            (Type::Scalar(_), _) => {
                let changed = before != Before::Zero || !same_values(&zero(schema), value);
                self.leaf(key, owned && changed)
            }
            _ => None,
        }
    }

    fn elements(&mut self, items: &[Value], schema: Schema<'_>) -> Option<()> {
        let Atom::List(list) = TypeRef::of(schema).atom(None) else { return None };
        let item = schema.item()?;
        let mut elements = Vec::with_capacity(items.len());
        for value in items {
            if !has_its_keys(value, schema) {
                return None;
            }
            elements.push((list.element_of(value).ok()?, value));
        }
        elements.sort_by(|a, b| a.0.cmp(&b.0));
        for same in elements.chunk_by(|a, b| a.0 == b.0) {
            match same {
                [(element, value)] => {
                    let key = Key::Element(element);
                    self.value(key, value, item, Before::Nothing, UNBOUND, true)?;
                }
                // Duplicate elements are owned as one value, without their fields.
                [(element, _), ..] => self.leaf(Key::Element(element), true)?,
                [] => {}
            }
        }
        Some(())
    }

    fn leaf(&mut self, key: Key<'_>, owned: bool) -> Option<()> {
        self.node(key, if owned { Own::Yes } else { Own::No }, |_| Some(()))
    }

    /// Writes a path element with the content that `inside` writes; nothing if neither is owned.
    fn node(
        &mut self,
        key: Key<'_>,
        own: Own,
        inside: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let start = self.0.len();
        if !self.0.ends_with('{') {
            self.0.push(',');
        }
        match key {
            Key::Field(name) => write_key(&mut self.0, "f:", name),
            Key::Element(element) => write_element(element, &mut self.0),
        }
        self.0.push_str(":{");
        let open = self.0.len();
        if own == Own::Yes {
            self.0.push_str("\".\":{}");
        }
        let first = self.0.len();
        inside(self)?;
        match (self.0.len() == first, own) {
            (true, Own::No) => {
                self.0.truncate(start);
                return Some(());
            }
            (true, _) => self.0.truncate(open),
            (false, _) => {}
        }
        self.0.push('}');
        Some(())
    }
}

/// Children of a node.
fn below(node: Option<&Node>) -> &Set {
    node.map_or(&NONE, |node| &node.children)
}

/// Whether an element's key fields are set exactly if the encoder writes them.
fn has_its_keys(value: &Value, list: Schema<'_>) -> bool {
    let (Some(mut keys), Some(item)) = (list.list_keys(), list.item()) else { return true };
    keys.all(|key| {
        let there = value.at(&[key]);
        item.field(key).is_some_and(|field| field.is_written(there) == there.is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::managed_fields::{FieldManager, Filter};
    use kevel_api::builtin;
    use kevel_api::time::Time;
    use kevel_codec::json::{Unknown, decode};

    /// The result equals that of the comparison. An object without a UID is tracked by comparison; an absent one
    /// directly.
    #[test]
    fn is_what_comparing_tells() {
        let objects = [
            ("", "Pod", r#"{}"#),
            (
                "",
                "Pod",
                r#"{"metadata":{"name":"a","uid":"u","generateName":"b","labels":{}},"spec":{}}"#,
            ),
            (
                "",
                "Pod",
                r#"{"metadata":{"labels":{"a":"","b\"":"c"},"annotations":{"x/y":"1"},"finalizers":["b","a","b"],
                "ownerReferences":[{"uid":"u","name":"n"},{"uid":"t"}]},"spec":{"nodeName":"n","containers":[
                {"name":"b","image":"i","ports":[{"containerPort":80,"protocol":"TCP"},{"containerPort":80}],"env":[
                {"name":"A","value":"1"},{"name":"A"},{"name":"F","valueFrom":{"fieldRef":{"fieldPath":"p"}}}],
                "resources":{"requests":{"cpu":"1"}},"livenessProbe":{"httpGet":{"path":"/","port":"p"}}},
                {"name":"a"},{"image":"c"}],"securityContext":{},"tolerations":[{"key":"a"}],
                "topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"k","whenUnsatisfiable":"w"}],
                "volumes":[{"name":"v","emptyDir":{}},{"name":"w","downwardAPI":{"items":[]}}]},
                "status":{"phase":"Running"}}"#,
            ),
            (
                "",
                "Service",
                r#"{"spec":{"ports":[{"port":80,"targetPort":0},{"port":81,"targetPort":"x"}],"selector":{"a":"b"}}}"#,
            ),
            ("", "ConfigMap", r#"{"data":{"a":"1"},"binaryData":{"b":"AA=="},"immutable":false}"#),
            (
                "",
                "Event",
                r#"{"involvedObject":{"name":"a"},"eventTime":null,"source":{},"count":0}"#,
            ),
            (
                "apps",
                "Deployment",
                r#"{"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"strategy":{},
                "template":{"metadata":{"creationTimestamp":null},"spec":{"containers":[{"name":"a"}]}}}}"#,
            ),
            ("apps", "ControllerRevision", r#"{"data":{"a":[1]},"revision":1}"#),
            (
                "networking.k8s.io",
                "NetworkPolicy",
                r#"{"spec":{"podSelector":{},"ingress":[{}],"egress":null}}"#,
            ),
        ];
        let filters = [
            Filter::All,
            Filter::excluding(&[&["status"], &["spec", "containers"]]),
            Filter::Include(vec![vec![Some(PathElement::field("metadata"))]]),
        ];
        for (group, kind, json) in objects {
            for filter in &filters {
                let schema = builtin::schema(group, "v1", kind).unwrap();
                let api_version = if group.is_empty() { "v1" } else { &format!("{group}/v1") };
                let manager = FieldManager {
                    schema,
                    api_version,
                    kind,
                    subresource: "",
                    filter,
                    others: &(),
                };
                let mut new = decode(json.as_bytes(), schema, Unknown::Ignore).unwrap().value;
                let mut compared = new.clone();
                let now = Time { seconds: 1 };
                manager.update(None, &mut new, "m", now);
                manager.update(Some(&Value::Map(Map::new())), &mut compared, "m", now);
                assert_eq!(new, compared, "{kind} {json} {filter:?}");
            }
        }
    }
}
