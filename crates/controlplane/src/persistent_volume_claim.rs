//! Kind PersistentVolumeClaim: strategy and validation.

use kevel_api::field_error::BadValue;
use kevel_api::name;
use kevel_api::quantity::Quantity;
use kevel_api::value::{Map, Value};
use kevel_api::warning::WarningList;
use kevel_features::{Feature, Gated, drop_gated};

use crate::capabilities::Capabilities;
use crate::columns;
use crate::kind::{Kind, MetadataChecks};
use crate::persistent_volume::{ATTRIBUTES_CLASS_OFF, access_modes, volume_mode};
use crate::pod::{resources, warnings as pod_warnings};
use crate::rules::Rules;
use crate::validation::{Field, IMMUTABLE, NOT_POSITIVE, errors};

pub static KIND: Kind = Kind {
    returns_deleted_object: true,
    columns: columns::volume::PERSISTENT_VOLUME_CLAIM,
    rules: Rules {
        prepare_for_create: |claim, capabilities| prepare(claim, None, capabilities),
        validate_create: |claim| spec(claim.at("spec"), &Tolerates::default()),
        prepare_for_update: |claim, old, capabilities| prepare(claim, Some(old), capabilities),
        validate_update,
        prepare_for_status_update: |claim, old, capabilities| {
            drop_gated(claim, Some(old), GATED_STATUS, &capabilities.features);
        },
        validate_status_update,
        warnings: |claim, _| warnings(claim),
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::UpdateThenMeta,
    ..Kind::new("", "persistentvolumeclaims")
};

/// Values of `allocatedResourceStatuses`.
const RESIZE_STATES: &[&str] = &[
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Fields of the spec that only a feature lets in.
const GATED: &[Gated] =
    &[Gated::new(&[Feature::VolumeAttributesClass], &["spec.volumeAttributesClassName"])];

/// Fields of the status that only a feature lets in.
const GATED_STATUS: &[Gated] = &[
    Gated::new(&[Feature::VolumeAttributesClass], &["status.currentVolumeAttributesClassName"]),
    Gated::new(&[Feature::VolumeAttributesClass], &["status.modifyVolumeStatus"]),
];

fn warnings(claim: &Value) -> Vec<String> {
    let mut out = WarningList::default();
    errors(claim, |claim| {
        let notes = claim.down("metadata.annotations");
        let note = notes.key(CLASS_ANNOTATION);
        if note.is_set() {
            let why = "deprecated since v1.8; use \"storageClassName\" attribute instead";
            out.add_with(|| format!("{}: {why}", note.path()));
        }
        pod_warnings::claim_spec(claim.at("spec"), &mut out);
    });
    out.into_said()
}

/// Prepares a claim for storage: a new one is Pending, and `dataSource` and `dataSourceRef` are made to agree.
fn prepare(claim: &mut Value, old: Option<&Value>, capabilities: &Capabilities) {
    drop_gated(claim, old, GATED, &capabilities.features);
    if old.is_none()
        && let Some(claim) = claim.as_map_mut()
    {
        claim.insert("status", Map::from_iter([("phase", Value::from("Pending"))]).into());
    }
    let Some(spec) = claim.at_mut(&["spec"]).and_then(Value::as_map_mut) else { return };
    let old_source = |field: &str| old.is_some_and(|old| old.at(&["spec", field]).is_some());
    let namespace = |spec: &Map| {
        let reference = spec.get("dataSourceRef");
        reference.is_some_and(|reference| !reference.str_at(&["namespace"]).is_empty())
    };
    let across = capabilities.features.has(Feature::CrossNamespaceVolumeDataSource);
    if !across && namespace(spec) && !old_source("dataSourceRef") {
        spec.remove("dataSourceRef");
    }
    let usual = spec.get("dataSource").is_some_and(|source| {
        matches!(
            (source.str_at(&["apiGroup"]), source.str_at(&["kind"])),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        )
    });
    if !old_source("dataSource") && !spec.contains_key("dataSourceRef") && !usual {
        spec.remove("dataSource");
    }
    match (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned()) {
        (Some(source), None) => {
            spec.insert("dataSourceRef", source);
        }
        (None, Some(mut reference)) if !namespace(spec) => {
            if let Some(reference) = reference.as_map_mut() {
                reference.remove("namespace");
            }
            spec.insert("dataSource", reference);
        }
        _ => {}
    }
}

/// Invalid values that the stored claim has already, and that therefore may stay.
#[derive(Default)]
struct Tolerates {
    selector_values: bool,
    source_groups: bool,
}

impl Tolerates {
    fn of(spec: Field) -> Self {
        let group = |field: &str| spec.at(field).at("apiGroup").is_set();
        Tolerates {
            selector_values: spec.at("selector").fails(|selector| selector.label_selector(false)),
            source_groups: group("dataSource") || group("dataSourceRef"),
        }
    }
}

/// Checks a claim template of a pod or StatefulSet.
pub fn template(template: Field) {
    template_metadata(template.at("metadata"));
    spec(template.at("spec"), &Tolerates::default());
}

/// Checks the metadata of a template: only labels and annotations may be set.
pub fn template_metadata(metadata: Field) {
    // In the order of the reference's fields; it lowercases only the first letter of `UID`.
    const OTHERS: [(&str, &str); 13] = [
        ("name", "name"),
        ("generateName", "generateName"),
        ("namespace", "namespace"),
        ("selfLink", "selfLink"),
        ("uid", "uID"),
        ("resourceVersion", "resourceVersion"),
        ("generation", "generation"),
        ("creationTimestamp", "creationTimestamp"),
        ("deletionTimestamp", "deletionTimestamp"),
        ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
        ("ownerReferences", "ownerReferences"),
        ("finalizers", "finalizers"),
        ("managedFields", "managedFields"),
    ];
    metadata.at("annotations").annotations();
    metadata.at("labels").labels();
    for (field, called) in OTHERS {
        if metadata.at(field).is_set() {
            metadata.at(called).forbidden("cannot be set");
        }
    }
}

/// Checks the spec of a claim without a stored predecessor.
pub fn check_spec(field: Field) {
    spec(field, &Tolerates::default());
}

fn spec(spec: Field, tolerates: &Tolerates) {
    let modes = spec.at("accessModes");
    modes.must("at least 1 access mode is required");
    spec.at("selector").label_selector(tolerates.selector_values);
    access_modes(modes);
    let resources = spec.at("resources");
    let requests = resources.at("requests");
    let called = resources.key("storage");
    let storage = called.with(requests.key("storage").get());
    match storage.quantity() {
        None => storage.required(""),
        Some(size) if size.signum() <= 0 => {
            storage.invalid_as(storage.quantity_text(), NOT_POSITIVE);
        }
        Some(_) => resources::quantity(storage, "storage"),
    }
    class_name(spec.at("storageClassName"));
    volume_mode(spec.at("volumeMode"));
    data_sources(spec, tolerates);
    class_name(spec.at("volumeAttributesClassName"));
}

fn class_name(class: Field) {
    if !class.is_empty() {
        class.object_name(name::name_is_dns_subdomain);
    }
}

fn data_sources(spec: Field, tolerates: &Tolerates) {
    let (source, reference) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    for source in [source, reference].into_iter().filter(Field::is_set) {
        let (kind, group) = (source.at("kind"), source.at("apiGroup"));
        source.at("name").must("");
        kind.must("");
        if group.is_empty() && kind.str() != "PersistentVolumeClaim" {
            let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            source.invalid_as(kind.str(), why);
        }
        if !group.is_empty() && !tolerates.source_groups {
            group.form(name::is_dns1123_subdomain);
        }
        if !source.at("namespace").is_empty() {
            source.at("namespace").object_name(name::name_is_dns_label);
        }
    }
    if source.is_absent() || reference.is_absent() {
        return;
    }
    // The reference shows a path as the bad value, which prints as an empty struct.
    let shown = || BadValue::Text("{}".to_owned());
    if !reference.at("namespace").is_empty() {
        let why = "may not be specified when dataSourceRef.namespace is specified";
        spec.invalid_as(shown(), why);
    } else if ["apiGroup", "kind", "name"].iter().any(|f| !source.at(f).same(&reference.at(f))) {
        spec.invalid_as(shown(), "must match dataSourceRef");
    }
}

fn validate_update(claim: Field, old: Field) {
    let (new, was) = (claim.at("spec"), old.at("spec"));
    spec(new, &Tolerates::of(was));
    let bound = claim.down("status.phase").str() == "Bound";
    let class = StorageClass::of(claim, old);
    if matches!(class, StorageClass::Other) || matches!(class, StorageClass::FromNothing) {
        let notes = |claim: &Field| {
            claim.at("metadata").at("annotations").key(CLASS_ANNOTATION).str().to_owned()
        };
        let (note, before) = (notes(&claim), notes(&old));
        if note != before {
            let metadata = claim.at("metadata");
            let annotations = metadata.at("annotations");
            annotations.at(CLASS_ANNOTATION).invalid_as(note.as_str(), IMMUTABLE);
        }
    }
    let (rest, before) = without_changeable(new, was, bound, class);
    let (rest, before) = (new.with(Some(&rest)), new.with(Some(&before)));
    if !rest.same(&before) {
        new.forbidden(format!(
            "spec is immutable after creation except resources.requests and \
             volumeAttributesClassName for bound claims\n{}",
            rest.differences(&before)
        ));
    }
    let size = |spec: Field| spec.at("resources").at("requests").key("storage").quantity();
    let zero = Quantity::default();
    let (now, before) = (size(new).unwrap_or(zero), size(was).unwrap_or(zero));
    let has = old.at("status").at("capacity").key("storage").quantity().unwrap_or(zero);
    if now < before && now <= has {
        let storage = new.down("resources.requests.storage");
        storage.forbidden("field can not be less than status.capacity");
    }
    let mode = new.at("volumeMode");
    if !mode.same(&was.at("volumeMode")) {
        claim.at("volumeMode").invalid_as(mode.bad_value_by_type(), IMMUTABLE);
    }
    attributes_class(new.at("volumeAttributesClassName"), was, old.at("status"));
}

/// Change of a claim's StorageClass.
#[derive(Clone, Copy)]
enum StorageClass {
    /// The class moves from the deprecated annotation to the field.
    FromAnnotation,
    /// The class is set for the first time.
    FromNothing,
    Other,
}

impl StorageClass {
    fn of(claim: Field, old: Field) -> Self {
        let field = |claim: Field| {
            claim.at("spec").at("storageClassName").get().and_then(Value::as_str).map(str::to_owned)
        };
        let note = |claim: Field| {
            claim
                .at("metadata")
                .at("annotations")
                .key(CLASS_ANNOTATION)
                .get()
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let (now, before) = (field(claim), field(old));
        let (note, old_note) = (note(claim), note(old));
        if now.is_none() || before.is_some() {
            return StorageClass::Other;
        }
        let kept = note.is_none() || note == old_note;
        if old_note.is_some() && now == old_note && kept {
            StorageClass::FromAnnotation
        } else if old_note.is_none() || now == old_note {
            StorageClass::FromNothing
        } else {
            StorageClass::Other
        }
    }
}

/// The new spec and the old one, with all mutable fields made equal.
fn without_changeable(new: Field, old: Field, bound: bool, class: StorageClass) -> (Value, Value) {
    let clone = |spec: Field| spec.get().cloned().unwrap_or_else(|| Map::new().into());
    let (mut spec, mut before) = (clone(new), clone(old));
    let put = |spec: &mut Value, field: &str, value: Option<Value>| {
        match value {
            Some(value) => spec.make_map(&[]).insert(field, value),
            None => spec.make_map(&[]).remove(field),
        };
    };
    if old.at("volumeName").is_empty() {
        put(&mut before, "volumeName", new.at("volumeName").get().cloned());
    }
    match class {
        StorageClass::FromAnnotation => put(&mut spec, "storageClassName", None),
        StorageClass::FromNothing => {
            put(&mut spec, "storageClassName", old.at("storageClassName").get().cloned());
        }
        StorageClass::Other => {}
    }
    if bound {
        let class = "volumeAttributesClassName";
        put(&mut spec, class, old.at(class).get().cloned());
        if let Some(requests) = spec.at_mut(&["resources", "requests"]) {
            let storage = old.down("resources.requests").key("storage").get().cloned();
            put(requests, "storage", Some(storage.unwrap_or_else(|| "0".into())));
        }
    }
    (spec, before)
}

fn attributes_class(class: Field, old: Field, status: Field) {
    let changed = !class.same(&old.at("volumeAttributesClassName"));
    if changed && !class.capabilities().features.has(Feature::VolumeAttributesClass) {
        class.forbidden(ATTRIBUTES_CLASS_OFF);
    }
    if !changed || status.at("currentVolumeAttributesClassName").is_absent() {
        return;
    }
    if class.is_absent() {
        let why =
            "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil";
        class.forbidden(why);
    } else if class.is_empty() {
        class.forbidden(
            "update to empty string is forbidden when status.currentVolumeAttributesClassName is \
             not nil",
        );
    }
}

fn validate_status_update(claim: Field, _old: Field) {
    if claim.down("spec.accessModes").is_empty() {
        claim.at("Spec").at("accessModes").required("");
    }
    let status = claim.at("status");
    status.at("capacity").entries().for_each(|(_, size)| valid_size(size));
    let states = status.at("allocatedResourceStatuses");
    for (resource, state) in states.entries() {
        resource_key(states, resource);
        if !RESIZE_STATES.contains(&state.str()) {
            let mut known = RESIZE_STATES.to_vec();
            known.sort_unstable();
            states.unsupported_as(resource, &known);
        }
    }
    let sizes = status.at("allocatedResources");
    for (resource, size) in sizes.entries() {
        let before = sizes.found();
        resource_key(sizes, resource);
        if sizes.found() == before {
            valid_size(size);
        }
        if sizes.found() == before {
            resources::quantity(size, "storage");
        }
    }
}

/// Checks that a size is not negative.
pub fn valid_size(size: Field) {
    if let Some(amount) = size.quantity().filter(|amount| amount.value_bits() < 0) {
        size.invalid_as(amount.value_bits(), "must be a valid resource quantity");
    }
}

fn resource_key(field: Field, resource: &str) {
    let problems = name::is_label_key(resource);
    let native = !resource.contains('/') || resource.contains("kubernetes.io/");
    if problems.is_empty() && native && resource != "storage" {
        field.unsupported_as(resource, &["storage"]);
    }
    problems.into_iter().for_each(|problem| field.invalid_as(resource, problem));
}
