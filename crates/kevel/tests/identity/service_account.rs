use kevel_auth::jose::PrivateKey;
use kevel_test_support::until;
use serde_json::{Value, json};

use super::{Cluster, claims, confused, forge, now, refusal, sign, start};

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

async fn account(cluster: &Cluster, name: &str) -> String {
    let made = cluster.admin.create(ACCOUNTS, &json!({"metadata": {"name": name}})).await;
    made["metadata"]["uid"].as_str().unwrap().to_owned()
}

async fn request(cluster: &Cluster, name: &str, spec: Value) -> (u16, Value) {
    cluster.admin.post(&format!("{ACCOUNTS}/{name}/token"), &json!({"spec": spec})).await
}

async fn token(cluster: &Cluster, name: &str, spec: Value) -> String {
    let (code, made) = request(cluster, name, spec).await;
    assert_eq!(code, 201, "{made}");
    made["status"]["token"].as_str().unwrap().to_owned()
}

fn signing_key(cluster: &Cluster) -> PrivateKey {
    let pem = std::fs::read(cluster.folder.path().join("pki/sa.key")).unwrap();
    PrivateKey::from_pem(&pem).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_says_who_its_bearer_is() {
    let cluster = start(&[]).await;
    let uid = account(&cluster, "bot").await;
    let before = now();
    let (_, made) = request(&cluster, "bot", json!({"expirationSeconds": 1200})).await;
    assert_eq!(made["metadata"]["uid"], json!(uid));
    assert_eq!(made["spec"]["audiences"], json!([ISSUER]));
    let token = made["status"]["token"].as_str().unwrap();
    let said = claims(token);
    let issued = said["iat"].as_i64().unwrap();
    assert!((before..=now()).contains(&issued));
    let expected = json!({
        "aud": [ISSUER], "iss": ISSUER, "sub": "system:serviceaccount:default:bot",
        "iat": issued, "nbf": issued, "exp": issued + 1200, "jti": said["jti"],
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "bot", "uid": uid}},
    });
    assert_eq!(said, expected);
    let user = cluster.bearer(token).whoami(&[]).await.unwrap();
    let expected = json!({
        "username": "system:serviceaccount:default:bot",
        "uid": uid,
        "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
        "extra": {
            "authentication.kubernetes.io/credential-id":
                [format!("JTI={}", said["jti"].as_str().unwrap())],
        },
    });
    assert_eq!(user, expected);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bound_token_is_valid_while_its_object_exists() {
    let cluster = start(&[]).await;
    account(&cluster, "bot").await;
    let admin = &cluster.admin;
    let node = admin.create("/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await;
    let pod = |name: &str, node: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {
                "serviceAccountName": "bot",
                "nodeName": node,
                "containers": [{"name": "c", "image": "i"}],
            },
        })
    };
    let made = admin.create(PODS, &pod("p", "n")).await;
    admin.create(PODS, &pod("lost", "gone")).await;
    admin.create(SECRETS, &json!({"metadata": {"name": "s"}})).await;
    let bound = |kind: &str, name: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}});
    let of_pod = token(&cluster, "bot", bound("Pod", "p")).await;
    let user = cluster.bearer(&of_pod).whoami(&[]).await.unwrap();
    let key = |name: &str| format!("authentication.kubernetes.io/{name}");
    let (uid, node_uid) = (&made["metadata"]["uid"], &node["metadata"]["uid"]);
    for (name, expected) in [
        ("pod-name", &json!("p")),
        ("pod-uid", uid),
        ("node-name", &json!("n")),
        ("node-uid", node_uid),
    ] {
        assert_eq!(user["extra"][key(name)], json!([expected]), "{name}");
    }
    let of_lost = token(&cluster, "bot", bound("Pod", "lost")).await;
    assert_eq!(claims(&of_lost)["kubernetes.io"]["node"], json!({"name": "gone"}));
    // Tokens that are not cached yet, of objects that are deleted.
    let pod_too = token(&cluster, "bot", bound("Pod", "p")).await;
    let of_secret = token(&cluster, "bot", bound("Secret", "s")).await;
    let of_node = token(&cluster, "bot", bound("Node", "n")).await;
    let of_nothing = token(&cluster, "bot", json!({})).await;
    admin.delete(&format!("{PODS}/p?gracePeriodSeconds=0")).await;
    admin.delete(&format!("{SECRETS}/s")).await;
    admin.delete("/api/v1/nodes/n").await;
    for gone in [&pod_too, &of_secret, &of_node] {
        assert_eq!(cluster.bearer(gone).username().await, None);
        let refusal = refusal(&cluster, gone, &[]).await;
        assert_eq!(refusal, "service account token has been invalidated");
    }
    admin.delete(&format!("{ACCOUNTS}/bot")).await;
    // The cache of accounts follows the store.
    let gone = "serviceaccounts \"bot\" not found";
    until(async || refusal(&cluster, &of_nothing, &[]).await == gone).await;
    // Another of the same name is another.
    let uid = account(&cluster, "bot").await;
    let claimed = claims(&of_nothing)["kubernetes.io"]["serviceaccount"]["uid"].clone();
    let claimed = claimed.as_str().unwrap();
    assert_eq!(
        refusal(&cluster, &of_nothing, &[]).await,
        format!("service account UID ({uid}) does not match claim ({claimed})")
    );
    assert_eq!(cluster.bearer(&of_nothing).username().await, None);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_good_for_its_audience() {
    let cluster = start(&["--api-audiences=api,other-api".to_owned()]).await;
    account(&cluster, "bot").await;
    let ours = token(&cluster, "bot", json!({})).await;
    let theirs = token(&cluster, "bot", json!({"audiences": ["vault"]})).await;
    assert!(cluster.bearer(&ours).username().await.is_some());
    assert_eq!(cluster.bearer(&theirs).username().await, None);
    let review = cluster.review(&ours, &[]).await;
    assert_eq!(
        (&review["authenticated"], &review["audiences"]),
        (&json!(true), &json!(["api", "other-api"]))
    );
    let review = cluster.review(&theirs, &["vault", "bank"]).await;
    assert_eq!((&review["authenticated"], &review["audiences"]), (&json!(true), &json!(["vault"])));
    let expected = r#"token audiences ["vault"] is invalid for the target audiences ["bank"]"#;
    assert_eq!(refusal(&cluster, &theirs, &["bank"]).await, expected);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_not_right_is_refused() {
    let cluster = start(&[]).await;
    let uid = account(&cluster, "bot").await;
    let key = signing_key(&cluster);
    let public = std::fs::read_to_string(cluster.folder.path().join("pki/sa.pub")).unwrap();
    let with = |changes: Value| {
        let mut claims = json!({
            "aud": [ISSUER], "iss": ISSUER, "sub": "system:serviceaccount:default:bot",
            "iat": now(), "nbf": now(), "exp": now() + 1200,
            "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "bot", "uid": uid}},
        });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    };
    let good = with(json!({}));
    let stranger = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let stranger = PrivateKey::from_pem(stranger.as_bytes()).unwrap();
    let es256 = json!({"alg": "ES256", "kid": key.public().id()});
    let (invalid, broken) =
        ("invalid bearer token", "go-jose/go-jose: error in cryptographic primitive");
    for (what, token, expected) in [
        ("good", sign(&key, &good), ""),
        ("within leeway", sign(&key, &with(json!({"exp": now() - 30}))), ""),
        (
            "expired",
            sign(&key, &with(json!({"exp": now() - 90}))),
            "service account token has expired",
        ),
        (
            "not yet",
            sign(&key, &with(json!({"nbf": now() + 90}))),
            "service account token is not valid yet",
        ),
        (
            "from the future",
            sign(&key, &with(json!({"iat": now() + 90}))),
            "service account token is issued in the future",
        ),
        ("other issuer", sign(&key, &with(json!({"iss": "https://other"}))), invalid),
        (
            "other audience",
            sign(&key, &with(json!({"aud": ["other"]}))),
            "token audiences [\"other\"] is invalid for the target audiences \
             [\"https://kubernetes.default.svc.cluster.local\"]",
        ),
        ("other key", sign(&stranger, &good), "invalid signature, no keys found"),
        (
            "other key under our name",
            forge(&es256, &good, |message| stranger.sign(message).unwrap()),
            broken,
        ),
        ("none", forge(&json!({"alg": "none"}), &good, |_| Vec::new()), broken),
        ("no signature", forge(&es256, &good, |_| Vec::new()), broken),
        ("confusion", forge(&json!({"alg": "HS256"}), &good, confused(&public)), broken),
        ("rubbish", "a.b.c".to_owned(), invalid),
    ] {
        assert_eq!(refusal(&cluster, &token, &[]).await, expected, "{what}");
        let known = cluster.bearer(&token).username().await.is_some();
        assert_eq!(known, expected.is_empty(), "{what}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_not_right_is_refused() {
    let cluster = start(&[]).await;
    account(&cluster, "bot").await;
    account(&cluster, "other").await;
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"serviceAccountName": "other", "containers": [{"name": "c", "image": "i"}]},
    });
    cluster.admin.create(PODS, &pod).await;
    cluster.admin.create(SECRETS, &json!({"metadata": {"name": "s"}})).await;
    let bound = |api: &str, kind: &str, name: &str, uid: &str| {
        let reference = json!({"apiVersion": api, "kind": kind, "name": name, "uid": uid});
        json!({"boundObjectRef": reference})
    };
    for (name, spec, code, expected) in [
        (
            "bot",
            json!({"expirationSeconds": 599}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid \
             value: 599: may not specify a duration less than 10 minutes",
        ),
        (
            "bot",
            json!({"expirationSeconds": 4_294_967_297_i64}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid \
             value: 4294967297: may not specify a duration larger than 2^32 seconds",
        ),
        ("absent", json!({}), 404, "serviceaccounts \"absent\" not found"),
        ("bot", bound("v1", "Pod", "none", ""), 404, "pods \"none\" not found"),
        (
            "bot",
            bound("v1", "Pod", "p", ""),
            400,
            "cannot bind token for serviceaccount \"bot\" to pod running with different \
             serviceaccount name.",
        ),
        (
            "bot",
            bound("apps/v1", "Deployment", "d", ""),
            400,
            "cannot bind token to object of type apps/v1, Kind=Deployment",
        ),
        (
            "bot",
            bound("v1", "Secret", "s", "other"),
            409,
            "Operation cannot be fulfilled on Secret \"s\": the UID in the bound object reference \
             (other) does not match the UID in record. The object might have been deleted and then \
             recreated",
        ),
    ] {
        let (answered, status) = request(&cluster, name, spec.clone()).await;
        assert_eq!((answered, &status["message"]), (code, &json!(expected)), "{spec}");
    }
    for (metadata, code, expected) in [
        (
            json!({"name": "other"}),
            422,
            "TokenRequest.authentication.k8s.io \"bot\" is invalid: metadata.name: Invalid value: \
             \"other\": must match the service account name if specified",
        ),
        (
            json!({"namespace": "other"}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ] {
        let asked = json!({"metadata": metadata, "spec": {}});
        let answer = cluster.admin.post(&format!("{ACCOUNTS}/bot/token"), &asked).await;
        assert_eq!((answer.0, &answer.1["message"]), (code, &json!(expected)), "{metadata}");
    }
    let (code, status) = cluster
        .admin
        .post(&format!("{ACCOUNTS}/bot/token"), &json!({"metadata": {"uid": "other"}, "spec": {}}))
        .await;
    let message = status["message"].as_str().unwrap();
    let expected = "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"bot\": \
                    the UID in the token request (other) does not match the UID of the service";
    assert!(code == 409 && message.starts_with(expected), "{message}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_validity_of_tokens_has_limits_and_exceptions() {
    let cluster = start(&["--service-account-max-token-expiration=2h".to_owned()]).await;
    account(&cluster, "bot").await;
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"serviceAccountName": "bot", "containers": [{"name": "c", "image": "i"}]},
    });
    cluster.admin.create(PODS, &pod).await;
    let (_, made) = request(&cluster, "bot", json!({"expirationSeconds": 9000})).await;
    assert_eq!(made["spec"]["expirationSeconds"], 7200);
    let said = claims(made["status"]["token"].as_str().unwrap());
    assert_eq!(said["exp"].as_i64().unwrap() - said["iat"].as_i64().unwrap(), 7200);
    let mounted = json!({
        "expirationSeconds": 3607,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"},
    });
    let (_, made) = request(&cluster, "bot", mounted).await;
    let said = claims(made["status"]["token"].as_str().unwrap());
    let issued = said["iat"].as_i64().unwrap();
    assert_eq!(said["exp"].as_i64().unwrap() - issued, 365 * 24 * 60 * 60);
    assert_eq!(said["kubernetes.io"]["warnafter"], issued + 3607);
    assert_eq!(made["spec"]["expirationSeconds"], 3607);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn legacy_token_is_valid_while_its_secret_holds_it() {
    let cluster = start(&[]).await;
    let uid = account(&cluster, "bot").await;
    let key = signing_key(&cluster);
    let legacy = |secret: &str| {
        let claim = |name: &str| format!("kubernetes.io/serviceaccount/{name}");
        sign(
            &key,
            &json!({
                "iss": "kubernetes/serviceaccount",
                "sub": "system:serviceaccount:default:bot",
                claim("namespace"): "default",
                claim("secret.name"): secret,
                claim("service-account.name"): "bot",
                claim("service-account.uid"): uid,
            }),
        )
    };
    let secret = |name: &str, token: &str, labels: Value| {
        json!({
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": {"kubernetes.io/service-account.name": "bot"},
            },
            "type": "kubernetes.io/service-account-token",
            "data": {"token": kevel_codec::base64::encode(token.as_bytes()).to_string()},
        })
    };
    let admin = &cluster.admin;
    let [good, changed, marked] = ["good", "changed", "marked"].map(&legacy);
    admin.create(SECRETS, &secret("good", &good, json!({}))).await;
    admin.create(SECRETS, &secret("changed", "other", json!({}))).await;
    let label = json!({"kubernetes.io/legacy-token-invalid-since": "2026-01-01"});
    admin.create(SECRETS, &secret("marked", &marked, label)).await;
    let user = cluster.bearer(&good).whoami(&[]).await.unwrap();
    assert_eq!(user["username"], "system:serviceaccount:default:bot");
    assert_eq!(user.get("extra"), None);
    let (_, used) = admin.get(&format!("{SECRETS}/good")).await;
    let day = used["metadata"]["labels"]["kubernetes.io/legacy-token-last-used"].as_str().unwrap();
    assert_eq!(day, &kevel_api::time::Time::now(&kevel_clock::Clock::system()).to_string()[..10]);
    for (token, expected) in [
        (&changed, "Token does not match server's copy"),
        (&legacy("none"), "Token has been invalidated"),
        (
            &marked,
            "the token in secret default/marked for service account default/bot has been marked invalid.",
        ),
    ] {
        let refusal = refusal(&cluster, token, &[]).await;
        assert!(refusal.starts_with(expected), "{refusal}");
        assert_eq!(cluster.bearer(token).username().await, None);
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn others_are_told_how_tokens_are_verified() {
    let cluster = start(&["--service-account-jwks-uri=https://keys/jwks".to_owned()]).await;
    account(&cluster, "bot").await;
    let anybody = cluster.bearer(&token(&cluster, "bot", json!({})).await);
    let (_, said) = anybody.get("/.well-known/openid-configuration").await;
    let expected = json!({
        "issuer": ISSUER,
        "jwks_uri": "https://keys/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    });
    assert_eq!(said, expected);
    let (_, set) = anybody.get("/openid/v1/jwks/").await;
    assert_eq!(set["keys"][0]["kid"], signing_key(&cluster).public().id());
    assert_eq!(cluster.admin.post("/openid/v1/jwks", &json!({})).await.0, 405);
    let text = [("accept", "text/plain")];
    assert_eq!(cluster.admin.send("GET", "/openid/v1/jwks", &text, "").await.0, 406);
    let (_, root) = cluster.admin.get("/").await;
    for path in ["/.well-known/openid-configuration", "/openid/v1/jwks"] {
        assert!(root["paths"].as_array().unwrap().contains(&json!(path)));
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unstored_objects_have_managed_fields_and_partial_forms() {
    let cluster = start(&[]).await;
    account(&cluster, "bot").await;
    let token = format!("{ACCOUNTS}/bot/token");
    let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let pods = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    for (path, asked, owned, subresource) in [
        (
            &*token,
            &json!({"spec": {"expirationSeconds": 700}}),
            json!({"f:spec": {"f:expirationSeconds": {}}}),
            json!("token"),
        ),
        (
            review,
            &pods,
            json!({"f:spec": {"f:resourceAttributes": {".": {}, "f:resource": {}, "f:verb": {}}}}),
            Value::Null,
        ),
    ] {
        let send = async |accept: &str| {
            let accept = [("accept", accept), ("user-agent", "me/1")];
            cluster.admin.send("POST", path, &accept, &asked.to_string()).await
        };
        let part = |kind: &str| format!("application/json;as={kind};v=v1;g=meta.k8s.io");
        let (_, whole) = send("application/json").await;
        let [entry] = &whole["metadata"]["managedFields"].as_array().unwrap()[..] else {
            panic!("{whole}")
        };
        assert_eq!((&entry["manager"], &entry["operation"]), (&json!("me"), &json!("Update")));
        assert_eq!((&entry["fieldsV1"], &entry["subresource"]), (&owned, &subresource));
        assert!(whole["status"].is_object());
        let (_, metadata) = send(&part("PartialObjectMetadata")).await;
        assert_eq!(metadata["kind"], "PartialObjectMetadata");
        assert!(metadata["metadata"]["managedFields"].is_array() && metadata["status"].is_null());
        let (code, status) = send(&part("Table")).await;
        let expected = "only the following media types are accepted: application/json, \
                        application/yaml, application/vnd.kubernetes.protobuf";
        assert_eq!((code, &status["message"]), (406, &json!(expected)));
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_every_curve_sign_for_themselves_alone() {
    let data = |name: &str| format!("{}/../auth/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let (signing, other) = (data("p521.key"), data("p384.key"));
    let cluster = start(&[
        format!("--service-account-issuer={ISSUER}"),
        format!("--service-account-signing-key-file={signing}"),
        format!("--service-account-key-file={signing}"),
        format!("--service-account-key-file={other}"),
    ])
    .await;
    account(&cluster, "bot").await;
    let good = token(&cluster, "bot", json!({})).await;
    let bot = Some("system:serviceaccount:default:bot".to_owned());
    assert_eq!(cluster.bearer(&good).username().await, bot);
    let (_, set) = cluster.admin.get("/openid/v1/jwks").await;
    let told: Vec<_> = set["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| {
            let text = |field: &str| key[field].as_str().unwrap().to_owned();
            [text("kty"), text("crv"), text("alg")]
        })
        .collect();
    assert_eq!(told, [["EC", "P-521", "ES512"], ["EC", "P-384", "ES384"]]);
    let [p521, p384] =
        [&signing, &other].map(|file| PrivateKey::from_pem(&std::fs::read(file).unwrap()).unwrap());
    let said = claims(&good);
    for (what, algorithm, id, key) in [
        ("good", "ES512", &p521, &p521),
        ("good", "ES384", &p384, &p384),
        ("another algorithm than the key's", "ES384", &p521, &p521),
        ("another algorithm than the key's", "ES512", &p384, &p384),
        ("another key under the name", "ES512", &p521, &p384),
        ("another key and its algorithm under the name", "ES384", &p521, &p384),
        ("another curve's algorithm", "ES256", &p521, &p521),
    ] {
        let header = json!({"alg": algorithm, "kid": id.public().id()});
        let token = forge(&header, &said, |message| key.sign(message).unwrap());
        let known = cluster.bearer(&token).username().await;
        assert_eq!(known.is_some(), what == "good", "{algorithm}: {what}");
    }
    cluster.stop().await;
}
