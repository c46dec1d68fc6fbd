//! Kinds that are created and not stored: reviews and bindings.

use crate::kind::Kind;

/// `bindings`
pub static BINDING: Kind = Kind { creater: true, ..Kind::new("", "bindings") };

/// `selfsubjectreviews`
pub static SELF_SUBJECT_REVIEW: Kind =
    Kind { creater: true, ..Kind::new("authentication.k8s.io", "selfsubjectreviews") };

/// `tokenreviews`
pub static TOKEN_REVIEW: Kind =
    Kind { creater: true, ..Kind::new("authentication.k8s.io", "tokenreviews") };

/// `localsubjectaccessreviews`
pub static LOCAL_SUBJECT_ACCESS_REVIEW: Kind =
    Kind { creater: true, ..Kind::new("authorization.k8s.io", "localsubjectaccessreviews") };

/// `selfsubjectaccessreviews`
pub static SELF_SUBJECT_ACCESS_REVIEW: Kind =
    Kind { creater: true, ..Kind::new("authorization.k8s.io", "selfsubjectaccessreviews") };

/// `selfsubjectrulesreviews`
pub static SELF_SUBJECT_RULES_REVIEW: Kind =
    Kind { creater: true, ..Kind::new("authorization.k8s.io", "selfsubjectrulesreviews") };

/// `subjectaccessreviews`
pub static SUBJECT_ACCESS_REVIEW: Kind =
    Kind { creater: true, ..Kind::new("authorization.k8s.io", "subjectaccessreviews") };
