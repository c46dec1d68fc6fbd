//! Test support: a stand-in for a kubelet's streaming server ([`Kubelet`]), and clients of one, or of an API server in
//! front of it ([`client`]).

mod channels;
pub mod client;
mod command;
mod kubelet;
mod log;
mod port_forward;
mod request;

pub use kubelet::{Kubelet, serve};
