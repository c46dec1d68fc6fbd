//! Kind PriorityLevelConfiguration: validation.

use kevel_flowcontrol::EXEMPT;
use kevel_registry::strategy::{ALL_METADATA, RESET_ALL_BUT_STATUS};

use super::mandatory;
use crate::columns;
use crate::kind::{Kind, MetadataChecks};
use crate::rules::Rules;
use crate::validation::Field;

/// `prioritylevelconfigurations`
pub static KIND: Kind = Kind {
    kept_by_status: &ALL_METADATA,
    reset_by_status: RESET_ALL_BUT_STATUS,
    counts_generation: true,
    columns: columns::flowcontrol::PRIORITY_LEVEL_CONFIGURATION,
    rules: Rules {
        validate_create: check,
        validate_update: |level, _| check(level),
        validate_status_update: super::validate_status_update,
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::Meta,
    ..Kind::new("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations")
};

/// Annotation that preserves zero shares in v1beta3, forbidden in later versions.
const ZERO_SHARES: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
/// Maximum number of queues.
const MAX_QUEUES: i64 = 10_000_000;
/// Maximum bits of a hash from which a hand of queues is dealt (upstream: shufflesharding).
const MAX_HASH_BITS: f64 = 60.0;

fn check(level: Field) {
    let annotations = level.down("metadata.annotations");
    if annotations.keys().any(|key| key == ZERO_SHARES) {
        annotations.forbidden(format!("annotation '{ZERO_SHARES}' is forbidden"));
    }
    let name = level.down("metadata.name").str();
    check_spec(level.at("spec"), name);
    mandatory::priority_level(level.at("spec"), name);
}

fn check_spec(spec: Field, name: &str) {
    let (ty, limited, exempt) = (spec.at("type"), spec.at("limited"), spec.at("exempt"));
    if (name == EXEMPT) != (ty.str() == "Exempt") {
        ty.invalid_as(ty.bad_value_as_json(), "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    match ty.str() {
        "Exempt" => {
            if limited.is_set() {
                limited.forbidden("must be nil if the type is not Limited");
            }
            if exempt.is_set() {
                shares(exempt);
                lendable(exempt);
            }
        }
        "Limited" => {
            if exempt.is_set() {
                exempt.forbidden("must be nil if the type is Limited");
            }
            match limited.is_set() {
                true => check_limited(limited),
                false => limited.required("must not be empty when type is Limited"),
            }
        }
        _ => ty.must_one_of("", &["Exempt", "Limited"]),
    }
}

fn check_limited(limited: Field) {
    shares(limited);
    limit_response(limited.at("limitResponse"));
    lendable(limited);
    let borrowed = limited.at("borrowingLimitPercent");
    if borrowed.int() < 0 {
        borrowed.invalid("if specified, must be a non-negative integer");
    }
}

fn shares(level: Field) {
    let shares = level.at("nominalConcurrencyShares");
    if shares.int() < 0 {
        shares.invalid("must be a non-negative integer");
    }
}

fn lendable(level: Field) {
    let percent = level.at("lendablePercent");
    if !(0..=100).contains(&percent.int()) {
        percent.invalid("must be between 0 and 100, inclusive");
    }
}

fn limit_response(response: Field) {
    let (ty, queuing) = (response.at("type"), response.at("queuing"));
    match ty.str() {
        "Reject" if queuing.is_set() => {
            queuing.forbidden("must be nil if limited.limitResponse.type is not Limited");
        }
        "Reject" => {}
        "Queue" if queuing.is_set() => check_queuing(queuing),
        "Queue" => {
            queuing.required("must not be empty if limited.limitResponse.type is Limited");
        }
        _ => ty.must_one_of("", &["Queue", "Reject"]),
    }
}

fn check_queuing(queuing: Field) {
    let positive = |field: Field| {
        if field.int() <= 0 {
            field.invalid_as(field.int(), "must be positive");
        }
        field.int() > 0
    };
    positive(queuing.at("queueLengthLimit"));
    let (queues, hand) = (queuing.at("queues"), queuing.at("handSize"));
    if positive(queues) && queues.int() > MAX_QUEUES {
        queues.invalid(format!("must not be greater than {MAX_QUEUES}"));
    }
    if !positive(hand) {
        return;
    }
    if hand.int() > queues.int() {
        hand.invalid(format!("should not be greater than queues ({})", queues.int()));
    } else if entropy_bits(queues.int(), hand.int()) > MAX_HASH_BITS {
        hand.invalid(format!(
            "required entropy bits of deckSize {} and handSize {} should not be greater than \
             {MAX_HASH_BITS}",
            queues.int(),
            hand.int(),
        ));
    }
}

/// Upper limit of the bits needed to deal a hand of this size.
#[allow(clippy::cast_precision_loss)] // Both are 32 bits wide.
fn entropy_bits(queues: i64, hand: i64) -> f64 {
    ((queues as f64).log2() * hand as f64).ceil()
}
