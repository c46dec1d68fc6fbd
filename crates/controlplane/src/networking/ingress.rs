//! Kind Ingress: validation and preparation.

use std::collections::HashSet;

use kevel_api::ip;
use kevel_api::name;
use kevel_api::value::Value;
use kevel_features::Feature;

use super::typed_reference;
use crate::columns;
use crate::kind::{Kind, MetadataChecks};
use crate::rules::Rules;
use crate::validation::{Field, load_balancer_warnings};

/// Kind Ingress.
pub static KIND: Kind = Kind {
    storage_key: Some("ingress"),
    counts_generation: true,
    columns: columns::networking::INGRESS,
    rules: Rules {
        validate_create,
        validate_update,
        validate_status_update,
        warnings,
        status_warnings: load_balancer_warnings,
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::UpdateThenMeta,
    ..Kind::new("networking.k8s.io", "ingresses")
};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Rules that stored objects may still break, because they were written before the rules existed.
#[derive(Clone, Copy, Default)]
struct Tolerates {
    relaxed_service_names: bool,
    secret_names: bool,
    wildcard_rules: bool,
}

fn validate_create(ingress: Field) {
    let spec = ingress.at("spec");
    check(spec, Tolerates::default());
    let class = spec.at("ingressClassName");
    let note = ingress.at("metadata").at("annotations").key(CLASS_ANNOTATION).get().cloned();
    if note.is_some() && class.is_set() && note.as_ref() != class.get() {
        let annotations = ingress.at("annotations");
        let called = annotations.at(CLASS_ANNOTATION);
        let note = note.as_ref().and_then(Value::as_str).unwrap_or_default();
        called.invalid_as(note, "must match `ingressClassName` when both are specified");
    }
}

fn validate_update(ingress: Field, old: Field) {
    let was = old.at("spec");
    let tolerates = Tolerates {
        relaxed_service_names: has_relaxed_names(was),
        secret_names: was.at("tls").items().any(|tls| tls.fails(secret_name)),
        wildcard_rules: was
            .at("rules")
            .items()
            .any(|rule| rule.at("host").str().contains('*') && rule.fails(paths)),
    };
    check(ingress.at("spec"), tolerates);
}

/// Visits the names of Services that an Ingress leads to.
fn each_service_name<'v>(spec: Field<'v, '_>, mut visit: impl FnMut(Field<'v, '_>)) {
    visit(spec.down("defaultBackend.service.name"));
    for rule in spec.at("rules").items() {
        for path in rule.down("http.paths").items() {
            visit(path.down("backend.service.name"));
        }
    }
}

/// Tells whether a name is one that only `RelaxedServiceNameValidation` lets in.
fn is_relaxed(name: &str) -> bool {
    !name.is_empty()
        && name::name_is_dns_label(name, false).is_empty()
        && !name::name_is_dns1035_label(name, false).is_empty()
}

fn has_relaxed_names(spec: Field) -> bool {
    let mut found = false;
    each_service_name(spec, |name| found |= is_relaxed(name.str()));
    found
}

fn check(spec: Field, tolerates: Tolerates) {
    let relaxed = spec.capabilities().features.has(Feature::RelaxedServiceNameValidation);
    if !relaxed && !tolerates.relaxed_service_names {
        each_service_name(spec, |name| {
            if is_relaxed(name.str()) {
                name.object_name(name::name_is_dns1035_label);
            }
        });
    }
    let (rules, backend) = (spec.at("rules"), spec.at("defaultBackend"));
    if rules.is_empty() && backend.is_absent() {
        let why = "either `defaultBackend` or `rules` must be specified";
        spec.invalid_as(rules.bad_value(), why);
    }
    if backend.is_set() {
        check_backend(backend);
    }
    for rule in rules.items() {
        let host = rule.at("host");
        let wildcard = host.str().contains('*');
        if !host.is_empty() {
            if ip::parse_ip_sloppy(host.str()).is_some() {
                host.invalid("must be a DNS name, not an IP address");
            }
            check_host(host);
        }
        if !wildcard || !tolerates.wildcard_rules {
            paths(rule);
        }
    }
    for tls in spec.at("tls").items() {
        tls.at("hosts").items().for_each(check_host);
        if !tolerates.secret_names {
            secret_name(tls);
        }
    }
    if spec.at("ingressClassName").is_set() {
        spec.at("ingressClassName").object_name(name::name_is_dns_subdomain);
    }
}

fn check_host(host: Field) {
    match host.str().contains('*') {
        true => host.form(name::is_wildcard_dns1123_subdomain),
        false => host.form(name::is_dns1123_subdomain),
    }
}

fn secret_name(tls: Field) {
    if !tls.at("secretName").is_empty() {
        tls.at("secretName").object_name(name::name_is_dns_subdomain);
    }
}

fn paths(rule: Field) {
    let http = rule.at("http");
    if http.is_absent() {
        return;
    }
    http.at("paths").must("");
    for path in http.at("paths").items() {
        check_path(path);
    }
}

fn check_path(rule: Field) {
    let (ty, path) = (rule.at("pathType"), rule.at("path"));
    if ty.is_absent() {
        return ty.required("pathType must be specified");
    }
    let absolute = path.str().starts_with('/');
    match ty.str() {
        "Exact" | "Prefix" => {
            if !absolute {
                path.invalid("must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.str().contains(part) {
                    path.invalid(format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if path.str().ends_with(end) {
                    path.invalid(format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !absolute {
                path.invalid("must be an absolute path");
            }
        }
        _ => ty.unsupported(&["Exact", "ImplementationSpecific", "Prefix"]),
    }
    check_backend(rule.at("backend"));
}

fn check_backend(backend: Field) {
    let (resource, service) = (backend.at("resource"), backend.at("service"));
    match (resource.is_set(), service.is_set()) {
        (true, true) => backend.invalid_as("", "cannot set both resource and service backends"),
        (true, false) => typed_reference(resource),
        (false, true) => service_backend(backend),
        (false, false) => backend.invalid_as("", "resource or service backend is required"),
    }
}

fn service_backend(backend: Field) {
    let service = backend.at("service");
    if service.at("name").must("") {
        service.at("name").object_name(name::name_is_dns_label);
    }
    let port = service.at("port");
    let (name, number) = (port.at("name"), port.at("number"));
    match (!name.is_empty(), number.int() != 0) {
        (true, true) => backend.invalid_as("", "cannot set both port name & port number"),
        (true, false) => name.form(name::is_valid_port_name),
        (false, true) => number.in_range(1, 65_535),
        (false, false) => backend.required("port name or number is required"),
    }
}

fn validate_status_update(ingress: Field, old: Field) {
    let known: HashSet<&str> = old
        .down("status.loadBalancer.ingress")
        .list()
        .iter()
        .map(|point| point.str_at(&["ip"]))
        .collect();
    for point in ingress.down("status.loadBalancer.ingress").items() {
        let (address, host) = (point.at("ip"), point.at("hostname"));
        if !address.is_empty() {
            let strict = address.strict_ips() && !known.contains(address.str());
            let errors = ip::is_valid_ip_for_legacy_field(&address.path(), address.str(), strict);
            address.extend(errors);
        }
        if !host.is_empty() {
            host.form(name::is_dns1123_subdomain);
            if ip::parse_ip_sloppy(host.str()).is_some() {
                host.invalid("must be a DNS name, not an IP address");
            }
        }
    }
}

fn warnings(ingress: &Value, old: Option<&Value>) -> Vec<String> {
    let annotated = ingress.at(&["metadata", "annotations", CLASS_ANNOTATION]).is_some();
    let classed = ingress.at(&["spec", "ingressClassName"]).is_some();
    if old.is_some() || !annotated || classed {
        return Vec::new();
    }
    vec![format!(
        "annotation {CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead"
    )]
}
