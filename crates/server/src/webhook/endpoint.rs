//! Endpoint of a webhook: URL, trust and credentials.

use std::fmt;

use kevel_kubeconfig::ProxyUrl;
pub use kevel_kubeconfig::{CertificateAndKey as Identity, Credentials, ImpersonatedUser};

use crate::egress::{Dialer, Resolve};

/// A remote server: its address, how it is verified, and the credentials that are sent to it.
#[derive(Clone, Default)]
pub struct Endpoint {
    /// The URL of the server; its path goes before those of requests.
    pub url: String,
    /// Certificates of the authorities that vouch for it (PEM). `None` trusts those of the system.
    pub ca: Option<Vec<u8>>,
    /// The name that its certificate must have, if not that of the URL.
    pub server_name: Option<String>,
    /// Skip verification.
    pub insecure_skip_tls_verify: bool,
    /// The certificate that is shown to it.
    pub identity: Option<Identity>,
    /// Credentials for the `Authorization` header.
    pub credentials: Credentials,
    /// The user that is impersonated, if one is.
    pub impersonation: Option<ImpersonatedUser>,
    /// The proxy that connections go through, if not straight to the server.
    pub proxy: Option<ProxyUrl>,
    /// Resolver of the host, if it is not the host of the URL.
    pub resolve: Option<Resolve>,
    /// Dialer of connections.
    pub dialer: Dialer,
    /// Speak HTTP/1.1 only: each call may then reach another of the servers behind one address.
    pub http1_only: bool,
    /// User agent, if it is not the server's.
    pub user_agent: Option<&'static str>,
    /// Whether calls belong to the trace of the request that they are made for, and tell the server so.
    pub traced: bool,
}

// Keys, tokens and passwords are not printed.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.url).finish_non_exhaustive()
    }
}
