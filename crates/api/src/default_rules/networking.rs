//! Default rules of NetworkPolicies.

use super::has_elements;
use crate::value::{Map, Value};

/// Sets `policyTypes`: Ingress, and Egress if there are egress rules.
pub(super) fn policy_types(spec: &mut Map, field: &str) {
    if !has_elements(spec.get(field)) {
        let types = match has_elements(spec.get("egress")) {
            true => &["Ingress", "Egress"][..],
            false => &["Ingress"],
        };
        spec.insert(field, Value::List(types.iter().map(|&ty| ty.into()).collect()));
    }
}
