//! Errors of an API server's start and stop.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use kevel_api::field_error::{FieldError, FieldErrors};

/// Reason why an API server cannot be made, started or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApiServerError {
    /// The text of a definition cannot be decoded.
    #[error("the definition cannot be decoded: {0}")]
    Decode(String),
    /// The definition is invalid as a CustomResourceDefinition.
    #[error("the definition {name} is invalid: {}", aggregate(errors))]
    Invalid {
        /// Name of the definition.
        name: String,
        /// Errors of its fields.
        errors: FieldErrors,
    },
    /// The kind cannot be served.
    #[error("the kind {name} cannot be served: {reason}")]
    Kind {
        /// Name of the definition.
        name: String,
        /// Reason.
        reason: String,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The folder for data, keys and the kubeconfig cannot be made.
    #[error("cannot create the folder {0}: {1}")]
    Folder(PathBuf, #[source] io::Error),
    /// The store cannot be opened.
    #[error("cannot open the store in {0}: {1}")]
    Store(PathBuf, #[source] kevel_store::Error),
    /// Keys or certificates cannot be made, loaded or used.
    #[error("certificates: {0}")]
    Certificates(String),
    /// The server that authorizes requests cannot be called.
    #[error("delegated authorization by {0}: {1}")]
    Delegated(PathBuf, String),
    /// The server cannot serve on its socket.
    #[error("cannot serve: {0}")]
    Serve(String),
    /// A hook failed while the server stopped. It has stopped all the same.
    #[error("stopped with an error: {0}")]
    Stop(String),
}

fn aggregate(errors: &FieldErrors) -> String {
    let errors: Vec<String> = errors.iter().map(FieldError::to_string).collect();
    errors.join("; ")
}
