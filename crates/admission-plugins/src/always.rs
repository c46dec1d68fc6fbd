//! `AlwaysAdmit` and `AlwaysDeny` admission plug-ins, for tests of admission.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Plugin, ready};

use super::Registration;

/// Registration of the `AlwaysAdmit` admission plug-in.
pub const ALWAYS_ADMIT: Registration =
    Registration::off("AlwaysAdmit", |_| Ok(Arc::new(AlwaysAdmit)));

/// The `AlwaysAdmit` admission plug-in.
#[derive(Clone, Copy, Debug)]
pub struct AlwaysAdmit;

impl Plugin for AlwaysAdmit {
    fn name(&self) -> &'static str {
        ALWAYS_ADMIT.name
    }
}

/// Registration of the `AlwaysDeny` admission plug-in.
pub const ALWAYS_DENY: Registration = Registration::off("AlwaysDeny", |_| Ok(Arc::new(AlwaysDeny)));

/// The `AlwaysDeny` admission plug-in.
#[derive(Clone, Copy, Debug)]
pub struct AlwaysDeny;

const DENIED: &str = "admission control is denying all modifications";

impl Plugin for AlwaysDeny {
    fn name(&self) -> &'static str {
        ALWAYS_DENY.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        ready(Err(attributes.forbidden(object.as_deref(), DENIED)))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        ready(Err(attributes.forbidden(object, DENIED)))
    }
}
