//! Path building: chains from a certificate to a trusted one (upstream: `buildChains`).

use std::sync::Arc;
use std::time::SystemTime;

use super::error::{Hint, VerifyError};
use super::roots::Roots;
use super::rules::{self, Candidate, InForce, Place, Rule};
use super::x509::X509;
use crate::public_key::KeyKind;

/// Maximum number of signature checks of one verification. Chains are shorter than 15 certificates; the rest is for
/// several chains and for signers of the same name.
const MAX_SIGNATURE_CHECKS: usize = 100;

/// Charges of the compute budget for a signature check: 0.1 ms for RSA or P-256, a millisecond for P-521.
const SIGNATURE_CHARGES: usize = 1000;

/// Search for chains. Its time is bounded whatever the peer has sent.
#[derive(Debug)]
pub(super) struct Search<'a> {
    pub roots: &'a Roots,
    pub intermediates: &'a Roots,
    pub now: SystemTime,
    pub in_force: InForce,
    pub checks: usize,
}

type Chains = Vec<Vec<Arc<X509>>>;

impl Search<'_> {
    /// All chains that begin with this one and end with a root.
    pub fn chains(&mut self, chain: &[Arc<X509>]) -> Result<Chains, VerifyError> {
        let Some(top) = chain.last() else { return Ok(Chains::new()) };
        let mut found = Chains::new();
        let (mut hint, mut error) = (None, None);
        let sets = [(Place::Root, self.roots), (Place::Intermediate, self.intermediates)];
        'sets: for (place, set) in sets {
            for signer in set.potential_signers(top) {
                match self.consider(chain, signer, place, &mut hint) {
                    Ok(chains) => found.extend(chains),
                    Err(VerifyError::SignatureLimit) => {
                        error = Some(VerifyError::SignatureLimit);
                        break 'sets;
                    }
                    Err(reason) => error = Some(reason),
                }
            }
        }
        match (found.is_empty(), error) {
            (false, _) => Ok(found),
            (true, Some(error)) => Err(error),
            (true, None) => Err(VerifyError::UnknownAuthority { hint }),
        }
    }

    /// Adds a candidate signer to a chain. A signature that does not match is no error, but a hint for the case that no
    /// other candidate is found.
    fn consider(
        &mut self,
        chain: &[Arc<X509>],
        signer: &Arc<X509>,
        place: Place,
        hint: &mut Option<Hint>,
    ) -> Result<Chains, VerifyError> {
        self.checks += 1;
        if self.checks > MAX_SIGNATURE_CHECKS && self.in_force.holds(Rule::SignatureLimit) {
            return Err(VerifyError::SignatureLimit);
        }
        let known = signer.key().is_ok_and(|key| key.kind != KeyKind::Unknown);
        let repeated = self.in_force.holds(Rule::NoLoop) && is_in_chain(signer, chain);
        let (true, false, Some(top)) = (known, repeated, chain.last()) else {
            return Ok(Chains::new());
        };
        let mut refused = |reason: &VerifyError| {
            let candidate = signer.shown_name();
            hint.get_or_insert_with(|| Hint { reason: Box::new(reason.clone()), candidate });
        };
        kevel_compute::charge(SIGNATURE_CHARGES);
        if let Err(reason) = rules::check_signer(self.in_force, top, signer) {
            refused(&reason);
            return Ok(Chains::new());
        }
        let candidate = Candidate { certificate: signer, place, below: chain.len(), now: self.now };
        rules::check_certificate(self.in_force, &candidate).inspect_err(refused)?;
        let mut longer = chain.to_vec();
        longer.push(signer.clone());
        match place {
            Place::Intermediate => self.chains(&longer),
            Place::Root | Place::Leaf => Ok(vec![longer]),
        }
    }
}

/// Whether a certificate with the same subject, key and alternative names is in the chain: cross-signed CAs would form
/// loops.
fn is_in_chain(candidate: &X509, chain: &[Arc<X509>]) -> bool {
    for own in chain {
        if own.subject != candidate.subject || own.public_key != candidate.public_key {
            continue;
        }
        match (&own.alt_names, &candidate.alt_names) {
            (Some(_), None) | (None, Some(_)) => return false,
            (own, other) if own == other => return true,
            _ => {}
        }
    }
    false
}
