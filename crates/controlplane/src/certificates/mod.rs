//! `certificates.k8s.io`: CertificateSigningRequest, PodCertificateRequest and ClusterTrustBundle.

mod conditions;
pub mod pod_request;
mod pod_request_status;
mod signer_name;
pub mod signing_request;
#[cfg(test)]
mod tests;
pub mod trust_bundle;

use kevel_codec::base64;

use crate::validation::Field;

/// Decoded bytes of a base64 field.
fn bytes(field: Field) -> Vec<u8> {
    let mut bytes = Vec::new();
    // The decoder has refused invalid base64 before.
    let _ = base64::decode_into(field.str(), &mut bytes);
    bytes
}
