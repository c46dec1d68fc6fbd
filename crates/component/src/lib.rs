//! Parts of any component, whatever it serves (upstream: `k8s.io/component-base`).

pub mod future;
pub mod identity;
pub mod metrics;
pub mod signals;
pub mod summary;
