//! Validation of a schema's default values.

use kevel_api::field_error::{FieldError, Path, aggregate};
use kevel_api::value::{Map, Value};

use crate::schema::bad_value::bad_value;
use crate::schema::node::{Node, Purpose};
use crate::schema::props::Props;
use crate::schema::{
    Evaluator, REQUEST_BUDGET, UNDECLARED, check_embedded, check_open_api, check_resource, is_full,
};

const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Errors of the defaults in a resource's schema.
pub(crate) fn check(path: &Path<'_>, schema: Props<'_>, require_pruned: bool) -> Vec<FieldError> {
    if !schema.any(&mut |schema| schema.default().is_some()) {
        return Vec::new();
    }
    let root = Node::new(schema, Purpose::Defaults);
    let mut checker = Checker { require_pruned, budget: REQUEST_BUDGET, errors: Vec::new() };
    let place = SchemaPosition { is_root: true, inside_meta: false, steps: Vec::new() };
    let _ = checker.schema(path, schema, &root, &place);
    checker.errors
}

/// Whether a default of the schema has fields that would be pruned.
pub(crate) fn has_unpruned(schema: Props<'_>) -> bool {
    let unpruned = |schema: Props<'_>| {
        let default = schema.default();
        default.is_some_and(|default| would_prune(default, Some(schema), schema.embedded()))
    };
    unpruned(schema)
        || schema.additional_schema().is_some_and(has_unpruned)
        || schema.item().is_some_and(has_unpruned)
        || schema.properties().any(|(_, property)| has_unpruned(property))
}

struct Checker {
    require_pruned: bool,
    budget: i64,
    errors: Vec<FieldError>,
}

/// Position of a schema in the nearest enclosing resource.
#[derive(Clone)]
struct SchemaPosition<'s> {
    /// Whether the schema is the root of a resource.
    is_root: bool,
    /// Whether the schema is inside `apiVersion`, `kind` or `metadata`.
    inside_meta: bool,
    /// Steps from the resource's root; `None` for an element of a list.
    steps: Vec<Option<&'s str>>,
}

/// The budget is spent, or the limit on errors is reached.
struct Stopped;

impl Checker {
    fn schema<'s>(
        &mut self,
        path: &Path<'_>,
        schema: Props<'s>,
        node: &Node,
        place: &SchemaPosition<'s>,
    ) -> Result<(), Stopped> {
        if is_full(&self.errors) {
            return Err(Stopped);
        }
        let is_resource = place.is_root || schema.embedded();
        let mut place = place.clone();
        if is_resource {
            place = SchemaPosition { is_root: true, inside_meta: false, steps: Vec::new() };
        }
        if let Some(default) = schema.default() {
            self.default(&path.child("default"), schema, node, default, &place)?;
        }
        let inner = |step, inside_meta| {
            let mut steps = place.steps.clone();
            if inside_meta {
                steps.push(step);
            }
            SchemaPosition { is_root: false, inside_meta, steps }
        };
        if let Some((item, node)) = schema.item().zip(node.items.as_deref()) {
            self.schema(&path.child("items"), item, node, &inner(None, place.inside_meta))?;
        }
        let properties = path.child("properties");
        for (name, property) in schema.properties() {
            let inside_meta = place.inside_meta || (is_resource && META_FIELDS.contains(&name));
            let Some(node) = node.property(name) else { continue };
            let place = inner(Some(name), inside_meta);
            self.schema(&properties.key(name), property, node, &place)?;
        }
        Ok(())
    }

    fn default(
        &mut self,
        path: &Path<'_>,
        schema: Props<'_>,
        node: &Node,
        default: &Value,
        place: &SchemaPosition<'_>,
    ) -> Result<(), Stopped> {
        let errors = if place.inside_meta {
            let object = surround(default, &place.steps);
            aggregate(check_resource(&object, &Path::NONE)).map_or_else(Vec::new, |why| {
                let why = format!("must result in valid metadata: {why}");
                vec![FieldError::invalid(path, bad_value(default), why)]
            })
        } else {
            if self.require_pruned && would_prune(default, Some(schema), place.is_root) {
                let why = "must not have unknown fields";
                self.errors.push(FieldError::invalid(path, bad_value(default), why));
            }
            let mut errors = Vec::new();
            check_embedded(node, default, path, &mut errors);
            if let Some(map) = default.as_map()
                && place.is_root
                && !schema.embedded()
            {
                errors.extend(check_resource(map, path));
            }
            // A type error is reported alone.
            if let Some(first) = errors.iter().position(is_wrong_type) {
                errors = vec![errors.swap_remove(first)];
            }
            errors
        };
        if !errors.is_empty() {
            self.errors.extend(errors);
            return Ok(());
        }
        let errors = check_open_api(node, path, default, None);
        if !errors.is_empty() {
            self.errors.extend(errors);
            return Ok(());
        }
        let has_rules = node.rules.is_some() || node.undeclared.is_some();
        if !schema.rules().is_empty() && !has_rules {
            self.errors.push(FieldError::invalid(path, schema.kind(), UNDECLARED));
        }
        if !node.inside.rules {
            return Ok(());
        }
        // A default must be valid both when it is new and when it replaces itself.
        let evaluate = |old| Evaluator::new(self.budget).evaluate(node, path, default, old, false);
        let (mut errors, mut left) = evaluate(Some(default));
        if errors.is_empty() {
            let (new_errors, new_left) = evaluate(None);
            errors = new_errors;
            left = left.zip(new_left).map(|(a, b)| a.min(b));
        }
        self.errors.extend(errors);
        self.budget = left.ok_or(Stopped)?;
        Ok(())
    }
}

fn is_wrong_type(error: &FieldError) -> bool {
    error.detail == "must be a string" || error.detail.starts_with("json: cannot unmarshal")
}

/// Resource that holds a value at the end of a path.
fn surround(value: &Value, steps: &[Option<&str>]) -> Map {
    let mut object = value.clone();
    for step in steps.iter().rev() {
        object = match step {
            Some(name) => Value::Map(Map::from_iter([(*name, object)])),
            None => Value::List([object].into_iter().collect()),
        };
    }
    with_types(object.as_map().unwrap_or(&Map::new()))
}

fn with_types(object: &Map) -> Map {
    let mut object = object.clone();
    for (field, value) in [("apiVersion", "validation/v1"), ("kind", "Validation")] {
        object.entry_or_insert_with(field, || value.into());
    }
    object
}

/// Whether a value has fields without a schema, which pruning would drop. Fields that every resource has are known.
fn would_prune(value: &Value, schema: Option<Props<'_>>, is_resource: bool) -> bool {
    let preserves = schema.is_some_and(Props::preserves);
    match value {
        Value::Map(map) => map.iter().any(|(key, value)| {
            let Some(schema) = schema else { return true };
            if (is_resource || schema.embedded()) && META_FIELDS.contains(&key) {
                return false;
            }
            match schema.property(key) {
                Some(property) => would_prune(value, Some(property), false),
                None if schema.additional().is_some() => {
                    would_prune(value, schema.additional_schema(), false)
                }
                None => !preserves,
            }
        }),
        Value::List(list) => {
            let item = schema.and_then(Props::item);
            if preserves && item.is_none() {
                return false;
            }
            list.iter().any(|value| would_prune_item(value, item, preserves))
        }
        _ => false,
    }
}

/// Whether an element of a list would be pruned: `preserved` of the list also covers its elements.
fn would_prune_item(value: &Value, item: Option<Props<'_>>, preserved: bool) -> bool {
    match (value, item) {
        (Value::Map(map), Some(schema)) if preserved && !schema.preserves() => {
            map.iter().any(|(key, value)| match schema.property(key) {
                Some(property) => would_prune(value, Some(property), false),
                None if schema.additional().is_some() => {
                    would_prune(value, schema.additional_schema(), false)
                }
                None => false,
            })
        }
        _ => would_prune(value, item, false),
    }
}
