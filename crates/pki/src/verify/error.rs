//! Errors of verification, in the words of Go's `crypto/x509`.

use std::time::SystemTime;

use kevel_api::quote::quote;
use kevel_api::time::Time;

/// Reason for which a certificate is not trusted. The texts are those that clients of the reference
/// read in answers and logs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The bytes are no certificate; the parser's words.
    #[error("{0}")]
    Malformed(String),
    /// A critical extension is not understood.
    #[error("x509: unhandled critical extension")]
    UnhandledCriticalExtension,
    /// The validity period has not begun.
    #[error(
        "x509: certificate has expired or is not yet valid: current time {} is before {}",
        shown(*now), shown(*not_before)
    )]
    NotYetValid {
        /// The time of the judgement.
        now: SystemTime,
        /// The first moment of validity.
        not_before: SystemTime,
    },
    /// The validity period is over.
    #[error(
        "x509: certificate has expired or is not yet valid: current time {} is after {}",
        shown(*now), shown(*not_after)
    )]
    Expired {
        /// The time of the judgement.
        now: SystemTime,
        /// The last moment of validity.
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
    /// The signature is made by an algorithm that is not trusted any more.
    #[error("x509: cannot verify signature: insecure algorithm {0}")]
    InsecureAlgorithm(&'static str),
    /// The signature is not the signer's; the words of the algorithm.
    #[error("{0}")]
    Signature(String),
    /// No chain leads to a trusted certificate.
    #[error("x509: certificate signed by unknown authority{}", hint.as_ref().map(Hint::shown).unwrap_or_default())]
    UnknownAuthority {
        /// The first candidate that was refused.
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
    /// Every chain was refused, for reasons that are counted.
    #[error("x509: no valid chains built: {0}")]
    NoValidChains(String),
    /// The certificate is for other names.
    #[error("x509: {0}")]
    HostName(#[from] HostNameError),
}

/// Candidate authority that was refused, and why.
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
    /// Only the common name matches, which is not a name of a server any more.
    #[error("certificate relies on legacy Common Name field, use SANs instead")]
    CommonNameOnly,
    /// An address was asked for, and the certificate has none.
    #[error("cannot validate certificate for {0} because it doesn't contain any IP SANs")]
    NoAddresses(String),
    /// The certificate has no names at all.
    #[error("certificate is not valid for any names, but wanted to match {0}")]
    NoNames(String),
    /// The certificate has more names than a message should hold.
    #[error("certificate is valid for {count} {kind}, but none matched {host}")]
    TooManyNames {
        /// The number of names.
        count: usize,
        /// `names` or `IP SANs`.
        kind: &'static str,
        /// The name that was asked for.
        host: String,
    },
    /// The names are others.
    #[error("certificate is valid for {names}, not {host}")]
    OtherNames {
        /// The names of the certificate.
        names: String,
        /// The name that was asked for.
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
