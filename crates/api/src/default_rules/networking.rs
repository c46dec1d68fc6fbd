//! Network policies.

use super::has_elements;
use crate::value::{Map, Value};

/// A policy is about what comes in, and about what goes out if it has rules for that.
pub(super) fn policy_types(spec: &mut Map, field: &str) {
    if !has_elements(spec.get(field)) {
        let types = match has_elements(spec.get("egress")) {
            true => &["Ingress", "Egress"][..],
            false => &["Ingress"],
        };
        spec.insert(field, Value::List(types.iter().map(|&ty| ty.into()).collect()));
    }
}
