//! Keys that sign and verify tokens, in PEM files.

use std::fmt;

use kevel_codec::base64;
use kevel_server::certificates::Certificate;
use kevel_server::certificates::der::{self, Reader, element};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, RSA_PKCS1_SHA256, RsaKeyPair,
};
use rustls::pki_types::pem::{PemObject as _, SectionKind};

use super::algorithm::{self, Kind};
use super::p521;

/// DER-encoded object identifiers.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];

/// Elliptic curve.
pub(super) struct Curve {
    identifier: &'static [u8],
    pub kind: Kind,
    /// Name in JSON Web Keys.
    pub name: &'static str,
    algorithm: &'static str,
    /// Size of a coordinate in bytes.
    pub size: usize,
}

pub(super) static CURVES: [Curve; 3] = [
    Curve {
        identifier: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7],
        kind: Kind::P256,
        name: "P-256",
        algorithm: "ES256",
        size: 32,
    },
    Curve {
        identifier: &[0x2b, 0x81, 4, 0, 34],
        kind: Kind::P384,
        name: "P-384",
        algorithm: "ES384",
        size: 48,
    },
    Curve {
        identifier: &[0x2b, 0x81, 4, 0, 35],
        kind: Kind::P521,
        name: "P-521",
        algorithm: "ES512",
        size: 66,
    },
];

impl Curve {
    /// Curve of a kind of key; `None` for RSA.
    pub fn of(kind: Kind) -> Option<&'static Curve> {
        CURVES.iter().find(|curve| curve.kind == kind)
    }
}

/// Key that verifies tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    kind: Kind,
    /// RSA: modulus and exponent, DER-encoded (PKCS #1). ECDSA: the uncompressed point.
    material: Vec<u8>,
    id: String,
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({:?} {})", self.kind, self.id)
    }
}

impl PublicKey {
    /// All keys of a PEM file: public keys, and those of private keys and certificates.
    pub fn all_from_pem(pem: &[u8]) -> Result<Vec<Self>, String> {
        let mut keys = Vec::new();
        for (_, der) in sections(pem) {
            let private = || Private::read(&der).map(|private| private.public);
            let certified =
                || Certificate::read(&der).and_then(|c| PublicKey::from_spki(c.public_key()));
            keys.extend(private().or_else(|| PublicKey::from_spki(&der)).or_else(certified));
        }
        match keys.is_empty() {
            true => Err("data does not contain any valid RSA or ECDSA public keys".to_owned()),
            false => Ok(keys),
        }
    }

    pub(super) fn new(kind: Kind, material: Vec<u8>) -> Self {
        let spki = spki(kind, &material);
        // A hash, so that the ID does not disclose the key.
        let id = base64::encode_url(digest(&SHA256, &spki).as_ref());
        PublicKey { kind, material, id }
    }

    /// The key with another ID.
    pub(crate) fn with_id(mut self, id: &str) -> Self {
        id.clone_into(&mut self.id);
        self
    }

    /// Reads a SubjectPublicKeyInfo (RFC 5280).
    pub(crate) fn from_spki(der: &[u8]) -> Option<Self> {
        let mut spki = Reader(der).open(der::SEQUENCE)?;
        let mut algorithm = spki.open(der::SEQUENCE)?;
        let kind = kind(&mut algorithm)?;
        let (&unused, material) = spki.read(der::BIT_STRING)?.contents.split_first()?;
        if unused != 0 || (kind == Kind::Rsa && rsa_parts(material).is_none()) {
            return None;
        }
        Some(PublicKey::new(kind, material.to_vec()))
    }

    /// Key ID (`kid`).
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Algorithm of service account tokens that are signed with such a key.
    pub fn algorithm(&self) -> &'static str {
        Curve::of(self.kind).map_or("RS256", |curve| curve.algorithm)
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn material(&self) -> &[u8] {
        &self.material
    }

    /// Verifies the signature of a message by an algorithm.
    pub fn verify(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        let Some(algorithm) = algorithm::find(algorithm, self.kind) else { return false };
        algorithm.verify(&self.material, message, signature)
    }
}

/// Key that signs tokens.
pub struct PrivateKey {
    public: PublicKey,
    pair: Pair,
    random: SystemRandom,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ecdsa(Box<EcdsaKeyPair>),
    P521(Box<p521::KeyPair>),
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey of {:?}", self.public)
    }
}

impl PrivateKey {
    /// Reads the first private key of a PEM file.
    pub fn from_pem(pem: &[u8]) -> Result<Self, String> {
        let invalid = "data does not contain a valid RSA or ECDSA private key";
        let mut problem = invalid.to_owned();
        for (_, der) in sections(pem) {
            match Private::read(&der).map(PrivateKey::new) {
                Some(Ok(key)) => return Ok(key),
                Some(Err(error)) => problem = format!("{invalid}: {error}"),
                None => {}
            }
        }
        Err(problem)
    }

    fn new(private: Private<'_>) -> Result<Self, String> {
        let random = SystemRandom::new();
        let point = &private.public.material;
        let pair = match private.secret {
            Secret::Rsa(pkcs1) => RsaKeyPair::from_der(pkcs1)
                .map(|pair| Pair::Rsa(Box::new(pair)))
                .map_err(|error| error.to_string()),
            Secret::Ecdsa(signing, secret) => {
                EcdsaKeyPair::from_private_key_and_public_key(signing, secret, point, &random)
                    .map(|pair| Pair::Ecdsa(Box::new(pair)))
                    .map_err(|error| error.to_string())
            }
            Secret::P521(secret) => p521::KeyPair::new(secret, point)
                .map(|pair| Pair::P521(Box::new(pair)))
                .map_err(str::to_owned),
        }?;
        Ok(PrivateKey { public: private.public, pair, random })
    }

    /// Public key that verifies the signatures.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signature algorithm.
    pub fn algorithm(&self) -> &'static str {
        self.public.algorithm()
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        const FAILED: &str = "the key cannot sign";
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &self.random, message, &mut signature)
                    .map_err(|_| FAILED)?;
                Ok(signature)
            }
            Pair::Ecdsa(pair) => {
                let signature = pair.sign(&self.random, message).map_err(|_| FAILED)?;
                Ok(signature.as_ref().to_vec())
            }
            Pair::P521(pair) => Ok(pair.sign(message).ok_or(FAILED)?),
        }
    }
}

/// A parsed private key.
struct Private<'a> {
    public: PublicKey,
    secret: Secret<'a>,
}

enum Secret<'a> {
    Rsa(&'a [u8]),
    Ecdsa(&'static EcdsaSigningAlgorithm, &'a [u8]),
    P521(&'a [u8]),
}

impl<'a> Private<'a> {
    /// Parses any of three forms: PKCS #1, PKCS #8, SEC 1.
    fn read(der: &'a [u8]) -> Option<Self> {
        Private::pkcs1(der).or_else(|| Private::pkcs8(der)).or_else(|| Private::sec1(der, None))
    }

    fn pkcs1(der: &'a [u8]) -> Option<Self> {
        let mut key = Reader(der).open(der::SEQUENCE)?;
        let _version = key.read(der::INTEGER)?;
        let (modulus, exponent) = (key.read(der::INTEGER)?, key.read(der::INTEGER)?);
        let _private_exponent = key.read(der::INTEGER)?;
        let material = element(der::SEQUENCE, &[modulus.whole, exponent.whole]);
        Some(Private { public: PublicKey::new(Kind::Rsa, material), secret: Secret::Rsa(der) })
    }

    fn pkcs8(der: &'a [u8]) -> Option<Self> {
        let mut outer = Reader(der).open(der::SEQUENCE)?;
        let _version = outer.read(der::INTEGER)?;
        let kind = kind(&mut outer.open(der::SEQUENCE)?)?;
        let inner = outer.read(der::OCTET_STRING)?.contents;
        match kind {
            Kind::Rsa => Private::pkcs1(inner),
            kind => Private::sec1(inner, Some(kind)),
        }
    }

    fn sec1(der: &'a [u8], outer: Option<Kind>) -> Option<Self> {
        let mut key = Reader(der).open(der::SEQUENCE)?;
        let _version = key.read(der::INTEGER)?;
        let secret = key.read(der::OCTET_STRING)?.contents;
        let named = key.open(der::context(0)).and_then(|mut name| curve(&mut name));
        let kind = outer.or(named)?;
        let public = key.open(der::context(1))?.read(der::BIT_STRING)?.contents;
        let point = public.strip_prefix(&[0])?;
        let secret = match kind {
            Kind::P256 => Secret::Ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING, secret),
            Kind::P384 => Secret::Ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING, secret),
            Kind::P521 => Secret::P521(secret),
            Kind::Rsa => return None,
        };
        Some(Private { public: PublicKey::new(kind, point.to_vec()), secret })
    }
}

/// Modulus and exponent of an encoded RSA key, as big-endian numbers without leading zeros.
pub(super) fn rsa_parts(material: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut key = Reader(material).open(der::SEQUENCE)?;
    let mut number = || {
        let digits = key.read(der::INTEGER)?.contents;
        Some(digits.strip_prefix(&[0]).unwrap_or(digits))
    };
    Some((number()?, number()?))
}

fn kind(algorithm: &mut Reader<'_>) -> Option<Kind> {
    match algorithm.read(der::OBJECT_IDENTIFIER)?.contents {
        RSA => Some(Kind::Rsa),
        EC => curve(algorithm),
        _ => None,
    }
}

fn curve(reader: &mut Reader<'_>) -> Option<Kind> {
    let name = reader.read(der::OBJECT_IDENTIFIER)?.contents;
    CURVES.iter().find(|curve| curve.identifier == name).map(|curve| curve.kind)
}

fn spki(kind: Kind, material: &[u8]) -> Vec<u8> {
    let algorithm = match Curve::of(kind) {
        None => {
            let name = element(der::OBJECT_IDENTIFIER, &[RSA]);
            element(der::SEQUENCE, &[&name, &[5, 0]])
        }
        Some(curve) => {
            let name = element(der::OBJECT_IDENTIFIER, &[EC]);
            let curve = element(der::OBJECT_IDENTIFIER, &[curve.identifier]);
            element(der::SEQUENCE, &[&name, &curve])
        }
    };
    let key = element(der::BIT_STRING, &[&[0], material]);
    element(der::SEQUENCE, &[&algorithm, &key])
}

/// Sections of a PEM file, up to the first broken one.
fn sections(pem: &[u8]) -> impl Iterator<Item = (SectionKind, Vec<u8>)> {
    <(SectionKind, Vec<u8>)>::pem_slice_iter(pem).map_while(Result::ok)
}
