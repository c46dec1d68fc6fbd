//! Several servers on one etcd: what they give out, and what they hear of each other.

#![allow(clippy::unwrap_used)]

mod allocation;
mod peers;
mod propagation;
mod rolling;
