//! Pods that get other resources while they run.

use super::{is_static, qos};
use crate::rules::Rules;
use crate::validation::Field;

/// The rules of `pods/resize`.
pub const RULES: Rules = Rules { check_update, ..Rules::NONE };

fn check_update(pod: Field, old: Field) {
    let (Some(new_pod), Some(old_pod)) = (pod.get(), old.get()) else { return };
    let nothing = pod.at("");
    if is_static(old_pod) {
        return nothing.forbidden("static pods cannot be resized");
    }
    if old_pod.str_at(&["spec", "os", "name"]) == "windows" {
        return nothing.forbidden("windows pods cannot be resized");
    }
    let before = match old_pod.str_at(&["status", "qosClass"]) {
        "" => qos::class(old_pod),
        class => class,
    };
    if before != qos::class(new_pod) {
        let why = "Pod QOS Class may not change as a result of resizing";
        pod.at("spec").invalid_as(before, why);
    }
}
