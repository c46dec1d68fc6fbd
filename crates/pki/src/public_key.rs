//! Public keys of certificates and requests, and verification of signatures.

use p521::ecdsa::signature::hazmat::PrehashVerifier as _;
use ring::digest::{self, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512};
use ring::signature::{self as rings, VerificationAlgorithm};

use super::der::{self, Reader};

/// Object identifiers of key algorithms, DER-encoded.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// Curves that Go supports: object identifier, name, bytes of a coordinate.
const CURVES: &[(&[u8], &str, usize)] = &[
    (&[0x2b, 0x81, 4, 0, 0x21], "P-224", 28),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7], "P-256", 32),
    (&[0x2b, 0x81, 4, 0, 0x22], "P-384", 48),
    (&[0x2b, 0x81, 4, 0, 0x23], "P-521", 66),
];

/// Minimum RSA key size of the reference.
const MIN_RSA_BITS: usize = 1024;

const UNIMPLEMENTED: &str = "x509: cannot verify signature: algorithm unimplemented";

/// A public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey<'a> {
    /// Kind of the key.
    pub kind: KeyKind,
    /// Encoded key: a point, or a SEQUENCE of numbers.
    pub key: &'a [u8],
}

/// Kind of a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA, with the bits of its modulus, in whole bytes.
    Rsa(usize),
    /// ECDSA on this curve.
    Ecdsa(&'static str),
    /// Ed25519 (RFC 8410).
    Ed25519,
    /// Unsupported algorithm.
    Unknown,
}

/// Signature algorithm: key kind and hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureAlgorithm {
    /// RSA with PKCS #1 v1.5.
    Rsa(Hash),
    /// RSA with PSS.
    RsaPss(Hash),
    /// ECDSA on any curve.
    Ecdsa(Hash),
    /// Ed25519, which includes its hash.
    Ed25519,
    /// Outdated algorithm that is not trusted, by name.
    Insecure(&'static str),
    /// Unsupported algorithm.
    Unknown,
}

/// Hash of a signature algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA-1, which is not trusted.
    Sha1,
    /// SHA-256
    Sha256,
    /// SHA-384
    Sha384,
    /// SHA-512
    Sha512,
}

impl<'a> PublicKey<'a> {
    /// Parses a key with its algorithm (`SubjectPublicKeyInfo`).
    pub fn parse(info: &'a [u8]) -> Result<Self, &'static str> {
        let mut info = Reader(info).open(der::SEQUENCE).ok_or("x509: malformed spki")?;
        let mut algorithm =
            info.open(der::SEQUENCE).ok_or("x509: malformed public key algorithm identifier")?;
        let kind = algorithm.read(der::OBJECT_IDENTIFIER).ok_or("x509: malformed OID")?.contents;
        let parameters = algorithm.0;
        let key = info.read(der::BIT_STRING).and_then(|bits| bits.contents.strip_prefix(&[0]));
        let key = key.ok_or("x509: malformed subjectPublicKey")?;
        let kind = match kind {
            RSA => rsa(parameters, key)?,
            EC => ecdsa(parameters, key)?,
            ED25519 if !parameters.is_empty() => {
                return Err("x509: Ed25519 key encoded with illegal parameters");
            }
            ED25519 if key.len() != 32 => return Err("x509: wrong Ed25519 public key size"),
            ED25519 => KeyKind::Ed25519,
            _ => KeyKind::Unknown,
        };
        Ok(PublicKey { kind, key })
    }

    /// Verifies a signature of a message; the error has the reference's text.
    pub fn verify(
        &self,
        algorithm: SignatureAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), String> {
        use SignatureAlgorithm::*;
        let expected = match algorithm {
            Rsa(_) | RsaPss(_) => "RSA",
            Ecdsa(_) => "ECDSA",
            SignatureAlgorithm::Ed25519 => "Ed25519",
            Insecure(name) => {
                return Err(format!("x509: cannot verify signature: insecure algorithm {name}"));
            }
            Unknown => return Err(UNIMPLEMENTED.to_owned()),
        };
        let (found, ty, failure) = match self.kind {
            KeyKind::Rsa(_) => ("RSA", "*rsa.PublicKey", "crypto/rsa: verification error"),
            KeyKind::Ecdsa(_) => ("ECDSA", "*ecdsa.PublicKey", "x509: ECDSA verification failure"),
            KeyKind::Ed25519 => {
                ("Ed25519", "ed25519.PublicKey", "x509: Ed25519 verification failure")
            }
            KeyKind::Unknown => return Err(UNIMPLEMENTED.to_owned()),
        };
        if found != expected {
            return Err(format!(
                "x509: signature algorithm specifies an {expected} public key, but have public \
                 key of type {ty}"
            ));
        }
        if let KeyKind::Rsa(bits) = self.kind
            && bits < MIN_RSA_BITS
        {
            return Err(format!(
                "crypto/rsa: {bits}-bit keys are insecure (see \
                 https://go.dev/pkg/crypto/rsa#hdr-Minimum_key_size)"
            ));
        }
        let verified = match (self.kind, algorithm) {
            (KeyKind::Ecdsa("P-521"), Ecdsa(hash)) => {
                verify_p521(self.key, hash, message, signature)
            }
            _ => {
                let verifier = verifier(self.kind, algorithm).ok_or(UNIMPLEMENTED)?;
                let key = rings::UnparsedPublicKey::new(verifier, self.key);
                key.verify(message, signature).is_ok()
            }
        };
        if verified { Ok(()) } else { Err(failure.to_owned()) }
    }
}

fn rsa(parameters: &[u8], key: &[u8]) -> Result<KeyKind, &'static str> {
    if parameters != [der::NULL, 0] {
        return Err("x509: RSA key missing NULL parameters");
    }
    let mut numbers = Reader(key).open(der::SEQUENCE).ok_or("x509: invalid RSA public key")?;
    let modulus = numbers.read(der::INTEGER).ok_or("x509: invalid RSA modulus")?.contents;
    let exponent = numbers.read(der::INTEGER).ok_or("x509: invalid RSA public exponent")?.contents;
    let positive = |number: &[u8]| {
        number.first().is_some_and(|first| *first < 0x80) && number.iter().any(|byte| *byte > 0)
    };
    if !positive(modulus) {
        return Err("x509: RSA modulus is not a positive number");
    }
    if !positive(exponent) {
        return Err("x509: RSA public exponent is not a positive number");
    }
    let digits = modulus.iter().skip_while(|byte| **byte == 0).count();
    Ok(KeyKind::Rsa(digits * 8))
}

fn ecdsa(parameters: &[u8], key: &[u8]) -> Result<KeyKind, &'static str> {
    let curve = Reader(parameters).read(der::OBJECT_IDENTIFIER);
    let curve = curve.ok_or("x509: invalid ECDSA parameters")?.contents;
    let known = CURVES.iter().find(|(identifier, ..)| *identifier == curve);
    let (_, name, size) = known.ok_or("x509: unsupported elliptic curve")?;
    // An uncompressed point: both coordinates.
    match key.first() == Some(&4) && key.len() == 1 + 2 * size {
        true => Ok(KeyKind::Ecdsa(name)),
        false => Err("x509: failed to unmarshal elliptic curve point"),
    }
}

/// Verification algorithm for a key and signature algorithm.
fn verifier(
    key: KeyKind,
    algorithm: SignatureAlgorithm,
) -> Option<&'static dyn VerificationAlgorithm> {
    use Hash::*;
    use SignatureAlgorithm as A;
    // Short RSA keys are accepted because the reference accepts them; signers may be stricter.
    let short = matches!(key, KeyKind::Rsa(bits) if bits < 2048);
    Some(match (key, algorithm) {
        (_, A::Rsa(Sha1)) => &rings::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
        (_, A::Rsa(Sha256)) => &rings::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
        (_, A::Rsa(Sha384)) if !short => &rings::RSA_PKCS1_2048_8192_SHA384,
        (_, A::Rsa(Sha512)) => &rings::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
        (_, A::RsaPss(Sha256)) if !short => &rings::RSA_PSS_2048_8192_SHA256,
        (_, A::RsaPss(Sha384)) if !short => &rings::RSA_PSS_2048_8192_SHA384,
        (_, A::RsaPss(Sha512)) if !short => &rings::RSA_PSS_2048_8192_SHA512,
        (KeyKind::Ecdsa("P-256"), A::Ecdsa(Sha256)) => &rings::ECDSA_P256_SHA256_ASN1,
        (KeyKind::Ecdsa("P-256"), A::Ecdsa(Sha384)) => &rings::ECDSA_P256_SHA384_ASN1,
        (KeyKind::Ecdsa("P-384"), A::Ecdsa(Sha256)) => &rings::ECDSA_P384_SHA256_ASN1,
        (KeyKind::Ecdsa("P-384"), A::Ecdsa(Sha384)) => &rings::ECDSA_P384_SHA384_ASN1,
        (_, A::Ed25519) => &rings::ED25519,
        _ => return None,
    })
}

/// Verifies ECDSA on P-521, which `ring` does not support.
fn verify_p521(point: &[u8], hash: Hash, message: &[u8], signature: &[u8]) -> bool {
    use p521::ecdsa::{Signature, VerifyingKey};
    let algorithm = match hash {
        Hash::Sha1 => &SHA1_FOR_LEGACY_USE_ONLY,
        Hash::Sha256 => &SHA256,
        Hash::Sha384 => &SHA384,
        Hash::Sha512 => &SHA512,
    };
    let digest = digest::digest(algorithm, message);
    let key = VerifyingKey::from_sec1_bytes(point);
    let (Ok(key), Ok(signature)) = (key, Signature::from_der(signature)) else { return false };
    key.verify_prehash(digest.as_ref(), &signature).is_ok()
}

/// Signature algorithms by identifier (without parameters).
const ALGORITHMS: &[(&[u8], SignatureAlgorithm)] = &[
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 2], SignatureAlgorithm::Insecure("MD2-RSA")),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 4], SignatureAlgorithm::Insecure("MD5-RSA")),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 5], SignatureAlgorithm::Rsa(Hash::Sha1)),
    (&[0x2b, 0x0e, 3, 2, 0x1d], SignatureAlgorithm::Rsa(Hash::Sha1)),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11], SignatureAlgorithm::Rsa(Hash::Sha256)),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 12], SignatureAlgorithm::Rsa(Hash::Sha384)),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 13], SignatureAlgorithm::Rsa(Hash::Sha512)),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1], SignatureAlgorithm::Ecdsa(Hash::Sha1)),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2], SignatureAlgorithm::Ecdsa(Hash::Sha256)),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3], SignatureAlgorithm::Ecdsa(Hash::Sha384)),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4], SignatureAlgorithm::Ecdsa(Hash::Sha512)),
    (ED25519, SignatureAlgorithm::Ed25519),
];

const RSA_PSS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 10];
const MGF1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 8];

/// Hashes of RSA-PSS: last byte of the identifier, and required salt length.
const SHA2: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2];
const PSS_HASHES: [(u8, Hash, u8); 3] =
    [(1, Hash::Sha256, 32), (2, Hash::Sha384, 48), (3, Hash::Sha512, 64)];

impl SignatureAlgorithm {
    /// Algorithm of an identifier and its parameters.
    pub fn of(identifier: &[u8], parameters: &[u8]) -> Self {
        if identifier == RSA_PSS {
            return pss(parameters).map_or(SignatureAlgorithm::Unknown, SignatureAlgorithm::RsaPss);
        }
        let known = ALGORITHMS.iter().find(|(known, _)| *known == identifier);
        match known {
            Some((_, SignatureAlgorithm::Ed25519)) if !parameters.is_empty() => {
                SignatureAlgorithm::Unknown
            }
            Some((_, algorithm)) => *algorithm,
            None => SignatureAlgorithm::Unknown,
        }
    }
}

/// Hash of RSA-PSS parameters, which must be the same throughout.
fn pss(parameters: &[u8]) -> Option<Hash> {
    let hash = |algorithm: &mut Reader<'_>| {
        let mut algorithm = algorithm.open(der::SEQUENCE)?;
        let identifier = algorithm.read(der::OBJECT_IDENTIFIER)?.contents;
        let plain = algorithm.0.is_empty() || algorithm.0 == [der::NULL, 0];
        let last = identifier.strip_prefix(SHA2).filter(|last| plain && last.len() == 1)?;
        PSS_HASHES.iter().find(|(number, ..)| last == [*number])
    };
    let mut parameters = Reader(parameters).open(der::SEQUENCE)?;
    let (_, message_hash, salt) = hash(&mut parameters.open(der::context(0))?)?;
    let mut mask = parameters.open(der::context(1))?.open(der::SEQUENCE)?;
    let generates = mask.read(der::OBJECT_IDENTIFIER)?.contents == MGF1;
    let (_, mask_hash, _) = hash(&mut mask)?;
    let length = parameters.open(der::context(2))?.read(der::INTEGER)?.contents;
    (generates && mask_hash == message_hash && length == [*salt]).then_some(*message_hash)
}
