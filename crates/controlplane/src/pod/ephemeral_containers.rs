//! Containers that are added to a running pod, and never changed or taken away.

use kevel_api::value::equivalent;

use super::{Options, annotations, is_static, metadata_and_spec};
use crate::rules::Rules;
use crate::validation::Field;

/// The rules of `pods/ephemeralcontainers`.
pub const RULES: Rules = Rules { validate_update, ..Rules::NONE };

fn validate_update(pod: Field, old: Field) {
    if old.get().is_some_and(is_static) {
        return pod.at("").forbidden("static pods do not support ephemeral containers");
    }
    let (metadata, old_metadata) = (pod.at("metadata"), old.at("metadata"));
    metadata_and_spec(pod, &Options::of_pod(old));
    annotations::update(metadata.at("annotations"), old_metadata.at("annotations"));
    let spec = pod.at("spec");
    let field = spec.at("ephemeralContainers");
    for old in old.at("spec").at("ephemeralContainers").list() {
        let name = old.str_at(&["name"]);
        let what = match field.list().iter().rfind(|new| new.str_at(&["name"]) == name) {
            None => "removed",
            Some(new) if !equivalent(Some(new), Some(old)) => "changed",
            Some(_) => continue,
        };
        field.forbidden(format!("existing ephemeral containers {name:?} may not be {what}\n"));
    }
}
