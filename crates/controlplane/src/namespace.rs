//! Kind Namespace: strategy and validation.

use kevel_api::field_error::BadValue;
use kevel_api::name;
use kevel_api::value::{Map, Value};

use crate::capabilities::Capabilities;
use crate::columns;
use crate::kind::{Kind, MetadataChecks, Selectable, Subresource};
use crate::rules::Rules;
use crate::validation::Field;

/// `namespaces`
pub static KIND: Kind = Kind {
    validate_name: name::name_is_dns_label,
    selectable_fields: &[Selectable::field("status.phase")],
    returns_deleted_object: true,
    subresources: &[(
        "finalize",
        Subresource::Fields { paths: &[&["spec", "finalizers"]], metadata: true, rules: FINALIZE },
    )],
    columns: columns::core::NAMESPACE,
    rules: Rules {
        prepare_for_create,
        validate_create: check,
        prepare_for_update,
        validate_update: |namespace, _| check(namespace),
        validate_status_update,
        begin_delete,
        held,
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::MetaThenUpdate,
    ..Kind::new("", "namespaces")
};

/// Rules of `namespaces/finalize`.
pub const FINALIZE: Rules = Rules { validate_update: check_finalize, ..Rules::NONE };

/// Label with the namespace's name, for selectors.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Finalizer that keeps a namespace until it is empty.
const FINALIZER: &str = "kubernetes";

fn prepare_for_create(object: &mut Value, _: &Capabilities) {
    // Defaulting has run before a generated name was set.
    let name = Value::from(object.str_at(&["metadata", "name"]));
    object.make_map(&["metadata", "labels"]).insert(NAME_LABEL, name);
    let Some(object) = object.as_map_mut() else { return };
    let status = Map::from_iter([("phase", Value::from("Active"))]);
    object.insert("status", status.into());
    let spec = object.entry_or_insert_with("spec", || Map::new().into());
    let Some(spec) = spec.as_map_mut() else { return };
    let finalizers = spec.entry_or_insert_with("finalizers", || Value::List(Default::default()));
    let Some(list) = finalizers.as_list_mut() else { return };
    if !list.iter().any(|finalizer| finalizer.as_str() == Some(FINALIZER)) {
        list.push(FINALIZER.into());
    }
}

/// Keeps `spec`: finalizers are removed by `namespaces/finalize` only.
fn prepare_for_update(object: &mut Value, old: &Value, _: &Capabilities) {
    let Some(object) = object.as_map_mut() else { return };
    match old.at(&["spec"]) {
        Some(spec) => object.insert("spec", spec.clone()),
        None => object.remove("spec"),
    };
}

fn check(namespace: Field) {
    let spec = namespace.at("spec");
    let list = spec.at("finalizers");
    list.strings().for_each(|finalizer| finalizer_name(list, finalizer));
}

fn check_finalize(namespace: Field, _old: Field) {
    let finalizers = namespace.down("spec.finalizers");
    finalizers.items().for_each(|finalizer| finalizer_name(finalizer, finalizer.str()));
}

fn finalizer_name(field: Field, finalizer: &str) {
    let problems = name::is_label_key(finalizer);
    problems.into_iter().for_each(|problem| field.invalid_as(finalizer, problem));
    standard_finalizer(field, finalizer);
}

/// Checks that a finalizer without a domain is a standard one.
pub fn standard_finalizer(field: Field, finalizer: &str) {
    let known = matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion");
    if !finalizer.contains('/') && !known {
        let why = "name is neither a standard finalizer name nor is it fully qualified";
        field.invalid_as(finalizer, why);
    }
}

fn validate_status_update(namespace: Field, _old: Field) {
    let ending = namespace.down("metadata.deletionTimestamp").is_set();
    let phase = namespace.down("status.phase").str();
    let (expected, why) = match ending {
        false => ("Active", "may only be 'Active' if `deletionTimestamp` is empty"),
        true => ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty"),
    };
    if phase != expected {
        namespace.down("status.Phase").invalid_as(BadValue::named_string(phase), why);
    }
}

fn begin_delete(object: &mut Value) -> bool {
    let Some(object) = object.as_map_mut() else { return true };
    let status = object.entry_or_insert_with("status", || Map::new().into());
    if let Some(status) = status.as_map_mut() {
        status.insert("phase", "Terminating".into());
    }
    true
}

fn held(object: &Value) -> bool {
    object.at(&["spec", "finalizers"]).is_some_and(|list| !list.is_empty())
}
