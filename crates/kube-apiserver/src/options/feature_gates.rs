//! Features that can be switched on and off.

mod known;

use crate::flags::{Multimap, parse_bool};
use kevel_api::field_error::aggregate;
use known::KNOWN;
use std::collections::BTreeMap;

/// A feature that can be switched.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// How far it is.
    pub stage: Stage,
    /// Whether it is on unless switched.
    pub default: bool,
    /// Whether it can no longer be switched.
    pub locked: bool,
    /// The features that it does not work without.
    pub needs: &'static [&'static str],
}

/// How far a feature is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// New, and off.
    Alpha,
    /// Tried.
    Beta,
    /// There to stay; the gate will go.
    Ga,
    /// On its way out.
    Deprecated,
}

/// Which features are on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    switched: BTreeMap<&'static str, bool>,
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

    /// Whether a feature is on; one that does not exist is not.
    pub fn enabled(&self, name: &str) -> bool {
        let gate = known(name);
        gate.is_some_and(|gate| self.switched.get(name).copied().unwrap_or(gate.default))
    }

    /// Every feature.
    pub fn known() -> &'static [Gate] {
        KNOWN
    }

    /// What is wrong with switches on which security rests and that have no effect yet.
    pub fn refused(&self) -> Vec<String> {
        let switched = |(name, value, _): &&(&str, bool, &str)| self.enabled(name) == *value;
        let refused = REFUSED.iter().filter(switched);
        let error = |(name, value, why): &(&str, bool, &str)| {
            format!("--feature-gates={name}={value} is not supported by this server yet: {why}")
        };
        refused.map(error).collect()
    }

    /// The features that were switched and are not looked at by this server.
    pub fn without_effect(&self) -> Vec<String> {
        let ours = |name: &&&str| !EFFECTIVE.contains(*name);
        let default = |name: &str| known(name).is_some_and(|gate| gate.default);
        let switched = self.switched.iter().filter(|(name, value)| **value != default(name));
        switched
            .filter(|(name, _)| ours(name))
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    /// What to tell those who switch features that will not be switches for long.
    pub fn warnings(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        self.switched.iter().filter_map(|(&name, &value)| {
            let stage = match known(name)?.stage {
                Stage::Deprecated => "deprecated",
                Stage::Ga => "GA",
                _ => return None,
            };
            Some((stage, name, value))
        })
    }

    fn switch(wanted: &BTreeMap<&str, bool>) -> Result<Self, String> {
        let mut gates = FeatureGates::default();
        let mut errors = Vec::new();
        for (&name, &value) in wanted.iter().filter(|(name, _)| !is_many(name)) {
            let Some(gate) = known(name) else {
                return Err(format!("unrecognized feature gate: {name}"));
            };
            if gate.locked && gate.default != value {
                errors.push(format!(
                    "cannot set feature gate {name} to {value}, feature is locked to {}",
                    gate.default
                ));
            }
            gates.switched.insert(gate.name, value);
        }
        // A feature that is named itself goes before those that are switched with all of a stage.
        for (name, stage) in [("AllAlpha", Stage::Alpha), ("AllBeta", Stage::Beta)] {
            if let Some(&value) = wanted.get(name) {
                for gate in KNOWN.iter().filter(|gate| gate.stage == stage) {
                    gates.switched.entry(gate.name).or_insert(value);
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
            let off: Vec<&str> =
                gate.needs.iter().copied().filter(|name| !self.enabled(name)).collect();
            let unmet = self.enabled(gate.name) && !off.is_empty();
            unmet.then(|| {
                format!(
                    "{} is enabled, but depends on features that are disabled: [{}]",
                    gate.name,
                    off.join(" ")
                )
            })
        };
        KNOWN.iter().filter_map(unmet).collect()
    }
}

/// The features whose switch this server looks at.
const EFFECTIVE: &[&str] = &[
    "APIServerIdentity",
    "AllowInsecureKubeletCertificateSigningRequests",
    "ClusterTrustBundle",
    "ClusterTrustBundleProjection",
    "ComponentFlagz",
    "ComponentStatusz",
    "ContainerStopSignals",
    "DRAResourceClaimGranularStatusAuthorization",
    "GenericWorkload",
    "KubeletServiceAccountTokenForCredentialProviders",
    "LoggingAlphaOptions",
    "LoggingBetaOptions",
    "NodeDeclaredFeatures",
    "PodCertificateRequest",
    "PodLevelResources",
    "PodTopologyLabelsAdmission",
    "RemoteRequestHeaderUID",
    "ServiceAccountNodeAudienceRestriction",
    "StorageVersionMigrator",
    "TokenRequestServiceAccountUIDValidation",
    "UnknownVersionInteroperabilityProxy",
    "WorkloadAwarePreemption",
];

/// Switches that close something which this server would leave open, and what that is.
const REFUSED: &[(&str, bool, &str)] = &[
    ("AllowParsingUserUIDFromCertAuth", false, "uids would be taken from certificates"),
    ("ConstrainedImpersonation", false, "verbs of constrained impersonation would be honoured"),
];

fn known(name: &str) -> Option<&'static Gate> {
    KNOWN.get(KNOWN.binary_search_by(|gate| gate.name.cmp(name)).ok()?)
}

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
    fn gates_are_sorted_and_their_defaults_agree() {
        assert!(KNOWN.is_sorted_by_key(|gate| gate.name));
        assert_eq!(FeatureGates::default().unmet_needs(), [""; 0]);
        let unknown = KNOWN.iter().flat_map(|gate| gate.needs).find(|name| known(name).is_none());
        assert_eq!(unknown, None);
    }

    #[test]
    fn gates_that_rules_look_at_have_an_effect() {
        let asked = std::cell::RefCell::new(Vec::new());
        let features = kevel_controlplane::Features::new(|gate| {
            asked.borrow_mut().push(gate.to_owned());
            FeatureGates::default().enabled(gate)
        });
        assert_eq!(features, kevel_controlplane::Features::default());
        let silent = asked.take().into_iter().find(|gate| !EFFECTIVE.contains(&gate.as_str()));
        assert_eq!(silent, None);
    }

    #[test]
    fn features_are_switched() {
        for (flag, name, enabled) in [
            ("", "APIServerTracing", true),
            ("", "NoSuchFeature", false),
            ("OpenAPIEnums=false", "OpenAPIEnums", false),
            ("kube:OpenAPIEnums=F", "OpenAPIEnums", false),
            ("AllAlpha=true", "MemoryQoS", true),
            ("AllAlpha=true,MemoryQoS=false", "MemoryQoS", false),
            ("MemoryQoS=false,AllAlpha=true", "MemoryQoS", false),
            ("AllAlpha=false", "APIServerTracing", true),
        ] {
            assert_eq!(gates(flag).unwrap().enabled(name), enabled, "{flag}");
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
