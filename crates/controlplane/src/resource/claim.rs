//! Claims to devices, and templates for them.

use std::collections::{HashMap, HashSet};

use kevel_api::name;
use kevel_api::value::Value;
use kevel_features::{Feature, Gated, drop_gated};
use kevel_registry::strategy::{RESET_ALL_BUT_STATUS, STATUS_METADATA};

use super::names::{self, label};
use super::{GROUP, claim_status, each, each_named, each_once, selector, taint, version};
use crate::capabilities::Capabilities;
use crate::columns::{self, Columns};
use crate::kind::{Kind, MetadataChecks};
use crate::persistent_volume_claim::template_metadata;
use crate::rules::Rules;
use crate::validation::{Field, NOT_POSITIVE, null};

/// `resourceclaims`
pub static RESOURCE_CLAIM: Kind = Kind {
    returns_deleted_object: true,
    kept_by_status: &STATUS_METADATA,
    reset_by_status: RESET_ALL_BUT_STATUS,
    status_has_rows: false,
    columns: columns::resource::RESOURCE_CLAIM,
    rules: Rules {
        prepare_for_create: |claim, capabilities| prepare(claim, None, SPEC, capabilities),
        validate_create: |claim| version::check(claim, |claim| spec(claim.at("spec"))),
        prepare_for_update: |claim, old, capabilities| {
            prepare(claim, Some(old), SPEC, capabilities);
        },
        validate_update: |claim, old| {
            version::check_update(claim, old, |claim, old| {
                claim.at("spec").immutable(&old.at("spec"));
            });
        },
        prepare_for_status_update: claim_status::prepare,
        validate_status_update: |claim, old| {
            version::check_update(claim, old, claim_status::check);
        },
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::MetaAndUpdate,
    ..Kind::new(GROUP, "resourceclaims")
};

/// `resourceclaimtemplates`
pub static RESOURCE_CLAIM_TEMPLATE: Kind = Kind {
    returns_deleted_object: true,
    columns: Columns::NAME_AND_AGE,
    rules: Rules {
        prepare_for_create: |template, capabilities| {
            prepare(template, None, TEMPLATE_SPEC, capabilities);
        },
        validate_create: |claim| version::check(claim, template),
        prepare_for_update: |template, old, capabilities| {
            prepare(template, Some(old), TEMPLATE_SPEC, capabilities);
        },
        validate_update: |claim, old| {
            version::check_update(claim, old, |claim, old| {
                template(claim);
                claim.metadata_again();
                claim.at("spec").immutable(&old.at("spec"));
            });
        },
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::MetaThenUpdate,
    ..Kind::new(GROUP, "resourceclaimtemplates")
};

/// Path of the spec in a claim, and in the claims of a template.
const SPEC: &[&str] = &["spec"];
const TEMPLATE_SPEC: &[&str] = &["spec", "spec"];

/// The most requests, and the most names of requests in one list.
const MAX_REQUESTS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
const MAX_CONSTRAINTS: usize = 32;
/// The most configurations of a claim or a class.
pub(super) const MAX_CONFIGS: usize = 32;
/// Largest size of opaque driver parameters, in bytes.
pub(super) const MAX_PARAMETERS: usize = 10 << 10;

/// Gated fields of a claim's spec.
const GATED: &[Gated] = &[
    Gated::new(&[Feature::DRAAdminAccess], &["devices.requests.*.exactly.adminAccess"]),
    Gated::new(&[Feature::DRAPrioritizedList], &["devices.requests.*.firstAvailable"]),
    Gated::new(
        &[Feature::DRADeviceTaints],
        &[
            "devices.requests.*.exactly.tolerations",
            "devices.requests.*.firstAvailable.*.tolerations",
        ],
    ),
    Gated::new(
        &[Feature::DRAConsumableCapacity],
        &[
            "devices.constraints.*.distinctAttribute",
            "devices.requests.*.exactly.capacity",
            "devices.requests.*.firstAvailable.*.capacity",
        ],
    ),
];

fn prepare(object: &mut Value, old: Option<&Value>, path: &[&str], capabilities: &Capabilities) {
    let old = old.map(version::as_v1);
    version::change(object, |object| {
        let old = old.as_ref().and_then(|old| old.at(path));
        if let Some(spec) = object.at_mut(path) {
            drop_gated(spec, old, GATED, &capabilities.features);
        }
    });
}

fn template(template: Field) {
    let template = template.at("spec");
    template_metadata(template.at("metadata"));
    spec(template.at("spec"));
}

fn spec(spec: Field) {
    let devices = spec.at("devices");
    let known = RequestNames::of(devices);
    each_named(devices.at("requests"), MAX_REQUESTS, "name", request);
    each(devices.at("constraints"), MAX_CONSTRAINTS, |constraint| {
        names_of_requests(constraint.at("requests"), &known);
        attribute(constraint);
    });
    each(devices.at("config"), MAX_CONFIGS, |config| {
        names_of_requests(config.at("requests"), &known);
        configuration(config);
    });
}

fn request(request: Field) {
    label(request.at("name"));
    let (alternatives, exactly) = (request.at("firstAvailable"), request.at("exactly"));
    match (!alternatives.is_empty(), exactly.is_set()) {
        (false, false) => {
            request.required("exactly one of `exactly` or `firstAvailable` is required");
        }
        (true, true) => request.invalid_as(
            null(),
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
        ),
        (true, false) => each_named(alternatives, MAX_ALTERNATIVES, "name", |alternative| {
            label(alternative.at("name"));
            devices(alternative);
        }),
        (false, true) => devices(exactly),
    }
}

/// Validates a device request, or one of its alternatives.
fn devices(request: Field) {
    request.at("deviceClassName").must_form("", name::is_dns1123_subdomain);
    selector::check(request.at("selectors"));
    let (mode, count) = (request.at("allocationMode"), request.at("count"));
    match mode.str() {
        "All" if count.int() != 0 => {
            count.invalid("must not be specified when allocationMode is 'All'");
        }
        "ExactCount" if count.int() <= 0 => count.invalid_as(count.int(), NOT_POSITIVE),
        _ => mode.one_of(&["All", "ExactCount"]),
    }
    request.at("tolerations").items().for_each(taint::toleration);
}

/// The attribute that devices share, or differ by.
fn attribute(constraint: Field) {
    let (same, distinct) = (constraint.at("matchAttribute"), constraint.at("distinctAttribute"));
    if same.is_set() {
        names::fully_qualified(same);
    } else if distinct.is_set() {
        names::fully_qualified(distinct);
    } else if constraint.capabilities().features.has(Feature::DRAConsumableCapacity) {
        constraint.required(
            "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple \
             fields are set",
        );
    } else {
        same.required("");
    }
}

/// Opaque configuration of a driver.
pub(super) fn configuration(config: Field) {
    let opaque = config.at("opaque");
    if opaque.is_absent() {
        return opaque.required("");
    }
    names::driver(opaque.at("driver"));
    document(opaque.at("parameters"), MAX_PARAMETERS);
}

/// A JSON object of at most so many bytes.
pub(super) fn document(document: Field, max: usize) {
    let text = match document.get() {
        Some(Value::Raw(text)) => text.trim(),
        _ => "",
    };
    if text.is_empty() || text == "null" {
        document.required("");
    } else if text.len() > max {
        document.too_long(max);
    } else if !text.starts_with('{') {
        document.invalid_as("<value omitted>", "must be a valid JSON object");
    }
}

/// Names of requests, each of them once.
pub(super) fn names_of_requests(list: Field, known: &RequestNames) {
    each_once(list, MAX_REQUESTS, |name| known.check(name));
}

/// The requests of a claim by name, with the names of their alternatives.
pub(super) struct RequestNames<'v>(HashMap<&'v str, HashSet<&'v str>>);

impl<'v> RequestNames<'v> {
    pub fn of(devices: Field<'v, '_>) -> Self {
        let mut names: HashMap<_, HashSet<_>> = HashMap::new();
        for request in devices.at("requests").items() {
            let alternatives = request.at("firstAvailable");
            let alternatives = alternatives.items().map(|item| item.at("name").str()).collect();
            // Of several with one name, which is an error, the last counts.
            names.insert(request.at("name").str(), alternatives);
        }
        RequestNames(names)
    }

    /// Checks the name of a request, or of one of its alternatives after a slash.
    pub fn check(&self, name: Field) {
        const UNKNOWN: &str = "must be the name of a request in the claim or the name of a request and \
             a subrequest separated by '/'";
        let parts: Vec<&str> = name.str().split('/').collect();
        if parts.len() > 2 {
            return name.invalid(UNKNOWN);
        }
        for part in &parts {
            for problem in name::is_dns1123_label(part) {
                name.invalid_as(*part, problem);
            }
        }
        let request = self.0.get(parts[0]);
        if !request.is_some_and(|known| parts.get(1).is_none_or(|part| known.contains(part))) {
            name.invalid(UNKNOWN);
        }
    }
}
