//! Authenticators that need more than the request.
//!
//! The simple ones, and the traits, are in [`kevel_server::authentication`]; those of service accounts are in
//! [`crate::service_account`].

mod bootstrap_token;
pub mod cluster_info;
pub mod configuration;
pub mod jwt;
mod request_header;
mod token_cache;
mod webhook;

pub use self::bootstrap_token::BootstrapTokens;
pub use self::request_header::{RemoveUserHeaders, RequestHeader, RequestHeaders};
pub use self::token_cache::{TokenCache, TokenCacheMetrics, TokenCacheTtls};
pub use self::webhook::{ReviewVersion, TokenWebhook};
