//! JSON Web Tokens: signed claims (RFC 7515, RFC 7519).
//!
//! Keys decide which algorithms are accepted, never tokens: an algorithm is only used with a key of its own kind. So
//! neither `none` nor a public key used as a shared secret can pass.

mod algorithm;
mod jwk;
mod key;
mod p521;

use std::fmt;

use kevel_api::value::{Map, Value};
use kevel_codec::{base64, json};

pub use self::algorithm::ALGORITHMS;
pub use self::key::{PrivateKey, PublicKey};

/// Maximum length of a token: more than any request header may have.
const LONGEST: usize = 1 << 20;

/// A parsed token. Not trusted before it is [verified](Token::verify).
pub struct Token<'a> {
    algorithm: String,
    key_id: String,
    claims: Value,
    signed: &'a str,
    signature: Vec<u8>,
}

impl fmt::Debug for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token itself is secret.
        f.debug_struct("Token").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

impl<'a> Token<'a> {
    /// Parses a token; `None` if it is malformed or has duplicate fields.
    pub fn parse(text: &'a str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        if claims.contains('.') {
            return None;
        }
        let header = object(header)?;
        // Critical header fields must be understood (RFC 7515, section 4.1.11), and none is supported.
        if header.at(&["crit"]).is_some() {
            return None;
        }
        Some(Token {
            algorithm: header.str_at(&["alg"]).to_owned(),
            key_id: header.str_at(&["kid"]).to_owned(),
            claims: object(claims)?,
            signed,
            signature: base64::decode_url(signature)?,
        })
    }

    /// Key ID in the header; empty if there is none.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// Algorithm in the header.
    pub fn algorithm(&self) -> &str {
        &self.algorithm
    }

    /// Claims, not verified.
    pub fn unverified(&self) -> &Value {
        &self.claims
    }

    /// Claims, if one of the keys has signed the token.
    pub fn verify<'k>(self, keys: impl IntoIterator<Item = &'k PublicKey>) -> Option<Value> {
        let verified = keys.into_iter().any(|key| self.is_signed_with(key));
        verified.then_some(self.claims)
    }

    /// True if the key has signed the token.
    pub fn is_signed_with(&self, key: &PublicKey) -> bool {
        key.verify(&self.algorithm, self.signed.as_bytes(), &self.signature)
    }
}

/// Signs a token with these claims.
pub fn sign(key: &PrivateKey, claims: &Value) -> Result<String, String> {
    let header = Map::from_iter([
        ("alg", Value::from(key.algorithm())),
        ("kid", Value::from(key.public().id())),
    ]);
    let [header, claims] = [&Value::from(header), claims].map(|part| {
        let mut text = Vec::new();
        json::encode_any(part, &mut text);
        base64::encode_url(&text)
    });
    let signed = format!("{header}.{claims}");
    let signature = base64::encode_url(&key.sign(signed.as_bytes())?);
    Ok(format!("{signed}.{signature}"))
}

/// Signature (HS256) of a text with a secret, without the text itself (RFC 7515, appendix F).
pub fn sign_detached(content: &str, key_id: &str, secret: &str) -> String {
    let header = Map::from_iter([("alg", Value::from("HS256")), ("kid", key_id.into())]);
    let mut text = Vec::new();
    json::encode_any(&Value::from(header), &mut text);
    let header = base64::encode_url(&text);
    let signed = format!("{header}.{}", base64::encode_url(content.as_bytes()));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    let signature = ring::hmac::sign(&key, signed.as_bytes());
    format!("{header}..{}", base64::encode_url(signature.as_ref()))
}

/// Time claim in seconds; an error if it is not a number.
pub fn time_claim(claims: &Value, name: &str) -> Result<Option<i64>, String> {
    match claims.at(&[name]) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Int(seconds)) => Ok(Some(*seconds)),
        // Out of range, Go's conversion gives an arbitrary number; this one the nearest.
        Some(Value::Float(seconds)) => Ok(Some(*seconds as i64)),
        Some(_) => Err(format!("claim {name} is not a time")),
    }
}

/// Audience claim: a string or a list of strings.
pub fn audience_claim(claims: &Value) -> Result<Vec<String>, String> {
    let wrong = || "claim aud is neither a string nor a list of strings".to_owned();
    match claims.at(&["aud"]) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(one)) => Ok(vec![one.to_string()]),
        Some(Value::List(all)) => {
            let all = all.iter().map(|one| one.as_str().map(str::to_owned));
            all.collect::<Option<_>>().ok_or_else(wrong)
        }
        Some(_) => Err(wrong()),
    }
}

/// Decodes a part of a token, which must be an object without duplicate fields.
fn object(part: &str) -> Option<Value> {
    let text = base64::decode_url(part)?;
    let decoded = json::decode_any(&text, json::Unknown::Report).ok()?;
    (decoded.strict.is_empty() && decoded.value.as_map().is_some()).then_some(decoded.value)
}

#[cfg(test)]
mod tests;
