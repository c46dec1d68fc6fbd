//! JSON web tokens: signed claims (RFC 7515, RFC 7519).
//!
//! What is accepted is decided by keys, never by tokens: an algorithm is tried only with a key of its
//! own kind, so neither `none` nor a public key taken for a shared secret can come to pass.

mod algorithm;
mod jwk;
mod key;
mod p521;

use std::fmt;

use kevel_api::value::{Map, Value};
use kevel_codec::{base64, json};

pub use self::algorithm::ALGORITHMS;
pub use self::key::{PrivateKey, PublicKey};

/// The longest token that is looked at: more than any header of a request may have.
const LONGEST: usize = 1 << 20;

/// A token that was taken apart. Nothing in it is to be believed before it is
/// [verified](Token::verify).
pub struct Token<'a> {
    algorithm: String,
    key_id: String,
    claims: Value,
    signed: &'a str,
    signature: Vec<u8>,
}

impl fmt::Debug for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the token.
        f.debug_struct("Token").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

impl<'a> Token<'a> {
    /// Takes a token apart; `None` if it is none, or one that says things twice.
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
        // What is critical has to be understood (RFC 7515, section 4.1.11), and nothing is here.
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

    /// Which key it says to be signed with; empty if it does not say.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// How it says to be signed.
    pub fn algorithm(&self) -> &str {
        &self.algorithm
    }

    /// What it claims, which may be a lie.
    pub fn unverified(&self) -> &Value {
        &self.claims
    }

    /// What it claims, if one of the keys has signed it.
    pub fn verify<'k>(self, keys: impl IntoIterator<Item = &'k PublicKey>) -> Option<Value> {
        let verified = keys.into_iter().any(|key| self.is_signed_with(key));
        verified.then_some(self.claims)
    }

    /// Whether the owner of a key has signed it.
    pub fn is_signed_with(&self, key: &PublicKey) -> bool {
        key.verify(&self.algorithm, self.signed.as_bytes(), &self.signature)
    }
}

/// A token of these claims.
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

/// A point in time among the claims, in seconds; an error if it is something else.
pub fn time_claim(claims: &Value, name: &str) -> Result<Option<i64>, String> {
    match claims.at(&[name]) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Int(seconds)) => Ok(Some(*seconds)),
        // Go's conversion of what is out of range is a number, too; ours is the nearest.
        Some(Value::Float(seconds)) => Ok(Some(*seconds as i64)),
        Some(_) => Err(format!("claim {name} is not a time")),
    }
}

/// The audiences among the claims: a string or a list of strings.
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

/// A part of a token, which has to be an object whose fields are there once.
fn object(part: &str) -> Option<Value> {
    let text = base64::decode_url(part)?;
    let decoded = json::decode_any(&text, json::Unknown::Report).ok()?;
    (decoded.strict.is_empty() && decoded.value.as_map().is_some()).then_some(decoded.value)
}

#[cfg(test)]
mod tests;
