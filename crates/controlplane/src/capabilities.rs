//! What a server allows that its rules go by.

use crate::features::Feature;

/// What the command line allows. Nothing is allowed by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Containers that may do everything on their node (`--allow-privileged`).
    pub allow_privileged: bool,
    /// Which features are there.
    pub features: Features,
}

/// The feature gates that rules look at. All of them are off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// `ClusterTrustBundleProjection`: volumes with the authorities of a signer.
    pub cluster_trust_bundle_projection: bool,
    /// `ContainerStopSignals`: containers say by which signal they end.
    pub container_stop_signals: bool,
    /// `GenericWorkload`: pods say with which others they are scheduled.
    pub generic_workload: bool,
    /// `PodCertificateRequest`: volumes with certificates that are made for the pod.
    pub pod_certificate_request: bool,
}

impl Features {
    /// Asks for each whether it is on.
    pub fn new(enabled: impl Fn(Feature) -> bool) -> Self {
        Features {
            cluster_trust_bundle_projection: enabled(Feature::ClusterTrustBundleProjection),
            container_stop_signals: enabled(Feature::ContainerStopSignals),
            generic_workload: enabled(Feature::GenericWorkload),
            pod_certificate_request: enabled(Feature::PodCertificateRequest),
        }
    }
}
