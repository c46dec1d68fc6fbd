//! Authentication on a running server: every method, and every way to fail.

#![allow(clippy::unwrap_used)]

mod bootstrap_token;
mod client_certificate;
mod distributed;
mod external_signer;
mod forgeries;
mod front_proxy;
mod issuer;
mod liars;
mod outside;
mod service_account;
mod webhook;

use kevel_test_support::{Ca, Cluster, until};
use serde_json::Value;

/// A server with these flags alone.
async fn start(flags: &[String]) -> Cluster {
    Cluster::on(tempfile::tempdir().unwrap(), flags.to_vec()).await
}

/// Error of a token; empty if it is accepted.
async fn refusal(cluster: &Cluster, token: &str, audiences: &[&str]) -> String {
    let status = cluster.review(token, audiences).await;
    let error = status["error"].as_str().unwrap_or("").to_owned();
    assert_eq!(error.is_empty(), status["authenticated"] == true, "{status}");
    let reason = error.strip_prefix("[invalid bearer token, ");
    reason.and_then(|reason| reason.strip_suffix(']')).unwrap_or(&error).to_owned()
}

fn now() -> i64 {
    kevel_api::time::Time::now(&kevel_clock::Clock::system()).seconds
}

/// Claims of a token, without verification.
fn claims(token: &str) -> Value {
    let claims = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&kevel_codec::base64::decode_url(claims).unwrap()).unwrap()
}

fn sign(key: &kevel_auth::jose::PrivateKey, claims: &Value) -> String {
    let text = claims.to_string();
    let claims = kevel_codec::json::decode_any(text.as_bytes(), kevel_codec::json::Unknown::Ignore);
    kevel_auth::jose::sign(key, &claims.unwrap().value).unwrap()
}

/// Token with a missing signature, or with one that does not fit its header.
fn forge(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let [header, claims] =
        [header, claims].map(|part| kevel_codec::base64::encode_url(part.to_string().as_bytes()));
    let signed = format!("{header}.{claims}");
    let signature = kevel_codec::base64::encode_url(&sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

/// The public key taken for a shared secret.
fn confused(public: &str) -> impl Fn(&[u8]) -> Vec<u8> {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, public.as_bytes());
    move |message| ring::hmac::sign(&key, message).as_ref().to_vec()
}
