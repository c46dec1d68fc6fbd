//! Curve P-521, which `ring` does not support.

use p521::ecdsa::signature::{Signer as _, Verifier as _};
use p521::ecdsa::{Signature, SigningKey, VerifyingKey};

/// Size of a coordinate in bytes.
const SIZE: usize = 66;

/// Verifies a signature (ES512).
pub(super) fn verify(point: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let key = VerifyingKey::from_sec1_bytes(point);
    let (Ok(key), Ok(signature)) = (key, Signature::from_slice(signature)) else { return false };
    key.verify(message, &signature).is_ok()
}

/// Key that signs.
pub(super) struct KeyPair(SigningKey);

impl KeyPair {
    /// Makes the key of a secret; an error if the point is not its public key.
    pub fn new(secret: &[u8], point: &[u8]) -> Result<Self, &'static str> {
        // Some encoders drop leading zeros.
        let mut number = [0; SIZE];
        let start = SIZE.checked_sub(secret.len()).ok_or("InvalidEncoding")?;
        number.iter_mut().skip(start).zip(secret).for_each(|(digit, given)| *digit = *given);
        let key = SigningKey::from_slice(&number).map_err(|_| "InvalidComponent")?;
        match VerifyingKey::from_sec1_bytes(point) {
            Ok(public) if public == *key.verifying_key() => Ok(KeyPair(key)),
            _ => Err("InconsistentComponents"),
        }
    }

    /// Signs a message (ES512).
    pub fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let signature: Signature = self.0.try_sign(message).ok()?;
        Some(signature.to_bytes().to_vec())
    }
}
