//! `certificates.k8s.io`: requests for certificates, those of pods, and what signers are trusted by.

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

/// The bytes of a field that holds them as base64.
fn bytes(field: Field) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What is not base64 has not passed the decoder.
    let _ = base64::decode_into(field.str(), &mut bytes);
    bytes
}
