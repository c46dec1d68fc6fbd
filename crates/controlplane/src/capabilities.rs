//! Cluster-wide settings and enabled features that validation rules depend on.

use kevel_clock::Clock;
use kevel_features::FeatureSet;

/// Permissions of the command line, and the time. Nothing special is allowed by default.
#[derive(Clone, Debug, Default)]
pub struct Capabilities {
    /// Containers that may do everything on their node (`--allow-privileged`).
    pub allow_privileged: bool,
    /// Features that are on.
    pub features: FeatureSet,
    /// Time of the server.
    pub clock: Clock,
}
