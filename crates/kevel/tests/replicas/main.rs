//! Several servers on one etcd: what they give out, and what they hear of each other.

#![allow(clippy::unwrap_used)]

mod allocation;
mod controllers;
mod flags;
mod leader_election;
mod peers;
mod propagation;
mod rolling;
mod storage_versions;
mod stored;
mod written_elsewhere;
