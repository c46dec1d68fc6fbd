//! Tokens of service accounts beside the objects that they name: every kind of object in every state of its life.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

use std::sync::Arc;

use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_auth::jose::{PrivateKey, sign};
use kevel_auth::service_account::{BoundTokens, Keys, LegacyTokens, Objects, TokenUses, Verifier};
use kevel_clock::Clock;
use kevel_codec::base64;
use kevel_codec::json::{Unknown, decode_any};
use kevel_controller_runtime::Client;
use kevel_registry::admission::Admission;
use kevel_registry::storage::{Format, Storage};
use kevel_server::authentication::TokenAuthenticator;
use kevel_server::authorization::AlwaysAllow;
use kevel_server::endpoints::{Endpoints, MIN_REQUEST_TIMEOUT};
use kevel_server::metrics::Metrics;
use kevel_test_support::InMemory;

const ISSUER: &str = "https://issuer";
const LONG_AGO: &str = "2001-01-01T00:00:00Z";

fn json(text: &str) -> Value {
    decode_any(text.as_bytes(), Unknown::Ignore).expect(text).value
}

/// A server's storages, and a key that signs its tokens.
struct World {
    server: InMemory,
    objects: Arc<Objects>,
    storages: [(&'static str, Arc<Storage>); 4],
    key: PrivateKey,
}

impl World {
    async fn start() -> Self {
        let mut found = None;
        let server = InMemory::empty(Format::Json, |storages| {
            let plurals = ["serviceaccounts", "secrets", "pods", "nodes"];
            let stored = plurals.map(|plural| (plural, storages.required("", plural).unwrap()));
            found = Some((Arc::new(Objects::of(storages).unwrap()), stored));
            Endpoints {
                admission: Admission::new(Vec::new()),
                authorizer: Some(Arc::new(AlwaysAllow)),
                min_request_timeout: MIN_REQUEST_TIMEOUT,
                connecters: Default::default(),
                features: Default::default(),
                shard_selectors: None,
            }
        });
        let server = server.await;
        let (objects, storages) = found.unwrap();
        let pem = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let key = PrivateKey::from_pem(pem.as_bytes()).unwrap();
        World { server, objects, storages, key }
    }

    /// Stores an object as it is; its UID.
    async fn store(&self, plural: &str, name: &str, metadata: &str, rest: &str) -> String {
        let (_, storage) = self.storages.iter().find(|(known, _)| *known == plural).unwrap();
        let namespace = if plural == "nodes" { "" } else { "ns" };
        let text = format!(
            r#"{{"metadata": {{"name": "{name}", "namespace": "{namespace}"{metadata}}}{rest}}}"#
        );
        storage.insert(json(&text)).await.unwrap();
        let key = if plural == "nodes" { name.to_owned() } else { format!("ns/{name}") };
        let stored = storage.fetch(&key).await.unwrap().unwrap();
        stored.str_at(&["metadata", "uid"]).to_owned()
    }

    fn verifier(&self) -> Verifier {
        Verifier {
            issuers: vec![ISSUER.to_owned()],
            keys: Keys::Files([self.key.public().clone()].into()),
            audiences: vec!["api".to_owned()],
            uses: Arc::new(TokenUses::new(&Metrics::default())),
        }
    }

    fn legacy(&self, lookup: bool) -> LegacyTokens {
        let client = Client::new(self.server.delegate.clone());
        LegacyTokens::new(self.verifier(), self.objects.clone(), lookup, client)
    }

    fn sign(&self, claims: &str) -> String {
        sign(&self.key, &json(claims)).unwrap()
    }
}

/// The user of a token, or the reason to refuse it.
async fn user(tokens: &dyn TokenAuthenticator, token: &str) -> String {
    match tokens.authenticate_token(token, &[]).await {
        Ok(known) => known.map_or("unknown".to_owned(), |known| known.user.name.clone()),
        Err(error) => error.0,
    }
}

fn ends(at: &str) -> String {
    format!(r#", "deletionTimestamp": "{at}", "finalizers": ["example.com/f"]"#)
}

/// A token is bound to its account and to one object: both must be there, be the same, and not be gone for longer than
/// clocks may differ.
#[tokio::test]
async fn bound_tokens_end_with_each_of_their_objects() {
    let world = World::start().await;
    let tokens = BoundTokens::new(world.verifier(), world.objects.clone());
    let now = Time::now(&Clock::system());
    let just_now = ends(&now.to_string());
    let (ended, good) = (ends(LONG_AGO), "");
    for (claim, plural) in [
        ("serviceaccount", "serviceaccounts"),
        ("secret", "secrets"),
        ("pod", "pods"),
        ("node", "nodes"),
    ] {
        for state in ["there", "ending", "ended", "another", "gone"] {
            let name = format!("{claim}-{state}");
            let metadata = match state {
                "ending" => &*just_now,
                "ended" => &ended,
                _ => good,
            };
            let stored = match state {
                "gone" => String::new(),
                _ => world.store(plural, &name, metadata, "").await,
            };
            let uid = if state == "another" { "other" } else { &*stored };
            let account = match claim {
                "serviceaccount" => String::new(),
                _ => {
                    let uid = world.store("serviceaccounts", &format!("of-{name}"), "", "").await;
                    format!(r#""serviceaccount": {{"name": "of-{name}", "uid": "{uid}"}}, "#)
                }
            };
            let token = world.sign(&format!(
                r#"{{"iss": "{ISSUER}", "aud": ["api"], "exp": {}, "kubernetes.io": {{"namespace": "ns", {account}"{claim}": {{"name": "{name}", "uid": "{uid}"}}}}}}"#,
                now.seconds + 600
            ));
            let of = if account.is_empty() { name.clone() } else { format!("of-{name}") };
            let invalidated = || "service account token has been invalidated".to_owned();
            let expected = match (state, claim) {
                ("there" | "ending", _) => format!("system:serviceaccount:ns:{of}"),
                ("ended", "serviceaccount") => {
                    format!("service account ns/{name} has been deleted")
                }
                ("another", "serviceaccount") => {
                    format!("service account UID ({stored}) does not match claim (other)")
                }
                ("another", _) => format!(
                    "{claim} UID ({stored}) does not match service account {claim} ref claim (other)"
                ),
                (_, "serviceaccount") => format!(r#"serviceaccounts "{name}" not found"#),
                _ => invalidated(),
            };
            assert_eq!(user(&tokens, &token).await, expected, "{claim} {state}");
        }
    }
}

/// Claims of a legacy token, as (claim, value).
type Claims<'c> = Vec<(&'c str, &'c str)>;

/// Changed claims, metadata of the secret, and the answers with and without a look at the objects.
type LegacyCase<'c> = (&'c str, &'c [(&'c str, &'c str)], &'c str, &'c str, &'c str);

/// A legacy token must agree with its secret and its account in everything that it says.
#[tokio::test]
async fn legacy_tokens_agree_with_their_secret_and_account() {
    let world = World::start().await;
    let uid = &*world.store("serviceaccounts", "bot", "", "").await;
    let ended_uid = &*world.store("serviceaccounts", "ended", &ends(LONG_AGO), "").await;
    let good: Claims<'_> = vec![
        ("sub", "system:serviceaccount:ns:bot"),
        ("namespace", "ns"),
        ("secret.name", ""),
        ("service-account.name", "bot"),
        ("service-account.uid", uid),
    ];
    let ended = ends(LONG_AGO);
    let (bot, marked) = (
        "system:serviceaccount:ns:bot",
        r#", "labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}"#,
    );
    let of_ended = [
        ("sub", "system:serviceaccount:ns:ended"),
        ("service-account.name", "ended"),
        ("service-account.uid", ended_uid),
    ];
    let cases: [LegacyCase<'_>; 13] = [
        ("good", &[], "", bot, bot),
        (
            "subject of another",
            &[("sub", "system:serviceaccount:kube-system:admin")],
            "",
            "sub claim is invalid",
            "sub claim is invalid",
        ),
        (
            "subject of no account",
            &[("sub", "system:admin")],
            "",
            "sub claim is invalid",
            "sub claim is invalid",
        ),
        (
            "name of another",
            &[("service-account.name", "admin")],
            "",
            "sub claim is invalid",
            "sub claim is invalid",
        ),
        (
            "other namespace",
            &[("namespace", "kube-system")],
            "",
            "sub claim is invalid",
            "sub claim is invalid",
        ),
        ("no subject", &[("sub", "")], "", "sub claim is missing", "sub claim is missing"),
        (
            "no namespace",
            &[("namespace", "")],
            "",
            "namespace claim is missing",
            "namespace claim is missing",
        ),
        (
            "no name",
            &[("service-account.name", "")],
            "",
            "serviceAccountName claim is missing",
            "serviceAccountName claim is missing",
        ),
        (
            "no uid",
            &[("service-account.uid", "")],
            "",
            "serviceAccountUID claim is missing",
            "serviceAccountUID claim is missing",
        ),
        ("other uid", &[("service-account.uid", "other")], "", "ServiceAccount UID (", bot),
        (
            "account ended",
            &of_ended,
            "",
            "ServiceAccount ns/ended has been deleted",
            "system:serviceaccount:ns:ended",
        ),
        ("secret ended", &[], &ended, "Token has been invalidated", bot),
        ("marked", &[], marked, "the token in secret ns/marked for service account ns/bot", bot),
    ];
    for (what, changes, metadata, expected, unseen) in cases {
        let secret = what.replace(' ', "-");
        let claims = good.iter().map(|(claim, value)| {
            let changed = changes.iter().find(|(changed, _)| changed == claim);
            let value = match (*claim, changed) {
                ("secret.name", _) => &*secret,
                (_, changed) => changed.map_or(*value, |(_, value)| *value),
            };
            let prefix = if *claim == "sub" { "" } else { "kubernetes.io/serviceaccount/" };
            format!(r#", "{prefix}{claim}": "{value}""#)
        });
        let claims: String = claims.collect();
        let token = world.sign(&format!(r#"{{"iss": "kubernetes/serviceaccount"{claims}}}"#));
        let copy = base64::encode(token.as_bytes());
        world
            .store("secrets", &secret, metadata, &format!(r#", "data": {{"token": "{copy}"}}"#))
            .await;
        let found = user(&world.legacy(true), &token).await;
        assert!(found.starts_with(expected), "{what}: {found}");
        assert_eq!(user(&world.legacy(false), &token).await, unseen, "{what}");
    }
}
