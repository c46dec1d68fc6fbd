//! Support for tests of several crates: servers, clients, an etcd, certificates, facts about the reference, waiting and
//! skipping. Helpers of a single test are beside that test.
//!
//! A helper that fails panics, which fails the test that called it.
#![allow(clippy::unwrap_used)]

mod certificates;
#[cfg(feature = "cluster")]
mod client;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(feature = "collector")]
mod collector;
mod etcd;
pub mod facts;
#[cfg(feature = "in-memory")]
mod in_memory;
#[cfg(feature = "kms")]
mod kms;
pub mod openapi;
mod ports;
#[cfg(feature = "program")]
pub mod process;
mod relay;
#[cfg(feature = "cluster")]
mod replicas;
mod skip;
#[cfg(feature = "trust")]
pub mod trust;
mod wait;
#[cfg(feature = "program")]
pub mod wire;

pub use certificates::{Ca, write_pair};
#[cfg(feature = "cluster")]
pub use client::Client;
#[cfg(feature = "cluster")]
pub use cluster::Cluster;
#[cfg(feature = "collector")]
pub use collector::{ReceivedSpan, TraceCollector};
pub use etcd::EtcdServer;
#[cfg(feature = "in-memory")]
pub use in_memory::{InMemory, Warnings};
#[cfg(feature = "kms")]
pub use kms::KmsPlugin;
pub use ports::free_port;
pub use relay::Relay;
#[cfg(feature = "cluster")]
pub use replicas::{Replica, Replicas};
pub use skip::{program, skip};
pub use wait::{PATIENCE, soon, until};
