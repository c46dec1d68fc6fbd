//! Where a server is, and how it is spoken to.

use std::fmt;
use std::path::PathBuf;

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
    /// What is said in the `Authorization` header.
    pub credentials: Credentials,
    /// Where connections lead, if not to the host of the URL.
    pub resolve: Option<Resolve>,
    /// Who makes them.
    pub dialer: Dialer,
    /// Speak HTTP/1.1 only: each call may then reach another of the servers behind one address.
    pub http1_only: bool,
    /// What the caller calls itself, if not by the server's name.
    pub user_agent: Option<&'static str>,
}

/// A certificate and its key (PEM).
#[derive(Clone)]
pub enum Identity {
    /// The texts.
    Pem {
        /// The certificate, and those of the authorities above it.
        certificate: Vec<u8>,
        /// The key of the first.
        key: Vec<u8>,
    },
    /// Files, which are read again when they change.
    Files {
        /// The certificate, and those of the authorities above it.
        certificate: PathBuf,
        /// The key of the first.
        key: PathBuf,
    },
}

/// The credentials that are sent.
#[derive(Clone, Default)]
pub enum Credentials {
    /// Nothing.
    #[default]
    None,
    /// A bearer token.
    Token(String),
    /// A bearer token in a file, which is read again when it changes.
    TokenFile(PathBuf),
    /// A user and its password.
    Basic {
        /// The user.
        username: String,
        /// The password.
        password: String,
    },
}

// Keys, tokens and passwords are not printed.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.url).finish_non_exhaustive()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}
