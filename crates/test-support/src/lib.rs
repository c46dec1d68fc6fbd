//! What tests of several crates need: a server to ask, an etcd, certificates, the reference's facts, a way
//! to wait and one way to skip. Helpers that one test alone needs stand beside that test.
//!
//! A helper that fails ends the test that called it: there is nobody to hand an error to.
#![allow(clippy::unwrap_used)]

mod certificates;
mod etcd;
pub mod facts;
pub mod openapi;
mod ports;
mod skip;
mod wait;

pub use certificates::{Ca, write_pair};
pub use etcd::EtcdServer;
pub use ports::free_port;
pub use skip::{program, skip};
pub use wait::{PATIENCE, soon, until};
