//! Forged and modified service-account tokens.

use kevel_auth::jose::PrivateKey;
use serde_json::{Value, json};

use super::{Cluster, claims, confused, forge, refusal, start};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// A token as its three parts.
fn parts(token: &str) -> [String; 3] {
    let parts: Vec<String> = token.split('.').map(str::to_owned).collect();
    parts.try_into().unwrap()
}

fn encode(value: &Value) -> String {
    kevel_codec::base64::encode_url(value.to_string().as_bytes())
}

fn header(token: &str) -> Value {
    let bytes = kevel_codec::base64::decode_url(&parts(token)[0]).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// An object with one field changed.
fn with(object: &Value, field: &str, value: Value) -> Value {
    let mut changed = object.clone();
    changed[field] = value;
    changed
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_were_changed_are_nobodys() {
    let cluster = start(&[]).await;
    let good = token(&cluster).await;
    let bot = Some("system:serviceaccount:default:bot".to_owned());
    assert_eq!(cluster.bearer(&good).username().await, bot);
    let [head, body, signature] = parts(&good);
    let said = claims(&good);
    let admin = with(&said, "sub", json!("system:serviceaccount:kube-system:admin"));
    let forever = with(&said, "exp", json!(i64::MAX));
    let elsewhere = with(&said, "aud", json!(["https://elsewhere"]));
    let none = encode(&json!({"alg": "none"}));
    let mut flipped = signature.clone().into_bytes();
    flipped[0] = if flipped[0] == b'A' { b'B' } else { b'A' };
    let flipped = String::from_utf8(flipped).unwrap();
    for (what, token) in [
        ("another subject", format!("{head}.{}.{signature}", encode(&admin))),
        ("a longer life", format!("{head}.{}.{signature}", encode(&forever))),
        ("another audience", format!("{head}.{}.{signature}", encode(&elsewhere))),
        ("claims written otherwise", format!("{head}.{}.{signature}", encode_spaced(&said))),
        ("another header", format!("{none}.{body}.{signature}")),
        ("a bit of the signature", format!("{head}.{body}.{flipped}")),
        ("half a signature", format!("{head}.{body}.{}", &signature[..signature.len() / 2])),
        ("a longer signature", format!("{head}.{body}.{signature}AAAA")),
        ("no signature", format!("{head}.{body}.")),
        ("no third part", format!("{head}.{body}")),
        ("four parts", format!("{good}.{signature}")),
        ("an empty header", format!(".{body}.{signature}")),
        ("padding", format!("{head}.{body}.{signature}==")),
        ("twice", format!("{good}{good}")),
        ("upper case", good.to_uppercase()),
    ] {
        assert_eq!(cluster.bearer(&token).username().await, None, "{what}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_say_how_to_verify_them_are_not_believed() {
    let cluster = start(&[]).await;
    let good = token(&cluster).await;
    let said = claims(&good);
    let ours = header(&good);
    let public = std::fs::read_to_string(cluster.folder.path().join("pki/sa.pub")).unwrap();
    let stranger = rcgen::KeyPair::generate().unwrap();
    let stranger = PrivateKey::from_pem(stranger.serialize_pem().as_bytes()).unwrap();
    let jwk: Value = serde_json::from_str(&stranger.public().to_jwk()).unwrap();
    let by_stranger = |message: &[u8]| stranger.sign(message).unwrap();
    let nothing = |_: &[u8]| Vec::new();
    let by_empty = |message: &[u8]| confused("")(message);
    let mut forged = Vec::new();
    for name in ["none", "None", "NONE", "nOnE", ""] {
        forged.push((name.to_owned(), forge(&json!({"alg": name}), &said, nothing)));
        let named = with(&ours, "alg", json!(name));
        forged.push((format!("{name} under our name"), forge(&named, &said, nothing)));
    }
    // The public key as a secret that is shared; an empty one.
    for name in ["HS256", "HS384", "HS512"] {
        let named = with(&ours, "alg", json!(name));
        forged.push((name.to_owned(), forge(&named, &said, confused(&public))));
        forged.push((format!("{name}, empty"), forge(&named, &said, by_empty)));
    }
    // Keys that the token brings, or says where they are.
    for (field, value) in [
        ("jwk", jwk.clone()),
        ("jku", json!("https://127.0.0.1:1/keys")),
        ("x5u", json!("https://127.0.0.1:1/certificate")),
        ("x5c", json!(["MIIB"])),
        ("kid", json!("../../../../dev/null")),
        ("kid", json!("' OR 1=1 --")),
        ("kid", json!("")),
        ("kid", jwk["kid"].clone()),
        ("kid", json!(["a", "b"])),
        ("crit", json!(["exp"])),
        ("zip", json!("DEF")),
        ("alg", json!(["none", "ES256"])),
    ] {
        let named = with(&ours, field, value);
        forged.push((format!("{field}, another key"), forge(&named, &said, by_stranger)));
    }
    for (what, token) in &forged {
        assert_eq!(cluster.bearer(token).username().await, None, "{what}");
    }
    assert!(forged.len() >= 20);
    // A TokenReview accepts none of them, either.
    for (what, token) in &forged {
        assert_ne!(refusal(&cluster, token, &[]).await, "", "{what}");
    }
    cluster.stop().await;
}

async fn token(cluster: &Cluster) -> String {
    let admin = &cluster.admin;
    admin.create(ACCOUNTS, &json!({"metadata": {"name": "bot"}})).await;
    let (code, made) = admin.post(&format!("{ACCOUNTS}/bot/token"), &json!({"spec": {}})).await;
    assert_eq!(code, 201, "{made}");
    made["status"]["token"].as_str().unwrap().to_owned()
}

/// The same claims, in other bytes.
fn encode_spaced(claims: &Value) -> String {
    let text = format!(" {claims} ");
    kevel_codec::base64::encode_url(text.as_bytes())
}
