//! Verification of certificates by the rules of Go's `crypto/x509`.
//!
//! [`Verifier`] is the only place where a certificate is trusted: client certificates, those of front proxies, and
//! those of servers (webhooks, extension API servers, kubelets, OIDC issuers, egress proxies, peers, etcd). A CA bundle
//! of the reference means the same here: a trust anchor must be a CA, be allowed to sign, be valid now, and permit the
//! purpose; a certificate that is itself in the bundle needs no signer.
//!
//! `rustls-webpki` has other rules: it keeps only the name, key and name constraints of an anchor, rejects version 1
//! and CAs as end entities, and does not read key usages. The table in `conformance/certificates` compares each rule
//! with Go's recorded verdicts.

mod error;
mod extensions;
mod host_name;
mod name_constraints;
mod path;
mod policies;
mod roots;
mod rules;
mod tls;
mod x509;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;

pub use error::{Hint, HostNameError, VerifyError};
pub use host_name::Host;
pub use roots::Roots;
pub use rules::Rule;
pub use tls::{ServerVerifier, refusal};
pub use x509::X509;

use path::Search;
use rules::{Candidate, InForce, Place, Refused};

/// Purpose of a certificate: the extended key usage that it must allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Server authentication, verified by a client.
    ServerAuth,
    /// Client authentication, verified by a server.
    ClientAuth,
}

impl Purpose {
    /// DER-encoded object identifier of the extended key usage.
    fn identifier(self) -> &'static [u8] {
        match self {
            Purpose::ServerAuth => &[0x2b, 6, 1, 5, 5, 7, 3, 1],
            Purpose::ClientAuth => &[0x2b, 6, 1, 5, 5, 7, 3, 2],
        }
    }
}

/// Certificate chain: the leaf first, the trust anchor last.
#[derive(Clone, Debug)]
pub struct Chain(pub Vec<Arc<X509>>);

/// Verifier of certificate chains against trusted roots.
///
/// ```
/// use std::time::SystemTime;
/// use kevel_pki::{Authority, Subject, pem_certificates};
/// use kevel_pki::verify::{Purpose, Verifier};
///
/// let clock = kevel_clock::Clock::system();
/// let authority = Authority::new("kubernetes", &clock)?;
/// let verifier = Verifier::new(authority.roots().clone());
/// let jane = Subject::Client { common_name: "jane".into(), organizations: vec![] };
/// let shown = pem_certificates(authority.issue(&jane)?.certificate.as_bytes());
/// let now = clock.now();
/// assert!(verifier.verify(&shown, Purpose::ClientAuth, now, None).is_ok());
/// let refused = verifier.verify(&shown, Purpose::ServerAuth, now, None).unwrap_err();
/// assert_eq!(refused.to_string(), "x509: certificate specifies an incompatible key usage");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct Verifier {
    roots: Arc<Roots>,
    in_force: InForce,
}

impl Verifier {
    /// A verifier that trusts these certificates.
    pub fn new(roots: Arc<Roots>) -> Self {
        Verifier { roots, in_force: InForce::default() }
    }

    /// Verifies the certificates of a peer, its own first; a server's must be for `host`.
    pub fn verify(
        &self,
        certificates: &[Bytes],
        purpose: Purpose,
        now: SystemTime,
        host: Option<&Host>,
    ) -> Result<Chain, VerifyError> {
        let none = || VerifyError::Malformed("x509: malformed certificate".to_owned());
        let (own, others) = certificates.split_first().ok_or_else(none)?;
        let leaf = Arc::new(X509::parse(own)?);
        let others = others.iter().map(X509::parse).collect::<Result<Vec<_>, _>>()?;
        let in_force = self.in_force;
        let candidate = Candidate { certificate: &leaf, place: Place::Leaf, below: 0, now };
        rules::check_certificate(in_force, &candidate)?;
        if let Some(host) = host {
            rules::check_host(in_force, &leaf, host)?;
        }
        let chains = match self.roots.contains(&leaf) {
            true => vec![vec![leaf]],
            false => {
                let (roots, intermediates) = (&*self.roots, &Roots::new(others));
                Search { roots, intermediates, now, in_force, checks: 0 }.chains(&[leaf])?
            }
        };
        let mut refused = Refused::default();
        let mut chains = chains.into_iter();
        let valid = chains.find(|chain| refused.check(in_force, chain, purpose));
        valid.map(Chain).ok_or_else(|| refused.into_error())
    }
}
