//! Feature gates: their stage, default and lock in every version that a server can emulate, the switches of
//! `--feature-gates`, and the fields of objects that only a gate lets in (upstream: k8s.io/component-base/featuregate and
//! compatibility, and the lists `kube_features.go`).
//!
//! Code that depends on a gate names it as a [`Feature`], so that a gate that does not exist does not build.

mod document;
mod gate;
mod gated;
mod gates;
mod known;
mod set;
mod version;

pub use document::document;
pub use gate::{Gate, GateEffect, GateSpec, GateState, Maturity};
pub use gated::{Gated, drop_gated};
pub use gates::{FeatureGates, GateError, Notice};
pub use known::Feature;
pub use set::FeatureSet;
pub use version::{BINARY, EffectiveVersion, FLOOR, MajorMinor, VersionError};
