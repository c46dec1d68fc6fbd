//! Signature algorithms of tokens (RFC 7518, section 3).

use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};

use super::p521;

/// Kind of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Rsa,
    P256,
    P384,
    P521,
}

/// Signature algorithm.
#[derive(Debug)]
pub struct Algorithm {
    pub name: &'static str,
    /// Kind of key that the algorithm may be used with.
    pub kind: Kind,
    verification: Verification,
}

/// Implementation of the verification.
#[derive(Debug)]
enum Verification {
    Ring(&'static dyn VerificationAlgorithm),
    P521,
}

impl Algorithm {
    /// Verifies a signature with a key of this algorithm's kind.
    pub(super) fn verify(&self, key: &[u8], message: &[u8], signature: &[u8]) -> bool {
        match self.verification {
            Verification::Ring(algorithm) => {
                UnparsedPublicKey::new(algorithm, key).verify(message, signature).is_ok()
            }
            Verification::P521 => p521::verify(key, message, signature),
        }
    }
}

/// All supported algorithms. None of them is symmetric.
pub static ALGORITHMS: [Algorithm; 9] = [
    rsa("RS256", &signature::RSA_PKCS1_2048_8192_SHA256),
    rsa("RS384", &signature::RSA_PKCS1_2048_8192_SHA384),
    rsa("RS512", &signature::RSA_PKCS1_2048_8192_SHA512),
    rsa("PS256", &signature::RSA_PSS_2048_8192_SHA256),
    rsa("PS384", &signature::RSA_PSS_2048_8192_SHA384),
    rsa("PS512", &signature::RSA_PSS_2048_8192_SHA512),
    Algorithm {
        name: "ES256",
        kind: Kind::P256,
        verification: Verification::Ring(&signature::ECDSA_P256_SHA256_FIXED),
    },
    Algorithm {
        name: "ES384",
        kind: Kind::P384,
        verification: Verification::Ring(&signature::ECDSA_P384_SHA384_FIXED),
    },
    Algorithm { name: "ES512", kind: Kind::P521, verification: Verification::P521 },
];

const fn rsa(name: &'static str, verification: &'static dyn VerificationAlgorithm) -> Algorithm {
    Algorithm { name, kind: Kind::Rsa, verification: Verification::Ring(verification) }
}

/// Algorithm by name, for keys of a kind.
pub fn find(name: &str, kind: Kind) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().find(|algorithm| algorithm.name == name && algorithm.kind == kind)
}
