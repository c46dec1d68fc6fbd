//! Kind ResourceQuota: validation.

use std::collections::{HashMap, HashSet};

use kevel_api::field_error::BadValue;
use kevel_api::quantity::Quantity;
use kevel_api::value::Value;

use crate::columns;
use crate::kind::Kind;
use crate::pod::resources;
use crate::rules::Rules;
use crate::validation::{Field, IMMUTABLE};

/// `resourcequotas`
pub static KIND: Kind = Kind {
    returns_deleted_object: true,
    columns: columns::core::RESOURCE_QUOTA,
    rules: Rules {
        validate_create: |quota| spec(quota.at("spec")),
        validate_update,
        validate_status_update,
        warnings,
        ..Rules::NONE
    },
    ..Kind::new("", "resourcequotas")
};

/// Standard resource names of quotas, which have no domain.
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];

const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];

const COMPUTE: &[&str] =
    &["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

fn is_standard(resource: &str) -> bool {
    STANDARD.contains(&resource) || resources::is_quota_huge_page(resource)
}

fn spec(spec: Field) {
    amounts(spec.at("hard"));
    scopes(spec);
    if spec.at("scopeSelector").is_set() {
        scope_selector(spec);
    }
}

fn amounts(list: Field) {
    for (resource, amount) in list.entries() {
        resources::resource_name(amount, resource);
        if !resource.contains('/') && !is_standard(resource) {
            let why = "must be a standard resource for quota";
            amount.invalid_as(BadValue::named_string(resource), why);
        }
        resources::quantity(amount, resource);
    }
}

/// True if a scope applies to a resource.
fn concerns(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
        }
        scope if SCOPES.contains(&scope) => resource == "pods" || COMPUTE.contains(&resource),
        _ => true,
    }
}

/// Number of limited resources that each scope does not apply to.
#[derive(Default)]
struct Unconcerned<'v>(HashMap<&'v str, usize>);

impl<'v> Unconcerned<'v> {
    fn by(&mut self, scope: &'v str, spec: &Field) -> usize {
        *self.0.entry(scope).or_insert_with(|| {
            let hard = spec.at("hard").keys().filter(|resource| is_standard(resource));
            hard.filter(|resource| !concerns(scope, resource)).count()
        })
    }
}

fn conflict(scopes: &HashSet<&str>) -> usize {
    let both = |a, b| usize::from(scopes.contains(a) && scopes.contains(b));
    both("BestEffort", "NotBestEffort") + both("Terminating", "NotTerminating")
}

fn scopes(spec: Field) {
    let list = spec.at("scopes");
    let mut unconcerned = Unconcerned::default();
    for scope in list.strings() {
        if !SCOPES.contains(&scope) {
            list.invalid("unsupported scope");
        }
        let times = unconcerned.by(scope, &spec);
        list.repeat(times, || list.invalid("unsupported scope applied to resource"));
    }
    (0..conflict(&list.strings().collect())).for_each(|_| list.invalid("conflicting scopes"));
}

fn scope_selector(spec: Field) {
    let selector = spec.at("scopeSelector");
    let list = selector.at("matchExpressions");
    let mut seen = HashSet::new();
    let mut unconcerned = Unconcerned::default();
    for requirement in list.items() {
        let scope = requirement.at("scopeName").str();
        let (operator, values) = (requirement.at("operator").str(), requirement.at("values"));
        if !SCOPES.contains(&scope) {
            list.at("scopeName").invalid_as(BadValue::named_string(scope), "unsupported scope");
        }
        let times = unconcerned.by(scope, &spec);
        let why = "unsupported scope applied to resource";
        list.repeat(times, || list.invalid_as(selector.bad_value(), why));
        let plain =
            SCOPES.contains(&scope) && !matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if plain && operator != "Exists" {
            list.at("operator").invalid_as(
                BadValue::named_string(operator),
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                 ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                 ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
            );
        }
        match operator {
            "In" | "NotIn" if values.is_empty() => list.at("values").required(
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ),
            "Exists" | "DoesNotExist" if !values.is_empty() => list.at("values").invalid_as(
                values.bad_value(),
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => list
                .at("operator")
                .invalid_as(BadValue::named_string(operator), "not a valid selector operator"),
        }
        seen.insert(scope);
    }
    let shown = || spec.at("scopes").bad_value();
    (0..conflict(&seen)).for_each(|_| list.invalid_as(shown(), "conflicting scopes"));
}

fn validate_update(quota: Field, old: Field) {
    spec(quota.at("spec"));
    let sorted = |quota: Field| -> Vec<String> {
        let mut scopes: Vec<String> =
            quota.at("spec").at("scopes").strings().map(str::to_owned).collect();
        scopes.sort();
        scopes.dedup();
        scopes
    };
    if sorted(quota) != sorted(old) {
        let scopes = quota.down("spec.scopes");
        scopes.invalid(IMMUTABLE);
    }
}

fn validate_status_update(quota: Field, _old: Field) {
    let status = quota.at("status");
    amounts(status.at("hard"));
    amounts(status.at("used"));
}

/// Warnings about requests that exceed the limits of the same resource.
fn warnings(quota: &Value, old: Option<&Value>) -> Vec<String> {
    let hard = |name: &str| {
        let text = quota.at(&["spec", "hard", name]).and_then(Value::as_str)?;
        text.parse::<Quantity>().ok()
    };
    let mut warnings = Vec::new();
    for resource in ["cpu", "memory", "ephemeral-storage"].iter().filter(|_| old.is_none()) {
        let (mut name, limit_name) = (format!("requests.{resource}"), format!("limits.{resource}"));
        let mut request = hard(&name);
        if request.is_none() && *resource != "ephemeral-storage" {
            request = hard(resource);
            name = (*resource).to_owned();
        }
        if let (Some(request), Some(limit)) = (request, hard(&limit_name))
            && request > limit
        {
            warnings.push(format!(
                "ResourceQuota {name} ({request}) should be less than {limit_name} ({limit})"
            ));
        }
    }
    warnings
}
