//! Rules of kinds: preparation, validation and warnings, as functions in a table (upstream: RESTCreateStrategy,
//! RESTUpdateStrategy).

#[cfg(test)]
pub mod cases;

use kevel_api::value::Value;
use kevel_features::Feature;
use kevel_registry::user::User;

use crate::capabilities::Capabilities;
use crate::validation::Field;

/// Rules of a kind beyond its schema and metadata.
#[derive(Clone, Copy)]
pub struct Rules {
    /// Records the user that creates an object.
    pub sign: fn(&mut Value, &User),
    /// Prepares a new object for storage (upstream: PrepareForCreate).
    pub prepare_for_create: fn(&mut Value, &Capabilities),
    /// Validates a new object (upstream: Validate).
    pub validate_create: fn(Field),
    /// Prepares an object that replaces the second one (upstream: PrepareForUpdate).
    pub prepare_for_update: fn(&mut Value, &Value, &Capabilities),
    /// Validates an update (upstream: ValidateUpdate).
    pub validate_update: fn(Field, Field),
    /// As `prepare_for_update`, for a write to `status`.
    pub prepare_for_status_update: fn(&mut Value, &Value, &Capabilities),
    /// As `validate_update`, for a write to `status`.
    pub validate_status_update: fn(Field, Field),
    /// Warnings about a new object as it was sent, before preparation.
    pub warnings_as_sent: fn(&Value) -> Vec<String>,
    /// Warnings about an object, which may replace another (upstream: WarningsOnCreate, WarningsOnUpdate).
    pub warnings: fn(&Value, Option<&Value>) -> Vec<String>,
    /// Feature without which there are none.
    pub warnings_need: Option<Feature>,
    /// Warnings about a write of the status (upstream: WarningsOnUpdate of the status strategy).
    pub status_warnings: fn(&Value) -> Vec<String>,
    /// Changes an object at the start of its deletion; true if the object stays until its finalizers are removed.
    pub begin_delete: fn(&mut Value) -> bool,
    /// True if a deleted object must stay for another reason than its finalizers.
    pub held: fn(&Value) -> bool,
    /// Grace period of a deletion, given the requested one (upstream: CheckGracefulDelete); `None` for immediate
    /// deletion.
    pub grace_period: Option<fn(&Value, Option<i64>) -> i64>,
}

impl Rules {
    /// Rules that do nothing.
    pub const NONE: Rules = Rules {
        sign: |_, _| {},
        prepare_for_create: |_, _| {},
        validate_create: |_| {},
        prepare_for_update: |_, _, _| {},
        validate_update: |_, _| {},
        prepare_for_status_update: |_, _, _| {},
        validate_status_update: |_, _| {},
        warnings_as_sent: |_| Vec::new(),
        warnings: |_, _| Vec::new(),
        warnings_need: None,
        status_warnings: |_| Vec::new(),
        begin_delete: |_| false,
        held: |_| false,
        grace_period: None,
    };
}
