//! Containers that are added to a running pod, and never changed or taken away.

use super::is_static;
use crate::rules::Rules;
use crate::validation::Field;

/// The rules of `pods/ephemeralcontainers`.
pub const RULES: Rules = Rules { check_update, ..Rules::NONE };

fn check_update(pod: Field, old: Field) {
    if old.get().is_some_and(is_static) {
        return pod.at("").forbidden("static pods do not support ephemeral containers");
    }
    let spec = pod.at("spec");
    let field = spec.at("ephemeralContainers");
    for old in old.at("spec").at("ephemeralContainers").list() {
        let name = old.str_at(&["name"]);
        let what = match field.list().iter().find(|new| new.str_at(&["name"]) == name) {
            None => "removed",
            Some(new) if new != old => "changed",
            Some(_) => continue,
        };
        field.forbidden(format!("existing ephemeral containers {name:?} may not be {what}\n"));
    }
}
