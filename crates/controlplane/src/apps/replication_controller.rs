//! Kind ReplicationController: strategy and validation.

use kevel_api::name;
use kevel_registry::scale::Selector;
use kevel_registry::strategy::Dependents;

use super::{replica_set, replicated};
use crate::columns;
use crate::kind::{Kind, Selectable, Subresource};
use crate::pod::template;
use crate::rules::Rules;
use crate::validation::Field;

/// `replicationcontrollers`
pub static KIND: Kind = Kind {
    // Names alone, not what they are generated of.
    validate_name: |name, prefix| match prefix {
        true => Vec::new(),
        false => name::name_is_dns_subdomain(name, false),
    },
    selectable_fields: &[Selectable::field("status.replicas")],
    storage_key: Some("controllers"),
    counts_generation: true,
    default_dependents: Dependents::Orphaned,
    subresources: &[("scale", Subresource::Scale(Selector::Labels))],
    columns: columns::core::REPLICATION_CONTROLLER,
    rules: Rules {
        prepare_for_create: |controller, capabilities| {
            template::prepare_at(controller, None, template::IN_SPEC, capabilities)
        },
        validate_create: |controller| spec(controller.at("spec"), None),
        prepare_for_update: |controller, old, capabilities| {
            template::prepare_at(controller, Some(old), template::IN_SPEC, capabilities);
        },
        validate_update: |controller, old| spec(controller.at("spec"), Some(old.at("spec"))),
        prepare_for_status_update: |controller, _, _| template::label_by_template(controller),
        validate_status_update: |controller, _| replica_set::status(controller.at("status")),
        // The reference warns about the template on creation only.
        warnings: |controller, old| match old {
            None => template::object_warnings(controller, old),
            Some(_) => Vec::new(),
        },
        ..Rules::NONE
    },
    ..Kind::new("", "replicationcontrollers")
};

fn spec(spec: Field, old: Option<Field>) {
    let (selector, template) = (spec.at("selector"), spec.at("template"));
    spec.at("minReadySeconds").non_negative();
    selector.must("");
    match spec.at("replicas").is_set() {
        true => spec.at("replicas").non_negative(),
        false => spec.at("replicas").required(""),
    }
    if template.is_absent() {
        return template.required("");
    }
    let labels = template.down("metadata.labels");
    let fits = |key: &str, value: Field| {
        let label = labels.key(key);
        label.is_set() && label.str() == value.str()
    };
    if selector.entries().any(|(key, value)| !fits(key, value)) {
        let why = "`selector` does not match template `labels`";
        labels.invalid(why);
    }
    replicated(template, old.as_ref().map(|old| old.at("template")), "ReplicationController");
}
