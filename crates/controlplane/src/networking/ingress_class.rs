//! Kind IngressClass: validation.

use kevel_api::name;

use super::typed_reference;
use crate::columns;
use crate::kind::{Kind, MetadataChecks};
use crate::rules::Rules;
use crate::validation::Field;

/// `ingressclasses`
pub static KIND: Kind = Kind {
    counts_generation: true,
    columns: columns::networking::INGRESS_CLASS,
    rules: Rules {
        validate_create: |class| check(class.at("spec")),
        validate_update: |class, old| {
            let spec = class.at("spec");
            spec.at("controller").immutable(&old.at("spec").at("controller"));
            class.metadata_again();
            check(spec);
        },
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::UpdateThenMeta,
    ..Kind::new("networking.k8s.io", "ingressclasses")
};

const MAX_CONTROLLER: usize = 250;

fn check(spec: Field) {
    let controller = spec.at("controller");
    if controller.len() > MAX_CONTROLLER {
        controller.too_long(MAX_CONTROLLER);
    }
    controller.extend(name::is_domain_prefixed_path(&controller.path(), controller.str()));
    let parameters = spec.at("parameters");
    if parameters.is_set() {
        check_parameters(parameters);
    }
}

fn check_parameters(parameters: Field) {
    typed_reference(parameters);
    let (scope, namespace) = (parameters.at("scope"), parameters.at("namespace"));
    match (scope.str(), namespace.is_set()) {
        _ if scope.is_absent() => scope.required(""),
        ("Namespace", true) => namespace.object_name(name::name_is_dns_label),
        ("Namespace", false) => namespace.required("`parameters.scope` is set to 'Namespace'"),
        ("Cluster", true) => namespace.forbidden("`parameters.scope` is set to 'Cluster'"),
        ("Cluster", false) => {}
        _ => scope.unsupported(&["Cluster", "Namespace"]),
    }
}
