//! Validation of custom objects by their OpenAPI schema and its CEL rules.
//!
//! A [`Validator`] is made once for each version of a custom resource. Validation takes bounded time whatever the
//! schema and the object are: regular expressions match in linear time, pairs of values and schemas are counted, rules
//! have a cost budget, and at most [`MAX_ERRORS`] errors are reported.

pub(crate) mod bad_value;
mod dotted_path;
mod email;
mod embedded;
mod evaluate;
pub(crate) mod field_path;
mod finding;
pub(crate) mod format;
mod list_type;
pub(crate) mod node;
mod number;
mod open_api;
pub(crate) mod pattern;
pub(crate) mod props;
mod ratchet;
pub(crate) mod rules;
mod stack;

use kevel_api::field_error::{BadValue, FieldError, FieldErrorKind, MAX_ERROR_BYTES, Path};
use kevel_api::value::Value;

use dotted_path::DottedPath;
use finding::Finding;
use node::{Node, Purpose};
use open_api::Walk;
use props::{Props, expand};
pub use ratchet::RATCHETING_SECONDS;

use ratchet::Correlated;

pub(crate) use embedded::{check as check_embedded, check_resource};
pub(crate) use evaluate::{Evaluator, UNDECLARED};
pub(crate) use stack::with_stack;

/// Cost budget of all rules in one request.
pub const REQUEST_BUDGET: i64 = 10_000_000;

/// Limit on the errors of one sort that are reported for an object or a definition.
pub const MAX_ERRORS: usize = 256;

/// Whether the limit on errors is reached.
pub(crate) fn is_full(errors: &[FieldError]) -> bool {
    errors.len() >= MAX_ERRORS
        || errors.iter().map(FieldError::size).sum::<usize>() > MAX_ERROR_BYTES
}

/// Compiled schema of one version of a custom resource.
///
/// ```
/// use kevel_api::field_error::Path;
/// use kevel_codec::json::{Unknown, decode_any};
/// use kevel_extensions::schema::{REQUEST_BUDGET, Validator};
///
/// let json = |text: &str| decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value;
/// let validator = Validator::new(&json(
///     r#"{"type": "object", "properties": {"size": {"type": "integer", "minimum": 1,
///         "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "only grows"}]}}}"#,
/// ))?;
/// let (old, new) = (json(r#"{"size": 3}"#), json(r#"{"size": 0}"#));
/// let errors = validator.validate(&Path::NONE, &new, None);
/// assert_eq!(
///     errors[0].to_string(),
///     "size: Invalid value: 0: size in body should be greater than or equal to 1"
/// );
/// let errors = validator.rules(&new, Some(&old), REQUEST_BUDGET);
/// assert_eq!(errors[0].to_string(), "size: Invalid value: 0: only grows");
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct Validator {
    root: Node,
    depth: usize,
}

impl Validator {
    /// Compiles the `openAPIV3Schema` of a version.
    pub fn new(open_api_v3_schema: &Value) -> Result<Validator, String> {
        let schema = expand(open_api_v3_schema);
        let schema = Props::new(&schema);
        let depth = schema.depth();
        let root = with_stack(depth, || Node::new(schema, Purpose::Objects));
        Ok(Validator { root, depth })
    }

    /// Errors of [`Validator::open_api`], [`Validator::embedded`] and [`Validator::lists`].
    pub fn validate(
        &self,
        path: &Path<'_>,
        object: &Value,
        old: Option<&Value>,
    ) -> Vec<FieldError> {
        let mut errors = self.open_api(path, object, old);
        errors.extend(self.embedded(path, object));
        errors.extend(self.lists(path, object, old));
        errors
    }

    /// Errors of OpenAPI validation. On an update, unchanged values are not reported (ratcheting).
    pub fn open_api(
        &self,
        path: &Path<'_>,
        object: &Value,
        old: Option<&Value>,
    ) -> Vec<FieldError> {
        with_stack(self.depth, || check_open_api(&self.root, path, object, old))
    }

    /// Errors of OpenAPI validation of `status` alone, for an update of that subresource.
    pub fn status(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let (status, old) = (object.at(&["status"]), old.at(&["status"]));
        match (self.root.property("status"), status) {
            (Some(node), Some(status)) => {
                let old = Some(old.unwrap_or(&Value::Null));
                let path = Path::new("status");
                with_stack(self.depth, || check_open_api(node, &path, status, old))
            }
            _ => Vec::new(),
        }
    }

    /// Errors in the types and metadata of embedded resources.
    pub fn embedded(&self, path: &Path<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        with_stack(self.depth, || check_embedded(&self.root, object, path, &mut errors));
        errors
    }

    /// Errors of duplicates in sets and maps, unless the old object has duplicates.
    pub fn lists(&self, path: &Path<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let repeated = |object: &Value| {
            let mut errors = Vec::new();
            with_stack(self.depth, || list_type::check(&self.root, object, path, &mut errors));
            errors
        };
        let errors = repeated(object);
        match old {
            Some(old) if !errors.is_empty() && !repeated(old).is_empty() => Vec::new(),
            _ => errors,
        }
    }

    /// Whether the schema has rules.
    pub fn has_rules(&self) -> bool {
        self.root.inside.rules
    }

    /// Errors of the schema's rules (`x-kubernetes-validations`). All together may cost `budget`, which is for a whole
    /// request.
    ///
    /// Call this only if [`blocks_rules`] finds nothing in the other errors.
    pub fn rules(&self, object: &Value, old: Option<&Value>, budget: i64) -> Vec<FieldError> {
        let evaluator = Evaluator::new(budget);
        let evaluate = || evaluator.evaluate(&self.root, &Path::NONE, object, old, true);
        with_stack(self.depth, evaluate).0
    }
}

/// Error that replaces the errors of rules, which are not evaluated if the object does not have the right shape.
pub fn blocks_rules(errors: &[FieldError]) -> Option<FieldError> {
    const BLOCKING: &[FieldErrorKind] = &[
        FieldErrorKind::NotSupported,
        FieldErrorKind::Required,
        FieldErrorKind::TooLong,
        FieldErrorKind::TooMany,
        FieldErrorKind::TypeInvalid,
    ];
    let why = "some validation rules were not checked because the object was invalid; correct the \
               existing errors to complete validation";
    let blocked = errors.iter().any(|error| BLOCKING.contains(&error.kind));
    blocked.then(|| FieldError::invalid(&Path::NONE, BadValue::Text("null".to_owned()), why))
}

/// Errors of OpenAPI validation of a value.
pub(crate) fn check_open_api(
    node: &Node,
    path: &Path<'_>,
    value: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let old = old.map(|old| Correlated::new(value, old, node));
    let outcome = Walk::default().check(node, value, &DottedPath::ROOT, old.as_ref());
    outcome.findings.into_iter().map(|finding| field_error(path, finding)).collect()
}

fn field_error(root: &Path<'_>, finding: Finding) -> FieldError {
    let Finding { kind, field, value, detail } = finding;
    let name = field.unwrap_or_default();
    match name.strip_prefix('.').unwrap_or(&name) {
        "" => FieldError::new(kind, root, value, detail),
        name => FieldError::new(kind, &root.child(name), value, detail),
    }
}
