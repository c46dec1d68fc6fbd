//! Kind Pod: strategy, validation and subresources.

mod affinity;
mod annotations;
mod binding;
mod condition;
pub mod container;
mod downward_api;
mod env;
pub mod ephemeral_containers;
mod eviction;
mod gated;
mod prepare;
mod probe;
mod projected_volume;
pub mod qos;
pub mod resize;
pub mod resources;
mod security_context;
mod spec;
mod status;
pub mod template;
pub mod toleration;
mod update;
mod virtual_paths;
mod volume;
pub mod volume_source;
pub mod warnings;
mod windows;

pub use affinity::node_selector;
pub use binding::Binding;
pub use eviction::Eviction;
pub use toleration::taint_effect;

use kevel_api::value::Value;

use crate::columns;
use crate::kind::{Kind, MetadataChecks, Selectable, Subresource};
use crate::rules::Rules;
use crate::validation::Field;

/// `pods`
pub static KIND: Kind = Kind {
    selectable_fields: &[
        Selectable::field("spec.nodeName").indexed(),
        Selectable::field("spec.restartPolicy"),
        Selectable::field("spec.schedulerName"),
        Selectable::field("spec.serviceAccountName"),
        Selectable::field("spec.hostNetwork"),
        Selectable::field("status.phase"),
        Selectable::field("status.podIP"),
        Selectable::named("status.podIPs", "status.podIP"),
        Selectable::field("status.nominatedNodeName"),
    ],
    returns_deleted_object: true,
    kept_by_status: &["deletionTimestamp", "ownerReferences"],
    reset_by_status: &[
        &["spec"],
        &["metadata", "deletionTimestamp"],
        &["metadata", "ownerReferences"],
    ],
    counts_generation: true,
    subresources: &[
        ("attach", Subresource::Connecter),
        ("binding", Subresource::NamedCreater),
        (
            "ephemeralcontainers",
            Subresource::Fields {
                paths: &[&["spec", "ephemeralContainers"]],
                metadata: false,
                rules: ephemeral_containers::RULES,
            },
        ),
        ("eviction", Subresource::NamedCreater),
        ("exec", Subresource::Connecter),
        ("log", Subresource::Connecter),
        ("portforward", Subresource::Connecter),
        ("proxy", Subresource::Connecter),
        (
            "resize",
            Subresource::Fields { paths: resize::PATHS, metadata: false, rules: resize::RULES },
        ),
    ],
    columns: columns::pod::POD,
    rules: Rules {
        prepare_for_create: prepare::create,
        validate_create,
        prepare_for_update: prepare::update,
        validate_update: update::check,
        prepare_for_status_update: prepare::status,
        validate_status_update: status::check,
        warnings_as_sent: warnings::app_armor_annotations,
        warnings: warnings::pod,
        status_warnings: warnings::status,
        grace_period: Some(grace_period),
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::UpdateThenMeta,
    ..Kind::new("", "pods")
};

fn validate_create(pod: Field) {
    metadata_and_spec(pod, &Options { is_pod: true, ..Options::default() });
    let spec = pod.at("spec");
    let ephemeral = spec.at("ephemeralContainers");
    if !ephemeral.is_empty() {
        ephemeral.forbidden("cannot be set on create");
    }
    if !spec.at("nodeName").is_empty() && !spec.at("schedulingGates").is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        spec.at("nodeName").forbidden(why);
    }
    let metadata = pod.at("metadata");
    annotations::agree_with_fields(metadata.at("annotations"), spec);
}

/// Validation of metadata and spec on every write.
fn metadata_and_spec(pod: Field, options: &Options) {
    let (metadata, spec) = (pod.at("metadata"), pod.at("spec"));
    annotations::check(metadata.at("annotations"), spec, options.tolerates.deletion_cost);
    spec::check(spec, Some(metadata), options);
    if spec.at("serviceAccountName").is_empty() {
        for volume in spec.at("volumes").items() {
            let projected = volume.at("projected");
            for source in projected.at("sources").items() {
                let token = source.at("serviceAccountToken");
                if token.is_set() {
                    token.forbidden("must not be specified when serviceAccountName is not set");
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        spec.at(list).items().for_each(container::padded_image);
    }
}

/// Options of the validation of a pod spec (upstream: PodValidationOptions).
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// True for a pod, false for a pod template.
    pub is_pod: bool,
    pub tolerates: Tolerates,
}

impl Options {
    fn of_pod(old: Field) -> Self {
        let metadata = old.at("metadata");
        let tolerates = Tolerates::of(old.at("spec"), metadata.at("annotations"));
        Options { is_pod: true, tolerates }
    }

    fn of_template(old: Option<Field>) -> Self {
        let tolerates = old.map_or_else(Tolerates::default, |old| {
            Tolerates::of(old.at("spec"), old.down("metadata.annotations"))
        });
        Options { is_pod: false, tolerates }
    }
}

/// Invalid values that the stored object has already, and that therefore may stay.
#[derive(Clone, Copy, Default)]
pub struct Tolerates {
    deletion_cost: bool,
    devices_of_own_users: bool,
    host_network_of_own_users: bool,
    host_sysctls: bool,
    huge_pages: bool,
    node_affinity_values: bool,
    restarted_init_containers: bool,
    restarts_all: bool,
    selector_values: bool,
    selinux_mounts: bool,
    spread_label_keys: bool,
    spread_selectors: bool,
    toleration_comparisons: bool,
    token_paths: bool,
}

impl Tolerates {
    fn of(spec: Field, notes: Field) -> Self {
        let spread = spec.at("topologySpreadConstraints");
        let context = spec.at("securityContext");
        let sysctls = context.at("sysctls");
        let own_users = spec.at("hostUsers").is_set() && !spec.at("hostUsers").bool();
        let mut devices = false;
        each_container(spec, |container| devices |= !container.at("volumeDevices").is_empty());
        Tolerates {
            deletion_cost: !annotations::is_deletion_cost(annotations::deletion_cost(&notes)),
            devices_of_own_users: own_users && devices,
            host_network_of_own_users: own_users && spec.at("hostNetwork").bool(),
            host_sysctls: sysctls
                .items()
                .any(|sysctl| sysctl.fails(|s| security_context::host_sysctl(s.at("name"), spec))),
            huge_pages: resources::has_broken_huge_pages(spec),
            node_affinity_values: affinity::has_odd_node_values(spec.at("affinity")),
            restarted_init_containers: container::has_restarted_init_containers(spec),
            restarts_all: container::restarts_all(spec),
            selector_values: affinity::has_odd_selectors(spec.at("affinity")),
            selinux_mounts: context.at("seLinuxChangePolicy").str() == "MountOption",
            spread_label_keys: spread.items().any(|c| c.fails(affinity::match_label_keys)),
            spread_selectors: spread
                .items()
                .any(|c| c.fails(|c| c.at("labelSelector").label_selector(false))),
            toleration_comparisons: spec.at("tolerations").items().any(toleration::compares),
            token_paths: spec.at("volumes").items().any(projected_volume::has_odd_token_path),
        }
    }
}

/// Visits all containers of a pod, in the order in which they start.
fn each_container<'v>(spec: Field<'v, '_>, mut visit: impl FnMut(Field<'v, '_>)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        spec.at(list).items().for_each(&mut visit);
    }
}

/// Grace period of a deletion: 0 for a pod that is not bound to a node or has ended.
fn grace_period(object: &Value, asked: Option<i64>) -> i64 {
    let usual = object.at(&["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_int);
    let ended = matches!(object.str_at(&["status", "phase"]), "Failed" | "Succeeded");
    let seconds = match object.str_at(&["spec", "nodeName"]).is_empty() || ended {
        true => 0,
        false => asked.or(usual).unwrap_or(0),
    };
    if seconds < 0 { 1 } else { seconds }
}

/// True for mirror pods, which represent static pods.
fn is_static(pod: &Value) -> bool {
    pod.at(&["metadata", "annotations", annotations::MIRROR]).is_some()
}
