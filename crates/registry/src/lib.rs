//! The registry: objects of resources as all writers and readers see them, without HTTP (upstream:
//! `k8s.io/apiserver/pkg/registry`).

pub mod admission;
pub mod allocation;
pub mod audit;
pub mod backends;
pub mod columns;
pub mod context;
pub mod deletion;
pub mod failure;
pub mod guaranteed_update;
pub mod latency;
pub mod list_options;
pub mod metadata;
pub mod owner_references;
pub mod query;
pub mod registry;
pub mod resource;
pub mod scale;
pub mod scope;
pub mod storage;
pub mod storages;
pub mod store;
pub mod strategy;
pub mod type_ref;
pub mod unstored;
pub mod user;
pub mod verb;
pub mod warnings;
