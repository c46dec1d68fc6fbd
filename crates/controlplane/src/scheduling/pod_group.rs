//! Groups of pods.

use kevel_api::name;
use kevel_api::value::Value;
use kevel_features::Feature;
use kevel_registry::strategy::{RESET_ALL_BUT_STATUS, STATUS_METADATA};

use super::group::{self, GATED};
use super::{changed, one_of};
use crate::capabilities::Capabilities;
use crate::columns;
use crate::kind::Kind;
use crate::rules::Rules;
use crate::validation::Field;

/// `podgroups`
pub static KIND: Kind = Kind {
    storage_version: Some("v1alpha2"),
    kept_by_status: &STATUS_METADATA,
    reset_by_status: RESET_ALL_BUT_STATUS,
    status_has_rows: false,
    columns: columns::scheduling::POD_GROUP,
    rules: Rules {
        prepare_for_create: |pod_group, capabilities| prepare(pod_group, None, capabilities),
        validate_create: |pod_group| spec(pod_group.at("spec")),
        prepare_for_update: |pod_group, old, capabilities| {
            prepare(pod_group, Some(old), capabilities);
        },
        validate_update: |pod_group, old| update(pod_group.at("spec"), old.at("spec")),
        prepare_for_status_update,
        validate_status_update,
        ..Rules::NONE
    },
    ..Kind::new("scheduling.k8s.io", "podgroups")
};

const CLAIM_STATUSES: &str = "resourceClaimStatuses";

fn prepare(pod_group: &mut Value, old: Option<&Value>, capabilities: &Capabilities) {
    let old = old.and_then(|old| old.at(&["spec"]));
    if let Some(spec) = pod_group.at_mut(&["spec"]) {
        group::drop_gated(spec, old, capabilities);
    }
}

fn prepare_for_status_update(pod_group: &mut Value, old: &Value, capabilities: &Capabilities) {
    let claims = old.at(&["spec", "resourceClaims"]).is_some_and(|claims| !claims.is_empty());
    if !capabilities.features.has(Feature::DRAWorkloadResourceClaims) && !claims {
        let status = pod_group.at_mut(&["status"]).and_then(Value::as_map_mut);
        status.map(|status| status.remove(CLAIM_STATUSES));
    }
}

fn spec(spec: Field) {
    let template = spec.at("podGroupTemplateRef");
    if template.is_set() {
        one_of(template, &["workload"]);
        let workload = template.at("workload");
        if workload.is_set() {
            workload.at("workloadName").must_form("", name::is_long_name);
            workload.at("podGroupTemplateName").must_form("", name::is_short_name);
        }
    }
    group::policy(spec.at("schedulingPolicy"));
    group::gated(spec);
}

/// The spec is immutable, except that fields without their gate may be removed.
fn update(spec: Field, old: Field) {
    let differs = |name: &str| !spec.at(name).same(&old.at(name));
    for name in ["podGroupTemplateRef", "schedulingPolicy"] {
        if differs(name) {
            changed(spec.at(name));
        }
    }
    for (name, gate) in GATED.iter().filter(|(name, _)| differs(name)) {
        let field = spec.at(name);
        if spec.capabilities().features.has(*gate) || *name == "resourceClaims" {
            changed(field);
        } else if !field.is_empty() {
            field.forbidden("");
        }
        if *name == "resourceClaims" {
            group::count_claims(field);
        }
    }
}

fn validate_status_update(pod_group: Field, old: Field) {
    let (status, claims) = (pod_group.at("status"), pod_group.down("spec.resourceClaims"));
    status.at("conditions").conditions();
    let statuses = status.at(CLAIM_STATUSES);
    for name in statuses.items() {
        let name = name.at("name");
        if !claims.items().any(|claim| claim.at("name").str() == name.str()) {
            name.invalid_as(name.str(), "must match the name of an entry in `spec.resourceClaims`");
        }
    }
    let was = old.at("status");
    group::claim_statuses(statuses, was.at(CLAIM_STATUSES));
}
