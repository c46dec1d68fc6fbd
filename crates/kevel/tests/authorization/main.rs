//! Authorization on a running server: reviews, nodes, and disguised requests.

#![allow(clippy::unwrap_used)]

mod aggregation;
mod escalation;
mod hidden;
mod impersonation;
mod node;
mod options;
mod reviews;
