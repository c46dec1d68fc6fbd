//! Errors of verification, with the texts of Go's `crypto/x509`.

use std::time::SystemTime;

use kevel_api::quote::quote;
use kevel_api::time::Time;

/// Reason that a certificate is not trusted. The texts are those that clients of the reference see in responses and
/// logs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The bytes are not a certificate; the parser's text.
    #[error("{0}")]
    Malformed(String),
    /// A critical extension is not supported.
    #[error("x509: unhandled critical extension")]
    UnhandledCriticalExtension,
    /// The validity period has not begun.
    #[error(
        "x509: certificate has expired or is not yet valid: current time {} is before {}",
        shown(*now), shown(*not_before)
    )]
    NotYetValid {
        /// Time of the verification.
        now: SystemTime,
        /// Start of the validity period.
        not_before: SystemTime,
    },
    /// The validity period is over.
    #[error(
        "x509: certificate has expired or is not yet valid: current time {} is after {}",
        shown(*now), shown(*not_after)
    )]
    Expired {
        /// Time of the verification.
        now: SystemTime,
        /// End of the validity period.
        not_after: SystemTime,
    },
    /// An intermediate is not a certificate authority.
    #[error("x509: certificate is not authorized to sign other certificates")]
    NotAuthorizedToSign,
    /// A path length constraint is violated.
    #[error("x509: too many intermediates for path length constraint")]
    TooManyIntermediates,
    /// The signer's basic constraints or key usage forbid signing certificates.
    #[error("x509: invalid signature: parent certificate cannot sign this kind of certificate")]
    CannotSign,
    /// The signature algorithm is outdated.
    #[error("x509: cannot verify signature: insecure algorithm {0}")]
    InsecureAlgorithm(&'static str),
    /// The signature does not match the signer's key; the text of the algorithm.
    #[error("{0}")]
    Signature(String),
    /// No chain leads to a trusted certificate.
    #[error("x509: certificate signed by unknown authority{}", hint.as_ref().map(Hint::shown).unwrap_or_default())]
    UnknownAuthority {
        /// The first rejected candidate.
        hint: Option<Hint>,
    },
    /// The budget of signature checks is spent.
    #[error("x509: signature check attempts limit reached while verifying certificate chain")]
    SignatureLimit,
    /// No chain allows the purpose.
    #[error("x509: certificate specifies an incompatible key usage")]
    IncompatibleUsage,
    /// A name of the chain is outside the name constraints of an authority above it.
    #[error(
        "x509: a root or intermediate certificate is not authorized to sign for this name: {0}"
    )]
    NameConstraint(String),
    /// Every chain was rejected, with the numbers of chains by reason.
    #[error("x509: no valid chains built: {0}")]
    NoValidChains(String),
    /// The certificate is for other names.
    #[error("x509: {0}")]
    HostName(#[from] HostNameError),
}

/// Rejected candidate authority, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The reason.
    pub reason: Box<VerifyError>,
    /// The candidate: its common name, first organization or serial number.
    pub candidate: String,
}

impl Hint {
    fn shown(&self) -> String {
        format!(
            " (possibly because of {} while trying to verify candidate authority certificate {})",
            quote(&self.reason.to_string()),
            quote(&self.candidate)
        )
    }
}

/// Mismatch between a certificate's names and the requested one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostNameError {
    /// Only the common name matches, which no longer counts as a server name.
    #[error("certificate relies on legacy Common Name field, use SANs instead")]
    CommonNameOnly,
    /// An address was requested, and the certificate has none.
    #[error("cannot validate certificate for {0} because it doesn't contain any IP SANs")]
    NoAddresses(String),
    /// The certificate has no names at all.
    #[error("certificate is not valid for any names, but wanted to match {0}")]
    NoNames(String),
    /// The certificate has too many names for a message.
    #[error("certificate is valid for {count} {kind}, but none matched {host}")]
    TooManyNames {
        /// The number of names.
        count: usize,
        /// `names` or `IP SANs`.
        kind: &'static str,
        /// The requested name.
        host: String,
    },
    /// The certificate has other names.
    #[error("certificate is valid for {names}, not {host}")]
    OtherNames {
        /// The names of the certificate.
        names: String,
        /// The requested name.
        host: String,
    },
}

fn shown(time: SystemTime) -> Time {
    let seconds = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX),
    };
    Time { seconds }
}
