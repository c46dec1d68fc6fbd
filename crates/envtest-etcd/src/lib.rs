//! Stand-in for etcd in controller tests (envtest): answers etcd's health check, holds the folder of the store, and
//! ends with the process that started it.
//!
//! It does not speak etcd's protocol. `kube-apiserver --etcd-servers=URL` recognises it by [`QUESTION`] and [`ANSWER`],
//! opens the store in the folder that it names, and keeps the connection: the API server ends when the stand-in does.
//! So an API server that is started again on the same stand-in finds its data, and none is left when a test is killed.

pub mod flags;
mod folder;
mod parent;
mod server;

pub use folder::FolderError;
pub use server::{ServeError, serve};

/// Request of an API server, by which it recognises the stand-in. An etcd answers 404.
pub const QUESTION: &str = "GET /kevel/store HTTP/1.1\r\nHost: etcd\r\n\r\n";

/// Beginning of the answer to [`QUESTION`], whole up to the folder's path: what an etcd, or anything else that serves
/// HTTP, does not say. The number is the protocol's version.
pub const ANSWER: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.kevel.store\r\n\r\nkevel-etcd 1 ";

/// End of the folder's path in the answer: a byte that no path has.
pub const END: u8 = 0;

/// Version of etcd that the stand-in reports.
pub const ETCD_VERSION: &str = "3.6.8";
