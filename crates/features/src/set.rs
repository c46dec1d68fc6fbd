//! Set of features.

use crate::{EffectiveVersion, Feature};

/// Number of words that hold a bit for each gate.
const WORDS: usize = 4;

/// Features that are on, for rules that look at many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureSet([u64; WORDS]);

impl FeatureSet {
    /// Asks for each feature whether it is on.
    pub fn new(enabled: impl Fn(Feature) -> bool) -> Self {
        let mut set = FeatureSet([0; WORDS]);
        for gate in Feature::gates() {
            set = set.with(gate.feature, enabled(gate.feature));
        }
        set
    }

    /// The set with one feature switched.
    pub fn with(mut self, feature: Feature, on: bool) -> Self {
        let (word, bit) = place(feature);
        if on {
            self.0[word] |= bit;
        } else {
            self.0[word] &= !bit;
        }
        self
    }

    /// Tells whether a feature is on.
    ///
    /// ```
    /// use kevel_features::{Feature, FeatureSet};
    /// let off = FeatureSet::default().with(Feature::WatchList, false);
    /// assert!(FeatureSet::default().has(Feature::WatchList) && !off.has(Feature::WatchList));
    /// ```
    pub fn has(&self, feature: Feature) -> bool {
        let (word, bit) = place(feature);
        self.0[word] & bit != 0
    }
}

impl Default for FeatureSet {
    /// Features that are on unless switched, in the version of the server.
    fn default() -> Self {
        let version = EffectiveVersion::default();
        FeatureSet::new(|feature| feature.gate().at(version).state.default_value())
    }
}

fn place(feature: Feature) -> (usize, u64) {
    (feature as usize / 64, 1 << (feature as usize % 64))
}

const _: () = assert!(crate::known::KNOWN.len() <= 64 * WORDS);
