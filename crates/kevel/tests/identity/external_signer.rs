//! Service-account tokens of an external signer, over gRPC on a Unix socket.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kevel::Server;
use kevel_auth::jose::PrivateKey;
use kevel_codec::base64;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Cluster, now, refusal, start};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const ISSUER: &str = "https://issuer.example";

/// A signer, and what it does when it is asked.
#[derive(Clone)]
struct Signer {
    state: Arc<Mutex<State>>,
    folder: Arc<TempDir>,
}

struct State {
    key: PrivateKey,
    /// Identifier, key, whether it is kept from others.
    keys: Vec<(String, Vec<u8>, bool)>,
    refresh: u64,
    max_expiration: u64,
    /// Header of its tokens.
    header: Value,
    signs: bool,
    fetches: usize,
}

fn new_key() -> (PrivateKey, Vec<u8>) {
    use rcgen::PublicKeyData as _;
    let key = rcgen::KeyPair::generate().unwrap();
    let private = PrivateKey::from_pem(key.serialize_pem().as_bytes()).unwrap();
    (private, key.subject_public_key_info())
}

impl Signer {
    fn start() -> Self {
        let ((key, public), (_, old)) = (new_key(), new_key());
        let state = State {
            key,
            keys: vec![("one".into(), public, false), ("old".into(), old, true)],
            refresh: 3600,
            max_expiration: 7200,
            header: json!({"alg": "ES256", "kid": "one", "typ": "JWT"}),
            signs: true,
            fetches: 0,
        };
        let state = Arc::new(Mutex::new(state));
        let signer = Signer { state, folder: Arc::new(tempfile::tempdir().unwrap()) };
        let listener = tokio::net::UnixListener::bind(signer.socket()).unwrap();
        let serving = signer.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let signer = serving.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let signer = signer.clone();
                        async move { Ok::<_, Infallible>(signer.answer(request).await) }
                    });
                    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        signer
    }

    fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("signer.sock")
    }

    fn flags(&self) -> [String; 2] {
        let socket = self.socket();
        [
            format!("--service-account-issuer={ISSUER}"),
            format!("--service-account-signing-endpoint={}", socket.display()),
        ]
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }

    /// Signs with another key from now on.
    fn rotate(&self, id: &str) {
        let (key, public) = new_key();
        self.set(|state| {
            state.key = key;
            state.keys = vec![(id.to_owned(), public, false)];
            state.header["kid"] = json!(id);
        });
    }

    async fn answer(
        &self,
        request: http::Request<Incoming>,
    ) -> http::Response<impl hyper::body::Body<Data = Bytes, Error = Infallible> + use<>> {
        let path = request.uri().path().to_owned();
        assert_eq!(request.uri().authority().unwrap(), "localhost");
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut state = self.state.lock().unwrap();
        let message = match path.as_str() {
            "/v1.ExternalJWTSigner/Sign" => {
                let claims = text_of(&body[5..]);
                let header = base64::encode_url(state.header.to_string().as_bytes());
                let signature = match state.signs {
                    true => state.key.sign(format!("{header}.{claims}").as_bytes()).unwrap(),
                    false => Vec::new(),
                };
                let signature = base64::encode_url(&signature);
                [bytes(1, header.as_bytes()), bytes(2, signature.as_bytes())].concat()
            }
            "/v1.ExternalJWTSigner/FetchKeys" => {
                state.fetches += 1;
                let key = |(id, key, excluded): &(String, Vec<u8>, bool)| {
                    let fields =
                        [bytes(1, id.as_bytes()), bytes(2, key), number(3, u64::from(*excluded))];
                    bytes(1, &fields.concat())
                };
                let mut message: Vec<u8> = state.keys.iter().flat_map(key).collect();
                message.extend(bytes(2, &number(1, now() as u64)));
                message.extend(number(3, state.refresh));
                message
            }
            "/v1.ExternalJWTSigner/Metadata" => number(1, state.max_expiration),
            path => panic!("{path}"),
        };
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let body = [&[0], &length[..], &message].concat();
        let trailers =
            http::HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
        let frames = [Ok(Frame::data(body.into())), Ok(Frame::trailers(trailers))];
        http::Response::builder()
            .header("content-type", "application/grpc")
            .body(StreamBody::new(futures_util::stream::iter(frames)))
            .unwrap()
    }
}

/// A field of bytes.
fn bytes(tag: u8, contents: &[u8]) -> Vec<u8> {
    [&[tag << 3 | 2], &varint(contents.len() as u64)[..], contents].concat()
}

/// A field that is a number.
fn number(tag: u8, value: u64) -> Vec<u8> {
    [&[tag << 3], &varint(value)[..]].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// The text of a message that is one field of text.
fn text_of(message: &[u8]) -> String {
    let length = message[1..].iter().position(|byte| *byte < 0x80).unwrap() + 1;
    String::from_utf8(message[1 + length..].to_vec()).unwrap()
}

async fn request(cluster: &Cluster, spec: Value) -> (u16, Value) {
    cluster.admin.post(&format!("{ACCOUNTS}/bot/token"), &json!({"spec": spec})).await
}

async fn token(cluster: &Cluster) -> String {
    let (code, made) = request(cluster, json!({})).await;
    assert_eq!(code, 201, "{made}");
    made["status"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_signer_signs_tokens() {
    let signer = Signer::start();
    let cluster = start(&signer.flags()).await;
    cluster.admin.create(ACCOUNTS, &json!({"metadata": {"name": "bot"}})).await;
    let first = token(&cluster).await;
    let bot = Some("system:serviceaccount:default:bot".to_owned());
    assert_eq!(cluster.bearer(&first).username().await, bot);
    assert_eq!(super::claims(&first)["iss"], ISSUER);

    // The longest validity is the signer's.
    let (_, made) = request(&cluster, json!({"expirationSeconds": 100_000})).await;
    assert_eq!(made["spec"]["expirationSeconds"], 7200);

    // Others are told of keys that tokens are signed with.
    let (_, set) = cluster.admin.get("/openid/v1/jwks").await;
    let ids: Vec<_> = set["keys"].as_array().unwrap().iter().map(|key| &key["kid"]).collect();
    assert_eq!(ids, [&json!("one")]);
    assert_eq!(signer.state.lock().unwrap().fetches, 1);

    // A key that is not known yet is asked for; those that are gone then are gone.
    signer.rotate("two");
    let second = token(&cluster).await;
    assert_eq!(cluster.bearer(&second).username().await, bot);
    assert_eq!(refusal(&cluster, &first, &["other"]).await, "invalid signature, no keys found");
    let (_, set) = cluster.admin.get("/openid/v1/jwks").await;
    assert_eq!(set["keys"][0]["kid"], "two");
    let metrics = cluster.metrics().await;
    for line in [
        "apiserver_externaljwt_sign_request_total{code=\"OK\"} 3",
        "apiserver_externaljwt_fetch_keys_request_total{code=\"OK\"} 3",
        "apiserver_externaljwt_fetch_keys_success_timestamp 1",
        "apiserver_externaljwt_fetch_keys_data_timestamp 1",
        "apiserver_externaljwt_request_duration_seconds_count{code=\"OK\",\
         method=\"/v1.ExternalJWTSigner/Metadata\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrongly_signed_tokens_are_not_returned() {
    let signer = Signer::start();
    let cluster = start(&signer.flags()).await;
    cluster.admin.create(ACCOUNTS, &json!({"metadata": {"name": "bot"}})).await;
    let good = signer.state.lock().unwrap().header.clone();
    for (field, value, expected) in [
        ("alg", json!("none"), "while validating header: bad signing algorithm \"none\""),
        ("alg", json!("HS256"), "while validating header: bad signing algorithm \"HS256\""),
        ("typ", json!("JWS"), "while validating header: bad type"),
        ("kid", json!(""), "while validating header: key id missing"),
        ("kid", json!("x".repeat(1025)), "while validating header: key id longer than 1 kb"),
        (
            "kid",
            json!("old"),
            "while validating header: key used for signing JWT (kid: old) is excluded from OIDC \
             discovery docs",
        ),
        (
            "jku",
            json!("https://elsewhere"),
            "while validating header: while parsing header JSON: json: unknown field \"jku\"",
        ),
    ] {
        signer.set(|state| {
            state.header = good.clone();
            state.header[field] = value;
        });
        let (code, status) = request(&cluster, json!({})).await;
        let expected = format!("Internal error occurred: failed to generate token: {expected}");
        assert_eq!((code, status["message"].as_str().unwrap()), (500, &*expected));
    }
    signer.set(|state| {
        state.header = good;
        state.signs = false;
    });
    let (_, status) = request(&cluster, json!({})).await;
    let expected = "Internal error occurred: failed to generate token: empty signature returned";
    assert_eq!(status["message"], expected);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_external_signer_stops_the_start() {
    type Change = fn(&mut State);
    let keys = "while setting up external-jwt-signer: while initially filling key cache: while \
                performing initial cache fill: while fetching token verification keys: ";
    let changes: [(Change, String); 7] = [
        (|state| state.refresh = 0, format!("{keys}found invalid refresh hint (0s)")),
        (|state| state.keys.clear(), format!("{keys}found no keys")),
        (|state| state.keys[0].0.clear(), format!("{keys}found invalid public key id \"\"")),
        (|state| state.keys[0].1.clear(), format!("{keys}found empty public key")),
        (
            |state| state.keys[0].1 = b"rubbish".to_vec(),
            format!("{keys}while parsing external public keys: unknown public key"),
        ),
        (
            |state| state.max_expiration = 599,
            "max token life supported by external-jwt-signer (599s) is less than acceptable (min \
             600s)"
                .to_owned(),
        ),
        (
            |state| state.max_expiration = 600,
            "service-account-max-token-expiration cannot be set longer than the token expiration \
             supported by service-account-signing-endpoint: 1h0m0s > 10m0s"
                .to_owned(),
        ),
    ];
    for (change, expected) in changes {
        let signer = Signer::start();
        signer.set(change);
        let folder = tempfile::tempdir().unwrap();
        let builder = Server::builder().data_dir(folder.path()).flag("--storage=memory");
        let builder = signer.flags().iter().fold(builder, |builder, flag| builder.flag(flag));
        let builder = builder.flag("--service-account-max-token-expiration=1h");
        assert_eq!(builder.start().await.unwrap_err().to_string(), expected);
    }
}
