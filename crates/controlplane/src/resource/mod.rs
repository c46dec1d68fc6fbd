//! `resource.k8s.io`: devices and claims to them.
//!
//! The rules apply to the v1 form, whichever version is written; so do the paths in errors, as the reference's are
//! those of its internal form.

mod capacity;
mod claim;
mod claim_status;
mod device;
mod device_class;
mod device_taint_rule;
mod names;
mod pool_status_request;
mod selector;
mod slice;
mod taint;
mod version;

pub use claim::{RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE};
pub use device_class::DEVICE_CLASS;
pub use device_taint_rule::DEVICE_TAINT_RULE;
pub use pool_status_request::RESOURCE_POOL_STATUS_REQUEST;
pub use slice::RESOURCE_SLICE;

use std::collections::HashSet;
use std::hash::Hash;

use kevel_api::field_error::BadValue;

use crate::validation::Field;

const GROUP: &str = "resource.k8s.io";

/// Checks the items of a list; false if there are too many.
fn each(list: Field, max: usize, check: impl FnMut(Field)) -> bool {
    let few = list.at_most(max);
    if few {
        list.items().for_each(check);
    }
    few
}

/// Checks a list of unique texts.
fn each_once(list: Field, max: usize, check: impl FnMut(Field)) {
    if each(list, max, check) {
        unique(list, |item| item.str(), |text| BadValue::from(*text));
    }
}

/// Checks a list of items with unique names.
fn each_named(list: Field, max: usize, name: &str, check: impl FnMut(Field)) {
    if each(list, max, check) {
        unique(list, |item| item.at(name).str(), |text| BadValue::from(*text));
    }
}

/// Checks that no key occurs twice.
fn unique<'v, K: Eq + Hash>(
    list: Field<'v, '_>,
    key: impl for<'f> Fn(Field<'v, 'f>) -> K,
    shown: impl Fn(&K) -> BadValue,
) {
    let mut seen = HashSet::new();
    for item in list.items() {
        let key = key(item);
        if seen.contains(&key) {
            item.duplicate_as(shown(&key));
        } else {
            seen.insert(key);
        }
    }
}

/// Checks that one of some fields is set; `set` are those that are, in backquotes.
fn one_of(place: Field, set: &[&str], none: &'static str, several: &'static str) {
    match set {
        [] => place.required(none),
        [_] => {}
        set => place.invalid_as(format!("{{{}}}", set.join(", ")), several),
    }
}
