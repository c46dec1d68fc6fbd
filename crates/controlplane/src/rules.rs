//! The rules of kinds: what is special about how their objects are written, as functions in a table.

#[cfg(test)]
pub mod cases;

use kevel_api::value::Value;
use kevel_server::user::User;

use crate::capabilities::Capabilities;
use crate::validation::Field;

/// What a kind asks of its objects, beyond their schema and metadata.
#[derive(Clone, Copy)]
pub struct Rules {
    /// Writes down who makes an object.
    pub sign: fn(&mut Value, &User),
    /// Makes a new object ready (`PrepareForCreate`).
    pub prepare_for_create: fn(&mut Value, &Capabilities),
    /// What is wrong with a new object (`Validate`).
    pub validate_create: fn(Field),
    /// Makes ready what replaces the second one (`PrepareForUpdate`).
    pub prepare_for_update: fn(&mut Value, &Value, &Capabilities),
    /// What is wrong with a change (`ValidateUpdate`).
    pub validate_update: fn(Field, Field),
    /// As `prepare_for_update`, for a write to `status`.
    pub prepare_for_status_update: fn(&mut Value, &Value, &Capabilities),
    /// As `validate_update`, for a write to `status`.
    pub validate_status_update: fn(Field, Field),
    /// What the client should know about a new object as it was sent, before it is made ready.
    pub warnings_as_sent: fn(&Value) -> Vec<String>,
    /// What the client should know about an object, which may replace another
    /// (`WarningsOnCreate`, `WarningsOnUpdate`).
    pub warnings: fn(&Value, Option<&Value>) -> Vec<String>,
    /// Warnings about an object whose status is written (`WarningsOnUpdate` of the status).
    pub status_warnings: fn(&Value) -> Vec<String>,
    /// Changes an object whose deletion begins; whether it stays until it is let go.
    pub begin_delete: fn(&mut Value) -> bool,
    /// What keeps an object that is being deleted, beyond its finalizers.
    pub held: fn(&Value) -> bool,
    /// How long an object has to end by itself, of what was asked (`CheckGracefulDelete`), where it may
    /// take its time.
    pub grace_period: Option<fn(&Value, Option<i64>) -> i64>,
}

impl Rules {
    /// A kind without rules.
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
        status_warnings: |_| Vec::new(),
        begin_delete: |_| false,
        held: |_| false,
        grace_period: None,
    };
}
