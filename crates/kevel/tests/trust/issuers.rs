//! Issuers of tokens: `certificateAuthority` of an `AuthenticationConfiguration`, for the discovery document,
//! the key set and distributed claims.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use kevel_auth::jose::PrivateKey;
use kevel_test_support::trust::{Presenter, TrustCell, certified_key, each};
use kevel_test_support::{Ca, Cluster, until};
use serde_json::{Value, json};

use crate::{LOCAL_ROWS, local_rows, write};

/// Limit of an `AuthenticationConfiguration`.
const ISSUERS: usize = 64;

/// Document of an issuer that a row's server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Document {
    Discovery,
    KeySet,
    Claims,
}

impl Document {
    const ALL: [Document; 3] = [Document::Discovery, Document::KeySet, Document::Claims];
}

/// An issuer of whose documents a row's server has one; a server that is trusted has the others.
struct IssuerCell {
    cell: TrustCell,
    document: Document,
    trust: Arc<Trusted>,
}

/// Server that every row's configuration trusts beside the row's own, and the key of all issuers.
struct Trusted {
    url: String,
    ca: Ca,
    key: PrivateKey,
}

impl IssuerCell {
    fn name(&self) -> String {
        format!("{}-{:?}", self.cell.row.name, self.document).to_lowercase()
    }

    fn issuer(&self) -> String {
        format!("https://{}.trust.test", self.name())
    }

    /// Path of a document, on whichever server.
    fn path(&self, document: Document) -> String {
        format!("/{}/{document:?}", self.name())
    }

    fn url(&self, document: Document) -> String {
        let path = self.path(document);
        if document == self.document {
            self.cell.url(&path)
        } else {
            format!("{}{path}", self.trust.url)
        }
    }

    /// Answer of a document's server.
    fn answer(&self, document: Document) -> String {
        match document {
            Document::Discovery => {
                let keys = self.url(Document::KeySet);
                json!({"issuer": self.issuer(), "jwks_uri": keys}).to_string()
            }
            Document::KeySet => format!(r#"{{"keys":[{}]}}"#, self.trust.key.public().to_jwk()),
            Document::Claims => self.sign(json!({"groups": ["devs"]})),
        }
    }

    fn sign(&self, mut claims: Value) -> String {
        let expires = kevel_api::time::Time::now(&kevel_clock::Clock::system()).seconds + 600;
        let known = json!({"iss": self.issuer(), "aud": "a", "sub": "jane", "exp": expires});
        for (name, value) in known.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let text = claims.to_string();
        let unknown = kevel_codec::json::Unknown::Ignore;
        let claims = kevel_codec::json::decode_any(text.as_bytes(), unknown).unwrap();
        kevel_auth::jose::sign(&self.trust.key, &claims.value).unwrap()
    }

    /// A token whose groups are elsewhere.
    fn token(&self) -> String {
        let endpoint = self.url(Document::Claims);
        self.sign(json!({
            "_claim_names": {"groups": "elsewhere"},
            "_claim_sources": {"elsewhere": {"endpoint": endpoint}},
        }))
    }

    fn configuration(&self) -> Value {
        json!({
            "issuer": {
                "url": self.issuer(),
                "discoveryURL": self.url(Document::Discovery),
                "certificateAuthority": format!("{}{}", self.cell.row.roots, self.trust.ca.pem),
                "audiences": ["a"],
            },
            "claimMappings": {
                "username": {"claim": "sub", "prefix": ""},
                "groups": {"claim": "groups", "prefix": ""},
            },
        })
    }
}

/// Starts the servers of all documents of all issuers.
async fn cells() -> Vec<IssuerCell> {
    let answers: Arc<OnceLock<HashMap<String, String>>> = Arc::default();
    let known = answers.clone();
    let answer = move |path: &str, _: &[u8]| known.get().unwrap()[path].clone();
    let ca = Ca::new("of the trusted server");
    let (certificate, key) = ca.server("localhost");
    let shown = certified_key(&certificate, &key);
    let trusted = Presenter::answering(shown, &["http/1.1"], answer.clone()).await;
    let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let key = PrivateKey::from_pem(key.as_bytes()).unwrap();
    let url = format!("https://localhost:{}", trusted.address.port());
    let trust = Arc::new(Trusted { url, ca, key });
    let mut cells = Vec::new();
    for document in Document::ALL {
        let all = TrustCell::all(local_rows(), answer.clone()).await.into_iter();
        cells.extend(all.map(|cell| IssuerCell { cell, document, trust: trust.clone() }));
    }
    let all = cells.iter().flat_map(|cell| Document::ALL.map(|document| (cell, document)));
    let all = all.map(|(cell, document)| (cell.path(document), cell.answer(document)));
    answers.set(all.collect()).unwrap();
    cells
}

/// Error of a review of a token; none if it is accepted.
async fn review(cluster: &Cluster, cell: &IssuerCell, token: &str) -> Option<String> {
    let status = cluster.review(token, &[]).await;
    if status["authenticated"] != true {
        return Some(status["error"].as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(status["user"]["groups"][0], "devs", "{}", cell.name());
    None
}

/// Holds what comes of a token of an issuer against the verdict of Go.
async fn judge(cluster: &Cluster, cell: &IssuerCell) {
    const STARTING: &str = "oidc: authenticator not initialized";
    let starting = |error: &Option<String>| error.as_ref().is_some_and(|e| e.contains(STARTING));
    let token = cell.token();
    if cell.document == Document::Discovery && !cell.cell.row.server.is_trusted() {
        // The server asks again and again, and tells its log why that fails.
        cell.cell.judge_connection().await;
        let error = review(cluster, cell, &token).await;
        assert!(starting(&error), "{}: {error:?}", cell.name());
        return;
    }
    let mut error = review(cluster, cell, &token).await;
    until(async || {
        if starting(&error) {
            error = review(cluster, cell, &token).await;
        }
        !starting(&error)
    })
    .await;
    cell.cell.judge(error.as_deref()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn issuers_of_tokens_are_trusted_as_go_trusts_them() {
    let mut tried = 0;
    for cells in cells().await.chunks(ISSUERS) {
        let issuers: Vec<_> = cells.iter().map(IssuerCell::configuration).collect();
        let config = json!({
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AuthenticationConfiguration",
            "jwt": issuers,
        });
        let folder = tempfile::tempdir().unwrap();
        let config = write(folder.path(), "authentication.json", &config.to_string());
        let cluster = Cluster::on(folder, vec![format!("--authentication-config={config}")]).await;
        tried += each(cells, async |cell| judge(&cluster, cell).await).await;
        cluster.stop().await;
    }
    assert_eq!(tried, Document::ALL.len() * LOCAL_ROWS);
}
