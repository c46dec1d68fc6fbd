//! Default rules of RBAC bindings.

use super::{set_missing, string};
use crate::value::Map;

/// Sets the API group of users and groups; service accounts are in the core group.
pub(super) fn subject_group(subject: &mut Map, field: &str) {
    if let "User" | "Group" = string(subject, "kind") {
        set_missing(subject, field, "rbac.authorization.k8s.io");
    }
}
