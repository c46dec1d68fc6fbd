//! Features that can be switched on and off (`--feature-gates`).

use std::collections::BTreeMap;

use kevel_api::field_error::aggregate;
use kevel_features::{EffectiveVersion, FeatureGates, GateError};
use thiserror::Error;

use crate::flags::{Multimap, parse_bool};

/// Mistake in `--feature-gates`, in the reference's words.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum FlagError {
    /// Component that this server does not have.
    #[error("component not registered: {0}")]
    Component(String),
    /// Gates with and without the prefix of the one component.
    #[error(
        "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix \
         use"
    )]
    Mixed,
    /// Gate without a value.
    #[error("missing bool value for {0}")]
    Missing(String),
    /// Value that is neither true nor false.
    #[error("invalid value of {name}={value}, err: {error}")]
    Value {
        /// Name of the gate.
        name: String,
        /// Text of the value.
        value: String,
        /// Mistake in the text.
        error: String,
    },
    /// Switches that are refused.
    #[error("{}", aggregate(.0.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap_or_default())]
    Gates(Vec<GateError>),
}

/// Switches the features as the flag says, at a version.
pub fn feature_gates(
    flag: &Multimap,
    version: EffectiveVersion,
) -> Result<FeatureGates, FlagError> {
    if let Some(component) = flag.keys().find(|key| !matches!(key.as_str(), "" | "kube")) {
        return Err(FlagError::Component(component.clone()));
    }
    if flag.len() > 1 {
        return Err(FlagError::Mixed);
    }
    let mut wanted = BTreeMap::new();
    for setting in flag.values().flatten().filter(|setting| !setting.is_empty()) {
        let (name, value) = match setting.split_once('=') {
            Some((name, value)) => (name.trim(), value.trim()),
            None => return Err(FlagError::Missing(setting.trim().to_owned())),
        };
        let on = parse_bool(value).map_err(|error| FlagError::Value {
            name: name.to_owned(),
            value: value.to_owned(),
            error,
        })?;
        wanted.insert(name, on);
    }
    FeatureGates::new(&wanted, version).map_err(FlagError::Gates)
}

#[cfg(test)]
mod tests {
    use kevel_features::{BINARY, Feature, MajorMinor};
    use kevel_server::version::API_LEVEL;

    use super::*;
    use crate::flags::Value;

    fn gates(flag: &str) -> Result<FeatureGates, String> {
        let mut map = Multimap::default();
        map.set(flag, false)?;
        feature_gates(&map, EffectiveVersion::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_version_of_the_gates_is_the_servers() {
        assert_eq!(BINARY, MajorMinor(API_LEVEL.0, API_LEVEL.1));
    }

    #[test]
    fn features_are_switched() {
        for (flag, feature, enabled) in [
            ("", Feature::APIServerIdentity, true),
            ("ComponentFlagz=false", Feature::ComponentFlagz, false),
            ("kube:ComponentFlagz=F", Feature::ComponentFlagz, false),
            ("AllAlpha=true", Feature::MemoryQoS, true),
            ("AllAlpha=true,MemoryQoS=false", Feature::MemoryQoS, false),
            ("MemoryQoS=false,AllAlpha=true", Feature::MemoryQoS, false),
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
                "APIServerTracing=false,DeclarativeValidation=false",
                "[cannot set feature gate APIServerTracing to false, feature is locked to true, \
                 cannot set feature gate DeclarativeValidation to false, feature is locked to true]",
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
