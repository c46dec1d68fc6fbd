//! Validation of `openAPIV3Schema`.

use kevel_api::field_error::{BadValue, FieldError, Path};
use kevel_api::value::Value;

use super::cost::{self, TotalCost};
use super::structural::unsupported;
use super::{extensions, internal};
use crate::schema::props::{Additional, Items, Props};
use crate::schema::rules::{Rule, Rules};
use crate::schema::{field_path, is_full};

pub(super) const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const META_FIELDS: [&str; 3] = ["metadata", "kind", "apiVersion"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Rules for schemas that may be relaxed for existing definitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demands {
    /// Types must be known.
    pub types: bool,
    /// Items of sets must be atomic.
    pub atomic_sets: bool,
    /// Keys of lists must be required or defaulted.
    pub list_keys: bool,
    /// Single CEL rules are limited in cost.
    pub rule_cost: bool,
}

/// Errors of a schema; errors of CEL rules are kept apart.
#[derive(Debug, Default)]
pub(super) struct Errors {
    pub schema: Vec<FieldError>,
    rules: Vec<FieldError>,
}

impl Errors {
    pub fn forbid(&mut self, path: &Path<'_>, why: &str) {
        self.schema.push(FieldError::forbidden(path, why.to_owned()));
    }

    pub fn invalid(&mut self, path: &Path<'_>, value: impl Into<BadValue>, why: &str) {
        self.schema.push(FieldError::invalid(path, value, why.to_owned()));
    }

    pub fn require(&mut self, path: &Path<'_>, why: &str) {
        self.schema.push(FieldError::required(path, why.to_owned()));
    }
}

/// Whether a type is allowed in schemas.
pub(crate) fn is_type(kind: &str) -> bool {
    TYPES.contains(&kind)
}

/// Validation of one schema.
pub(crate) struct Checker {
    demands: Demands,
    pub cost: TotalCost,
    /// Whether the schema can be converted to a structural one, so that `fieldPath`s can be checked.
    has_structure: bool,
    errors: Errors,
}

/// Context that a schema inherits from the enclosing schemas.
#[derive(Clone, Copy, Default)]
struct Around<'a> {
    is_root: bool,
    /// Reason why defaults are forbidden.
    no_defaults: Option<&'a str>,
    inside_meta: bool,
    /// Enclosing schema in which old and new values cannot be correlated.
    uncorrelatable: Option<&'a Path<'a>>,
    /// Highest number of values; `None` if rules are not checked.
    rules: Option<Cardinality>,
}

/// `None` if unbounded.
type Cardinality = Option<u64>;

impl Checker {
    pub fn new(demands: Demands) -> Self {
        Checker {
            demands,
            cost: TotalCost::default(),
            has_structure: true,
            errors: Errors::default(),
        }
    }

    /// Validates the schema of a resource, with its rules if `with_rules`.
    pub fn check(&mut self, path: &Path<'_>, schema: Props<'_>, with_rules: bool) {
        self.has_structure = unsupported(schema).is_none();
        let rules = with_rules.then_some(Some(1));
        self.schema(path, schema, Around { is_root: true, rules, ..Around::default() });
    }

    /// Errors of schemas, then errors of rules.
    pub fn take_errors(&mut self) -> impl Iterator<Item = FieldError> {
        let Errors { schema, rules } = std::mem::take(&mut self.errors);
        schema.into_iter().chain(rules)
    }

    fn schema(&mut self, path: &Path<'_>, schema: Props<'_>, around: Around<'_>) {
        if is_full(&self.errors.schema) || is_full(&self.errors.rules) {
            return;
        }
        let before = self.errors.schema.len();
        self.unsupported(path, schema, around);
        if schema.flag("uniqueItems") {
            let why = "uniqueItems cannot be set to true since the runtime complexity becomes \
                       quadratic";
            self.errors.forbid(&path.child("uniqueItems"), why);
        }
        self.inner(path, schema, around);
        extensions::check(path, schema, self.demands, &mut self.errors);
        if self.demands.list_keys {
            self.errors.schema.extend(extensions::list_keys(path, schema));
        }
        let rules = path.child("x-kubernetes-validations");
        if !schema.rules().is_empty() {
            let has_structure = self.has_structure || unsupported(schema).is_none();
            let fields = Some(schema).filter(|_| has_structure);
            for (index, rule) in schema.schemas("x-kubernetes-validations").enumerate() {
                if is_full(&self.errors.schema) {
                    break;
                }
                rule_texts(&rules.index(index), fields, rule, &mut self.errors);
            }
        }
        // The rules of an invalid schema cannot be checked.
        if let Some(cardinality) = around.rules
            && self.errors.schema.len() == before
            && !schema.rules().is_empty()
        {
            self.rules(&rules, schema, around, cardinality);
        }
    }

    /// Reports features of OpenAPI that custom resources do not support.
    fn unsupported(&mut self, path: &Path<'_>, schema: Props<'_>, around: Around<'_>) {
        let errors = &mut self.errors;
        let kind = schema.kind();
        if self.demands.types && !kind.is_empty() && !TYPES.contains(&kind) {
            errors.schema.push(FieldError::not_supported(&path.child("type"), kind, TYPES));
        }
        if let Some(reason) = around.no_defaults
            && schema.default().is_some()
        {
            errors.forbid(&path.child("default"), &format!("must not be set {reason}"));
        }
        let filled = |name| schema.named(name).next().is_some();
        for (name, is_set) in [
            ("id", schema.has("id")),
            ("additionalItems", schema.has("additionalItems")),
            ("patternProperties", filled("patternProperties")),
            ("definitions", filled("definitions")),
            ("dependencies", schema.has("dependencies")),
            ("$ref", schema.has("$ref")),
        ] {
            if is_set {
                errors.forbid(&path.child(name), &format!("{name} is not supported"));
            }
        }
        if kind == "null" {
            let why = "type cannot be set to null, use nullable as an alternative";
            errors.forbid(&path.child("type"), why);
        }
        if matches!(schema.items(), Some(Items::List([_, ..]))) {
            let why = "items must be a schema object and not an array";
            errors.forbid(&path.child("items"), why);
        }
        if around.inside_meta && schema.embedded() {
            let why = "must not be used inside of resource meta";
            errors.forbid(&path.child("x-kubernetes-embedded-resource"), why);
        }
    }

    /// Validates the schemas inside a schema.
    fn inner(&mut self, path: &Path<'_>, schema: Props<'_>, around: Around<'_>) {
        let is_root = around.is_root;
        let count = cost::max_elements(schema);
        let below = around.rules.map(|known| Some(known?.saturating_mul(count?)));
        let around = Around { is_root: false, rules: below, ..around };
        if let Some(additional) = schema.additional() {
            let path = path.child("additionalProperties");
            if schema.has_properties() && !matches!(additional, Additional::Allowed(true)) {
                let why = "additionalProperties and properties are mutual exclusive";
                self.errors.forbid(&path, why);
            }
            if let Additional::Schema(values) = additional {
                let no_defaults = "inside additionalProperties applying to object metadata";
                let no_defaults = Some(no_defaults).filter(|_| around.inside_meta);
                let no_defaults = no_defaults.or(around.no_defaults);
                self.schema(&path, values, Around { no_defaults, ..around });
            }
        }
        let properties = path.child("properties");
        let granular = matches!(schema.map_type(), None | Some("granular" | "atomic"));
        for (name, property) in schema.properties() {
            let reason = format!("in top-level {name}");
            let mut around = around;
            if !granular {
                around.uncorrelatable = around.uncorrelatable.or(Some(path));
            }
            if (is_root || schema.embedded()) && META_FIELDS.contains(&name) {
                around.inside_meta = true;
                if is_root {
                    around.no_defaults = Some(&reason);
                }
            }
            self.schema(&properties.key(name), property, around);
        }
        let without_rules = Around { rules: None, ..around };
        if let Some(not) = schema.schema("not") {
            self.schema(&path.child("not"), not, without_rules);
        }
        for name in ["allOf", "oneOf", "anyOf"] {
            let path = path.child(name);
            for (index, inner) in schema.schemas(name).enumerate() {
                self.schema(&path.index(index), inner, without_rules);
            }
        }
        let definitions = path.child("definitions");
        for (name, inner) in schema.named("definitions") {
            self.schema(&definitions.key(name), inner, without_rules);
        }
        let items = path.child("items");
        let mut around_items = around;
        if schema.list_type() != Some("map") {
            around_items.uncorrelatable = around_items.uncorrelatable.or(Some(path));
        }
        match schema.items() {
            Some(Items::Schema(item)) => self.schema(&items, item, around_items),
            Some(Items::List(list)) => {
                for (index, item) in list.iter().enumerate() {
                    let path = items.index(index);
                    self.schema(&path, Props::new(item), around_items);
                }
            }
            None => {}
        }
        let dependencies = path.child("dependencies");
        let dependency = schema.get("dependencies").and_then(Value::as_map);
        for (name, inner) in dependency.into_iter().flat_map(|map| map.iter()) {
            if matches!(inner, Value::Map(_)) {
                let path = dependencies.key(name);
                self.schema(&path, Props::new(inner), without_rules);
            }
        }
    }

    fn rules(
        &mut self,
        path: &Path<'_>,
        schema: Props<'_>,
        around: Around<'_>,
        cardinality: Cardinality,
    ) {
        let Some(rules) = Rules::compile(schema, around.is_root || schema.embedded()) else {
            let why = "internal error: failed to construct type information for \
                       x-kubernetes-validations rules: unable to convert structural schema to CEL \
                       declarations";
            return self.errors.rules.push(FieldError::internal(path, why));
        };
        let times = cardinality.unwrap_or(rules.max_cardinality);
        for (index, (rule, source)) in rules.rules.iter().zip(schema.rules()).enumerate() {
            if is_full(&self.errors.rules) {
                return;
            }
            self.rule(&path.index(index), rule, source, times, around);
        }
    }

    fn rule(
        &mut self,
        path: &Path<'_>,
        rule: &Rule,
        source: &Value,
        times: u64,
        around: Around<'_>,
    ) {
        let errors = &mut self.errors.rules;
        let at = path.child("rule");
        let mut observe = |path: &Path<'_>, what: &str, cost: u64| {
            self.cost.add(path, cost);
            cost::check(path, what, cost).filter(|_| self.demands.rule_cost)
        };
        match &rule.program {
            None => {}
            Some(Ok(program)) => {
                let cost = program.estimate_cost().max.saturating_mul(times);
                errors.extend(observe(&at, "estimated rule cost", cost));
            }
            Some(Err(why)) => {
                errors.push(FieldError::invalid(&at, internal::rule(source), why.clone()));
            }
        }
        let message = path.child("messageExpression");
        match &rule.message_expression {
            None => {}
            Some((_, Ok(program))) => {
                let cost = program.estimate_cost().max;
                errors.extend(observe(&message, "estimated messageExpression cost", cost));
            }
            Some((_, Err(why))) => {
                errors.push(FieldError::invalid(&message, internal::rule(source), why.clone()));
            }
        }
        let source = Props::new(source);
        if rule.uses_old {
            if let Some(list) = around.uncorrelatable {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within \
                     {list}"
                );
                errors.push(FieldError::invalid(&at, source.text("rule"), why));
            }
        } else if let Some(optional) = source.optional_flag("optionalOldSelf") {
            let why = "may not be set if oldSelf is not used in rule";
            errors.push(FieldError::invalid(&path.child("optionalOldSelf"), optional, why));
        }
    }
}

/// Validates the fields of a rule; `fields` is the schema, if it is convertible to a structural one.
fn rule_texts(path: &Path<'_>, fields: Option<Props<'_>>, rule: Props<'_>, errors: &mut Errors) {
    const NON_EMPTY: &str = "must be non-empty if specified";
    const NO_BREAKS: &str = "must not contain line breaks";
    let breaks = |text: &str| text.contains(['\n', '\r']);
    let (text, message) = (rule.text("rule").trim(), rule.text("message"));
    let at_message = path.child("message");
    if text.is_empty() {
        errors.require(&path.child("rule"), "rule is not specified");
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(&at_message, message, NON_EMPTY);
    } else if breaks(message.trim()) {
        errors.invalid(&at_message, message, NO_BREAKS);
    } else if breaks(text) && message.trim().is_empty() {
        errors.require(&at_message, "message must be specified if rule contains line breaks");
    }
    let expression = rule.text("messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        errors.require(&path.child("messageExpression"), why);
    }
    if let Some(reason) = rule.get("reason").and_then(Value::as_str)
        && !REASONS.contains(&reason)
    {
        let shown = BadValue::named_string(reason);
        let error = FieldError::not_supported(&path.child("reason"), shown, REASONS);
        errors.schema.push(error);
    }
    let (field, at_field) = (rule.text("fieldPath"), path.child("fieldPath"));
    if field.is_empty() {
        return;
    }
    if field.trim().is_empty() {
        errors.invalid(&at_field, field, NON_EMPTY);
    }
    if breaks(field) {
        errors.invalid(&at_field, field, NO_BREAKS);
    }
    if fields.is_some_and(|schema| field_path::parse(field, schema, true).is_err()) {
        errors.invalid(&at_field, field, "must be a valid path");
    }
}
