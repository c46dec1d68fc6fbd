//! Kind Node: validation and preparation.

use std::collections::HashSet;

use kevel_api::field_error::{FieldError, FieldErrorKind};
use kevel_api::ip;
use kevel_api::name;
use kevel_api::value::Value;
use kevel_features::{Feature, Gated, drop_gated};

use crate::capabilities::Capabilities;
use crate::columns;
use crate::kind::{Kind, MetadataChecks, Selectable, Subresource};
use crate::pod::{resources, taint_effect};
use crate::rules::Rules;
use crate::validation::Field;

/// Nodes, which may be made with a status.
pub static KIND: Kind = Kind {
    selectable_fields: &[Selectable::field("spec.unschedulable")],
    storage_key: Some("minions"),
    keeps_status: true,
    subresources: &[("proxy", Subresource::Connecter)],
    columns: columns::node::NODE,
    rules: Rules {
        prepare_for_create,
        validate_create: check,
        prepare_for_update,
        validate_update: |node, old| {
            check(node);
            node.metadata_again();
            check_change(node, old);
        },
        prepare_for_status_update,
        validate_status_update: check_change,
        warnings,
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::MetaThenUpdate,
    ..Kind::new("", "nodes")
};

/// Fields of the status that only a feature lets in.
const GATED_STATUS: &[Gated] = &[
    Gated::new(&[Feature::SupplementalGroupsPolicy], &["status.features"]),
    Gated::new(&[Feature::NodeDeclaredFeatures], &["status.declaredFeatures"]),
];

fn prepare_for_create(node: &mut Value, capabilities: &Capabilities) {
    drop_gated(node, None, GATED_STATUS, &capabilities.features);
    remove(node, "spec", "configSource");
    remove(node, "status", "config");
}

fn prepare_for_update(node: &mut Value, old: &Value, capabilities: &Capabilities) {
    drop_gated(node, Some(old), GATED_STATUS, &capabilities.features);
    if old.at(&["spec", "configSource"]).is_none() {
        remove(node, "spec", "configSource");
    }
}

fn prepare_for_status_update(node: &mut Value, old: &Value, capabilities: &Capabilities) {
    drop_gated(node, Some(old), GATED_STATUS, &capabilities.features);
    if old.at(&["status", "config"]).is_none() {
        remove(node, "status", "config");
    }
}

fn remove(node: &mut Value, part: &str, field: &str) {
    if let Some(part) = node.at_mut(&[part]).and_then(Value::as_map_mut) {
        part.remove(field);
    }
}

fn check(node: Field) {
    let (metadata, spec, status) = (node.at("metadata"), node.at("spec"), node.at("status"));
    taints(metadata.at("taints"), spec.at("taints"));
    amounts(status);
    let swap = metadata.at("nodeSwapStatus");
    let capacity = status.down("nodeInfo.swap.capacity");
    if capacity.is_set() {
        swap.at("capacity").with(capacity.get()).positive();
    }
    declared_features(status.at("declaredFeatures"));
    pod_cidrs(spec.at("podCIDRs"));
}

/// Taints, which the reference says are in the metadata.
fn taints(said: Field, taints: Field) {
    let mut seen = HashSet::new();
    let said = said.with(taints.get());
    for (taint, shown) in said.items().zip(taints.items()) {
        let (key, value, effect) = (taint.at("key"), taint.at("value"), taint.at("effect"));
        key.label_name();
        let problems = name::is_label_value(value.str());
        if !problems.is_empty() {
            value.invalid_as(value.str(), problems.join(";"));
        }
        taint_effect(effect);
        let pair = (key.str(), effect.str());
        if !seen.insert(pair) {
            let why = "taints must be unique by key and effect pair";
            taint.error(FieldErrorKind::Duplicate, shown.bad_value_by_type(), why);
        }
    }
}

/// Resources stand in messages as fields, not as keys.
fn amounts(status: Field) {
    for list in ["capacity", "allocatable"] {
        let list = status.at(list);
        for (resource, amount) in list.entries() {
            resources::quantity(list.at(resource).with(amount.get()), resource);
        }
    }
}

fn declared_features(features: Field) {
    let mut last: Option<&str> = None;
    let named = |name: &str| {
        let mut parts = name.split('/');
        let first = parts.next().unwrap_or_default();
        let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        first.starts_with(|c: char| c.is_ascii_uppercase())
            && plain(first)
            && parts.all(|p| p.starts_with(|c: char| c.is_ascii_alphabetic()) && plain(p))
    };
    for feature in features.items() {
        let name = feature.str();
        match last {
            Some(last) if last == name => feature.duplicate(),
            Some(last) if last > name => feature.invalid("list must be sorted alphabetically"),
            _ => {}
        }
        if name.len() > name::DNS_SUBDOMAIN_MAX_LENGTH {
            feature.invalid(format!(
                "invalid feature name {name:?}: must be no more than 253 characters"
            ));
        } else if !named(name) {
            feature.invalid(format!(
                "invalid feature name {name:?}: must start with an UpperCamelCase segment, with \
                 subsequent segments separated by '/' (e.g., MyFeature or \
                 MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
            ));
        }
        last = Some(name);
    }
}

fn pod_cidrs(cidrs: Field) {
    let mut broken = None;
    for (index, cidr) in cidrs.items().enumerate() {
        let errors =
            ip::is_valid_cidr_for_legacy_field(&cidr.path(), cidr.str(), cidr.strict_ips());
        let unreadable =
            !ip::is_valid_cidr_for_legacy_field(&cidr.path(), cidr.str(), false).is_empty();
        if unreadable && broken.is_none() {
            broken = Some((index, cidr.str()));
        }
        cidr.extend(errors);
    }
    if cidrs.len() < 2 {
        return;
    }
    if let Some((index, cidr)) = broken {
        let why = "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR";
        let error = format!("{why}[{index}]: <nil> (invalid CIDR address: {cidr})");
        cidrs.push(FieldError::internal(&cidrs.path(), error));
    }
    let six = cidrs.strings().filter(|cidr| cidr.contains(':')).count();
    let dual = broken.is_none() && six > 0 && six < cidrs.len();
    if !dual || cidrs.len() > 2 {
        cidrs.invalid("may specify no more than one CIDR for each IP family");
    }
}

fn check_change(node: Field, old: Field) {
    let (spec, status, was) = (node.at("spec"), node.at("status"), old.at("spec"));
    amounts(status);
    declared_features(status.at("declaredFeatures"));
    let mut seen = HashSet::new();
    for address in status.at("addresses").items() {
        let (ty, at) = (address.at("type"), address.at("address"));
        let pair = (ty.str(), at.str());
        if !seen.insert(pair) {
            address.duplicate();
        }
    }
    let (cidrs, before) = (spec.at("podCIDRs"), was.at("podCIDRs"));
    let why = "node updates may not change podCIDR except from \"\" to valid";
    if !before.is_empty() && cidrs.len() != before.len() {
        cidrs.forbidden(why);
    } else {
        let changed = before.strings().zip(cidrs.strings()).filter(|(a, b)| a != b);
        changed.for_each(|_| cidrs.forbidden(why));
    }
    if !was.at("providerID").is_empty() && !spec.at("providerID").same(&was.at("providerID")) {
        let why = "node updates may not change providerID except from \"\" to valid";
        spec.at("providerID").forbidden(why);
    }
    config(spec, status);
    let metadata = node.at("metadata");
    taints(metadata.at("taints"), spec.at("taints"));
    if spec.at("externalID").str() != was.at("externalID").str() {
        spec.at("externalID").forbidden("may not be updated");
    }
}

/// Validates configuration sources of kubelets (dynamic kubelet configuration, removed upstream).
fn config(spec: Field, status: Field) {
    let source = spec.at("configSource");
    if source.is_set() {
        config_source(source, true);
    }
    let config = status.at("config");
    for part in ["assigned", "active", "lastKnownGood"] {
        if config.at(part).is_set() {
            config_source(config.at(part), false);
        }
    }
}

fn config_source(source: Field, wanted: bool) {
    let map = source.at("configMap");
    if map.is_absent() {
        return source.invalid("exactly one reference subfield must be non-nil");
    }
    for field in ["uid", "resourceVersion"] {
        match (wanted, map.at(field).is_empty()) {
            (true, false) => map.at(field).forbidden(format!("{field} must not be set in spec")),
            (false, true) => map.at(field).required(""),
            _ => {}
        }
    }
    let named = |field: &str, problems: fn(&str, bool) -> name::Problems| {
        if map.at(field).must("") {
            map.at(field).object_name(problems);
        }
    };
    named("namespace", name::name_is_dns_label);
    named("name", name::name_is_dns_subdomain);
    map.at("kubeletConfigKey").must_form("", name::is_config_map_key);
}

fn warnings(node: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if node.at(&["spec", "configSource"]).is_some() {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !node.str_at(&["spec", "externalID"]).is_empty() {
        let why = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
        warnings.push(why.to_owned());
    }
    warnings
}
