//! Groups that a token does not tell, but where to ask for them.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::issuer::{TokenIssuer, new_key};
use super::{forge, now, refusal, sign, start, until};

/// Document at `/claims`, for the bearer of `of-jane`.
type Shown = Arc<Mutex<String>>;

async fn issuing(shown: &Shown) -> TokenIssuer {
    let shown = shown.clone();
    let issuer = TokenIssuer::with(new_key(), move |asked| {
        Some(match (asked.path, asked.authorization) {
            ("/claims", "Bearer of-jane") => (200, shown.lock().unwrap().clone()),
            ("/claims", _) => (403, String::new()),
            ("/moved", _) => (302, "/claims".to_owned()),
            _ => return None,
        })
    });
    issuer.await
}

fn flags(issuer: &TokenIssuer) -> [String; 6] {
    let ca = issuer.file("ca.crt", &issuer.outside.ca);
    [
        format!("--oidc-issuer-url={}", issuer.outside.url),
        format!("--oidc-ca-file={}", ca.display()),
        "--oidc-client-id=kubernetes".to_owned(),
        "--oidc-groups-claim=groups".to_owned(),
        "--oidc-username-prefix=-".to_owned(),
        "--oidc-signing-algs=ES256".to_owned(),
    ]
}

/// A token that says where its bearer's groups are. Each is another, so that none is remembered.
fn elsewhere(issuer: &TokenIssuer, endpoint: &str, access_token: &str) -> String {
    let mut claims = issuer.claims(json!({
        "_claim_names": {"groups": "there"},
        "_claim_sources": {"there": {"endpoint": endpoint, "access_token": access_token}},
        "jti": uuid(),
    }));
    claims.as_object_mut().unwrap().remove("groups");
    sign(&issuer.key, &claims)
}

fn uuid() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    kevel_codec::base64::encode_url(key.public_key_raw())
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_may_be_elsewhere() {
    let shown = Shown::default();
    let issuer = issuing(&shown).await;
    let cluster = start(&flags(&issuer)).await;
    let url = &issuer.outside.url;
    let endpoint = format!("{url}/claims");
    let show = |text: String| *shown.lock().unwrap() = text;
    let tell = |changes: Value| show(issuer.token(changes));
    let groups = async |token: &str| {
        let user = cluster.bearer(token).whoami(&[]).await;
        user.map(|user| user["groups"].clone())
    };
    until(async || cluster.bearer(&issuer.token(json!({}))).username().await.is_some()).await;

    tell(json!({"groups": ["a", "b"]}));
    let expected = Some(json!(["a", "b", "system:authenticated"]));
    assert_eq!(groups(&elsewhere(&issuer, &endpoint, "of-jane")).await, expected);
    assert_eq!(groups(&elsewhere(&issuer, &format!("{url}/moved"), "of-jane")).await, expected);
    tell(json!({"groups": "one"}));
    let expected = Some(json!(["one", "system:authenticated"]));
    assert_eq!(groups(&elsewhere(&issuer, &endpoint, "of-jane")).await, expected);

    // What the token tells itself counts, and what it says nothing of is not looked for.
    let told = json!({
        "_claim_names": {"groups": "there"},
        "_claim_sources": {"there": {"endpoint": "https://localhost:1/"}},
    });
    let expected = Some(json!(["devs", "system:authenticated"]));
    assert_eq!(groups(&issuer.token(told)).await, expected);
    for sources in [json!({"there": {"JWT": "x.y.z"}}), json!({"there": {}})] {
        let mut claims = issuer.claims(json!({
            "_claim_names": {"groups": "there"}, "_claim_sources": sources, "jti": uuid(),
        }));
        claims.as_object_mut().unwrap().remove("groups");
        let expected = Some(json!(["system:authenticated"]));
        assert_eq!(groups(&sign(&issuer.key, &claims)).await, expected);
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_sources_need_a_trusted_certificate() {
    let shown = Shown::default();
    let issuer = issuing(&shown).await;
    let cluster = start(&flags(&issuer)).await;
    let url = &issuer.outside.url;
    let endpoint = format!("{url}/claims");
    until(async || cluster.bearer(&issuer.token(json!({}))).username().await.is_some()).await;
    let (stranger, _) = new_key();
    let prefix = "oidc: could not expand distributed claims:";

    // The place.
    let unreachable = "https://localhost:1/claims";
    for (endpoint, token, expected) in [
        (
            &*endpoint,
            "of-joe",
            "error while getting distributed claim JWT: 403 Forbidden".to_owned(),
        ),
        (&*endpoint, "", "error while getting distributed claim JWT: 403 Forbidden".to_owned()),
        (
            unreachable,
            "of-jane",
            format!("Get \"{unreachable}\": dial tcp localhost:1: connect: connection refused"),
        ),
        (
            "http://localhost:1/",
            "of-jane",
            "Get \"http://localhost:1/\": URL scheme must be https".to_owned(),
        ),
    ] {
        let refusal = refusal(&cluster, &elsewhere(&issuer, endpoint, token), &[]).await;
        let expected = format!("{prefix} while getting distributed claim \"groups\": {expected}");
        assert_eq!(refusal, expected);
    }

    // What is told there.
    let good = issuer.claims(json!({"groups": ["system:masters"]}));
    let with = |name: &str, value: Value| issuer.token(json!({"groups": ["a"], name: value}));
    let broken = "verify distributed claim token: failed to verify signature: failed to verify id \
                  token signature";
    let mut without = good.clone();
    without.as_object_mut().unwrap().remove("groups");
    for (text, expected) in [
        (sign(&stranger, &good), broken.to_owned()),
        (
            forge(&json!({"alg": "none"}), &good, |_| Vec::new()),
            "verify distributed claim token: oidc: id token signed with unsupported algorithm, \
             expected [\"ES256\"] got \"none\""
                .to_owned(),
        ),
        (
            with("aud", json!("other")),
            "verify distributed claim token: oidc: expected audience \"kubernetes\" got [\"other\"]"
                .to_owned(),
        ),
        (
            with("exp", json!(5)),
            "verify distributed claim token: oidc: token is expired (Token Expiry: \
             1970-01-01T00:00:05Z)"
                .to_owned(),
        ),
        (
            with("iss", json!("https://localhost:1")),
            "verifying untrusted issuer https://localhost:1 failed: verifier not initialized for \
             issuer: \"https://localhost:1\""
                .to_owned(),
        ),
        (
            with("iss", json!("http://localhost:1")),
            "verifying untrusted issuer http://localhost:1 failed: verifier not initialized for \
             issuer: \"http://localhost:1\""
                .to_owned(),
        ),
        (
            sign(&issuer.key, &without),
            format!("jwt returned by distributed claim endpoint \"{endpoint}\" did not contain claim: groups"),
        ),
        (
            r#"{"groups": ["a"]}"#.to_owned(),
            format!("getting untrusted issuer from endpoint {endpoint} failed for claim \"groups\": malformed token"),
        ),
    ] {
        *shown.lock().unwrap() = text;
        let refusal = refusal(&cluster, &elsewhere(&issuer, &endpoint, "of-jane"), &[]).await;
        assert_eq!(refusal, format!("{prefix} {expected}"));
    }

    // Where the token says that it is.
    for (names, sources, expected) in [
        (
            json!({"groups": "a"}),
            json!({"b": {}}),
            "oidc: verify token: oidc: source does not exist",
        ),
        (
            json!({"groups": ""}),
            json!({"": {}}),
            "oidc: verify token: oidc: failed to obtain source from claim name",
        ),
        (
            json!({"groups": 7}),
            json!({"7": {}}),
            "oidc: verify token: oidc: failed to obtain source from claim name",
        ),
        (
            json!(["groups"]),
            json!({}),
            "oidc: verify token: oidc: failed to unmarshal claims: _claim_names is not an object",
        ),
        (json!({"other": "a"}), json!(null), "oidc: verify token: oidc: source does not exist"),
    ] {
        let claims = json!({"_claim_names": names, "_claim_sources": sources, "exp": now() + 60});
        assert_eq!(refusal(&cluster, &issuer.token(claims), &[]).await, expected);
    }
    cluster.stop().await;
}
