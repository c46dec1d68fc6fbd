//! Says what is wrong with the schemas of definitions from before schemas had to be structural.

use kevel_api::field_error::aggregate;

use super::Context;
use crate::definition::{Condition, Definition, condition, remove_condition, set_condition};
use crate::validation::non_structural;

pub(super) async fn reconcile(context: &Context, name: &str) -> Result<(), String> {
    let Some(mut value) = context.find(name) else { return Ok(()) };
    let violations = aggregate(non_structural(&value));
    let known = Definition(&value).condition(condition::NON_STRUCTURAL_SCHEMA);
    match (&violations, known) {
        (None, None) => return Ok(()),
        (Some(why), Some(known)) if known.status == "True" && *known.message == **why => {
            return Ok(());
        }
        _ => {}
    }
    match violations {
        None => remove_condition(&mut value, condition::NON_STRUCTURAL_SCHEMA),
        Some(why) => {
            let violated =
                Condition::new(condition::NON_STRUCTURAL_SCHEMA, "True", "Violations", "");
            set_condition(
                &mut value,
                &Condition { message: why.into(), ..violated },
                context.now(),
            );
        }
    }
    context.update_status(&value).await.map(drop)
}
