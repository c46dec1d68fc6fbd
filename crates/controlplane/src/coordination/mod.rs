//! Kinds Lease and LeaseCandidate.

mod election;
mod leader_election;
mod version;

use kevel_api::name;
use kevel_api::value::Value;
use kevel_features::Feature;

use crate::capabilities::Capabilities;
use crate::columns;
use crate::kind::Kind;
use crate::rules::Rules;
use crate::validation::Field;

pub use self::leader_election::LeaderElectionController;
use self::version::Version;

/// Kind Lease.
pub static LEASE: Kind = Kind {
    standard_finalizers: false,
    allow_create_on_update: true,
    allow_unconditional_update: false,
    columns: columns::coordination::LEASE,
    rules: Rules {
        prepare_for_create: |lease, capabilities| drop_gated(lease, None, capabilities),
        validate_create: |lease| lease_spec(lease.at("spec")),
        prepare_for_update: |lease, old, capabilities| drop_gated(lease, Some(old), capabilities),
        validate_update: |lease, _| lease_spec(lease.at("spec")),
        ..Rules::NONE
    },
    ..Kind::new("coordination.k8s.io", "leases")
};

/// Lease candidates.
pub static LEASE_CANDIDATE: Kind = Kind {
    standard_finalizers: false,
    storage_version: Some("v1beta1"),
    validate_name: |name, _| name::is_config_map_key(name),
    allow_create_on_update: true,
    allow_unconditional_update: false,
    columns: columns::coordination::LEASE_CANDIDATE,
    rules: Rules {
        validate_create: |candidate| candidate_spec(candidate.at("spec")),
        validate_update: |candidate, old| {
            candidate_spec(candidate.at("spec"));
            candidate.down("spec.leaseName").immutable(&old.down("spec.leaseName"));
        },
        ..Rules::NONE
    },
    ..Kind::new("coordination.k8s.io", "leasecandidates")
};

/// The strategy that this server chooses holders by.
const OLDEST: &str = "OldestEmulationVersion";

/// Drops the strategy and preferred holder of new Leases while the gate is off; existing values stay.
fn drop_gated(lease: &mut Value, old: Option<&Value>, capabilities: &Capabilities) {
    if capabilities.features.has(Feature::CoordinatedLeaderElection) {
        return;
    }
    let Some(spec) = lease.at_mut(&["spec"]).and_then(Value::as_map_mut) else { return };
    for field in ["strategy", "preferredHolder"] {
        if old.is_none_or(|old| old.at(&["spec", field]).is_none()) {
            spec.remove(field);
        }
    }
}

fn lease_spec(spec: Field) {
    let (duration, transitions) = (spec.at("leaseDurationSeconds"), spec.at("leaseTransitions"));
    if duration.is_set() && duration.int() <= 0 {
        duration.invalid("must be greater than 0");
    }
    transitions.non_negative();
    let wanted = spec.at("strategy");
    if wanted.is_set() {
        strategy(wanted);
    }
    let preferred = spec.at("preferredHolder");
    if !preferred.is_empty() && wanted.is_empty() {
        preferred.forbidden("may only be specified if `strategy` is defined");
    }
}

fn candidate_spec(spec: Field) {
    spec.at("leaseName").must("");
    let (emulation, binary) = (spec.at("emulationVersion"), spec.at("binaryVersion"));
    let version = |field: Field| {
        let parsed = Version::parse(field.str());
        if parsed.is_none() {
            field.invalid("must be a valid semantic version");
        }
        parsed
    };
    let emulated = (!emulation.is_empty()).then(|| version(emulation)).flatten();
    if binary.must("") {
        let built = version(binary);
        let (built, emulated) = (built.unwrap_or_default(), emulated.clone().unwrap_or_default());
        if !emulation.is_empty() && built < emulated {
            binary.invalid("must be greater than or equal to `emulationVersion`");
        }
    }
    let wanted = spec.at("strategy");
    if wanted.must("") {
        if wanted.str() == OLDEST && emulated.is_none_or(|version| version == Version::default()) {
            emulation.required("must be specified when `strategy` is 'OldestEmulationVersion'");
        }
        strategy(wanted);
    }
}

/// Validates a strategy: a known one, or a qualified name.
fn strategy(strategy: Field) {
    // The reference names the field twice.
    let name = strategy.str();
    let path = strategy.path();
    let field = strategy.named(path.child("strategy"));
    match name.contains('/') {
        false => field.one_of(&[OLDEST]),
        true => field.form(name::is_label_key),
    }
}
