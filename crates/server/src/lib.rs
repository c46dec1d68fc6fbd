//! The generic API server (upstream: `k8s.io/apiserver`): from a request on a socket to an object in the store.
//!
//! A request passes the handler [`chain`], then the [`delegate`]s, of which one serves its path: a plain one, or that
//! of a [`resource`]. A resource's verbs are the [`endpoints`]; the rules of its kind are its [`strategy`], those of
//! the cluster its [`admission`].

pub mod admission;
pub mod allocation;
pub mod audit;
pub mod authentication;
pub mod authorization;
pub mod backends;
pub mod body;
pub mod chain;
pub mod columns;
pub mod config_file;
pub mod delegate;
pub mod deletion;
pub mod discovery;
pub mod egress;
pub mod endpoints;
pub mod failure;
pub mod flowcontrol;
pub mod future;
pub mod grpc;
mod guaranteed_update;
pub mod handler;
pub mod health;
pub mod identity;
pub mod incoming;
pub mod latency_trackers;
mod lease;
pub mod lifecycle;
pub mod list_options;
pub mod metadata;
pub mod metrics;
pub mod negotiate;
pub mod openapi;
pub mod proxy;
pub mod query;
pub mod registry;
pub mod request;
pub mod request_info;
pub mod resource;
pub mod responses;
pub mod routes;
pub mod scale;
pub mod selectors;
pub mod serving;
pub mod signals;
pub mod storage;
pub mod storages;
pub mod strategy;
pub mod type_ref;
pub mod user;
pub mod verb;
pub mod version;
pub mod webhook;
pub mod zpages;

/// Certificates and keys, under their name in other crates.
pub use kevel_pki as certificates;
