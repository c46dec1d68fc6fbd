use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use kevel_auth::jose::{PrivateKey, PublicKey};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::outside::{Asked, Outside, Reply, serve};
use super::{confused, forge, now, refusal, sign, start, until};

/// An issuer of tokens, whose keys may change.
pub struct TokenIssuer {
    pub outside: Outside,
    pub key: PrivateKey,
    public: String,
    shown: Arc<Mutex<PublicKey>>,
    folder: TempDir,
}

pub fn new_key() -> (PrivateKey, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    (PrivateKey::from_pem(key.serialize_pem().as_bytes()).unwrap(), key.public_key_pem())
}

impl TokenIssuer {
    pub async fn start() -> Self {
        TokenIssuer::with(new_key(), |_| None).await
    }

    /// An issuer with a key, that may answer otherwise than issuers do.
    pub async fn with(
        (key, public): (PrivateKey, String),
        answer: impl Fn(&Asked<'_>) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let shown = Arc::new(Mutex::new(key.public().clone()));
        let keys = shown.clone();
        let outside = serve(move |asked| {
            let own = asked.own;
            answer(asked).unwrap_or_else(|| match asked.path {
                "/.well-known/openid-configuration" => {
                    let keys = format!("{own}/keys?all=1");
                    (200, json!({"issuer": own, "jwks_uri": keys}).to_string())
                }
                "/keys" => (200, format!(r#"{{"keys":[{}]}}"#, keys.lock().unwrap().to_jwk())),
                _ => (404, String::new()),
            })
        })
        .await;
        TokenIssuer { outside, key, public, shown, folder: tempfile::tempdir().unwrap() }
    }

    pub fn claims(&self, changes: Value) -> Value {
        let mut claims = json!({
            "iss": self.outside.url, "aud": "kubernetes", "sub": "jane", "exp": now() + 600,
            "groups": ["devs"], "jti": "1",
        });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    }

    pub fn token(&self, changes: Value) -> String {
        sign(&self.key, &self.claims(changes))
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tokens_of_an_issuer_are_accepted() {
    let mut issuer = TokenIssuer::start().await;
    let ca = issuer.file("ca.crt", &issuer.outside.ca);
    let cluster = start(&[
        format!("--oidc-issuer-url={}", issuer.outside.url),
        format!("--oidc-ca-file={}", ca.display()),
        "--oidc-client-id=kubernetes".to_owned(),
        "--oidc-groups-claim=groups".to_owned(),
        "--oidc-groups-prefix=oidc:".to_owned(),
        "--oidc-required-claim=team=a".to_owned(),
        "--oidc-signing-algs=ES256".to_owned(),
    ])
    .await;
    let team = || json!({"team": "a"});
    let with = |name: &str, value: Value| {
        let mut changes = team();
        changes[name] = value;
        changes
    };
    until(async || cluster.bearer(&issuer.token(team())).username().await.is_some()).await;
    let user = cluster.bearer(&issuer.token(team())).whoami(&[]).await.unwrap();
    let expected = json!({
        "username": format!("{}#jane", issuer.outside.url),
        "groups": ["oidc:devs", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1"]},
    });
    assert_eq!(user, expected);
    let good = issuer.claims(team());
    let (stranger, _) = new_key();
    let es256 = json!({"alg": "ES256", "kid": issuer.key.public().id()});
    let algorithm = |name: &str| {
        format!(
            "oidc: verify token: oidc: id token signed with unsupported algorithm, expected \
             [\"ES256\"] got \"{name}\""
        )
    };
    let broken =
        "oidc: verify token: failed to verify signature: failed to verify id token signature";
    let invalid = "invalid bearer token";
    for (what, token, expected) in [
        (
            "audience",
            issuer.token(with("aud", json!(["other"]))),
            "oidc: verify token: oidc: expected audience \"kubernetes\" got [\"other\"]".to_owned(),
        ),
        ("issuer", issuer.token(with("iss", json!("https://other"))), invalid.to_owned()),
        (
            "claim",
            issuer.token(json!({"team": "b"})),
            "oidc: required claim team value does not match. Got = b, want = a".to_owned(),
        ),
        (
            "no claim",
            issuer.token(json!({})),
            "oidc: required claim team not present in ID token".to_owned(),
        ),
        ("other key", sign(&stranger, &good), broken.to_owned()),
        (
            "other key under its name",
            forge(&es256, &good, |m| stranger.sign(m).unwrap()),
            broken.to_owned(),
        ),
        ("none", forge(&json!({"alg": "none"}), &good, |_| Vec::new()), algorithm("none")),
        (
            "confusion",
            forge(&json!({"alg": "HS256"}), &good, confused(&issuer.public)),
            algorithm("HS256"),
        ),
    ] {
        assert_eq!(refusal(&cluster, &token, &[]).await, expected, "{what}");
        assert_eq!(cluster.bearer(&token).username().await, None, "{what}");
    }
    for changes in
        [with("exp", json!(now() - 1)), with("exp", Value::Null), with("nbf", json!(now() + 90))]
    {
        assert_eq!(cluster.bearer(&issuer.token(changes)).username().await, None);
    }
    // Another key, which the issuer shows before it uses it.
    (issuer.key, issuer.public) = new_key();
    *issuer.shown.lock().unwrap() = issuer.key.public().clone();
    assert!(cluster.bearer(&issuer.token(team())).username().await.is_some());
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_may_have_moved() {
    // Its configuration elsewhere on the same server, its keys on another one, more than once.
    let keys: Arc<Mutex<String>> = Arc::default();
    let shown = keys.clone();
    let elsewhere = serve(move |_| (200, shown.lock().unwrap().clone())).await;
    let target = elsewhere.url.clone();
    let issuer = TokenIssuer::with(new_key(), move |asked| {
        let own = asked.own;
        Some(match asked.path {
            "/.well-known/openid-configuration" => (302, "../moved/./configuration".to_owned()),
            "/moved/configuration" => {
                (200, json!({"issuer": own, "jwks_uri": format!("{own}/0")}).to_string())
            }
            "/7" => (308, format!("{target}/keys")),
            path => (307, format!("/{}", path[1..].parse::<u32>().unwrap() + 1)),
        })
    })
    .await;
    *keys.lock().unwrap() = format!(r#"{{"keys":[{}]}}"#, issuer.key.public().to_jwk());
    let ca = issuer.file("ca.crt", &[&*issuer.outside.ca, &elsewhere.ca].concat());
    let flags = |issuer: &TokenIssuer, ca: PathBuf| {
        [
            format!("--oidc-issuer-url={}", issuer.outside.url),
            format!("--oidc-ca-file={}", ca.display()),
            "--oidc-client-id=kubernetes".to_owned(),
            "--oidc-username-prefix=-".to_owned(),
            "--oidc-signing-algs=ES256".to_owned(),
        ]
    };
    let cluster = start(&flags(&issuer, ca)).await;
    until(async || cluster.bearer(&issuer.token(json!({}))).username().await.is_some()).await;
    cluster.stop().await;
    // Redirects in circles, and to a server without a trusted certificate.
    for (location, expected) in [
        ("/keys", "stopped after 10 redirects"),
        ("http://localhost:1/keys", "URL scheme must be https"),
    ] {
        let issuer = TokenIssuer::with(new_key(), move |asked| {
            (asked.path == "/keys").then(|| (301, location.to_owned()))
        })
        .await;
        let ca = issuer.file("ca.crt", &issuer.outside.ca);
        let cluster = start(&flags(&issuer, ca)).await;
        let token = issuer.token(json!({}));
        let starting = "oidc: authenticator not initialized";
        until(async || refusal(&cluster, &token, &[]).await != starting).await;
        let refusal = refusal(&cluster, &token, &[]).await;
        assert_eq!(
            refusal,
            format!(
                "oidc: verify token: failed to verify signature: fetching keys oidc: \
                 Get \"{}/keys?all=1\": {expected}",
                issuer.outside.url
            )
        );
        cluster.stop().await;
    }
}

fn configuration(issuer: &TokenIssuer, username: &str) -> String {
    let config = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "anonymous": {"enabled": true, "conditions": [{"path": "/livez"}]},
        "jwt": [{
            "issuer": {
                "url": issuer.outside.url,
                "certificateAuthority": issuer.outside.ca,
                "audiences": ["kubernetes", "other"],
                "audienceMatchPolicy": "MatchAny",
            },
            "claimValidationRules": [{
                "expression": "!has(claims.blocked)",
                "message": "blocked users are not welcome",
            }],
            "claimMappings": {
                "username": {"expression": username},
                "groups": {"expression": "dyn(claims.groups).map(g, 'oidc:' + g)"},
                "uid": {"claim": "sub"},
                "extra": [{"key": "acme.com/level", "valueExpression": "string(int(claims.level))"}],
            },
            "userValidationRules": [{
                "expression": "!user.username.startsWith('system:')",
                "message": "system users come otherwise",
            }],
        }],
    });
    config.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_says_what_to_make_of_tokens() {
    let issuer = TokenIssuer::start().await;
    let file = issuer.file("config.json", &configuration(&issuer, "'one:' + claims.sub"));
    let flag = format!("--authentication-config={}", file.display());
    let cluster = start(&[flag]).await;
    let level = || json!({"level": 3, "aud": "other"});
    until(async || cluster.bearer(&issuer.token(level())).username().await.is_some()).await;
    let user = cluster.bearer(&issuer.token(level())).whoami(&[]).await.unwrap();
    let expected = json!({
        "username": "one:jane",
        "uid": "jane",
        "groups": ["oidc:devs", "system:authenticated"],
        "extra": {
            "acme.com/level": ["3"],
            "authentication.kubernetes.io/credential-id": ["JTI=1"],
        },
    });
    assert_eq!(user, expected);
    let blocked = issuer.token(json!({"level": 3, "blocked": true}));
    assert_eq!(
        refusal(&cluster, &blocked, &[]).await,
        "oidc: error evaluating claim validation expression: validation expression \
         '!has(claims.blocked)' failed: blocked users are not welcome"
    );
    assert_eq!(cluster.bearer(&blocked).username().await, None);
    // Anonymous requests are allowed on one path only.
    let unnamed = cluster.client_of(kube::config::AuthInfo::default());
    let request = http::Request::get("/livez").body(Vec::new()).unwrap();
    assert_eq!(unnamed.0.request_text(request).await.unwrap(), "ok");
    assert_eq!(unnamed.get("/api").await.0, 401);
    // A file that is wrong changes nothing; one that is right does.
    issuer.file("config.json", "apiVersion: apiserver.config.k8s.io/v1\nkind: Nothing\n");
    issuer.file("config.json", &configuration(&issuer, "'system:' + claims.sub"));
    let token = issuer.token(json!({"level": 4}));
    until(async || {
        cluster.bearer(&issuer.token(json!({"level": now()}))).username().await.is_none()
    })
    .await;
    assert_eq!(
        refusal(&cluster, &token, &[]).await,
        "oidc: error evaluating user info validation rule: validation expression \
         '!user.username.startsWith('system:')' failed: system users come otherwise"
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_issuers_and_files_do_is_counted() {
    const CONFIG: &str = "apiserver_authentication_config_controller_";
    const TOKENS: &str = "apiserver_authentication_jwt_authenticator_";
    let issuer = TokenIssuer::start().await;
    let text = configuration(&issuer, "claims.sub");
    let file = issuer.file("config.json", &text);
    let flag = format!("--authentication-config={}", file.display());
    let cluster = start(&[flag]).await;
    let level = || json!({"level": 3});
    until(async || cluster.bearer(&issuer.token(level())).username().await.is_some()).await;
    assert_eq!(cluster.bearer(&issuer.token(json!({}))).username().await, None);
    let hash = |text: &str| {
        let hash = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        let digits: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("\"sha256:{digits}\"")
    };
    let keys = format!(r#"{{"keys":[{}]}}"#, issuer.key.public().to_jwk());
    let of_issuer = format!("jwt_issuer_hash={}", hash(&issuer.outside.url));
    let latency =
        |result: &str| format!(r#"latency_seconds_count{{{of_issuer},result="{result}"}} 1"#);
    for (line, expected) in [
        (format!("{TOKENS}{}", latency("success")), true),
        (format!("{TOKENS}{}", latency("failure")), true),
        (format!("{TOKENS}jwks_fetch_last_key_set_info{{"), true),
        (format!("hash={},{of_issuer}}} 1", hash(&keys)), true),
        (format!("{of_issuer},result=\"success\"}} 1"), true),
        (format!("{TOKENS}jwks_fetch_last_timestamp_seconds{{"), true),
        (format!("{CONFIG}last_config_info{{"), true),
        (format!("hash={}}} 1", hash(&text)), true),
        (format!("{CONFIG}automatic_reloads_total"), false),
    ] {
        assert_eq!(cluster.metrics().await.contains(&line), expected, "{line}");
    }
    issuer.file("config.json", "kind: Nothing");
    let failed = format!("{CONFIG}automatic_reloads_total{{");
    until(async || cluster.metrics().await.contains(&failed)).await;
    assert!(cluster.metrics().await.contains("status=\"failure\"} 1"));
    // An issuer that is no longer accepted is no longer told of.
    let without = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
        "anonymous": {"enabled": true, "conditions": [{"path": "/livez"}]},
    });
    issuer.file("config.json", &without.to_string());
    let reloaded = format!("hash={}}} 1", hash(&without.to_string()));
    until(async || cluster.metrics().await.contains(&reloaded)).await;
    let metrics = cluster.metrics().await;
    assert!(metrics.contains("status=\"success\"} 1"));
    assert!(!metrics.contains(&format!("{TOKENS}jwks_fetch")) && !metrics.contains(&hash(&text)));
    cluster.stop().await;
}
