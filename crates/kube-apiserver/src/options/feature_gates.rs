//! Features that can be switched on and off.

use crate::flags::{Multimap, parse_bool};
use kevel_api::field_error::aggregate;
use kevel_controlplane::features::{Feature, Gate, Stage};
use std::collections::BTreeMap;

/// Which features are on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    switched: BTreeMap<Feature, bool>,
}

impl FeatureGates {
    /// Switches the features as `--feature-gates` says.
    pub fn new(flag: &Multimap) -> Result<Self, String> {
        if let Some(component) = flag.keys().find(|key| !matches!(key.as_str(), "" | "kube")) {
            return Err(format!("component not registered: {component}"));
        }
        if flag.len() > 1 {
            return Err("set kube feature gates with default empty prefix or kube: prefix \
                        consistently, do not mix use"
                .to_owned());
        }
        let mut wanted = BTreeMap::new();
        for setting in flag.values().flatten().filter(|setting| !setting.is_empty()) {
            let (name, value) = match setting.split_once('=') {
                Some((name, value)) => (name.trim(), value.trim()),
                None => return Err(format!("missing bool value for {}", setting.trim())),
            };
            let value = parse_bool(value)
                .map_err(|error| format!("invalid value of {name}={value}, err: {error}"))?;
            wanted.insert(name, value);
        }
        Self::switch(&wanted)
    }

    /// Whether a feature is on.
    pub fn enabled(&self, feature: Feature) -> bool {
        self.switched.get(&feature).copied().unwrap_or(feature.gate().default)
    }

    /// What is wrong with switches on which security rests and that have no effect yet.
    pub fn refused(&self) -> Vec<String> {
        let switched =
            |(feature, value, _): &&(Feature, bool, &str)| self.enabled(*feature) == *value;
        let refused = REFUSED.iter().filter(switched);
        let error = |(feature, value, why): &(Feature, bool, &str)| {
            format!("--feature-gates={feature}={value} is not supported by this server yet: {why}")
        };
        refused.map(error).collect()
    }

    /// The features that were switched and are not looked at by this server.
    pub fn without_effect(&self) -> Vec<String> {
        let switched = self.switched.iter().filter(|(f, value)| **value != f.gate().default);
        let silent = switched.filter(|(feature, _)| !EFFECTIVE.contains(feature));
        silent.map(|(feature, value)| format!("{feature}={value}")).collect()
    }

    /// What to tell those who switch features that will not be switches for long.
    pub fn warnings(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        self.switched.iter().filter_map(|(feature, &value)| {
            let gate = feature.gate();
            let stage = match gate.stage {
                Stage::Deprecated => "deprecated",
                Stage::Ga => "GA",
                _ => return None,
            };
            Some((stage, gate.name, value))
        })
    }

    fn switch(wanted: &BTreeMap<&str, bool>) -> Result<Self, String> {
        let mut gates = FeatureGates::default();
        let mut errors = Vec::new();
        for (&name, &value) in wanted.iter().filter(|(name, _)| !is_many(name)) {
            let Some(feature) = Feature::from_name(name) else {
                return Err(format!("unrecognized feature gate: {name}"));
            };
            let gate = feature.gate();
            if gate.locked && gate.default != value {
                errors.push(format!(
                    "cannot set feature gate {name} to {value}, feature is locked to {}",
                    gate.default
                ));
            }
            gates.switched.insert(feature, value);
        }
        // A feature that is named itself goes before those that are switched with all of a stage.
        for (name, stage) in [("AllAlpha", Stage::Alpha), ("AllBeta", Stage::Beta)] {
            if let Some(&value) = wanted.get(name) {
                for gate in Feature::gates().iter().filter(|gate| gate.stage == stage) {
                    gates.switched.entry(gate.feature).or_insert(value);
                }
            }
        }
        if errors.is_empty() {
            errors = gates.unmet_needs();
        }
        match aggregate(errors) {
            Some(message) => Err(message),
            None => Ok(gates),
        }
    }

    fn unmet_needs(&self) -> Vec<String> {
        let unmet = |gate: &Gate| {
            let off = gate.needs.iter().filter(|needed| !self.enabled(**needed));
            let off: Vec<&str> = off.map(|needed| needed.gate().name).collect();
            let unmet = self.enabled(gate.feature) && !off.is_empty();
            unmet.then(|| {
                format!(
                    "{} is enabled, but depends on features that are disabled: [{}]",
                    gate.name,
                    off.join(" ")
                )
            })
        };
        Feature::gates().iter().filter_map(unmet).collect()
    }
}

/// The features whose switch this server looks at.
const EFFECTIVE: &[Feature] = &[
    Feature::APIServerIdentity,
    Feature::AllowInsecureKubeletCertificateSigningRequests,
    Feature::AuthorizePodWebsocketUpgradeCreatePermission,
    Feature::CBORServingAndStorage,
    Feature::ClusterTrustBundle,
    Feature::ClusterTrustBundleProjection,
    Feature::ComponentFlagz,
    Feature::ComponentStatusz,
    Feature::ContainerStopSignals,
    Feature::CoordinatedLeaderElection,
    Feature::DRAConsumableCapacity,
    Feature::DRADeviceBindingConditions,
    Feature::DRADeviceTaints,
    Feature::DRAExtendedResource,
    Feature::DRAListTypeAttributes,
    Feature::DRANodeAllocatableResources,
    Feature::DRAPartitionableDevices,
    Feature::DRAPrioritizedList,
    Feature::DRAResourceClaimDeviceStatus,
    Feature::DRAResourceClaimGranularStatusAuthorization,
    Feature::DRAWorkloadResourceClaims,
    Feature::ExtendWebSocketsToKubelet,
    Feature::GenericWorkload,
    Feature::HPAScaleToZero,
    Feature::KubeletServiceAccountTokenForCredentialProviders,
    Feature::LoggingAlphaOptions,
    Feature::LoggingBetaOptions,
    Feature::NodeDeclaredFeatures,
    Feature::PodCertificateRequest,
    Feature::PodLevelResources,
    Feature::PodLogsQuerySplitStreams,
    Feature::PodTopologyLabelsAdmission,
    Feature::PortForwardWebsockets,
    Feature::RemoteRequestHeaderUID,
    Feature::ServiceAccountNodeAudienceRestriction,
    Feature::StorageVersionAPI,
    Feature::StorageVersionMigrator,
    Feature::TokenRequestServiceAccountUIDValidation,
    Feature::TopologyAwareWorkloadScheduling,
    Feature::TranslateStreamCloseWebsocketRequests,
    Feature::UnknownVersionInteroperabilityProxy,
    Feature::VolumeLimitScaling,
    Feature::WorkloadAwarePreemption,
];

/// Switches that close something which this server would leave open, and what that is.
const REFUSED: &[(Feature, bool, &str)] = &[
    (Feature::AllowParsingUserUIDFromCertAuth, false, "uids would be taken from certificates"),
    (
        Feature::ConstrainedImpersonation,
        false,
        "verbs of constrained impersonation would be honoured",
    ),
];

fn is_many(name: &str) -> bool {
    matches!(name, "AllAlpha" | "AllBeta")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Value;

    fn gates(flag: &str) -> Result<FeatureGates, String> {
        let mut map = Multimap::default();
        map.set(flag, false)?;
        FeatureGates::new(&map)
    }

    #[test]
    fn the_defaults_of_gates_agree() {
        assert_eq!(FeatureGates::default().unmet_needs(), [""; 0]);
    }

    #[test]
    fn gates_that_rules_look_at_have_an_effect() {
        let asked = std::cell::RefCell::new(Vec::new());
        let features = kevel_controlplane::Features::new(|gate| {
            asked.borrow_mut().push(gate);
            FeatureGates::default().enabled(gate)
        });
        assert_eq!(features, kevel_controlplane::Features::default());
        let silent = asked.take().into_iter().find(|gate| !EFFECTIVE.contains(gate));
        assert_eq!(silent, None);
    }

    #[test]
    fn features_are_switched() {
        for (flag, feature, enabled) in [
            ("", Feature::APIServerTracing, true),
            ("OpenAPIEnums=false", Feature::OpenAPIEnums, false),
            ("kube:OpenAPIEnums=F", Feature::OpenAPIEnums, false),
            ("AllAlpha=true", Feature::MemoryQoS, true),
            ("AllAlpha=true,MemoryQoS=false", Feature::MemoryQoS, false),
            ("MemoryQoS=false,AllAlpha=true", Feature::MemoryQoS, false),
            ("AllAlpha=false", Feature::APIServerTracing, true),
        ] {
            assert_eq!(gates(flag).unwrap().enabled(feature), enabled, "{flag}");
        }
    }

    #[test]
    fn mistakes_are_told_as_the_reference_tells_them() {
        for (flag, message) in [
            ("Foo=true", "unrecognized feature gate: Foo"),
            ("OpenAPIEnums", "missing bool value for OpenAPIEnums"),
            (
                "OpenAPIEnums=x",
                "invalid value of OpenAPIEnums=x, err: strconv.ParseBool: parsing \"x\": invalid \
                 syntax",
            ),
            (
                "APIServerTracing=false",
                "cannot set feature gate APIServerTracing to false, feature is locked to true",
            ),
            (
                "GangScheduling=true",
                "GangScheduling is enabled, but depends on features that are disabled: \
                 [GenericWorkload]",
            ),
            ("wardle:X=true", "component not registered: wardle"),
            (
                "kube:OpenAPIEnums=true,OpenAPIEnums=true",
                "set kube feature gates with default empty prefix or kube: prefix consistently, \
                 do not mix use",
            ),
        ] {
            assert_eq!(gates(flag), Err(message.to_owned()), "{flag}");
        }
    }
}
