//! Role bindings.

use super::{set_missing, string};
use crate::value::Map;

/// Users and groups are of this group; a service account is of the core group.
pub(super) fn subject_group(subject: &mut Map, field: &str) {
    if let "User" | "Group" = string(subject, "kind") {
        set_missing(subject, field, "rbac.authorization.k8s.io");
    }
}
