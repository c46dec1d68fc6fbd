//! JSON Web Keys (RFC 7517).

use std::fmt::Write as _;

use kevel_api::value::Value;
use kevel_codec::base64;
use kevel_server::certificates::der::{self, element};

use super::algorithm::Kind;
use super::key::{CURVES, Curve, PublicKey, rsa_parts};

/// Maximum size of an RSA modulus in bytes: that of the largest supported keys.
const LARGEST_MODULUS: usize = 1024;

impl PublicKey {
    /// JSON Web Key, with its fields in the reference's order.
    pub fn to_jwk(&self) -> String {
        let (id, algorithm) = (self.id(), self.algorithm());
        let curve = Curve::of(self.kind());
        let kty = if curve.is_some() { "EC" } else { "RSA" };
        let mut text = format!(r#"{{"use":"sig","kty":"{kty}","kid":"{id}""#);
        if let Some(curve) = curve {
            let _ = write!(text, r#","crv":"{}""#, curve.name);
        }
        let _ = write!(text, r#","alg":"{algorithm}""#);
        let (names, numbers) = match curve {
            None => (["n", "e"], rsa_parts(self.material())),
            Some(_) => (["x", "y"], point_parts(self.material())),
        };
        let (first, second) = numbers.unwrap_or_default();
        for (name, number) in names.iter().zip([first, second]) {
            let _ = write!(text, r#","{name}":"{}""#, base64::encode_url(number));
        }
        text.push('}');
        text
    }

    /// Reads a JSON Web Key; `None` if it is not a supported signature key.
    pub fn from_jwk(jwk: &Value) -> Option<Self> {
        if !matches!(jwk.str_at(&["use"]), "" | "sig") {
            return None;
        }
        let number = |name: &str| base64::decode_url(jwk.str_at(&[name])).filter(|n| !n.is_empty());
        let key = match jwk.str_at(&["kty"]) {
            "RSA" => {
                let (modulus, exponent) = (number("n")?, number("e")?);
                if modulus.len() > LARGEST_MODULUS || exponent.len() > 8 {
                    return None;
                }
                let material = element(der::SEQUENCE, &[&integer(&modulus), &integer(&exponent)]);
                PublicKey::new(Kind::Rsa, material)
            }
            "EC" => {
                let name = jwk.str_at(&["crv"]);
                let curve = CURVES.iter().find(|curve| curve.name == name)?;
                let (x, y) = (number("x")?, number("y")?);
                if [&x, &y].iter().any(|coordinate| coordinate.len() != curve.size) {
                    return None;
                }
                PublicKey::new(curve.kind, [&[4][..], &x, &y].concat())
            }
            _ => return None,
        };
        Some(key.with_id(jwk.str_at(&["kid"])))
    }
}

/// Coordinates of an uncompressed point.
fn point_parts(point: &[u8]) -> Option<(&[u8], &[u8])> {
    let numbers = point.strip_prefix(&[4])?;
    numbers.split_at_checked(numbers.len() / 2)
}

/// DER encoding of a non-negative integer.
fn integer(digits: &[u8]) -> Vec<u8> {
    let start = digits.iter().position(|digit| *digit != 0).unwrap_or(digits.len() - 1);
    let digits = digits.get(start..).unwrap_or_default();
    let sign: &[u8] = if digits.first().is_some_and(|first| *first >= 0x80) { &[0] } else { &[] };
    element(der::INTEGER, &[sign, digits])
}
