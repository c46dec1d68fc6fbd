//! Switches of `--feature-gates` at a version.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::{EffectiveVersion, Feature, FeatureSet, Gate, MajorMinor, Maturity};

/// Features that are on, and those that were switched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    version: EffectiveVersion,
    /// Switches by name.
    named: BTreeMap<Feature, bool>,
    /// Switches by name, and by `AllAlpha` and `AllBeta`.
    switched: BTreeMap<Feature, bool>,
    effective: FeatureSet,
}

/// Switch that the reference refuses, in its words.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum GateError {
    /// Name of no gate.
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
    /// Gate that can no longer be switched.
    #[error("cannot set feature gate {feature} to {value}, feature is locked to {}", !value)]
    Locked {
        /// Feature of the gate.
        feature: Feature,
        /// Value that was asked for.
        value: bool,
    },
    /// Gate that the emulated version does not have yet.
    #[error(
        "cannot set feature gate {feature} to {value}, feature is PreAlpha at emulated version {}, \
         min compatibility version {}",
        version.emulation,
        version.min_compatibility
    )]
    PreAlpha {
        /// Feature of the gate.
        feature: Feature,
        /// Value that was asked for.
        value: bool,
        /// Version of the server.
        version: EffectiveVersion,
    },
    /// Feature that is on without one that it needs.
    #[error(
        "{feature} is enabled, but depends on features that are disabled: [{}]",
        names(disabled)
    )]
    Needs {
        /// Feature that is on.
        feature: Feature,
        /// Features that are off.
        disabled: Vec<Feature>,
    },
}

/// Gate that was switched by name at its last stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Stage, as the reference names it.
    pub stage: &'static str,
    /// Feature of the gate.
    pub feature: Feature,
    /// Value that it was switched to.
    pub value: bool,
}

/// The two gates that switch all of a stage.
const STAGES: [(&str, Maturity); 2] = [("AllAlpha", Maturity::Alpha), ("AllBeta", Maturity::Beta)];

impl Default for FeatureGates {
    fn default() -> Self {
        FeatureGates::unswitched(EffectiveVersion::default())
    }
}

impl FeatureGates {
    fn unswitched(version: EffectiveVersion) -> Self {
        let (named, switched) = (BTreeMap::new(), BTreeMap::new());
        let mut gates = FeatureGates { version, named, switched, effective: FeatureSet::default() };
        gates.take_effect();
        gates
    }

    /// Switches features by the names of their gates, as a version lets them be switched.
    pub fn new(
        wanted: &BTreeMap<&str, bool>,
        version: EffectiveVersion,
    ) -> Result<Self, Vec<GateError>> {
        let mut gates = FeatureGates::unswitched(version);
        let mut errors = Vec::new();
        let by_name = |(name, _): &(&&str, &bool)| STAGES.iter().all(|(stage, _)| stage != *name);
        for (&name, &value) in wanted.iter().filter(by_name) {
            let Some(feature) = Feature::from_name(name) else {
                errors.push(GateError::Unknown(name.to_owned()));
                return Err(errors);
            };
            let spec = feature.gate().at(version);
            if spec.state.is_locked() && spec.state.default_value() != value {
                errors.push(GateError::Locked { feature, value });
            } else if spec.stage == Maturity::PreAlpha {
                errors.push(GateError::PreAlpha { feature, value, version });
            } else {
                gates.named.insert(feature, value);
            }
        }
        gates.switched = gates.named.clone();
        // A feature that is named itself goes before those that are switched with all of a stage.
        for (name, stage) in STAGES {
            if let Some(&value) = wanted.get(name) {
                let of_stage = |gate: &&Gate| gate.at(version).stage == stage;
                for gate in Feature::gates().iter().filter(of_stage) {
                    gates.switched.entry(gate.feature).or_insert(value);
                }
            }
        }
        if errors.is_empty() {
            errors = gates.unmet_needs();
        }
        gates.take_effect();
        if errors.is_empty() { Ok(gates) } else { Err(errors) }
    }

    /// Tells whether the server acts as if a feature were on.
    pub fn enabled(&self, feature: Feature) -> bool {
        self.effective.has(feature)
    }

    /// Features by which the server acts.
    pub fn effective(&self) -> FeatureSet {
        self.effective
    }

    /// Value of a gate by its flags and its default, whether or not this server can act by it.
    pub fn asked(&self, feature: Feature) -> bool {
        let default = || feature.gate().at(self.version).state.default_value();
        self.switched.get(&feature).copied().unwrap_or_else(default)
    }

    /// Switches by name that this server cannot act by.
    pub fn refused(&self) -> Vec<String> {
        let refused = self.named.iter().filter_map(|(feature, value)| {
            let fixed = feature.gate().effect.fixed().filter(|fixed| fixed != value)?;
            Some(format!(
                "--feature-gates={feature}={value} is not supported by this server: it acts as if \
                 the feature were always {}",
                if fixed { "on" } else { "off" }
            ))
        });
        refused.collect()
    }

    /// Gates that no flag names and that the server does not act by: of all that are switched with a stage, and of the
    /// emulated version.
    pub fn unfollowed(&self) -> Vec<String> {
        let fixed = Feature::gates().iter().filter(|gate| {
            let unnamed = !self.named.contains_key(&gate.feature);
            unnamed && gate.effect.fixed().is_some_and(|fixed| fixed != self.asked(gate.feature))
        });
        fixed.map(|gate| format!("{}={}", gate.name, self.asked(gate.feature))).collect()
    }

    /// Gates that were switched and that only other components look at.
    pub fn without_effect(&self) -> Vec<String> {
        let silent = self.named.iter().filter(|(feature, value)| {
            let gate = feature.gate();
            let default = gate.at(self.version).state.default_value();
            gate.effect.fixed().is_none() && !gate.is_honoured() && **value != default
        });
        silent.map(|(feature, value)| format!("{feature}={value}")).collect()
    }

    /// Gates switched by name that will not be there for long.
    pub fn notices(&self) -> impl Iterator<Item = Notice> {
        self.named.iter().filter_map(|(&feature, &value)| {
            let stage = match feature.gate().at(self.version).stage {
                Maturity::Deprecated => "deprecated",
                Maturity::Ga => "GA",
                Maturity::PreAlpha | Maturity::Alpha | Maturity::Beta => return None,
            };
            Some(Notice { stage, feature, value })
        })
    }

    /// Alpha features that are on in an emulated version, which the reference does not support.
    pub fn emulated_alphas(&self) -> Vec<Feature> {
        let alpha = |gate: &&Gate| {
            gate.at(self.version).stage == Maturity::Alpha && self.asked(gate.feature)
        };
        let alphas = Feature::gates().iter().filter(|_| self.version.is_emulated()).filter(alpha);
        alphas.map(|gate| gate.feature).collect()
    }

    /// Version by which the gates go.
    pub fn version(&self) -> MajorMinor {
        self.version.emulation
    }

    fn take_effect(&mut self) {
        self.effective = FeatureSet::new(|feature| {
            feature.gate().effect.fixed().unwrap_or_else(|| self.asked(feature))
        });
    }

    fn unmet_needs(&self) -> Vec<GateError> {
        let unmet = |gate: &Gate| {
            let off = gate.needs.iter().copied().filter(|needed| !self.asked(*needed));
            let disabled: Vec<Feature> = off.collect();
            let unmet = self.asked(gate.feature) && !disabled.is_empty();
            unmet.then_some(GateError::Needs { feature: gate.feature, disabled })
        };
        Feature::gates().iter().filter_map(unmet).collect()
    }
}

impl Gate {
    fn is_honoured(&self) -> bool {
        self.effect == crate::GateEffect::Honoured
    }
}

fn names(features: &[Feature]) -> String {
    let names: Vec<&str> = features.iter().map(|feature| feature.gate().name).collect();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BINARY, FLOOR, GateEffect};

    fn at(minor: u32) -> EffectiveVersion {
        EffectiveVersion::emulating(MajorMinor(1, minor))
    }

    fn gates(minor: u32, wanted: &[(&'static str, bool)]) -> Result<FeatureGates, Vec<String>> {
        let wanted: BTreeMap<&str, bool> = wanted.iter().copied().collect();
        FeatureGates::new(&wanted, at(minor))
            .map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_defaults_of_every_version_agree() {
        for minor in FLOOR.1..=BINARY.1 {
            assert_eq!(FeatureGates::unswitched(at(minor)).unmet_needs(), []);
        }
    }

    #[test]
    fn gates_are_switched_by_name_and_by_stage() {
        use Feature::*;
        for (minor, wanted, feature, on) in [
            (36, &[][..], APIServerIdentity, true),
            (36, &[("ComponentFlagz", false)], ComponentFlagz, false),
            (36, &[("AllAlpha", true)], MemoryQoS, true),
            (36, &[("AllAlpha", true), ("MemoryQoS", false)], MemoryQoS, false),
            (36, &[("AllAlpha", false)], APIServerIdentity, true),
            (36, &[("AllBeta", false)], ComponentFlagz, false),
            (35, &[], ComponentFlagz, false),
            (35, &[("AllAlpha", true)], ComponentFlagz, true),
            (35, &[("AllBeta", false)], ComponentFlagz, false),
            (33, &[], VolumeLimitScaling, false),
        ] {
            assert_eq!(gates(minor, wanted).unwrap().enabled(feature), on, "1.{minor} {wanted:?}");
        }
    }

    #[test]
    fn switches_are_refused_in_the_words_of_the_reference() {
        for (minor, wanted, message) in [
            (36, ("Foo", true), "unrecognized feature gate: Foo"),
            (
                36,
                ("APIServerTracing", false),
                "cannot set feature gate APIServerTracing to false, feature is locked to true",
            ),
            (
                36,
                ("GitRepoVolumeDriver", true),
                "cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false",
            ),
            (
                34,
                ("GenericWorkload", false),
                "cannot set feature gate GenericWorkload to false, feature is PreAlpha at emulated \
                 version 1.34, min compatibility version 1.33",
            ),
            (
                36,
                ("GangScheduling", true),
                "GangScheduling is enabled, but depends on features that are disabled: \
                 [GenericWorkload]",
            ),
        ] {
            assert_eq!(gates(minor, &[wanted]).unwrap_err(), [message]);
        }
    }

    #[test]
    fn locks_begin_with_their_version() {
        let unlocked = gates(33, &[("AuthorizePodWebsocketUpgradeCreatePermission", true)]);
        assert!(unlocked.is_err(), "not there before 1.35");
        assert!(gates(34, &[("DynamicResourceAllocation", true)]).is_ok());
        assert!(gates(33, &[("APIServerTracing", false)]).is_ok());
        assert!(gates(34, &[("APIServerTracing", false)]).is_err());
    }

    /// An unlocked gate with this effect, and the value that the server cannot honour.
    fn fixed(effect: GateEffect) -> (Feature, bool) {
        let switchable = |gate: &&Gate| {
            let spec = gate.at(EffectiveVersion::default());
            gate.effect == effect && !spec.state.is_locked() && gate.needs.is_empty()
        };
        let gate = Feature::gates().iter().find(switchable).unwrap();
        (gate.feature, effect == GateEffect::AlwaysOff)
    }

    #[test]
    fn switches_without_an_implementation_are_refused_by_name_alone() {
        for effect in [GateEffect::AlwaysOn, GateEffect::AlwaysOff] {
            let (feature, value) = fixed(effect);
            let named = gates(36, &[(feature.gate().name, value)]).unwrap();
            assert_eq!(named.refused().len(), 1, "{feature}");
            assert_eq!(named.enabled(feature), !value);
            assert_eq!(gates(36, &[(feature.gate().name, !value)]).unwrap().refused(), [""; 0]);
        }
        let (feature, _) = fixed(GateEffect::AlwaysOff);
        let all = gates(36, &[("AllAlpha", true), ("AllBeta", true)]).unwrap();
        assert_eq!(all.refused(), [""; 0]);
        assert!(!all.enabled(feature) && all.unfollowed().contains(&format!("{feature}=true")));
        assert_eq!(FeatureGates::default().unfollowed(), [""; 0]);
    }

    #[test]
    fn late_stages_are_noticed_by_the_stage_of_the_version() {
        let stage = |minor| {
            let gates = gates(minor, &[("DRAPrioritizedList", true)]).unwrap();
            gates.notices().next().map(|notice| notice.stage)
        };
        assert_eq!((stage(35), stage(36)), (None, Some("GA")));
        let alphas = gates(35, &[("ComponentFlagz", true)]).unwrap().emulated_alphas();
        assert_eq!(alphas, [Feature::ComponentFlagz]);
        assert_eq!(gates(36, &[("MemoryQoS", true)]).unwrap().emulated_alphas(), []);
    }
}
