//! What a server allows that its rules go by.

use kevel_clock::Clock;

use crate::features::Feature;

/// Permissions of the command line, and the time. Nothing special is allowed by default.
#[derive(Clone, Debug, Default)]
pub struct Capabilities {
    /// Containers that may do everything on their node (`--allow-privileged`).
    pub allow_privileged: bool,
    /// Which features are there.
    pub features: Features,
    /// Time of the server.
    pub clock: Clock,
}

/// The feature gates that rules look at; by default, those that are on unless switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// `ClusterTrustBundleProjection`: volumes with the authorities of a signer.
    pub cluster_trust_bundle_projection: bool,
    /// `ContainerStopSignals`: containers say by which signal they end.
    pub container_stop_signals: bool,
    /// `CoordinatedLeaderElection`: leases say how their next holder is chosen.
    pub coordinated_leader_election: bool,
    /// `DRAConsumableCapacity`: several claims share a device, each with some of its capacity.
    pub dra_consumable_capacity: bool,
    /// `DRADeviceBindingConditions`: devices say what they wait for before a claim is bound.
    pub dra_device_binding_conditions: bool,
    /// `DRADeviceTaints`: devices have taints.
    pub dra_device_taints: bool,
    /// `DRAExtendedResource`: extended resources are devices of a class.
    pub dra_extended_resource: bool,
    /// `DRAListTypeAttributes`: attributes of devices may be lists.
    pub dra_list_type_attributes: bool,
    /// `DRANodeAllocatableResources`: devices count against resources of their node.
    pub dra_node_allocatable_resources: bool,
    /// `DRAPartitionableDevices`: devices take of counters that they share.
    pub dra_partitionable_devices: bool,
    /// `DRAPrioritizedList`: requests name several kinds of devices, the best first.
    pub dra_prioritized_list: bool,
    /// `DRAResourceClaimDeviceStatus`: drivers say what has become of a claim's devices.
    pub dra_resource_claim_device_status: bool,
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
            dra_consumable_capacity: enabled(Feature::DRAConsumableCapacity),
            dra_device_binding_conditions: enabled(Feature::DRADeviceBindingConditions),
            dra_device_taints: enabled(Feature::DRADeviceTaints),
            dra_extended_resource: enabled(Feature::DRAExtendedResource),
            dra_list_type_attributes: enabled(Feature::DRAListTypeAttributes),
            dra_node_allocatable_resources: enabled(Feature::DRANodeAllocatableResources),
            dra_partitionable_devices: enabled(Feature::DRAPartitionableDevices),
            dra_prioritized_list: enabled(Feature::DRAPrioritizedList),
            dra_resource_claim_device_status: enabled(Feature::DRAResourceClaimDeviceStatus),
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

impl Default for Features {
    fn default() -> Self {
        Features::new(|feature| feature.gate().default)
    }
}
