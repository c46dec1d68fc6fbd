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
    /// `CoordinatedLeaderElection`: leases say how their next holder is chosen.
    pub coordinated_leader_election: bool,
    /// `DRAWorkloadResourceClaims`: groups of pods share devices.
    pub dra_workload_resource_claims: bool,
    /// `GenericWorkload`: pods say with which others they are scheduled.
    pub generic_workload: bool,
    /// `HPAScaleToZero`: autoscalers may take the last pod away.
    pub hpa_scale_to_zero: bool,
    /// `PodCertificateRequest`: volumes with certificates that are made for the pod.
    pub pod_certificate_request: bool,
    /// `TopologyAwareWorkloadScheduling`: groups of pods say how close together they are.
    pub topology_aware_workload_scheduling: bool,
    /// `VolumeLimitScaling`: storage drivers keep pods from nodes that lack them.
    pub volume_limit_scaling: bool,
    /// `WorkloadAwarePreemption`: groups of pods are preempted as one.
    pub workload_aware_preemption: bool,
}

impl Features {
    /// Asks for each whether it is on.
    pub fn new(enabled: impl Fn(Feature) -> bool) -> Self {
        Features {
            cluster_trust_bundle_projection: enabled(Feature::ClusterTrustBundleProjection),
            container_stop_signals: enabled(Feature::ContainerStopSignals),
            coordinated_leader_election: enabled(Feature::CoordinatedLeaderElection),
            dra_workload_resource_claims: enabled(Feature::DRAWorkloadResourceClaims),
            generic_workload: enabled(Feature::GenericWorkload),
            hpa_scale_to_zero: enabled(Feature::HPAScaleToZero),
            pod_certificate_request: enabled(Feature::PodCertificateRequest),
            topology_aware_workload_scheduling: enabled(Feature::TopologyAwareWorkloadScheduling),
            volume_limit_scaling: enabled(Feature::VolumeLimitScaling),
            workload_aware_preemption: enabled(Feature::WorkloadAwarePreemption),
        }
    }
}
