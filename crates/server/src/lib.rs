//! The generic API server (upstream: `k8s.io/apiserver`): from a request on a socket to an object in the store.
//!
//! A request passes the handler [`chain`], then the [`delegate`]s, of which one serves its path: a plain one, or that
//! of a [`resource`](kevel_registry::resource). A resource's verbs are the [`endpoints`]; the rules of its kind are its [`strategy`](kevel_registry::strategy), those of
//! the cluster its [`admission`](kevel_registry::admission).

pub mod audit;
pub mod authentication;
pub mod authorization;
pub mod body;
pub mod chain;
pub mod config_file;
pub mod connecter;
pub mod delegate;
pub mod discovery;
pub mod egress;
pub mod endpoints;
pub mod flowcontrol;
pub mod grpc;
pub mod handler;
pub mod health;
pub mod identity;
pub mod incoming;
pub mod latency_trackers;
mod lease;
pub mod lifecycle;
pub mod metrics;
pub mod negotiate;
pub mod openapi;
pub mod proxy;
pub mod request;
pub mod request_info;
pub mod responses;
pub mod routes;
pub mod selectors;
pub mod serving;
pub mod version;
pub mod webhook;
pub mod zpages;

/// Certificates and keys, under their name in other crates.
pub use kevel_pki as certificates;
