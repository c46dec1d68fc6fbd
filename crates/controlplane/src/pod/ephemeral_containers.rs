//! `pods/ephemeralcontainers`: ephemeral containers can be added, but not changed or removed.

use std::collections::HashMap;

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
    let by_name: HashMap<&str, Field> =
        field.items().map(|container| (container.at("name").str(), container)).collect();
    for old in old.down("spec.ephemeralContainers").items() {
        let name = old.at("name").str();
        match by_name.get(name) {
            None => {
                let why = format!("existing ephemeral containers {name:?} may not be removed\n");
                field.forbidden(why);
            }
            Some(new) if !new.same(&old) => field.forbidden(format!(
                "existing ephemeral containers {name:?} may not be changed\n{}",
                new.differences(&old)
            )),
            Some(_) => {}
        }
    }
}
