//! `AlwaysAdmit` and `AlwaysDeny`: for those who try out the others.

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_server::admission::{Attributes, Plugin, settled};
use kevel_server::handler::Pending;

/// The admission plug-in of that name.
#[derive(Clone, Copy, Debug)]
pub struct AlwaysAdmit;

impl Plugin for AlwaysAdmit {
    fn name(&self) -> &'static str {
        "AlwaysAdmit"
    }
}

/// The admission plug-in of that name.
#[derive(Clone, Copy, Debug)]
pub struct AlwaysDeny;

const DENIED: &str = "admission control is denying all modifications";

impl Plugin for AlwaysDeny {
    fn name(&self) -> &'static str {
        "AlwaysDeny"
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        settled(Err(attributes.forbidden(object.as_deref(), DENIED)))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        settled(Err(attributes.forbidden(object, DENIED)))
    }
}
