//! Authentication and authorization.
