//! Validation of a CertificateSigningRequest's conditions, which are final.

use std::collections::{HashMap, HashSet};

use kevel_api::field_error::BadValue;
use kevel_api::time::Time;
use kevel_api::value::Value;

use super::signing_request::Allowed;
use crate::validation::Field;

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";

/// Conditions that cannot be removed.
const LASTING: [&str; 3] = [APPROVED, DENIED, FAILED];

/// Restores the stored Approved and Denied conditions if their number is unchanged. Validation reports another number.
pub fn keep_approvals(request: &mut Value, old: &Value) {
    let before = old.list_at(&["status", "conditions"]);
    let Some(now) = request.at_mut(&["status", "conditions"]).and_then(Value::as_list_mut) else {
        return;
    };
    for ty in [APPROVED, DENIED] {
        let before: Vec<&Value> = of_type(before, ty).collect();
        if of_type(now, ty).count() == before.len() {
            let now = now.iter_mut().filter(|condition| condition.str_at(&["type"]) == ty);
            now.zip(before).for_each(|(now, before)| *now = before.clone());
        }
    }
}

/// Sets missing `lastUpdateTime` and `lastTransitionTime` of conditions.
pub(crate) fn stamp(request: &mut Value, old: &Value, now: Time) {
    let now = now.to_string();
    let kind = |condition: &Value| {
        let text = |field| condition.str_at(&[field]).to_owned();
        (text("type"), text("status"))
    };
    let mut since = HashMap::new();
    for condition in old.list_at(&["status", "conditions"]) {
        let time = condition.str_at(&["lastTransitionTime"]);
        if !time.is_empty() {
            since.entry(kind(condition)).or_insert(time);
        }
    }
    let conditions = request.at_mut(&["status", "conditions"]).and_then(Value::as_list_mut);
    for condition in conditions.into_iter().flatten() {
        let transition = since.get(&kind(condition)).copied().unwrap_or(&now);
        let Some(condition) = condition.as_map_mut() else { continue };
        for (field, time) in [("lastUpdateTime", now.as_str()), ("lastTransitionTime", transition)]
        {
            if condition.get(field).is_none_or(Value::is_empty) {
                condition.insert(field, time.into());
            }
        }
    }
}

/// Checks conditions by themselves.
pub fn check(conditions: Field, allowed: &Allowed) {
    let mut seen = HashSet::new();
    for condition in conditions.items() {
        let (ty, status) = (condition.at("type"), condition.at("status"));
        if !allowed.empty_condition_type {
            ty.must("");
        }
        let statuses: &[&str] = match LASTING.contains(&ty.str()) {
            true => &["True"],
            false => &["False", "True", "Unknown"],
        };
        status.must_one_of("", statuses);
        let opposite = match ty.str() {
            APPROVED => Some(DENIED),
            DENIED => Some(APPROVED),
            _ => None,
        };
        if !allowed.approved_and_denied && opposite.is_some_and(|other| seen.contains(other)) {
            let why = "Approved and Denied conditions are mutually exclusive";
            conditions.invalid_as(BadValue::named_string(ty.str()), why);
        }
        if !seen.insert(ty.str()) && !allowed.duplicate_condition_types {
            ty.duplicate_as(BadValue::named_string(ty.str()));
        }
    }
}

/// Checks a change of conditions.
pub fn check_change(conditions: Field, old: Field, allowed: &Allowed) {
    let count = |of: &Field, ty| of_type(of.list(), ty).count();
    for ty in LASTING.into_iter().filter(|ty| count(&conditions, ty) < count(&old, ty)) {
        conditions.forbidden(format!("updates may not remove a condition of type \"{ty}\""));
    }
    if allowed.approvals {
        return;
    }
    for ty in [APPROVED, DENIED].into_iter().filter(|ty| count(&conditions, ty) > count(&old, ty)) {
        conditions.forbidden(format!("updates may not add a condition of type \"{ty}\""));
    }
}

/// Sets `allowed` for violations that the stored conditions have already.
pub fn tolerated(old: Field, allowed: &mut Allowed) {
    let mut types: Vec<&str> = old.list().iter().map(|item| item.str_at(&["type"])).collect();
    allowed.approved_and_denied = types.contains(&APPROVED) && types.contains(&DENIED);
    allowed.empty_condition_type = types.contains(&"");
    types.sort_unstable();
    allowed.duplicate_condition_types = types.windows(2).any(|pair| pair[0] == pair[1]);
}

fn of_type<'c>(conditions: &'c [Value], ty: &str) -> impl Iterator<Item = &'c Value> {
    conditions.iter().filter(move |condition| condition.str_at(&["type"]) == ty)
}
