//! Calls to servers outside: what authorization, token review, audit and admission webhooks, and
//! OIDC issuers, are asked with.
//!
//! An [`Endpoint`] says where a server is and how it is spoken to: built from parts, or read from
//! a kubeconfig file ([`Endpoint::from_kubeconfig`]). A [`Client`] keeps connections to it, and
//! [`Backoff`] makes a call again when it failed. [`Documents`] are read wherever they are.
//!
//! ```no_run
//! use std::path::Path;
//! use kevel_server::webhook::{Backoff, Client, Endpoint, REQUEST_TIMEOUT, succeeded};
//!
//! # async fn call() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(Endpoint::from_kubeconfig(Path::new("webhook.yaml"))?)?;
//! let post = || async {
//!     succeeded(client.post_json("", "{}".into(), REQUEST_TIMEOUT).await?)
//! };
//! let body = Backoff::default().call(post).await?;
//! # Ok(()) }
//! ```

mod backoff;
mod cache;
mod client;
mod documents;
mod endpoint;
mod error;
mod kubeconfig;
mod tls;
mod validation;

pub use backoff::Backoff;
pub use cache::{AnswerCache, CacheKey};
pub use client::{Client, MAX_ANSWER, REQUEST_TIMEOUT};
pub use documents::Documents;
pub use endpoint::{Credentials, Endpoint, Identity, ImpersonatedUser};
pub use error::{Error, succeeded};
pub use kubeconfig::Users;
pub use tls::config as tls_config;
pub use validation::{validate_webhook_service, validate_webhook_url};
