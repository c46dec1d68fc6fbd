//! Gate of a feature, and its life over the versions.

use std::fmt;

use crate::known::KNOWN;
use crate::{EffectiveVersion, Feature, MajorMinor};

/// Gate of a feature.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// Feature that it switches.
    pub feature: Feature,
    /// Name of the gate.
    pub name: &'static str,
    /// Effect of the switch in this server.
    pub effect: GateEffect,
    /// Life of the feature, oldest version first.
    pub specs: &'static [GateSpec],
    /// Features that it does not work without.
    pub needs: &'static [Feature],
}

/// Stage and default of a gate from a version on (upstream: `FeatureSpec`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateSpec {
    /// Version from which on it holds.
    pub since: MajorMinor,
    /// Maturity of the feature.
    pub stage: Maturity,
    /// Default of the gate, and whether it can be switched.
    pub state: GateState,
}

/// Maturity of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maturity {
    /// Absent: the version is older than the gate.
    PreAlpha,
    /// Alpha: off by default.
    Alpha,
    /// Beta.
    Beta,
    /// There to stay; the gate will go.
    Ga,
    /// Deprecated: to be removed.
    Deprecated,
}

/// Default of a gate, and whether it can be switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateState {
    /// Off unless switched.
    Off,
    /// On by default.
    On,
    /// Off for good.
    LockedOff,
    /// On, and cannot be switched off.
    LockedOn,
}

/// Effect of a gate in this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateEffect {
    /// The server does as the gate says.
    Honoured,
    /// Only other components look at the gate: kubelet, scheduler, controller manager, proxy.
    Elsewhere,
    /// The gate chooses between two ways inside the reference that clients cannot tell apart.
    Internal,
    /// The server acts as if the gate were on, and refuses to switch it off.
    AlwaysOn,
    /// The server acts as if the gate were off, and refuses to switch it on.
    AlwaysOff,
}

impl GateState {
    /// Default of the gate.
    pub fn default_value(self) -> bool {
        matches!(self, GateState::On | GateState::LockedOn)
    }

    /// Tells whether the gate can no longer be switched.
    pub fn is_locked(self) -> bool {
        matches!(self, GateState::LockedOff | GateState::LockedOn)
    }
}

impl GateEffect {
    /// Value that the server acts by, whatever the gate says.
    pub fn fixed(self) -> Option<bool> {
        match self {
            GateEffect::AlwaysOn => Some(true),
            GateEffect::AlwaysOff => Some(false),
            GateEffect::Honoured | GateEffect::Elsewhere | GateEffect::Internal => None,
        }
    }
}

impl GateSpec {
    /// State of a feature in versions before its first.
    const PRE_ALPHA: GateSpec =
        GateSpec { since: MajorMinor(0, 0), stage: Maturity::PreAlpha, state: GateState::Off };
}

impl Gate {
    /// Spec that holds at a version.
    pub fn at(&self, version: EffectiveVersion) -> GateSpec {
        let held = self.specs.iter().rev().find(|spec| spec.since <= version.emulation);
        held.copied().unwrap_or(GateSpec::PRE_ALPHA)
    }
}

impl Feature {
    /// Gates of all features, sorted by name.
    pub fn gates() -> &'static [Gate] {
        KNOWN
    }

    /// Feature that a gate of this name switches.
    ///
    /// ```
    /// use kevel_features::Feature;
    /// assert_eq!(Feature::from_name("WatchList"), Some(Feature::WatchList));
    /// assert_eq!(Feature::from_name("NoSuchFeature"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Feature> {
        let gates = Feature::gates();
        let found = gates.binary_search_by(|gate| gate.name.cmp(name)).ok()?;
        gates.get(found).map(|gate| gate.feature)
    }

    /// Gate of the feature.
    pub fn gate(self) -> &'static Gate {
        // The table is made of the same list, in the same order.
        &KNOWN[self as usize]
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.gate().name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_sorted_and_each_is_its_features() {
        assert!(Feature::gates().is_sorted_by_key(|gate| gate.name));
        for gate in Feature::gates() {
            assert_eq!(gate.feature.gate().name, gate.name);
            assert_eq!(Feature::from_name(&gate.feature.to_string()), Some(gate.feature));
        }
    }

    #[test]
    fn lives_go_forwards_and_end_when_locked() {
        for gate in Feature::gates() {
            assert!(!gate.specs.is_empty(), "{}", gate.name);
            assert!(gate.specs.is_sorted_by_key(|spec| spec.since), "{}", gate.name);
            let unlocked = gate.specs.is_sorted_by_key(|spec| spec.state.is_locked());
            assert!(unlocked, "{} is unlocked again", gate.name);
        }
    }

    #[test]
    fn specs_follow_the_emulated_version() {
        for (feature, minor, stage, state) in [
            (Feature::ConstrainedImpersonation, 34, Maturity::PreAlpha, GateState::Off),
            (Feature::ConstrainedImpersonation, 35, Maturity::Alpha, GateState::Off),
            (Feature::ConstrainedImpersonation, 36, Maturity::Beta, GateState::On),
            (Feature::AllowServiceExternalIPs, 33, Maturity::Ga, GateState::On),
            (Feature::DynamicResourceAllocation, 34, Maturity::Ga, GateState::On),
            (Feature::DynamicResourceAllocation, 35, Maturity::Ga, GateState::LockedOn),
        ] {
            let spec = feature.gate().at(EffectiveVersion::emulating(MajorMinor(1, minor)));
            assert_eq!((spec.stage, spec.state), (stage, state), "{feature} in 1.{minor}");
        }
    }
}
