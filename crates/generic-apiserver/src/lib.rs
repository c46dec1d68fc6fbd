//! An API server of one's own kinds (upstream: `k8s.io/apiserver`, `GenericAPIServer`): storage, list and watch,
//! server-side apply, discovery, OpenAPI, admission and the handler chain as kube-apiserver has them. kubectl and any
//! other client use it directly, or through the aggregation layer of a cluster.
//!
//! A kind is described as a CustomResourceDefinition describes it: names, versions, schema with CEL rules, columns,
//! status and scale. Rules that need code are [`ObjectRules`].
//!
//! ```no_run
//! use kevel_generic_apiserver::{ApiKind, GenericApiServer};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let kind = ApiKind::from_yaml(include_str!("../../../examples/sample-apiserver/flunders.yaml"))?;
//! let server = GenericApiServer::new("wardle").kind(kind).data_dir("wardle-data").start().await?;
//! println!("kubectl --kubeconfig {} get flunders", server.kubeconfig().display());
//! server.stop().await?;
//! # Ok(()) }
//! ```

mod authorization;
mod error;
mod kind;
mod running;
mod server;

pub use error::ApiServerError;
pub use kind::ApiKind;
pub use running::RunningApiServer;
pub use server::GenericApiServer;

/// Errors of fields, as rules report them.
pub use kevel_api::field_error::{FieldError, FieldErrors, Path};
/// Tree of an object.
pub use kevel_api::value::Value;
/// Rules of a kind in Rust.
pub use kevel_extensions::strategy::ObjectRules;
/// Admission plug-ins: what they are, and what they see of a write.
pub use kevel_registry::admission::{Attributes, Operation, Plugin};
/// Completes at SIGTERM or SIGINT.
pub use kevel_server::lifecycle::stop_requested;
