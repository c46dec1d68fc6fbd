//! The page `/ui/` on a running server: sign-in, sessions, and results of the search.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

use http::Response;
use kevel_test_support::{Cluster, Replicas};
use serde_json::{Value, json};

const UI: (&str, &str) = ("x-kevel-ui", "1");
const REVIEW: &str = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
const REVIEWS: &str = "/ui/api/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// A browser, as far as the server sees it: a cookie, and the headers of the page's requests.
struct Browser<'a> {
    cluster: &'a Cluster,
    cookie: String,
}

impl<'a> Browser<'a> {
    /// Signs in with a token.
    async fn sign_in(cluster: &'a Cluster, token: &str) -> Self {
        let mut browser = Browser { cluster, cookie: String::new() };
        let body = json!({"token": token}).to_string();
        let answer = browser.send("POST", "/ui/session", &body).await;
        assert_eq!(answer.status(), 200, "{}", answer.body());
        let cookie = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
        for attribute in ["; Path=/ui/", "; Secure", "; HttpOnly", "; SameSite=Strict"] {
            assert!(cookie.contains(attribute), "{cookie}");
        }
        browser.cookie = cookie.split(';').next().unwrap().to_owned();
        browser
    }

    async fn send(&self, method: &str, path: &str, body: &str) -> Response<String> {
        self.send_with(method, path, &[UI], body).await
    }

    /// Sends a request on a connection with the administrator's certificate, which must not count.
    async fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response<String> {
        let length = body.len().to_string();
        let mut all = headers.to_vec();
        all.extend([("content-type", "application/json"), ("content-length", length.as_str())]);
        if !self.cookie.is_empty() {
            all.push(("cookie", &self.cookie));
        }
        self.cluster.admin.raw(method, path, &all, body).await
    }

    async fn get(&self, path: &str) -> u16 {
        self.send("GET", path, "").await.status().as_u16()
    }

    /// Results of a search, as `kind namespace/name`.
    async fn search(&self, words: &str) -> Vec<String> {
        let words = words.replace(' ', "%20").replace('=', "%3D");
        let answer = self.send("GET", &format!("/ui/api/ui/search?q={words}"), "").await;
        assert_eq!(answer.status(), 200, "{words}: {}", answer.body());
        shown(answer.body())
    }
}

fn shown(answer: &str) -> Vec<String> {
    let answer: Value = serde_json::from_str(answer).unwrap();
    assert_eq!(answer["complete"], true, "{answer}");
    let text = |result: &Value, field: &str| result[field].as_str().unwrap().to_owned();
    let results = answer["results"].as_array().unwrap().iter();
    let mut results: Vec<_> = results
        .map(|one| {
            format!("{} {}/{}", text(one, "kind"), text(one, "namespace"), text(one, "name"))
        })
        .collect();
    results.sort();
    results
}

#[tokio::test(flavor = "multi_thread")]
async fn page_is_for_everyone_and_data_for_sessions() {
    let cluster = Cluster::start(&[]).await;
    let visitor = Browser { cluster: &cluster, cookie: String::new() };
    let page = cluster.bearer("").raw("GET", "/ui/", &[], "").await;
    assert_eq!(page.status(), 200);
    let header = |name: &str| page.headers()[name].to_str().unwrap();
    assert_eq!(header("x-frame-options"), "DENY");
    let policy = header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    let tag = header("etag").to_owned();
    let unchanged = visitor.send_with("GET", "/ui/", &[("if-none-match", &tag)], "").await;
    assert_eq!((unchanged.status().as_u16(), unchanged.body().len()), (304, 0));
    assert_eq!(visitor.get("/ui/main.js").await, 200);
    assert_eq!(visitor.get("/ui").await, 301);
    assert_eq!(visitor.get("/ui/other").await, 404);

    // Neither the certificate of the connection nor a header makes a session.
    assert_eq!(visitor.get("/ui/api/api/v1/namespaces").await, 401);
    let answer = visitor.send_with("GET", "/ui/api/api/v1/namespaces", &[], "").await;
    assert_eq!(answer.status(), 403);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_signs_in_as_its_user_alone() {
    let cluster = Cluster::start(&[]).await;
    let jane = Browser::sign_in(&cluster, "jane").await;
    for headers in [
        &[UI][..],
        &[UI, ("authorization", "Bearer joe")],
        &[UI, ("impersonate-user", "joe")],
        &[UI, ("x-remote-user", "joe")],
    ] {
        let answer = jane.send_with("POST", REVIEWS, headers, REVIEW).await;
        assert_eq!(answer.status(), 201, "{}", answer.body());
        let review: Value = serde_json::from_str(answer.body()).unwrap();
        assert_eq!(review["status"]["userInfo"]["username"], "jane", "{headers:?}");
        assert_eq!(answer.headers()["cache-control"], "no-store");
    }
    // Her rights are those of her token.
    assert_eq!(jane.get("/ui/api/api/v1/secrets").await, 403);
    let session = jane.send("GET", "/ui/session", "").await;
    assert_eq!(session.body(), r#"{"codes":false,"user":"jane"}"#);

    assert_eq!(jane.send("DELETE", "/ui/session", "").await.status(), 204);
    assert_eq!(jane.send("POST", REVIEWS, REVIEW).await.status(), 401);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_begin_no_session() {
    let cluster = Cluster::start(&[]).await;
    let visitor = Browser { cluster: &cluster, cookie: String::new() };
    let long = json!({"token": "x".repeat(40_000)}).to_string();
    for (body, code) in [
        (r#"{"token":"unknown"}"#, 401),
        (r#"{"token":"jane\nx"}"#, 401),
        (r#"{"token":"  "}"#, 400),
        (r#"{"code":"AAAA-AAAA-AAAA"}"#, 401),
        ("{}", 400),
        ("[", 400),
        (&long, 413),
    ] {
        let answer = visitor.send("POST", "/ui/session", body).await;
        assert_eq!(answer.status(), code, "{body}");
        assert!(!answer.headers().contains_key("set-cookie"), "{body}");
    }
    let foreign = [UI, ("origin", "https://example.com")];
    let answer = visitor.send_with("POST", "/ui/session", &foreign, r#"{"token":"jane"}"#).await;
    assert_eq!(answer.status(), 403);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_pages_and_other_servers_are_kept_out() {
    let cluster = Cluster::start(&[]).await;
    let jane = Browser::sign_in(&cluster, "jane").await;
    for headers in [
        &[][..],
        &[UI, ("origin", "https://example.com")],
        &[UI, ("origin", "null")],
        &[UI, ("sec-fetch-site", "cross-site")],
        &[UI, ("sec-fetch-site", "same-site")],
    ] {
        for path in [REVIEWS, "/ui/session", "/ui/code"] {
            let answer = jane.send_with("POST", path, headers, REVIEW).await;
            assert_eq!(answer.status(), 403, "{path} {headers:?}");
        }
    }
    for (path, code) in [
        ("/ui/api/api/v1/namespaces/default/services/x/proxy/index.html", 403),
        ("/ui/api/api/v1/namespaces/default/pods/x/exec", 403),
        ("/ui/api/api/v1/proxy/namespaces/default/pods/x", 403),
        ("/ui/api/debug/flags/v", 404),
        ("/ui/api//api/v1/namespaces", 404),
        ("/ui/api/ui/session", 404),
        ("/ui/api", 404),
        ("/ui/api/version", 200),
    ] {
        assert_eq!(jane.get(path).await, code, "{path}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn search_shows_only_what_the_user_may_list() {
    let cluster = Cluster::start(&[]).await;
    for namespace in ["team-a", "team-a0", "team-b"] {
        let body = json!({"metadata": {"name": namespace}}).to_string();
        cluster.ok("admin", "POST /api/v1/namespaces", &body).await;
        let map = json!({
            "metadata": {"name": "wanted-map", "labels": {"app": "wanted"}},
            "data": {"text": "some needle here"}
        });
        let secret = json!({"metadata": {"name": "wanted-secret"}, "stringData": {"k": "needle"}});
        let path = format!("/api/v1/namespaces/{namespace}");
        cluster.ok("admin", &format!("POST {path}/configmaps"), &map.to_string()).await;
        cluster.ok("admin", &format!("POST {path}/secrets"), &secret.to_string()).await;
    }
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/team-a";
    let role = json!({
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    });
    cluster.ok("admin", &format!("POST {rbac}/roles"), &role.to_string()).await;
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]
    });
    cluster.ok("admin", &format!("POST {rbac}/rolebindings"), &binding.to_string()).await;
    let list = "GET /api/v1/namespaces/team-a/configmaps";
    cluster.until_sent("jane", list, "", |(code, _)| *code == 200).await;

    let (jane, joe) =
        (Browser::sign_in(&cluster, "jane").await, Browser::sign_in(&cluster, "joe").await);
    let all = cluster.ok("admin", "GET /ui/search?q=wanted", "").await;
    let all = shown(&all.to_string());
    assert_eq!(all.len(), 6, "{all:?}");
    for words in [
        "wanted",
        "WANTED-m",
        "needle",
        "app=wanted",
        "app=want",
        "data.text=some",
        "kind:cm wanted",
        "ns:team-a wanted",
        "team-a needle",
    ] {
        assert_eq!(jane.search(words).await, ["ConfigMap team-a/wanted-map"], "{words}");
        assert!(joe.search(words).await.is_empty(), "{words}");
    }
    for words in ["ns:team-b wanted", "kind:secret wanted", "app=other", "team-b", "kind:namespace"]
    {
        assert!(jane.search(words).await.is_empty(), "{words}");
    }
    // Credentials of any kind, but some: the search itself is no secret, its results are.
    assert!(shown(&cluster.ok("joe", "GET /ui/search?q=wanted", "").await.to_string()).is_empty());
    let stranger = cluster.bearer("");
    assert_eq!(stranger.get("/ui/search?q=wanted").await.0, 403);
    assert!(cluster.refused("joe", "POST /ui/search?q=wanted", "").await.starts_with("403"));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn search_is_bounded_and_finds_owned_objects() {
    let cluster = Cluster::start(&[]).await;
    let path = "/api/v1/namespaces/default/configmaps";
    let owner = json!({"metadata": {"name": "the-owner"}});
    let owner = cluster.ok("admin", &format!("POST {path}"), &owner.to_string()).await;
    let uid = owner["metadata"]["uid"].as_str().unwrap();
    for number in 0..70 {
        let owners = match number {
            7 => {
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "the-owner", "uid": uid}])
            }
            _ => json!([]),
        };
        let map = json!({
            "metadata": {"name": format!("many-{number}"), "ownerReferences": owners},
            "data": {"uid": uid}
        });
        cluster.ok("admin", &format!("POST {path}"), &map.to_string()).await;
    }
    let search = async |words: &str| {
        let found = cluster.ok("admin", &format!("GET /ui/search?q={words}"), "").await;
        shown(&found.to_string())
    };
    assert_eq!(search("many").await.len(), 60);
    assert_eq!(search("many-7").await, ["ConfigMap default/many-7"]);
    assert_eq!(search(&format!("owner:{uid}")).await, ["ConfigMap default/many-7"]);
    for words in ["", "%20", &"a%20".repeat(9), &"a".repeat(300)] {
        let refused = cluster.send("admin", &format!("GET /ui/search?q={words}"), "").await;
        assert_eq!(refused.0, 400, "{words}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_of_the_page_are_unknown_where_it_is_off() {
    let cluster = Cluster::start(&["--ui=false"]).await;
    for path in ["/ui", "/ui/", "/ui/main.js", "/ui/session", "/ui/search?q=a"] {
        let answer = cluster.admin.raw("GET", path, &[UI], "").await;
        let found = (answer.status().as_u16(), answer.body().as_str());
        assert_eq!(found, (404, "404 page not found\n"), "{path}");
        assert_eq!(cluster.bearer("").get(path).await.0, 403, "{path}");
        assert_eq!(cluster.send("jane", &format!("GET {path}"), "").await.0, 403, "{path}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_on_etcd_have_no_page_unless_asked_for() {
    let Some(replicas) = Replicas::new().await else { return };
    for (name, flags, expected) in
        [("reference", &[][..], [404, 404, 404]), ("page", &["--ui"], [200, 403, 200])]
    {
        let server = replicas.start(name, flags).await;
        let mut found = Vec::new();
        for path in ["/ui/", "/ui/session", "/ui/search?q=default"] {
            found.push(server.admin.raw("GET", path, &[], "").await.status().as_u16());
        }
        assert_eq!(found, expected, "{name}");
        server.stop().await;
    }
}
