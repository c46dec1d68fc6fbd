//! The built-in kinds: their rows, and what is special about each of them.

pub mod admission;
mod apps;
mod batch;
mod columns;
mod config_map;
mod coordination;
mod default_service_accounts;
mod event;
mod identity_lease;
mod kinds;
mod limit_range;
mod namespace;
mod networking;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_disruption_budget;
mod pod_template;
mod priority_class;
pub mod priority_classes;
mod rbac;
mod resource_quota;
mod rows;
mod rules;
mod runtime_class;
mod secret;
pub mod service;
mod service_account;
mod storage_class;
mod system_namespaces;
mod validation;

pub use default_service_accounts::DefaultServiceAccounts;
pub use identity_lease::{IdentityLease, collect_identity_leases};
pub use rows::{Answers, StorageOptions, rows};
pub use system_namespaces::system_namespaces;
