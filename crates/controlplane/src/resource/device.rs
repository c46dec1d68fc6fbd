//! Validation of a device in a ResourceSlice.

use super::claim_status::binding_conditions;
use super::names::{MAX_QUALIFIED, label, node, qualified, shortened};
use super::slice::{check_counters, only_true};
use super::{capacity, each, each_named, one_of, taint};
use crate::pod::node_selector;
use crate::pod::resources::is_native;
use crate::validation::{Field, null};
use kevel_api::field_error::BadValue;

/// Maximum number of attributes and capacities of a device, taken together.
pub(super) const MAX_ATTRIBUTES: usize = 32;
/// Maximum number of attribute values, counting the items of lists.
pub(super) const MAX_VALUES: usize = 48;
/// Maximum length of an attribute's text.
pub(super) const MAX_ATTRIBUTE_VALUE: usize = 64;
const MAX_TAINTS: usize = 16;
/// Maximum number of counter sets that a device consumes from.
const MAX_CONSUMED: usize = 2;

/// Fields of an attribute that are lists.
const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];

/// True if a device has taints, consumed counters or list attributes, for which the limit of devices is lower.
pub(super) fn is_large(device: Field) -> bool {
    let lists = |attribute: Field| LISTS.iter().any(|list| attribute.at(list).is_set());
    !device.at("taints").is_empty()
        || !device.at("consumesCounters").is_empty()
        || device.at("attributes").entries().any(|(_, attribute)| lists(attribute))
}

/// Checks a device; `old` is the one that it replaces, `elsewhere` is `perDeviceNodeSelection`.
pub(super) fn check(device: Field, old: Option<Field>, elsewhere: bool) {
    label(device.at("name"));
    let (attributes, capacities) = (device.at("attributes"), device.at("capacity"));
    count(device, attributes, capacities);
    for (key, value) in attributes.entries() {
        qualified(attributes, key);
        let short = shortened(key, MAX_QUALIFIED);
        attribute(attributes.key(&short).with(value.get()));
    }
    let shared = device.at("allowMultipleAllocations").bool();
    for (key, value) in capacities.entries() {
        qualified(capacities, key);
        let short = shortened(key, MAX_QUALIFIED);
        capacity::check(capacities.key(&short).with(value.get()), shared);
    }
    let taints = device.at("taints");
    if !old.is_some_and(|old| old.at("taints").same(&taints)) {
        each(taints, MAX_TAINTS, |taint| taint::check(taint, None));
    }
    each_named(device.at("consumesCounters"), MAX_CONSUMED, "counterSet", |consumed| {
        consumed.at("counterSet").must_form("", kevel_api::name::is_dns1123_label);
        check_counters(consumed.at("counters"));
    });
    place(device, elsewhere);
    binding_conditions(device);
    resource_mappings(device.at("nodeAllocatableResourceMappings"), capacities);
}

fn count(device: Field, attributes: Field, capacities: Field) {
    let named = attributes.len() + capacities.len();
    if named > MAX_ATTRIBUTES {
        let why = format!(
            "the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES}"
        );
        device.invalid_as(named, why);
    }
    let values =
        |attribute: Field| LISTS.iter().map(|list| attribute.at(list).len()).sum::<usize>();
    let values: usize = attributes.entries().map(|(_, attribute)| values(attribute).max(1)).sum();
    if values > MAX_VALUES {
        let why = format!("the total number of attribute values must not exceed {MAX_VALUES}");
        device.invalid_as(values, why);
    }
}

/// Checks an attribute: exactly one value or one list of values.
fn attribute(attribute: Field) {
    let mut set = usize::from(attribute.at("bool").is_set());
    set += usize::from(attribute.at("int").is_set());
    for (field, check) in [("string", text as fn(Field)), ("version", version)] {
        if attribute.at(field).is_set() {
            set += 1;
            check(attribute.at(field));
        }
    }
    for (field, check) in [
        ("bools", None),
        ("ints", None),
        ("strings", Some(text as fn(Field))),
        ("versions", Some(version)),
    ] {
        let list = attribute.at(field);
        if list.is_set() {
            set += 1;
            if list.is_empty() {
                list.invalid("must not be empty if specified");
            }
            check.into_iter().for_each(|check| list.items().for_each(check));
        }
    }
    const WHY: &str = "exactly one value must be specified";
    match set {
        0 => attribute.invalid_as("", WHY),
        1 => {}
        _ => attribute.invalid(WHY),
    }
}

fn text(text: Field) {
    if text.len() > MAX_ATTRIBUTE_VALUE {
        text.too_long(MAX_ATTRIBUTE_VALUE);
    }
}

fn version(version: Field) {
    if !is_semver(version.str()) {
        version.invalid("must be a string compatible with semver.org spec 2.0.0");
    }
    text(version);
}

/// True for a semantic version as of semver.org: `1.2.3-alpha.1+build.5`.
fn is_semver(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let number = |part: &str| digits(part) && (part == "0" || !part.starts_with('0'));
    let word = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, b)| (rest, Some(b)));
    let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, p)| (core, Some(p)));
    let core: Vec<&str> = core.split('.').collect();
    core.len() == 3
        && core.iter().all(|part| number(part))
        && pre.is_none_or(|pre| {
            pre.split('.').all(|part| word(part) && (!digits(part) || number(part)))
        })
        && build.is_none_or(|build| build.split('.').all(word))
}

/// Checks the node selection of a device, which needs `perDeviceNodeSelection`.
fn place(device: Field, elsewhere: bool) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
         `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let selector = device.at("nodeSelector");
    if !elsewhere {
        if ["nodeName", "nodeSelector", "allNodes"].iter().any(|name| device.at(name).is_set()) {
            device.invalid_as(
                null(),
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if \
                 `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
            );
        }
        return;
    }
    let mut set = Vec::new();
    if node(device.at("nodeName"), "must not be empty") {
        set.push("`nodeName`");
    }
    if selector.is_set() {
        set.push("`nodeSelector`");
        node_selector(selector, false);
    }
    if only_true(device.at("allNodes")) {
        set.push("`allNodes`");
    }
    one_of(device, &set, ONE, ONE);
}

/// Checks the mappings to a node's allocatable resources.
fn resource_mappings(mappings: Field, capacities: Field) {
    for (resource, mapping) in mappings.entries() {
        if !is_native(resource) {
            let shown = BadValue::named_string(resource);
            mapping.invalid_as(shown, "must be a node allocatable resource name");
        }
        let (factor, key) = (mapping.at("allocationMultiplier"), mapping.at("capacityKey"));
        if factor.is_absent() && key.is_absent() {
            let why = "at least one of allocationMultiplier or capacityKey must be set";
            mapping.invalid_as("", why);
        }
        if let Some(factor_value) = factor.quantity().filter(|value| value.signum() <= 0) {
            factor.invalid_as(factor_value.to_string(), "must be positive");
        }
        match key.get() {
            None => {}
            Some(_) if key.is_empty() => {
                key.invalid_as("", "capacityKey must not be an empty string");
            }
            Some(_) if capacities.key(key.str()).is_absent() => {
                key.error(
                    kevel_api::field_error::FieldErrorKind::NotFound,
                    BadValue::named_string(key.str()),
                    "",
                );
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_semver;

    #[test]
    fn versions() {
        for good in
            ["0.0.0", "1.20.3", "1.2.3-a", "1.2.3-0", "1.2.3--", "1.2.3-0a.1+01.b-", "1.2.3+0-1"]
        {
            assert!(is_semver(good), "{good}");
        }
        for bad in [
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "01.2.3",
            "1.2.x",
            "1.2.3-",
            "1.2.3-01",
            "1.2.3-a..b",
            "1.2.3+",
            "1.2.3+a+b",
            "v1.2.3",
            "1.2.3\n",
        ] {
            assert!(!is_semver(bad), "{bad}");
        }
    }
}
