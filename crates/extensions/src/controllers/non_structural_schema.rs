//! Condition NonStructuralSchema, for definitions created before schemas had to be structural (upstream:
//! nonstructuralschema.ConditionController).

use kevel_api::field_error::aggregate;

use super::Context;
use crate::definition::{Condition, Definition, condition, remove_condition, set_condition};
use crate::validation::non_structural;

pub(super) async fn reconcile(context: &Context, name: &str) -> Result<(), String> {
    let Some(mut value) = context.find(name) else { return Ok(()) };
    let found = match non_structural(&value) {
        Ok(violations) => aggregate(violations).map(|why| ("True", "Violations", why)),
        Err(error) => Some(("Unknown", "StructuralError", error.to_string())),
    };
    let known = Definition(&value).condition(condition::NON_STRUCTURAL_SCHEMA);
    let is_known = match (&found, &known) {
        (None, None) => true,
        (Some((status, reason, message)), Some(known)) => {
            known.status == *status && known.reason == *reason && *known.message == **message
        }
        _ => false,
    };
    if is_known {
        context.known.note_checked(Definition(&value));
        return Ok(());
    }
    match found {
        None => remove_condition(&mut value, condition::NON_STRUCTURAL_SCHEMA),
        Some((status, reason, message)) => {
            let violated = Condition::new(condition::NON_STRUCTURAL_SCHEMA, status, reason, "");
            let violated = Condition { message: message.into(), ..violated };
            set_condition(&mut value, &violated, context.now());
        }
    }
    // A definition that changed meanwhile causes another event, and is checked again.
    if let Some(written) = context.update_status(&value).await? {
        context.known.note_checked(Definition(&written));
    }
    Ok(())
}
