//! Fields of pods that only a feature lets in (upstream: `DropDisabledPodFields`).

use std::collections::HashSet;

use kevel_api::value::Value;
use kevel_features::{Feature, FeatureSet, Gated, drop_gated};

/// Fields of the spec; paths begin at the pod or template.
const SPEC: &[Gated] = &[
    Gated::new(&[Feature::UserNamespacesSupport], &["spec.hostUsers"]),
    Gated::new(
        &[Feature::SupplementalGroupsPolicy],
        &["spec.securityContext.supplementalGroupsPolicy"],
    ),
    Gated {
        in_use: &["spec.resources.requests|limits.*"],
        ..Gated::new(&[Feature::PodLevelResources], &["spec.resources"])
    },
    Gated::new(
        &[Feature::ProcMountType],
        &["spec.containers|initContainers|ephemeralContainers.*.securityContext.procMount=Default"],
    ),
    Gated::new(
        &[Feature::MatchLabelKeysInPodTopologySpread],
        &["spec.topologySpreadConstraints.*.matchLabelKeys"],
    ),
    Gated {
        in_use: &["spec.resourceClaims"],
        ..Gated::new(
            &[Feature::DynamicResourceAllocation],
            &[
                "spec.containers|initContainers|ephemeralContainers.*.resources.claims",
                "spec.resourceClaims",
            ],
        )
    },
    Gated::new(
        &[Feature::ClusterTrustBundleProjection],
        &["spec.volumes.*.projected.sources.*.clusterTrustBundle"],
    ),
    Gated::new(
        &[Feature::PodCertificateRequest],
        &["spec.volumes.*.projected.sources.*.podCertificate"],
    ),
    Gated::new(&[Feature::GenericWorkload], &["spec.schedulingGroup"]),
    Gated {
        in_use: &[
            "spec.initContainers.*.restartPolicy!Always",
            "spec.initContainers.*.restartPolicyRules",
            "spec.containers.*.restartPolicy",
        ],
        ..Gated::new(
            &[Feature::ContainerRestartRules],
            &[
                "spec.initContainers.*.restartPolicy!Always",
                "spec.containers|ephemeralContainers.*.restartPolicy",
                "spec.containers|initContainers|ephemeralContainers.*.restartPolicyRules",
            ],
        )
    },
    Gated::new(&[Feature::HostnameOverride], &["spec.hostnameOverride"]),
    Gated::new(
        &[Feature::EnvFiles],
        &["spec.containers|initContainers|ephemeralContainers.*.env.*.valueFrom.fileKeyRef"],
    ),
    Gated {
        emptied: 2,
        ..Gated::new(
            &[Feature::PodLifecycleSleepAction],
            &[
                "spec.containers|initContainers|ephemeralContainers.*.lifecycle.preStop|postStart.sleep",
            ],
        )
    },
    Gated::new(&[Feature::SELinuxChangePolicy], &["spec.securityContext.seLinuxChangePolicy"]),
    Gated {
        emptied: 1,
        ..Gated::new(
            &[Feature::ContainerStopSignals],
            &["spec.containers|initContainers|ephemeralContainers.*.lifecycle.stopSignal"],
        )
    },
];

/// Fields of the status.
const STATUS: &[Gated] = &[
    Gated::new(
        &[Feature::InPlacePodLevelResourcesVerticalScaling],
        &["status.resources|allocatedResources"],
    ),
    Gated {
        in_use: &["spec.resourceClaims"],
        ..Gated::new(&[Feature::DynamicResourceAllocation], &["status.resourceClaimStatuses"])
    },
    Gated::new(&[Feature::DRAExtendedResource], &["status.extendedResourceClaimStatus"]),
    Gated::new(
        &[Feature::ResourceHealthStatus],
        &[
            "status.containerStatuses|initContainerStatuses|ephemeralContainerStatuses.*.allocatedResourcesStatus",
        ],
    ),
    Gated::new(
        &[Feature::ResourceHealthStatusMessage],
        &[
            "status.containerStatuses|initContainerStatuses|ephemeralContainerStatuses.*.allocatedResourcesStatus.*.resources.*.message",
        ],
    ),
    Gated {
        in_use: &["spec.securityContext.supplementalGroupsPolicy"],
        ..Gated::new(
            &[Feature::SupplementalGroupsPolicy],
            &["status.containerStatuses|initContainerStatuses|ephemeralContainerStatuses.*.user"],
        )
    },
    Gated::new(
        &[Feature::PodObservedGenerationTracking],
        &["status.observedGeneration", "status.conditions.*.observedGeneration"],
    ),
    Gated::new(
        &[Feature::ImageVolumeWithDigest],
        &[
            "status.containerStatuses|initContainerStatuses|ephemeralContainerStatuses.*.volumeMounts.*.volumeStatus",
        ],
    ),
    Gated::new(
        &[Feature::DRANodeAllocatableResources],
        &["status.nodeAllocatableResourceClaimStatuses"],
    ),
];

/// Lists of containers.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Drops fields of the spec of a pod or a template; `old` is the one that is replaced.
pub(super) fn drop_from_spec(pod: &mut Value, old: Option<&Value>, features: &FeatureSet) {
    drop_gated(pod, old, SPEC, features);
    let in_use = || {
        let volumes = old.map(|old| old.list_at(&["spec", "volumes"])).unwrap_or_default();
        volumes.iter().any(|volume| volume.at(&["image"]).is_some())
    };
    if !features.has(Feature::ImageVolume) && !in_use() {
        drop_image_volumes(pod);
    }
}

/// Drops fields of a pod's status.
pub(super) fn drop_from_status(pod: &mut Value, old: &Value, features: &FeatureSet) {
    drop_gated(pod, Some(old), STATUS, features);
}

/// Volumes that are images go with their mounts: a volume has to have a source.
fn drop_image_volumes(pod: &mut Value) {
    let Some(spec) = pod.at_mut(&["spec"]) else { return };
    let mut dropped = HashSet::new();
    retain(spec, "volumes", |volume| {
        let image = volume.at(&["image"]).is_some();
        if image {
            dropped.insert(volume.str_at(&["name"]).to_owned());
        }
        !image
    });
    if dropped.is_empty() {
        return;
    }
    for list in CONTAINERS {
        let containers = spec.at_mut(&[list]).and_then(Value::as_list_mut);
        for container in containers.into_iter().flatten() {
            retain(container, "volumeMounts", |mount| !dropped.contains(mount.str_at(&["name"])));
        }
    }
}

/// Keeps items of a list, which goes with its last item.
fn retain(value: &mut Value, field: &str, mut keep: impl FnMut(&Value) -> bool) {
    let Some(list) = value.at_mut(&[field]).and_then(Value::as_list_mut) else { return };
    list.retain(|item| keep(item));
    if list.is_empty() {
        value.as_map_mut().map(|map| map.remove(field));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::Capabilities;
    use crate::rules::cases::value;

    const POD: &str = r#"{
        "spec": {
            "hostUsers": false, "hostnameOverride": "h", "resourceClaims": [{"name": "r"}],
            "resources": {"requests": {"cpu": "1"}}, "schedulingGroup": {"podGroupName": "g"},
            "securityContext": {"supplementalGroupsPolicy": "Strict", "seLinuxChangePolicy": "Recursive"},
            "topologySpreadConstraints": [{"matchLabelKeys": ["k"]}],
            "volumes": [
                {"name": "i", "image": {"reference": "r"}},
                {"name": "p", "projected": {"sources": [{"clusterTrustBundle": {}}, {"podCertificate": {}}]}}
            ],
            "initContainers": [{"name": "s", "restartPolicy": "Always"}],
            "containers": [{
                "name": "c", "restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart"}],
                "resources": {"claims": [{"name": "r"}]}, "securityContext": {"procMount": "Unmasked"},
                "env": [{"name": "e", "valueFrom": {"fileKeyRef": {"key": "k"}}}],
                "lifecycle": {"stopSignal": "SIGTERM", "preStop": {"sleep": {"seconds": 1}}},
                "volumeMounts": [{"name": "i"}]
            }]
        },
        "status": {
            "observedGeneration": 1, "resources": {"requests": {"cpu": "1"}},
            "resourceClaimStatuses": [{"name": "r"}], "extendedResourceClaimStatus": {"requestMappings": []},
            "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "r"}],
            "containerStatuses": [{
                "name": "c", "user": {"linux": {}},
                "volumeMounts": [{"name": "i", "volumeStatus": {"image": {}}}],
                "allocatedResourcesStatus": [{"name": "a", "resources": [{"message": "m"}]}]
            }]
        }
    }"#;

    fn text(pod: &Value) -> String {
        let mut text = Vec::new();
        kevel_codec::json::encode_any(pod, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn fields_of_a_feature_go_with_its_gate() {
        use Feature::*;
        let all = FeatureSet::new(|_| true);
        for (gate, gone) in [
            (UserNamespacesSupport, &["hostUsers"][..]),
            (SupplementalGroupsPolicy, &["supplementalGroupsPolicy", r#""user""#]),
            (PodLevelResources, &[]),
            (ProcMountType, &["Unmasked"]),
            (MatchLabelKeysInPodTopologySpread, &["matchLabelKeys"]),
            (
                DynamicResourceAllocation,
                &[r#""claims""#, "resourceClaims", "resourceClaimStatuses"],
            ),
            (ClusterTrustBundleProjection, &["clusterTrustBundle"]),
            (PodCertificateRequest, &["podCertificate"]),
            (GenericWorkload, &["schedulingGroup"]),
            (ContainerRestartRules, &["Never", "restartPolicyRules"]),
            (HostnameOverride, &["hostnameOverride"]),
            (EnvFiles, &["fileKeyRef"]),
            (PodLifecycleSleepAction, &["sleep", "preStop"]),
            (SELinuxChangePolicy, &["seLinuxChangePolicy"]),
            (ContainerStopSignals, &["stopSignal"]),
            (ImageVolume, &["reference"]),
            (InPlacePodLevelResourcesVerticalScaling, &[]),
            (DRAExtendedResource, &["extendedResourceClaimStatus"]),
            (ResourceHealthStatus, &["allocatedResourcesStatus"]),
            (ResourceHealthStatusMessage, &["message"]),
            (PodObservedGenerationTracking, &["observedGeneration"]),
            (ImageVolumeWithDigest, &["volumeStatus"]),
            (DRANodeAllocatableResources, &["nodeAllocatableResourceClaimStatuses"]),
        ] {
            let features = all.with(gate, false);
            let (mut pod, empty) = (value(POD), value("{}"));
            drop_from_spec(&mut pod, None, &features);
            drop_from_status(&mut pod, &empty, &features);
            assert_ne!(pod, value(POD), "{gate}");
            let left = text(&pod);
            for field in gone {
                assert!(!left.contains(field), "{gate}: {field} is in {left}");
            }
            assert!(left.contains("Always"), "a sidecar stays one: {gate}");

            let (mut pod, old) = (value(POD), value(POD));
            drop_from_spec(&mut pod, Some(&old), &features);
            drop_from_status(&mut pod, &old, &features);
            assert_eq!(pod, old, "{gate} is in use");
        }
        let mut pod = value(POD);
        drop_from_spec(&mut pod, None, &all);
        assert_eq!(pod, value(POD));
    }

    #[test]
    fn gate_admits_values_that_are_refused_without_it() {
        let told = |gate, on, pod: &str| -> Vec<String> {
            let features = FeatureSet::default().with(gate, on);
            let capabilities = Capabilities { features, ..Capabilities::default() };
            let errors = capabilities.errors(&value(pod), super::super::validate_create);
            errors.into_told().iter().map(ToString::to_string).collect()
        };
        for (gate, spec, refused) in [
            (
                Feature::SELinuxMount,
                r#"{"securityContext": {"seLinuxChangePolicy": "MountOption"}}"#,
                "spec.securityContext.seLinuxChangePolicy: Unsupported value: \"MountOption\": \
                 supported values: \"Recursive\"",
            ),
            (
                Feature::TaintTolerationComparisonOperators,
                r#"{"tolerations": [{"key": "k", "operator": "Gt", "value": "5"}]}"#,
                "spec.tolerations[0].operator: Unsupported value: \"Gt\": supported values: \
                 \"Equal\", \"Exists\", \"Lt\", \"Gt\"",
            ),
            (
                Feature::UserNamespacesHostNetworkSupport,
                r#"{"hostUsers": false, "hostNetwork": true}"#,
                "spec.hostNetwork: Forbidden: when `hostUsers` is false",
            ),
        ] {
            let pod =
                format!(r#"{{"metadata": {{"name": "p", "namespace": "n"}}, "spec": {spec}}}"#);
            let (off, on) = (told(gate, false, &pod), told(gate, true, &pod));
            assert!(off.iter().any(|error| error == refused), "{gate:?}: {off:?}");
            assert!(!on.iter().any(|error| error == refused), "{gate:?}: {on:?}");
        }
    }
}
