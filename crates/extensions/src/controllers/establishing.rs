//! Condition Established of definitions whose names are accepted; their rows are served by then (upstream:
//! EstablishingController).

use kevel_api::value::Value;
use kevel_codec::base64;
use kevel_server::certificates::CaBundle;

use super::Context;
use crate::definition::{Condition, Definition, condition, set_condition};

pub(super) async fn reconcile(context: &Context, name: &str) -> Result<(), String> {
    let Some(mut value) = context.find(name) else { return Ok(()) };
    let definition = Definition(&value);
    if !definition.is(condition::NAMES_ACCEPTED) || definition.is(condition::ESTABLISHED) {
        return Ok(());
    }
    let established = match has_valid_ca_bundle(&value) {
        true => Condition::new(
            condition::ESTABLISHED,
            "True",
            "InitialNamesAccepted",
            "the initial names have been accepted",
        ),
        false => Condition::new(
            condition::ESTABLISHED,
            "False",
            "InvalidCABundle",
            "The conversion webhook CABundle is invalid",
        ),
    };
    if definition.condition(condition::ESTABLISHED).as_ref() == Some(&established) {
        return Ok(());
    }
    set_condition(&mut value, &established, context.now());
    context.update_status(&value).await.map(drop)
}

fn has_valid_ca_bundle(definition: &Value) -> bool {
    let path = ["spec", "conversion", "webhook", "clientConfig", "caBundle"];
    let mut pem = Vec::new();
    match definition.str_at(&path) {
        "" => true,
        bundle => base64::decode_into(bundle, &mut pem).is_ok() && CaBundle::parse(&pem).is_ok(),
    }
}
