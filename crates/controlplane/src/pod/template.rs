//! Pod templates of controllers.

use kevel_api::name;
use kevel_api::value::Value;

use super::{Options, annotations, prepare, spec, warnings};
use crate::capabilities::Capabilities;
use crate::validation::Field;

/// Path of the template in most kinds.
pub const IN_SPEC: &[&str] = &["spec", "template"];

/// Prepares the pod template of an object for storage; `old` is the object that it replaces.
pub fn prepare_at(
    object: &mut Value,
    old: Option<&Value>,
    path: &[&str],
    capabilities: &Capabilities,
) {
    if let Some(template) = object.at_mut(path) {
        prepare::template(template, old.and_then(|old| old.at(path)), capabilities);
    }
}

/// Gives an object without labels those of its template, as its defaults do. A write of the status brings labels of its
/// own, and the template of what is stored.
pub(crate) fn label_by_template(object: &mut Value) {
    let labels = object.at(&["spec", "template", "metadata", "labels"]);
    let Some(labels) = labels.filter(|labels| !labels.is_empty()).cloned() else { return };
    let metadata = object.at_mut(&["metadata"]).and_then(Value::as_map_mut);
    if let Some(metadata) = metadata
        && metadata.get("labels").is_none_or(Value::is_empty)
    {
        metadata.insert("labels", labels);
    }
}

/// Warnings about an object with a template whose pods are named after it.
pub fn object_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let named = old.is_none().then(|| name_warning(object)).flatten();
    named.into_iter().chain(template_warnings(object, old, IN_SPEC)).collect()
}

/// Warning about an object's name that is not a DNS label but becomes part of pod names.
pub fn name_warning(object: &Value) -> Option<String> {
    let problems = name::is_dns1123_label(object.str_at(&["metadata", "name"]));
    (!problems.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in \
             surprising behavior; a DNS label is recommended: [{}]",
            problems.join(" ")
        )
    })
}

/// Warnings about the template of a new object, or of one whose generation changed.
pub fn template_warnings(object: &Value, old: Option<&Value>, path: &[&str]) -> Vec<String> {
    let generation = |object: &Value| object.at(&["metadata", "generation"]).cloned();
    if old.is_some_and(|old| generation(object) == generation(old)) {
        return Vec::new();
    }
    warnings::template(object, &path.join("."))
}

/// Validates a template; `old` is the template that it replaces.
pub fn check(template: Field, old: Option<Field>) {
    let options = Options::of_template(old);
    metadata(template, &options);
    spec::check(template.at("spec"), None, &options);
    let notes = template.at("annotations");
    let notes = notes.with(template.down("metadata.annotations").get());
    annotations::agree_with_fields(notes, template.at("spec"));
    let ephemeral = template.down("spec.ephemeralContainers");
    if !ephemeral.is_empty() {
        ephemeral.forbidden("ephemeral containers not allowed in pod template");
    }
}

/// Validates a template's metadata.
pub fn check_metadata(template: Field) {
    metadata(template, &Options::of_template(None));
}

/// Labels and annotations are reported as fields of the template itself, as in the reference.
fn metadata(template: Field, options: &Options) {
    let metadata = template.at("metadata");
    let (labels, notes) = (template.at("labels"), template.at("annotations"));
    labels.with(metadata.at("labels").get()).labels();
    let notes = notes.with(metadata.at("annotations").get());
    notes.annotations();
    annotations::check(notes, template.at("spec"), options.tolerates.deletion_cost);
}

#[cfg(test)]
mod tests {
    use crate::capabilities::Capabilities;
    use crate::rules::cases::value;
    use crate::{apps, batch};

    #[test]
    fn status_writes_without_labels_get_those_of_the_template() {
        let sent = |labels: &str| {
            value(&format!(
                r#"{{"metadata": {{"labels": {labels}}},
                     "spec": {{"template": {{"metadata": {{"labels": {{"a": "b"}}}}}}}}}}"#
            ))
        };
        for kind in [&batch::job::KIND, &apps::replication_controller::KIND] {
            for (labels, expected) in
                [("null", r#"{"a": "b"}"#), (r#"{"c": "d"}"#, r#"{"c": "d"}"#)]
            {
                let mut object = sent(labels);
                let old = object.clone();
                let prepare = kind.rules.prepare_for_status_update;
                prepare(&mut object, &old, &Capabilities::default());
                let found = object.at(&["metadata", "labels"]);
                assert_eq!(found, Some(&value(expected)), "{kind}: {labels}");
            }
        }
    }
}
