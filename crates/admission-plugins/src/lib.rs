//! Admission plug-ins of kube-apiserver (upstream: `plugin/pkg/admission`), one file or folder each.
//!
//! The `Registration` of a plug-in has its name, whether it is on by default, and its constructor from a [`Context`] (rows,
//! authorizer, gates). Its line in [`PLUGINS`] gives its place in the order. All servers of the chain share one `Admission`.

mod always;
mod always_pull_images;
mod certificates;
mod configuration;
mod default_class;
mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod deny_service_external_ips;
mod event_rate_limit;
mod extended_resource_toleration;
mod image_policy_webhook;
mod limit_pod_hard_anti_affinity_topology;
mod limit_ranger;
mod namespace_auto_provision;
mod namespace_exists;
mod namespace_lifecycle;
mod node_declared_feature_validator;
mod node_restriction;
mod owner_references_permission_enforcement;
mod persistent_volume_claim_resize;
mod pod_groups;
mod pod_node_selector;
mod pod_resize_validator;
mod pod_security;
mod pod_toleration_restriction;
mod pod_topology_labels;
mod policies;
mod policy_params;
mod priority;
mod resource_claims;
mod resource_list;
mod resource_quota;
pub mod quota {
    //! Quota evaluators, for the admission plug-in and the quota controller.

    pub use super::resource_list::{ResourceList, add, at};
    pub use super::resource_quota::{
        Evaluator, EvaluatorRef, Evaluators, IGNORED, Scope, scopes_of,
    };
}
mod runtime_class;
mod service_account;
mod static_manifests;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
mod tolerations;
mod webhooks;

pub use default_toleration_seconds::TolerationSeconds;
pub use namespace_lifecycle::NamespaceLifecycle;

use std::sync::Arc;

use kevel_admission::cel::MatchConditionMetrics;
use kevel_admission::manifest::ManifestMetrics;
use kevel_admission::predicates::Matcher;
use kevel_admission::webhook::{Resolve, WebhookMetrics};
use kevel_component::future::Pending;
use kevel_controller_runtime::Client;
use kevel_registry::admission::Plugin;
use kevel_registry::resource::{Resources, Rows};
use kevel_registry::storage::Storage;
use kevel_server::authorization::Authorizer;
use kevel_server::egress::EgressSelector;
use kevel_server::metrics::Metrics;

use self::certificates::PodCertificateSigning;
use self::policy_params::PolicyParams;
use self::resource_claims::ResourceClaims;

use kevel_controlplane::lister::Lister;
use kevel_features::{Feature, MajorMinor};

/// The plug-ins that the command line knows, a line each, in the order in which they run
/// (`AllOrderedPlugins`). Each file says what else there is to say about its own.
pub static PLUGINS: &[Registration] = &[
    always::ALWAYS_ADMIT,
    namespace_auto_provision::REGISTRATION,
    namespace_lifecycle::REGISTRATION,
    namespace_exists::REGISTRATION,
    limit_pod_hard_anti_affinity_topology::REGISTRATION,
    limit_ranger::REGISTRATION,
    service_account::REGISTRATION,
    node_restriction::REGISTRATION,
    taint_nodes_by_condition::REGISTRATION,
    always_pull_images::REGISTRATION,
    image_policy_webhook::REGISTRATION,
    pod_security::REGISTRATION,
    pod_node_selector::REGISTRATION,
    priority::REGISTRATION,
    default_toleration_seconds::REGISTRATION,
    pod_toleration_restriction::REGISTRATION,
    event_rate_limit::REGISTRATION,
    extended_resource_toleration::REGISTRATION,
    default_storage_class::REGISTRATION,
    storage_object_in_use_protection::REGISTRATION,
    pod_groups::POD_GROUP_PROTECTION,
    owner_references_permission_enforcement::REGISTRATION,
    persistent_volume_claim_resize::REGISTRATION,
    runtime_class::REGISTRATION,
    certificates::approval::REGISTRATION,
    certificates::signing::REGISTRATION,
    certificates::attest::REGISTRATION,
    certificates::subject_restriction::REGISTRATION,
    default_ingress_class::REGISTRATION,
    deny_service_external_ips::REGISTRATION,
    pod_topology_labels::REGISTRATION,
    pod_groups::POD_GROUP_WORKLOAD_EXISTS,
    node_declared_feature_validator::REGISTRATION,
    pod_groups::JOB_VALIDATION,
    pod_resize_validator::REGISTRATION,
    policies::MUTATING,
    webhooks::MUTATING,
    policies::VALIDATING,
    webhooks::VALIDATING,
    resource_quota::REGISTRATION,
    always::ALWAYS_DENY,
];

/// Registration of a plug-in: its name and default for the command line, and its constructor.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// `LimitRanger`
    pub name: &'static str,
    /// Whether it runs without a flag.
    pub on_by_default: bool,
    make: Make,
}

impl Registration {
    /// A plug-in that runs unless it is switched off.
    const fn on(name: &'static str, make: Make) -> Self {
        Registration { name, on_by_default: true, make }
    }

    /// A plug-in that runs where it is switched on.
    const fn off(name: &'static str, make: Make) -> Self {
        Registration { name, on_by_default: false, make }
    }
}

type Make = fn(&Context<'_>) -> Result<Arc<dyn Plugin>, String>;

/// Parts of the server that plug-ins are built from.
pub struct Context<'a> {
    /// Rows of the built-in kinds, with the storages that plug-ins read.
    pub rows: &'a Rows,
    /// The whole server's.
    pub authorizer: &'a Arc<dyn Authorizer>,
    /// Whether a feature gate is on.
    pub feature: &'a dyn Fn(Feature) -> bool,
    /// Version that the server emulates.
    pub emulation: MajorMinor,
    /// Configuration of a plug-in in the file of `--admission-control-config-file`.
    pub configuration: &'a dyn Fn(&str) -> Result<Option<String>, String>,
    /// Default tolerations of not-ready and unreachable nodes.
    pub toleration_seconds: TolerationSeconds,
    /// The resources of all servers, those that come later, too.
    pub tables: Vec<Arc<Resources>>,
    /// Client of plug-ins that create objects.
    pub client: Client,
    /// Lookups of the predicates of webhooks and policies.
    pub matcher: Arc<Matcher>,
    /// Metrics of the server.
    pub metrics: Arc<Metrics>,
    /// Metrics of match conditions of webhooks and policies.
    pub match_conditions: MatchConditionMetrics,
    /// Metrics of webhooks.
    pub webhooks: WebhookMetrics,
    /// Metrics of webhooks and policies in files.
    pub manifests: ManifestMetrics,
    /// Resolver of Services that are webhooks.
    pub resolve: Resolve,
    /// The ways to webhooks.
    pub egress: EgressSelector,
    /// Starts a plug-in's background task, under the plug-in's name.
    pub follow: &'a dyn Fn(&'static str, Pending<'static, ()>),
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

impl Context<'_> {
    /// Storage of a resource that every cluster has.
    fn storage(&self, group: &str, plural: &str) -> Result<Arc<Storage>, String> {
        self.served(group, plural).ok_or_else(|| format!("{plural} must be served"))
    }

    /// The objects of a resource that every cluster has.
    fn lister<F>(&self, group: &str, plural: &str) -> Result<Lister<F>, String> {
        self.storage(group, plural).map(Lister::new)
    }

    /// Storage of a resource, if it is served.
    fn served(&self, group: &str, plural: &str) -> Option<Arc<Storage>> {
        self.rows.get(group, "v1", plural).and_then(|row| row.storage.clone())
    }
}

/// Plug-ins of every server, whatever its flags are.
pub fn always(context: &Context<'_>) -> Result<Vec<Arc<dyn Plugin>>, String> {
    Ok(vec![
        Arc::new(PodCertificateSigning(context.authorizer.clone())),
        Arc::new(ResourceClaims::new(context)?),
        Arc::new(PolicyParams::new(context)),
    ])
}

/// The plug-ins of these names, in the order in which they run.
pub fn plugins(names: &[&str], context: &Context<'_>) -> Result<Vec<Arc<dyn Plugin>>, String> {
    let wanted = PLUGINS.iter().filter(|plugin| names.contains(&plugin.name));
    let made = wanted.map(|plugin| {
        let failed =
            |error| format!("failed to initialize admission plugin {}: {error}", plugin.name);
        (plugin.make)(context).map_err(failed)
    });
    made.collect()
}
