//! The words that validators are written in.
//!
//! A [`Field`] is a place in an object: what stands there, how to get there, and the list that
//! errors about it go to. Going down costs nothing, a path is printed when there is an error.
//! Errors are found in the order in which the reference finds them.

mod bad_value;
mod conditions;
mod labels;
mod load_balancer;
mod number;
mod path;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashSet;

use kevel_api::field_error::{BadValue, FieldError, FieldErrorKind, FieldErrors, Path};
use kevel_api::name::Problems;
use kevel_api::value::{Map, Value, equivalent};
use kevel_features::Feature;

use crate::capabilities::Capabilities;

pub use bad_value::{null, record};
pub(crate) use load_balancer::load_balancer_warnings;
pub use number::NOT_POSITIVE;

/// A place in an object that is checked.
#[derive(Clone, Copy)]
pub struct Field<'v, 'p> {
    value: Option<&'v Value>,
    path: Path<'p>,
    context: &'p Context<'p>,
}

/// Context that all fields of an object share.
#[derive(Clone, Copy)]
struct Context<'c> {
    errors: &'c RefCell<FieldErrors>,
    capabilities: &'c Capabilities,
    /// The whole object; its kind determines the types of values in messages.
    root: &'c Value,
}

/// Validation errors of an object, with default capabilities.
pub fn errors(object: &Value, check: impl FnOnce(Field)) -> FieldErrors {
    Capabilities::default().errors(object, check)
}

impl Capabilities {
    /// Validation errors of an object.
    pub(crate) fn errors(&self, object: &Value, check: impl FnOnce(Field)) -> FieldErrors {
        let errors = RefCell::default();
        let context = Context { errors: &errors, capabilities: self, root: object };
        check(Field { value: Some(object), path: Path::NONE, context: &context });
        errors.into_inner()
    }

    /// Validation errors of an update.
    pub(crate) fn update_errors(
        &self,
        object: &Value,
        old: &Value,
        check: impl FnOnce(Field, Field),
    ) -> FieldErrors {
        self.errors(object, |new| check(new, Field { value: Some(old), ..new }))
    }
}

/// Error message of an immutable field.
pub const IMMUTABLE: &str = "field is immutable";

impl<'v, 'p> Field<'v, 'p> {
    /// Says that the reference looks at the metadata a second time here ([`MetadataChecks`]).
    ///
    /// [`MetadataChecks`]: kevel_registry::strategy::MetadataChecks
    pub fn metadata_again(&self) {
        self.context.errors.borrow_mut().mark();
    }

    /// A field of the struct that stands here.
    pub fn at<'f>(&'f self, name: &'f str) -> Field<'v, 'f> {
        let value = self.value.and_then(Value::as_map).and_then(|map| map.get(name));
        self.to(value, self.path.child(name))
    }

    /// Field below this one; dots separate the names.
    pub fn down<'f>(&'f self, names: &'f str) -> Field<'v, 'f> {
        let step = |value: &'v Value, name| value.as_map().and_then(|map| map.get(name));
        let value = self.value.and_then(|value| names.split('.').try_fold(value, step));
        self.to(value, self.path.child(names))
    }

    /// The items of the list that stands here.
    pub fn items<'f>(&'f self) -> impl ExactSizeIterator<Item = Field<'v, 'f>> + Clone {
        let items = self.list().iter().enumerate();
        items.map(|(index, value)| self.to(Some(value), self.path.index(index)))
    }

    /// The entries of the map that stands here, sorted.
    pub fn entries<'f>(&'f self) -> impl Iterator<Item = (&'v str, Field<'v, 'f>)> + Clone {
        let entries = self.value.and_then(Value::as_map).into_iter().flat_map(Map::iter);
        entries.map(|(key, value)| (key, self.entry(key, Some(value))))
    }

    /// The keys of the map that stands here, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &'v str> + Clone + use<'v> {
        let map = self.value.and_then(Value::as_map);
        map.into_iter().flat_map(|map| map.iter().map(|(key, _)| key))
    }

    /// The entry of a map: its path has the key in brackets.
    pub fn key<'f>(&'f self, key: &'f str) -> Field<'v, 'f> {
        self.entry(key, self.value.and_then(Value::as_map).and_then(|map| map.get(key)))
    }

    fn entry<'f>(&'f self, key: &'f str, value: Option<&'v Value>) -> Field<'v, 'f> {
        self.to(value, self.path.key(key))
    }

    /// Field at the same path with another value.
    pub fn with<'w>(&self, value: Option<&'w Value>) -> Field<'w, 'p> {
        self.to(value, self.path)
    }

    /// An item of a list, which need not be there.
    pub fn index<'f>(&'f self, index: usize) -> Field<'v, 'f> {
        let value = self.list().get(index);
        self.to(value, self.path.index(index))
    }

    /// The same value under another path.
    pub fn named<'f>(&'f self, path: Path<'f>) -> Field<'v, 'f> {
        self.to(self.value, path)
    }

    /// Field of the same object at another path.
    fn to<'w, 'f>(&self, value: Option<&'w Value>, path: Path<'f>) -> Field<'w, 'f>
    where
        'p: 'f,
    {
        kevel_compute::charge(1);
        Field { value, path, context: self.context }
    }

    /// Capabilities of the server.
    pub fn capabilities(&self) -> &'p Capabilities {
        self.context.capabilities
    }

    /// Tells whether addresses in old fields must have the form that new ones have (`StrictIPCIDRValidation`).
    pub fn strict_ips(&self) -> bool {
        self.capabilities().features.has(Feature::StrictIPCIDRValidation)
    }

    /// Checks the same object in another version. Errors have the places that things have there.
    pub fn converted(&self, object: &Value, check: impl FnOnce(Field)) {
        let context = Context { root: object, ..*self.context };
        check(Field { value: Some(object), path: Path::NONE, context: &context });
    }

    pub fn path(&self) -> Path<'p> {
        self.path
    }

    pub fn get(&self) -> Option<&'v Value> {
        self.value
    }

    /// Whether something stands here. Of fields that are no pointers, zeros do not.
    pub fn is_set(&self) -> bool {
        self.value.is_some_and(|value| !value.is_null())
    }

    pub fn is_absent(&self) -> bool {
        !self.is_set()
    }

    /// Whether a map has no such entry; one that is null is there.
    pub fn is_missing(&self) -> bool {
        self.value.is_none()
    }

    /// Whether nothing stands here, or nothing but a zero, an empty text or list.
    pub fn is_empty(&self) -> bool {
        self.value.is_none_or(Value::is_empty)
    }

    pub fn str(&self) -> &'v str {
        self.value.and_then(Value::as_str).unwrap_or_default()
    }

    pub fn int(&self) -> i64 {
        self.value.and_then(Value::as_int).unwrap_or_default()
    }

    pub fn int_or_absent(&self) -> Option<i64> {
        self.value.and_then(Value::as_int)
    }

    pub fn bool(&self) -> bool {
        self.value.and_then(Value::as_bool).unwrap_or_default()
    }

    pub fn list(&self) -> &'v [Value] {
        self.value.and_then(Value::as_list).unwrap_or_default()
    }

    /// The texts of the list that stands here.
    pub fn strings(&self) -> impl Iterator<Item = &'v str> + Clone + use<'v> {
        self.list().iter().map(|item| item.as_str().unwrap_or_default())
    }

    pub fn len(&self) -> usize {
        match self.value {
            Some(Value::List(list)) => list.len(),
            Some(Value::Map(map)) => map.len(),
            Some(Value::String(text)) => text.len(),
            _ => 0,
        }
    }

    /// Whether both say the same. Lists and maps that are empty are as good as none.
    pub fn same(&self, other: &Field) -> bool {
        if self.value == other.value {
            return true;
        }
        // What is absent is zero, and a pointer to nothing is not one to something empty: that is for the type to say.
        let Some(place) = self.place() else { return equivalent(self.value, other.value) };
        let pointer = place.field.is_some_and(|field| field.pointer());
        (!pointer || self.is_set() == other.is_set()) && place.schema.equal(self.value, other.value)
    }

    /// Whether a check finds something wrong here, without saying so.
    pub fn fails(&self, check: impl FnOnce(Field)) -> bool {
        let errors = RefCell::default();
        let context = Context { errors: &errors, ..*self.context };
        check(Field { value: self.value, path: self.path, context: &context });
        !errors.into_inner().is_empty()
    }
}

/// Checks of a field.
impl Field<'_, '_> {
    pub fn error(
        &self,
        kind: FieldErrorKind,
        value: impl Into<BadValue>,
        detail: impl Into<Cow<'static, str>>,
    ) {
        self.add(|| FieldError::new(kind, &self.path, value, detail));
    }

    pub fn push(&self, error: FieldError) {
        self.context.errors.borrow_mut().push(error);
    }

    /// Adds an error that is built only if it is reported.
    pub fn add(&self, error: impl FnOnce() -> FieldError) {
        match self.is_full() {
            true => self.context.errors.borrow_mut().add_untold(1),
            false => self.push(error()),
        }
    }

    /// Says something so many times, as the reference does.
    pub fn repeat(&self, times: usize, say: impl Fn()) {
        for done in 0..times {
            if self.is_full() {
                return self.context.errors.borrow_mut().add_untold(times - done);
            }
            say();
        }
    }

    pub fn extend(&self, errors: impl IntoIterator<Item = FieldError>) {
        self.context.errors.borrow_mut().extend(errors);
    }

    /// Number of errors so far.
    pub fn found(&self) -> usize {
        self.context.errors.borrow().found()
    }

    /// Whether more errors are only counted.
    fn is_full(&self) -> bool {
        self.context.errors.borrow().is_full()
    }

    /// The value has the wrong form.
    pub fn invalid(&self, detail: impl Into<Cow<'static, str>>) {
        self.add(|| FieldError::invalid(&self.path, self.bad_value(), detail));
    }

    /// The value has the wrong form, and is shown as `value`.
    pub fn invalid_as(&self, value: impl Into<BadValue>, detail: impl Into<Cow<'static, str>>) {
        self.error(FieldErrorKind::Invalid, value, detail);
    }

    pub fn required(&self, detail: impl Into<Cow<'static, str>>) {
        self.error(FieldErrorKind::Required, BadValue::Omitted, detail);
    }

    pub fn forbidden(&self, detail: impl Into<Cow<'static, str>>) {
        self.error(FieldErrorKind::Forbidden, BadValue::Omitted, detail);
    }

    pub fn duplicate(&self) {
        self.add(|| FieldError::duplicate(&self.path, self.bad_value()));
    }

    pub fn duplicate_as(&self, value: impl Into<BadValue>) {
        self.error(FieldErrorKind::Duplicate, value, "");
    }

    /// Adds an `Invalid` error that does not show the value.
    pub fn invalid_silently(&self, detail: impl Into<Cow<'static, str>>) {
        self.error(FieldErrorKind::Invalid, BadValue::Omitted, detail);
    }

    pub fn not_found(&self) {
        self.add(|| FieldError::not_found(&self.path, self.bad_value()));
    }

    pub fn too_long(&self, max: usize) {
        self.add(|| FieldError::too_long(&self.path, max));
    }

    pub fn too_many(&self, actual: usize, max: usize) {
        self.add(|| FieldError::too_many(&self.path, Some(actual), max));
    }

    /// No more than so many items or entries; whether that is so.
    pub fn at_most(&self, max: usize) -> bool {
        if self.len() > max {
            self.too_many(self.len(), max);
        }
        self.len() <= max
    }

    /// The value is none of those that there are.
    pub fn unsupported(&self, supported: &[&str]) {
        self.add(|| FieldError::not_supported(&self.path, self.bad_value_as_json(), supported));
    }

    /// Adds a `NotSupported` error that shows `value`.
    pub fn unsupported_as(&self, value: impl Into<BadValue>, supported: &[&str]) {
        self.add(|| FieldError::not_supported(&self.path, value, supported));
    }
}

/// Checks that many kinds have in common.
impl Field<'_, '_> {
    /// Requires that the field is set.
    pub fn must(&self, detail: &'static str) -> bool {
        if self.is_empty() {
            self.required(detail);
        }
        !self.is_empty()
    }

    /// A text of a certain form.
    pub fn form(&self, problems: fn(&str) -> Problems) {
        for problem in problems(self.str()) {
            self.invalid_as(self.str(), problem);
        }
    }

    /// Requires a name that satisfies a format.
    pub fn must_form(&self, detail: &'static str, problems: fn(&str) -> Problems) {
        if self.must(detail) {
            self.form(problems);
        }
    }

    /// The name of an object.
    pub fn object_name(&self, problems: fn(&str, bool) -> Problems) {
        for problem in problems(self.str(), false) {
            self.invalid_as(self.str(), problem);
        }
    }

    /// One of some values, listed as the reference lists them; empty is a value like any other.
    pub fn one_of(&self, supported: &[&str]) {
        if !supported.contains(&self.str()) {
            self.unsupported(supported);
        }
    }

    /// Requires one of the supported values.
    pub fn must_one_of(&self, detail: &'static str, supported: &[&str]) {
        if self.must(detail) {
            self.one_of(supported);
        }
    }

    /// Requires that the field is unchanged.
    pub fn immutable(&self, old: &Field) {
        if !self.same(old) {
            self.add(|| FieldError::invalid(&self.path, self.bad_value_by_type(), IMMUTABLE));
        }
    }

    /// None of the items' values stands there twice.
    pub fn unique<'k>(&self, seen: &mut HashSet<&'k str>, key: &'k str) {
        if !seen.insert(key) {
            self.duplicate();
        }
    }
}
