//! Conversion to the v1 form, to which all rules apply.

use std::borrow::Cow;

use kevel_api::convert;
use kevel_api::gvk::{GroupVersion, GroupVersionKind};
use kevel_api::value::Value;

use super::GROUP;
use crate::validation::Field;

/// Version whose form differs from the later ones.
const FLAT: &str = "v1beta1";
const MAIN: &str = "v1";

/// Checks an object in the v1 form.
pub(super) fn check(object: Field, check: impl FnOnce(Field)) {
    if let Some(value) = object.get() {
        object.converted(&as_v1(value), check);
    }
}

/// Checks an update in the v1 form.
pub(super) fn check_update(object: Field, old: Field, check: impl FnOnce(Field, Field)) {
    if let (Some(new), Some(was)) = (object.get(), old.get()) {
        object.converted(&as_v1(new), |object| check(object, object.with(Some(&as_v1(was)))));
    }
}

/// Changes an object in the v1 form.
pub(super) fn change(object: &mut Value, change: impl FnOnce(&mut Value)) {
    if !is_flat(object) {
        return change(object);
    }
    let mut main = converted(object.clone(), FLAT, MAIN);
    change(&mut main);
    *object = converted(main, MAIN, FLAT);
}

/// An object in the v1 form.
pub(super) fn as_v1(object: &Value) -> Cow<'_, Value> {
    match is_flat(object) {
        true => Cow::Owned(converted(object.clone(), FLAT, MAIN)),
        false => Cow::Borrowed(object),
    }
}

fn is_flat(object: &Value) -> bool {
    let version = object.str_at(&["apiVersion"]).split_once('/');
    version.is_some_and(|(_, version)| version == FLAT)
}

/// Object in another version; unchanged if it cannot be converted.
fn converted(object: Value, from: &str, to: &str) -> Value {
    let kind = GroupVersionKind::new(GROUP, from, object.str_at(&["kind"]));
    let unchanged = object.clone();
    convert::convert(object, &kind, &GroupVersion::new(GROUP, to), &|_| None).unwrap_or(unchanged)
}
