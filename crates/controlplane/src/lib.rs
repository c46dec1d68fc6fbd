//! The built-in kinds: their rows, and what is special about each of them.
//!
//! # Kinds
//!
//! A built-in kind is one value, a `Kind`, in its own file: rules, columns (`columns!`: title and cell together),
//! selectable fields, storage key and version, and its subresources. Fields that it leaves out have the value of most
//! kinds (`Kind::new`). `kinds.rs` lists the kinds, one line each. `kinds/check.rs` compares the list with the
//! definitions of `api/`, and a server with a kind that does not fit does not start. `rows.rs` makes rows of both.
//!
//! `Rules` is the strategy of a kind as a table of functions: sign, prepare, check, warn; for create, update and
//! status. Rules are pure: object in, field errors out, in the reference's order and wording. Cluster-wide settings and
//! enabled features come in as `Capabilities`. Their tests are text files beside the kind (`*/cases/*.txt`): the
//! written object and the reference's answer, which `conformance rules` fetches.

mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apps;
mod autoscaling;
mod batch;
mod capabilities;
mod certificates;
mod columns;
mod component_status;
mod config_map;
mod connect;
mod coordination;
mod csi;
mod event;
mod flowcontrol;
mod identity_lease;
mod kind;
mod kinds;
mod kubelet;
mod limit_range;
pub mod lister;
mod namespace;
mod networking;
mod node;
mod node_labels;
mod peer_leases;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_disruption_budget;
mod pod_template;
mod priority_class;
pub mod priority_classes;
mod rbac;
mod resource;
mod resource_quota;
mod reviews;
mod rows;
mod rules;
mod runtime_class;
mod scheduling;
mod secret;
pub mod service;
mod service_account;
mod storage_class;
mod storage_version;
mod system_namespaces;
mod validation;
mod volume_attachment;

pub use admissionregistration::manifest_errors;
pub use capabilities::Capabilities;
pub use component_status::ComponentStatuses;
pub use connect::{ConnectConfig, ConnectFeatures, connecters};
pub use coordination::LeaderElectionController;
pub use flowcontrol::{config_consumer, config_producer};
pub use identity_lease::{IdentityLease, collect_identity_leases};
pub use kubelet::KubeletClientConfig;
pub use peer_leases::{PeerAddress, PeerLeases};
pub use pod::qos;
pub use rows::{Creaters, RowsConfig, StorageOptions};
pub use rows::{group_resource, locations, rows, storages, version_rank};
pub use storage_version::{StorageVersionManager, set_common_encoding_version};
pub use system_namespaces::system_namespaces;
