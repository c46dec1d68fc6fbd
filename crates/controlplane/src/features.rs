//! Features that can be switched on and off (`--feature-gates`). Whoever goes by one names it as a
//! [`Feature`], so that a gate that does not exist does not build.

mod known;

pub use known::Feature;

/// A feature's gate.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// What it switches.
    pub feature: Feature,
    /// Its name.
    pub name: &'static str,
    /// How far the feature is.
    pub stage: Stage,
    /// Whether it is on unless switched.
    pub default: bool,
    /// Whether it can no longer be switched.
    pub locked: bool,
    /// The features that it does not work without.
    pub needs: &'static [Feature],
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

impl Feature {
    /// The gates of all features, sorted by name.
    pub fn gates() -> &'static [Gate] {
        known::KNOWN
    }

    /// The feature that a gate of this name switches.
    ///
    /// ```
    /// use kevel_controlplane::features::Feature;
    /// assert_eq!(Feature::from_name("WatchList"), Some(Feature::WatchList));
    /// assert_eq!(Feature::from_name("NoSuchFeature"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Feature> {
        let gates = Feature::gates();
        let found = gates.binary_search_by(|gate| gate.name.cmp(name)).ok()?;
        gates.get(found).map(|gate| gate.feature)
    }

    /// Its gate.
    pub fn gate(self) -> &'static Gate {
        // The table is made of the same list, in the same order.
        &Feature::gates()[self as usize]
    }
}

impl std::fmt::Display for Feature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
}
