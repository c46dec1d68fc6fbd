//! Rules for certificate chains, in the order of Go's checks.
//!
//! Each rule is one function in one of three tables: for a signer, for a certificate at its position in the chain, for
//! a whole chain. The first violated rule determines the error. Tests switch each rule off by itself and compare the
//! verdicts (`conformance/certificates`).

use std::sync::Arc;
use std::time::SystemTime;

use super::Purpose;
use super::error::VerifyError;
use super::extensions::{ANY_USAGE, KeyUsage};
use super::x509::X509;
use super::{host_name, name_constraints, policies};
use crate::public_key::{Hash, SignatureAlgorithm};

/// Name of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A signer of version 3 has basic constraints with the CA bit.
    CaBit,
    /// A signer with a key usage has `keyCertSign`.
    KeyCertSign,
    /// Signatures are not made with SHA-1 or MD5.
    SecureAlgorithm,
    /// The signature is the signer's.
    Signature,
    /// Every critical extension is supported.
    CriticalExtensions,
    /// The validity period has begun.
    NotBefore,
    /// The validity period is not over.
    NotAfter,
    /// An intermediate is a CA, whatever its version.
    IntermediateCa,
    /// There are no more intermediates than the path length constraint allows.
    PathLength,
    /// Required certificate policies are present.
    Policies,
    /// Every certificate of the chain allows the purpose.
    ExtendedKeyUsage,
    /// Names are within the constraints of all CAs above them.
    NameConstraints,
    /// The certificate is for the requested host name.
    HostName,
    /// No certificate comes twice in a chain.
    NoLoop,
    /// The number of signature checks is bounded.
    SignatureLimit,
}

impl Rule {
    /// All rules.
    pub const ALL: [Rule; 15] = [
        Rule::CaBit,
        Rule::KeyCertSign,
        Rule::SecureAlgorithm,
        Rule::Signature,
        Rule::CriticalExtensions,
        Rule::NotBefore,
        Rule::NotAfter,
        Rule::IntermediateCa,
        Rule::PathLength,
        Rule::Policies,
        Rule::ExtendedKeyUsage,
        Rule::NameConstraints,
        Rule::HostName,
        Rule::NoLoop,
        Rule::SignatureLimit,
    ];
}

/// Rules in force: all of them, except in tests that switch one off.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InForce {
    #[cfg(test)]
    pub off: Option<Rule>,
}

impl InForce {
    #[cfg(not(test))]
    pub fn holds(self, _rule: Rule) -> bool {
        true
    }

    #[cfg(test)]
    pub fn holds(self, rule: Rule) -> bool {
        self.off != Some(rule)
    }
}

type Check = Result<(), VerifyError>;
type SignerRule = (Rule, fn(&X509, &X509) -> Check);
type CertificateRule = (Rule, fn(&Candidate<'_>) -> Check);

/// Position of a certificate in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Leaf,
    Intermediate,
    Root,
}

/// Certificate to be added to a chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    pub certificate: &'a X509,
    pub place: Place,
    /// Number of certificates below it.
    pub below: usize,
    pub now: SystemTime,
}

/// Rules for a signer and the certificate that it signed (upstream: `CheckSignatureFrom`).
const OF_SIGNER: &[SignerRule] = &[
    (Rule::CaBit, ca_bit),
    (Rule::KeyCertSign, key_cert_sign),
    (Rule::SecureAlgorithm, secure_algorithm),
    (Rule::Signature, signature),
];

/// Rules for a certificate at its position (upstream: `isValid`).
const OF_CERTIFICATE: &[CertificateRule] = &[
    (Rule::CriticalExtensions, critical_extensions),
    (Rule::NotBefore, not_before),
    (Rule::NotAfter, not_after),
    (Rule::IntermediateCa, intermediate_ca),
    (Rule::PathLength, path_length),
];

/// Checks that a certificate has signed another.
pub(super) fn check_signer(in_force: InForce, signed: &X509, signer: &X509) -> Check {
    let mut rules = OF_SIGNER.iter().filter(|(rule, _)| in_force.holds(*rule));
    rules.try_for_each(|(_, check)| check(signed, signer))
}

/// Checks that a certificate may stand at its position.
pub(super) fn check_certificate(in_force: InForce, candidate: &Candidate<'_>) -> Check {
    let mut rules = OF_CERTIFICATE.iter().filter(|(rule, _)| in_force.holds(*rule));
    rules.try_for_each(|(_, check)| check(candidate))
}

/// Checks that a trust anchor can sign certificates.
pub(super) fn check_anchor(anchor: &X509, purpose: Purpose, now: SystemTime) -> Check {
    ca_bit(anchor, anchor)?;
    key_cert_sign(anchor, anchor)?;
    let candidate = Candidate { certificate: anchor, place: Place::Root, below: 1, now };
    check_certificate(InForce::default(), &candidate)?;
    match allows_purpose(anchor, purpose) {
        true => Ok(()),
        false => Err(VerifyError::IncompatibleUsage),
    }
}

/// Checks that a certificate is for a host.
pub(super) fn check_host(in_force: InForce, leaf: &X509, host: &host_name::Host) -> Check {
    match in_force.holds(Rule::HostName) {
        true => Ok(host_name::verify(leaf, host)?),
        false => Ok(()),
    }
}

/// Rejected chains, by reason.
#[derive(Debug, Default)]
pub(super) struct Refused {
    policies: usize,
    usages: usize,
    names: Option<VerifyError>,
}

impl Refused {
    /// Whether a chain satisfies the rules for whole chains.
    pub fn check(&mut self, in_force: InForce, chain: &[Arc<X509>], purpose: Purpose) -> bool {
        if in_force.holds(Rule::Policies) && !policies::are_valid(chain) {
            self.policies += 1;
            return false;
        }
        if in_force.holds(Rule::ExtendedKeyUsage) && !allows(chain, purpose) {
            self.usages += 1;
            return false;
        }
        if in_force.holds(Rule::NameConstraints)
            && let Err(error) = name_constraints::check(chain)
        {
            self.names.get_or_insert(VerifyError::NameConstraint(error));
            return false;
        }
        true
    }

    /// Error if no chain is left.
    pub fn into_error(self) -> VerifyError {
        match (self.names, self.usages, self.policies) {
            (Some(names), ..) => names,
            (_, 1.., 0) => VerifyError::IncompatibleUsage,
            (_, usages, policies) => {
                let usages = (usages > 0)
                    .then(|| format!("{usages} candidate chains with incompatible key usage"));
                let policies = (policies > 0)
                    .then(|| format!("{policies} candidate chains with invalid policies"));
                let details: Vec<_> = usages.into_iter().chain(policies).collect();
                VerifyError::NoValidChains(details.join(", "))
            }
        }
    }
}

/// Checks for basic constraints with the CA bit. A version 1 certificate has no extensions and may sign.
fn ca_bit(_: &X509, signer: &X509) -> Check {
    match signer.extensions.basic_constraints {
        Some(constraints) if !constraints.is_ca => Err(VerifyError::CannotSign),
        None if signer.version == 3 => Err(VerifyError::CannotSign),
        _ => Ok(()),
    }
}

fn key_cert_sign(_: &X509, signer: &X509) -> Check {
    match signer.extensions.key_usage {
        KeyUsage::NoCertificates => Err(VerifyError::CannotSign),
        KeyUsage::Unrestricted | KeyUsage::Certificates => Ok(()),
    }
}

fn secure_algorithm(signed: &X509, _: &X509) -> Check {
    match signed.algorithm {
        SignatureAlgorithm::Rsa(Hash::Sha1) => Err(VerifyError::InsecureAlgorithm("SHA1-RSA")),
        SignatureAlgorithm::Ecdsa(Hash::Sha1) => Err(VerifyError::InsecureAlgorithm("ECDSA-SHA1")),
        _ => Ok(()),
    }
}

fn signature(signed: &X509, signer: &X509) -> Check {
    let verified = signer.key()?.verify(signed.algorithm, &signed.to_be_signed, &signed.signature);
    verified.map_err(VerifyError::Signature)
}

fn critical_extensions(candidate: &Candidate<'_>) -> Check {
    match candidate.certificate.extensions.has_unhandled {
        true => Err(VerifyError::UnhandledCriticalExtension),
        false => Ok(()),
    }
}

fn not_before(candidate: &Candidate<'_>) -> Check {
    let (now, not_before) = (candidate.now, candidate.certificate.not_before);
    if now < not_before { Err(VerifyError::NotYetValid { now, not_before }) } else { Ok(()) }
}

fn not_after(candidate: &Candidate<'_>) -> Check {
    let (now, not_after) = (candidate.now, candidate.certificate.not_after);
    if now > not_after { Err(VerifyError::Expired { now, not_after }) } else { Ok(()) }
}

fn intermediate_ca(candidate: &Candidate<'_>) -> Check {
    let constraints = candidate.certificate.extensions.basic_constraints;
    let is_ca = constraints.is_some_and(|constraints| constraints.is_ca);
    match candidate.place {
        Place::Intermediate if !is_ca => Err(VerifyError::NotAuthorizedToSign),
        _ => Ok(()),
    }
}

fn path_length(candidate: &Candidate<'_>) -> Check {
    let constraints = candidate.certificate.extensions.basic_constraints;
    let limit = constraints.and_then(|constraints| constraints.max_path_length);
    let intermediates = candidate.below.saturating_sub(1) as u64;
    match limit {
        Some(limit) if intermediates > limit => Err(VerifyError::TooManyIntermediates),
        _ => Ok(()),
    }
}

/// Extended key usages nest: each certificate that has any must allow the purpose.
fn allows(chain: &[Arc<X509>], purpose: Purpose) -> bool {
    chain.iter().all(|certificate| allows_purpose(certificate, purpose))
}

fn allows_purpose(certificate: &X509, purpose: Purpose) -> bool {
    let usages = &certificate.extensions.extended_key_usages;
    usages.is_empty()
        || usages.iter().any(|usage| *usage == purpose.identifier() || *usage == ANY_USAGE)
}
