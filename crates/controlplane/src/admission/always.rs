//! `AlwaysAdmit` and `AlwaysDeny`: for those who try out the others.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_server::admission::{Attributes, Plugin, ready};
use kevel_server::future::Pending;

use super::Registration;

/// `AlwaysAdmit`, as the command line knows it.
pub const ALWAYS_ADMIT: Registration =
    Registration::off("AlwaysAdmit", |_| Ok(Arc::new(AlwaysAdmit)));

/// The admission plug-in of that name.
#[derive(Clone, Copy, Debug)]
pub struct AlwaysAdmit;

impl Plugin for AlwaysAdmit {
    fn name(&self) -> &'static str {
        ALWAYS_ADMIT.name
    }
}

/// `AlwaysDeny`, as the command line knows it.
pub const ALWAYS_DENY: Registration = Registration::off("AlwaysDeny", |_| Ok(Arc::new(AlwaysDeny)));

/// The admission plug-in of that name.
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
