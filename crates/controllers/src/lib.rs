//! Controllers of kube-controller-manager that a server without one misses: namespaces that are deleted, garbage
//! collection, default service accounts, quotas.
//!
//! A controller is one file with a `build` function, and a row in [`CONTROLLERS`]. It acts as its service account in
//! `kube-system`, through authorization, admission and audit. `--controllers` selects controllers; they run while no
//! kube-controller-manager holds its lease, and on one of the servers that share a store ([`Supervisor`]).
//!
//! # Design
//!
//! ```text
//! --controllers ─▶ Selection ─▶ Supervisor ─┬─ Descriptor::build(ControllerContext) ─▶ Controller: a future, stopped by drop
//! Lease kube-controller-manager ────────────┘        informers, listers ◀── watch caches; client as its service account
//! ```
//!
//! - `names.rs` has all names that kube-controller-manager knows, with aliases. A server with a row of [`CONTROLLERS`]
//!   that does not fit does not start.
//! - A controller reads by `Lister` and `Informer` on the watch caches, and writes by a `Client` as its service
//!   account: authorized by its bootstrap role, admitted and audited (`chain::internal`). Its requests reach the whole
//!   server, including aggregated APIs.
//! - The supervisor runs controllers while no kube-controller-manager holds its Lease. The write that takes the Lease
//!   passes an admission step that closes the controllers' clients, waits for their requests and ends their tasks. An
//!   expired Lease starts them again.
//! - On etcd the servers elect a leader (`election.rs`): it runs the controllers while it holds the Lease
//!   `kevel-controllers`. A leader counts its deadline from before its last write, other servers count the lease from
//!   after it, and deadline plus stop time fit into the lease, so two servers never run the controllers at once. The
//!   Lease is released after they have ended.
//! - Decisions are separate from I/O: `garbage_collector::graph` and `decision` are state machines that a naive model
//!   tests (`model.rs`), as are the conditions of a namespace.
//! - The garbage collector's graph has no node for an object without owners, unless another object refers to it: most
//!   objects cost nothing.

mod bootstrap;
mod certificates;
mod cluster_role_aggregation;
mod context;
mod delay;
mod descriptor;
mod discovery;
mod disruption;
mod election;
mod endpoints;
mod ephemeral_volume;
mod expiry;
mod finalizer;
mod garbage_collector;
mod lease;
mod legacy_token_cleaner;
mod lister;
mod names;
mod namespace;
mod node_lifecycle;
mod object;
mod pod;
mod pod_garbage_collector;
mod pod_group_protection;
mod reconcile_error;
mod recorder;
mod resource_claim;
mod resource_pool_status;
mod resource_quota;
mod root_ca_certificate_publisher;
mod selection;
mod service_account;
mod service_account_token;
mod service_cidr;
mod serving_trust_bundle;
mod storage_version_garbage_collector;
mod storage_version_migrator;
mod supervisor;
mod tables;
mod taint_eviction;
mod ttl_after_finished;
mod unavailable;
mod validating_admission_policy_status;
mod volume_binder;
mod volume_protection;

use kevel_features::Feature;

pub use context::{CertificateAuthority, ControllerContext, ControllersConfig, TokenSigner};
pub use descriptor::{ControllerLoop, Descriptor, DescriptorError};
pub use names::{KNOWN, KnownController};
pub use recorder::{EventKind, EventRecorder, Regarding};
pub use selection::{ControllerSelection, SelectionError};
pub use supervisor::{ControllersBuilder, Supervisor};
pub use unavailable::Unavailable;

/// The controllers that this server has, by name.
pub const CONTROLLERS: &[Descriptor] = &[
    Descriptor {
        name: "bootstrap-signer-controller",
        account: "bootstrap-signer",
        gate: None,
        build: bootstrap::build_signer,
    },
    Descriptor {
        name: "certificatesigningrequest-approving-controller",
        account: "certificate-controller",
        gate: None,
        build: certificates::build_approver,
    },
    Descriptor {
        name: "certificatesigningrequest-cleaner-controller",
        account: "certificate-controller",
        gate: None,
        build: certificates::build_cleaner,
    },
    Descriptor {
        name: "certificatesigningrequest-signing-controller",
        account: "certificate-controller",
        gate: None,
        build: certificates::build_signer,
    },
    Descriptor {
        name: "clusterrole-aggregation-controller",
        account: "clusterrole-aggregation-controller",
        gate: None,
        build: cluster_role_aggregation::build,
    },
    Descriptor {
        name: "disruption-controller",
        account: "disruption-controller",
        gate: None,
        build: disruption::build,
    },
    Descriptor {
        name: "endpoints-controller",
        account: "endpoint-controller",
        gate: None,
        build: endpoints::build_endpoints,
    },
    Descriptor {
        name: "endpointslice-controller",
        account: "endpointslice-controller",
        gate: None,
        build: endpoints::build_slices,
    },
    Descriptor {
        name: "endpointslice-mirroring-controller",
        account: "endpointslicemirroring-controller",
        gate: None,
        build: endpoints::build_mirroring,
    },
    Descriptor {
        name: "ephemeral-volume-controller",
        account: "ephemeral-volume-controller",
        gate: None,
        build: ephemeral_volume::build,
    },
    Descriptor {
        name: "garbage-collector-controller",
        account: "generic-garbage-collector",
        gate: None,
        build: garbage_collector::build,
    },
    Descriptor {
        name: "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        account: "kube-apiserver-serving-clustertrustbundle-publisher",
        gate: Some(Feature::ClusterTrustBundle),
        build: serving_trust_bundle::build,
    },
    Descriptor {
        name: "legacy-serviceaccount-token-cleaner-controller",
        account: "legacy-service-account-token-cleaner",
        gate: None,
        build: legacy_token_cleaner::build,
    },
    Descriptor {
        name: "namespace-controller",
        account: "namespace-controller",
        gate: None,
        build: namespace::build,
    },
    Descriptor {
        name: "node-lifecycle-controller",
        account: "node-controller",
        gate: None,
        build: node_lifecycle::build,
    },
    Descriptor {
        name: "persistentvolume-binder-controller",
        account: "persistent-volume-binder",
        gate: None,
        build: volume_binder::build,
    },
    Descriptor {
        name: "persistentvolume-protection-controller",
        account: "pv-protection-controller",
        gate: None,
        build: volume_protection::volume::build,
    },
    Descriptor {
        name: "persistentvolumeclaim-protection-controller",
        account: "pvc-protection-controller",
        gate: None,
        build: volume_protection::claim::build,
    },
    Descriptor {
        name: "pod-garbage-collector-controller",
        account: "pod-garbage-collector",
        gate: None,
        build: pod_garbage_collector::build,
    },
    Descriptor {
        name: "podcertificaterequest-cleaner-controller",
        account: "podcertificaterequestcleaner",
        gate: Some(Feature::PodCertificateRequest),
        build: certificates::build_pod_cleaner,
    },
    Descriptor {
        name: "podgroup-protection-controller",
        account: "podgroup-protection-controller",
        gate: Some(Feature::GenericWorkload),
        build: pod_group_protection::build,
    },
    Descriptor {
        name: "resourceclaim-controller",
        account: "resource-claim-controller",
        gate: None,
        build: resource_claim::build,
    },
    Descriptor {
        name: "resourcepoolstatusrequest-controller",
        account: "resourcepoolstatusrequest-controller",
        gate: Some(Feature::DRAResourcePoolStatus),
        build: resource_pool_status::build,
    },
    Descriptor {
        name: "resourcequota-controller",
        account: "resourcequota-controller",
        gate: None,
        build: resource_quota::build,
    },
    Descriptor {
        name: "root-ca-certificate-publisher-controller",
        account: "root-ca-cert-publisher",
        gate: None,
        build: root_ca_certificate_publisher::build,
    },
    Descriptor {
        name: "service-cidr-controller",
        account: "service-cidrs-controller",
        gate: None,
        build: service_cidr::build,
    },
    Descriptor {
        name: "serviceaccount-controller",
        account: "service-account-controller",
        gate: None,
        build: service_account::build,
    },
    Descriptor {
        name: "serviceaccount-token-controller",
        account: "",
        gate: None,
        build: service_account_token::build,
    },
    Descriptor {
        name: "storage-version-migrator-controller",
        account: "storage-version-migrator-controller",
        gate: Some(Feature::StorageVersionMigrator),
        build: storage_version_migrator::build,
    },
    Descriptor {
        name: "storageversion-garbage-collector-controller",
        account: "storage-version-garbage-collector",
        gate: Some(Feature::StorageVersionAPI),
        build: storage_version_garbage_collector::build,
    },
    Descriptor {
        name: "taint-eviction-controller",
        account: "node-controller",
        gate: None,
        build: taint_eviction::build,
    },
    Descriptor {
        name: "token-cleaner-controller",
        account: "token-cleaner",
        gate: None,
        build: bootstrap::build_cleaner,
    },
    Descriptor {
        name: "ttl-after-finished-controller",
        account: "ttl-after-finished-controller",
        gate: None,
        build: ttl_after_finished::build,
    },
    Descriptor {
        name: "validatingadmissionpolicy-status-controller",
        account: "validatingadmissionpolicy-status-controller",
        gate: None,
        build: validating_admission_policy_status::build,
    },
    Descriptor {
        name: "volumeattributesclass-protection-controller",
        account: "volumeattributesclass-protection-controller",
        gate: None,
        build: volume_protection::attributes_class::build,
    },
];
