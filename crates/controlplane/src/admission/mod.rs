//! The admission plug-ins of the control plane, one file or folder each.

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
mod limit_pod_hard_anti_affinity_topology;
mod limit_ranger;
mod lister;
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
mod priority;
mod resource_claims;
mod resource_list;
mod resource_quota;
mod runtime_class;
mod service_account;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
mod tolerations;
mod unenforced;

pub use default_toleration_seconds::TolerationSeconds;
pub use namespace_lifecycle::NamespaceLifecycle;
pub use unenforced::report_unenforced;

use std::sync::{Arc, OnceLock};

use kevel_server::admission::Plugin;
use kevel_server::authorization::Authorizer;
use kevel_server::controller::Client;
use kevel_server::resource::{Resources, Rows};
use kevel_server::storage::Storage;

use self::always::{AlwaysAdmit, AlwaysDeny};
use self::always_pull_images::AlwaysPullImages;
use self::certificates::{
    CertificateApproval, CertificateSigning, CertificateSubjectRestriction,
    ClusterTrustBundleAttest, PodCertificateSigning,
};
use self::default_ingress_class::DefaultIngressClass;
use self::default_storage_class::DefaultStorageClass;
use self::default_toleration_seconds::DefaultTolerationSeconds;
use self::deny_service_external_ips::DenyServiceExternalIps;
use self::event_rate_limit::EventRateLimit;
use self::extended_resource_toleration::ExtendedResourceToleration;
use self::limit_pod_hard_anti_affinity_topology::LimitPodHardAntiAffinityTopology;
use self::limit_ranger::LimitRanger;
use self::lister::Lister;
use self::namespace_auto_provision::NamespaceAutoProvision;
use self::namespace_exists::NamespaceExists;
use self::node_declared_feature_validator::NodeDeclaredFeatureValidator;
use self::node_restriction::NodeRestriction;
use self::owner_references_permission_enforcement::OwnerReferencesPermissionEnforcement;
use self::persistent_volume_claim_resize::PersistentVolumeClaimResize;
use self::pod_groups::{JobValidation, PodGroupProtection, PodGroupWorkloadExists};
use self::pod_node_selector::PodNodeSelector;
use self::pod_resize_validator::PodResizeValidator;
use self::pod_security::PodSecurity;
use self::pod_toleration_restriction::PodTolerationRestriction;
use self::pod_topology_labels::PodTopologyLabels;
use self::priority::Priority;
use self::resource_claims::ResourceClaims;
use self::resource_quota::ResourceQuota;
use self::runtime_class::RuntimeClass;
use self::service_account::ServiceAccount;
use self::storage_object_in_use_protection::StorageObjectInUseProtection;
use self::taint_nodes_by_condition::TaintNodesByCondition;
use self::unenforced::Unenforced;

/// What plug-ins are made of.
pub struct Context<'a> {
    /// Where the objects are kept that decide.
    pub rows: &'a Rows,
    /// The whole server's.
    pub authorizer: &'a Arc<dyn Authorizer>,
    /// Whether a feature gate is on.
    pub feature: &'a dyn Fn(&str) -> bool,
    /// What the configuration file says about a plug-in.
    pub configuration: &'a dyn Fn(&str) -> Result<Option<String>, String>,
    /// Of pods that do not say.
    pub toleration_seconds: TolerationSeconds,
    /// The resources of all servers, those that come later, too.
    pub tables: Vec<Arc<Resources>>,
    /// Who makes what plug-ins want to be there; known once the servers are.
    pub client: Arc<OnceLock<Client>>,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

impl Context<'_> {
    /// Where a resource that every cluster has is kept.
    fn storage(&self, group: &str, plural: &str) -> Result<Arc<Storage>, String> {
        self.served(group, plural).ok_or_else(|| format!("{plural} must be served"))
    }

    /// The objects of a resource that every cluster has.
    fn lister(&self, group: &str, plural: &str) -> Result<Lister, String> {
        self.storage(group, plural).map(Lister::new)
    }

    /// Where a resource is kept, if it is served.
    fn served(&self, group: &str, plural: &str) -> Option<Arc<Storage>> {
        self.rows.get(group, "v1", plural).and_then(|row| row.storage.clone())
    }
}

type Made = Result<Arc<dyn Plugin>, String>;
type Make = fn(&Context<'_>) -> Made;

/// How each plug-in is made. Which of them run, and in which order, is the command line's business.
const PLUGINS: &[(&str, Make)] = &[
    ("AlwaysAdmit", |_| made(AlwaysAdmit)),
    ("AlwaysDeny", |_| made(AlwaysDeny)),
    ("AlwaysPullImages", |_| made(AlwaysPullImages)),
    ("CertificateApproval", |context| made(CertificateApproval(context.authorizer.clone()))),
    ("CertificateSigning", |context| made(CertificateSigning(context.authorizer.clone()))),
    ("CertificateSubjectRestriction", |_| made(CertificateSubjectRestriction)),
    ("ClusterTrustBundleAttest", |context| made(ClusterTrustBundleAttest::new(context))),
    ("DefaultIngressClass", |context| made(DefaultIngressClass::new(context)?)),
    ("DefaultStorageClass", |context| made(DefaultStorageClass::new(context)?)),
    ("DefaultTolerationSeconds", |context| made(DefaultTolerationSeconds::new(context))),
    ("DenyServiceExternalIPs", |_| made(DenyServiceExternalIps)),
    ("EventRateLimit", |context| made(EventRateLimit::new(context)?)),
    ("ExtendedResourceToleration", |_| made(ExtendedResourceToleration)),
    ("JobValidation", |context| made(JobValidation::new(context))),
    ("LimitPodHardAntiAffinityTopology", |_| made(LimitPodHardAntiAffinityTopology)),
    ("LimitRanger", |context| made(LimitRanger::new(context)?)),
    ("NamespaceAutoProvision", |context| made(NamespaceAutoProvision::new(context)?)),
    ("NamespaceExists", |context| made(NamespaceExists::new(context)?)),
    ("NamespaceLifecycle", |context| {
        made(NamespaceLifecycle::new(context.storage("", "namespaces")?))
    }),
    ("NodeDeclaredFeatureValidator", |context| made(NodeDeclaredFeatureValidator::new(context)?)),
    ("NodeRestriction", |context| made(NodeRestriction::new(context)?)),
    ("OwnerReferencesPermissionEnforcement", |context| {
        made(OwnerReferencesPermissionEnforcement::new(context))
    }),
    ("PersistentVolumeClaimResize", |context| made(PersistentVolumeClaimResize::new(context)?)),
    ("PodGroupProtection", |context| made(PodGroupProtection::new(context))),
    ("PodGroupWorkloadExists", |context| made(PodGroupWorkloadExists::new(context))),
    ("PodNodeSelector", |context| made(PodNodeSelector::new(context)?)),
    ("PodResizeValidator", |context| made(PodResizeValidator::new(context)?)),
    ("PodSecurity", |context| made(PodSecurity::new(context)?)),
    ("PodTolerationRestriction", |context| made(PodTolerationRestriction::new(context)?)),
    ("PodTopologyLabels", |context| made(PodTopologyLabels::new(context)?)),
    ("Priority", |context| made(Priority::new(context)?)),
    ("ResourceQuota", |context| made(ResourceQuota::new(context)?)),
    ("RuntimeClass", |context| made(RuntimeClass::new(context)?)),
    ("ServiceAccount", |context| made(ServiceAccount::new(context)?)),
    ("StorageObjectInUseProtection", |_| made(StorageObjectInUseProtection)),
    ("TaintNodesByCondition", |_| made(TaintNodesByCondition)),
];

/// What every server does, whatever its flags say.
pub fn always(context: &Context<'_>) -> Result<Vec<Arc<dyn Plugin>>, String> {
    Ok(vec![
        Arc::new(Unenforced),
        Arc::new(PodCertificateSigning(context.authorizer.clone())),
        Arc::new(ResourceClaims::new(context)?),
    ])
}

/// Whether there is a plug-in of this name here.
pub fn is_built(name: &str) -> bool {
    PLUGINS.iter().any(|(plugin, _)| *plugin == name)
}

fn made(plugin: impl Plugin) -> Made {
    Ok(Arc::new(plugin))
}

/// The plug-ins of these names, in their order; those that are not built are left out.
pub fn plugins(names: &[&str], context: &Context<'_>) -> Result<Vec<Arc<dyn Plugin>>, String> {
    let known = |name: &&str| PLUGINS.iter().find(|(plugin, _)| plugin == name);
    let make = |(name, make): &(&str, Make)| {
        make(context)
            .map_err(|error| format!("failed to initialize admission plugin {name}: {error}"))
    };
    names.iter().filter_map(known).map(make).collect()
}
