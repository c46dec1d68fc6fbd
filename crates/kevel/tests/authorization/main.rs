//! Who may do what on a running server: reviews, nodes, and requests that try to hide what they are.

#![allow(clippy::unwrap_used)]

mod aggregation;
mod escalation;
mod hidden;
mod impersonation;
mod node;
mod options;
mod reviews;
