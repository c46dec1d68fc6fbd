//! Storage drivers: what the cluster must do for them.

use std::collections::HashSet;

use kevel_api::value::{Value, equivalent};
use kevel_features::{Feature, Gated, drop_gated};
use kevel_registry::metadata::count_generation;

use crate::capabilities::Capabilities;
use crate::columns;
use crate::kind::Kind;
use crate::rules::Rules;
use crate::validation::{Field, IMMUTABLE};

/// `csidrivers`
pub static KIND: Kind = Kind {
    returns_deleted_object: true,
    allow_unconditional_update: false,
    columns: columns::storage::CSI_DRIVER,
    rules: Rules {
        prepare_for_create: |driver, capabilities| settle_gated(driver, None, capabilities),
        validate_create: |driver| spec(driver.at("spec")),
        prepare_for_update,
        validate_update,
        warnings,
        warnings_need: Some(Feature::CSIServiceAccountTokenSecrets),
        ..Rules::NONE
    },
    ..Kind::new("storage.k8s.io", "csidrivers")
};

/// Shortest interval, in seconds, of updates of a node's allocatable volumes.
const MIN_UPDATE_PERIOD: i64 = 10;
/// Shortest lifetime of tokens, in seconds.
const MIN_EXPIRATION: i64 = 10 * 60;
const MAX_EXPIRATION: i64 = 1 << 32;

/// Fields that only a feature lets in.
const DROPPED: &[Gated] = &[
    Gated::new(&[Feature::CSIServiceAccountTokenSecrets], &["spec.serviceAccountTokenInSecrets"]),
    Gated::new(
        &[Feature::MutableCSINodeAllocatableCount],
        &["spec.nodeAllocatableUpdatePeriodSeconds"],
    ),
];

/// `VolumeLimitScaling` decides whether there is such a field.
const GATED: &str = "preventPodSchedulingIfMissing";

fn settle_gated(driver: &mut Value, old: Option<&Value>, capabilities: &Capabilities) {
    drop_gated(driver, old, DROPPED, &capabilities.features);
    let had = old.is_some_and(|old| old.at(&["spec", GATED]).is_some());
    let Some(spec) = driver.at_mut(&["spec"]).and_then(Value::as_map_mut) else { return };
    if capabilities.features.has(Feature::VolumeLimitScaling) {
        spec.entry_or_insert_with(GATED, || Value::Bool(false));
    } else if !had {
        spec.remove(GATED);
    }
}

/// Changes are counted, but not the making.
fn prepare_for_update(driver: &mut Value, old: &Value, capabilities: &Capabilities) {
    settle_gated(driver, Some(old), capabilities);
    if !equivalent(driver.at(&["spec"]), old.at(&["spec"])) {
        count_generation(driver, old);
    }
}

fn validate_update(driver: Field, old: Field) {
    let (now, was) = (driver.at("spec"), old.at("spec"));
    spec(now);
    if !now.at("attachRequired").same(&was.at("attachRequired")) {
        attach_required(now, |field| {
            field.invalid_as(now.at("attachRequired").bad_value(), IMMUTABLE)
        });
    }
    now.at("volumeLifecycleModes").immutable(&was.at("volumeLifecycleModes"));
}

/// Says something about a field that the reference calls by another name.
fn attach_required(spec: Field, say: impl FnOnce(Field)) {
    say(spec.at("attachedRequired"));
}

fn spec(spec: Field) {
    if spec.at("attachRequired").is_absent() {
        attach_required(spec, |field| field.required(""));
    }
    for name in ["podInfoOnMount", "storageCapacity"] {
        if spec.at(name).is_absent() {
            spec.at(name).required("");
        }
    }
    let policy = spec.at("fsGroupPolicy");
    if policy.is_set() {
        policy.one_of(&["File", "None", "ReadWriteOnceWithFSType"]);
    }
    token_requests(spec.at("tokenRequests"));
    let (modes, known) = (spec.at("volumeLifecycleModes"), ["Persistent", "Ephemeral"]);
    for mode in modes.items().filter(|mode| !known.contains(&mode.str())) {
        modes.unsupported_as(mode.bad_value_as_json(), &known);
    }
    if spec.at("seLinuxMount").is_absent() {
        spec.at("seLinuxMount").required("");
    }
    let period = spec.at("nodeAllocatableUpdatePeriodSeconds");
    if period.is_set() && period.int() < MIN_UPDATE_PERIOD {
        period.invalid(format!("must be greater than or equal to {MIN_UPDATE_PERIOD} seconds"));
    }
    let in_secrets = spec.at("serviceAccountTokenInSecrets");
    if in_secrets.is_set() && spec.at("tokenRequests").is_empty() {
        in_secrets
            .invalid("serviceAccountTokenInSecrets is set but no tokenRequests are specified");
    }
}

/// Tokens for different audiences.
fn token_requests(requests: Field) {
    let mut seen = HashSet::new();
    for request in requests.items() {
        let (audience, expiration) = (request.at("audience"), request.at("expirationSeconds"));
        if !seen.insert(audience.str()) {
            audience.duplicate();
        } else if expiration.is_set() && expiration.int() < MIN_EXPIRATION {
            expiration.invalid("may not specify a duration less than 10 minutes");
        } else if expiration.int() > MAX_EXPIRATION {
            expiration.invalid("may not specify a duration larger than 2^32 seconds");
        }
    }
}

fn warnings(driver: &Value, old: Option<&Value>) -> Vec<String> {
    const TOKENS: [&str; 2] = ["spec", "tokenRequests"];
    let asked = driver.at(&TOKENS).filter(|tokens| !tokens.is_empty());
    let changed = old.is_none_or(|old| !equivalent(old.at(&TOKENS), asked));
    let said = driver.at(&["spec", "serviceAccountTokenInSecrets"]).is_some();
    if asked.is_none() || !changed || said {
        return Vec::new();
    }
    vec![
        "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true \
         to prevent possible logging of tokens in volume attributes"
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use kevel_features::FeatureSet;
    use kevel_registry::strategy::Strategy as _;

    use super::*;
    use crate::kind::KindStrategy;
    use crate::rules::cases::value;

    #[test]
    fn drivers_that_ask_for_tokens_are_warned_of_logs() {
        let driver = |spec: &str| value(&format!(r#"{{"spec": {spec}}}"#));
        let bare = driver(r#"{"tokenRequests": [{"audience": "a"}]}"#);
        let other = driver(r#"{"tokenRequests": [{"audience": "b"}]}"#);
        let secret = driver(
            r#"{"tokenRequests": [{"audience": "a"}], "serviceAccountTokenInSecrets": false}"#,
        );
        for (driver, old, count) in [
            (&bare, None, 1),
            (&bare, Some(&bare), 0),
            (&bare, Some(&other), 1),
            (&secret, None, 0),
            (&driver("{}"), Some(&bare), 0),
        ] {
            assert_eq!(warnings(driver, old).len(), count, "{driver:?} {old:?}");
        }
    }

    #[test]
    fn gates_of_other_versions_drop_fields_and_warnings() {
        let driver = value(
            r#"{"spec": {"tokenRequests": [{"audience": "a"}], "nodeAllocatableUpdatePeriodSeconds": 7}}"#,
        );
        const PERIOD: [&str; 2] = ["spec", "nodeAllocatableUpdatePeriodSeconds"];
        for on in [false, true] {
            let features = FeatureSet::default()
                .with(Feature::CSIServiceAccountTokenSecrets, on)
                .with(Feature::MutableCSINodeAllocatableCount, on);
            let capabilities = Capabilities { features, ..Capabilities::default() };
            let mut made = driver.clone();
            settle_gated(&mut made, None, &capabilities);
            assert_eq!(made.at(&PERIOD).is_some(), on);
            let mut updated = driver.clone();
            settle_gated(&mut updated, Some(&driver), &capabilities);
            assert!(updated.at(&PERIOD).is_some(), "what is stored stays");
            let strategy = KindStrategy::new(&KIND, capabilities);
            assert_eq!(strategy.warnings(&driver, None).is_empty(), !on);
        }
    }

    #[test]
    fn a_gate_decides_whether_pods_stay_away() {
        let features = |volume_limit_scaling| Capabilities {
            features: FeatureSet::default().with(Feature::VolumeLimitScaling, volume_limit_scaling),
            ..Capabilities::default()
        };
        let (none, said) =
            (r#"{"spec": {}}"#, r#"{"spec": {"preventPodSchedulingIfMissing": true}}"#);
        for (new, old, gate, found) in [
            (said, None, false, None),
            (said, Some(none), false, None),
            (said, Some(said), false, Some(true)),
            (said, None, true, Some(true)),
            (none, None, true, Some(false)),
        ] {
            let (mut new, old) = (value(new), old.map(value));
            settle_gated(&mut new, old.as_ref(), &features(gate));
            assert_eq!(new.at(&["spec", GATED]).and_then(Value::as_bool), found, "{old:?} {gate}");
        }
    }
}
