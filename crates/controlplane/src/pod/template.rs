//! Templates that controllers make pods of.

use super::{Options, annotations, spec};
use crate::validation::Field;

/// Checks a template; `old` is the one that it replaces.
pub fn check(template: Field, old: Option<Field>) {
    let options = Options::of_template(old);
    let metadata = template.at("metadata");
    let (labels, notes) = (template.at("labels"), template.at("annotations"));
    labels.with(metadata.at("labels").get()).labels();
    let notes = notes.with(metadata.at("annotations").get());
    notes.annotations();
    annotations::check(notes, template.at("spec"), options.tolerates.deletion_cost);
    spec::check(template.at("spec"), None, &options);
    annotations::agree_with_fields(notes, template.at("spec"));
    let ephemeral = template.down("spec.ephemeralContainers");
    if !ephemeral.is_empty() {
        ephemeral.forbidden("ephemeral containers not allowed in pod template");
    }
}
