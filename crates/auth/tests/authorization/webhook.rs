use std::time::Duration;

use kevel_auth::authorization::{MatchConditions, ReviewVersion, Webhook, WebhookConfig};
use kevel_clock::Clock;
use kevel_server::authorization::{Decision, Opinion};
use kevel_server::metrics::Metrics;
use kevel_server::webhook::{Backoff, Client, Endpoint};

use super::server::{WebhookServer, ask, metrics, other_ca};

struct Asked {
    webhook: Webhook,
    metrics: Metrics,
    _folder: tempfile::TempDir,
}

fn config() -> WebhookConfig {
    WebhookConfig {
        name: "w".into(),
        version: ReviewVersion::V1,
        timeout: Duration::from_secs(10),
        backoff: Backoff::starting_with(Duration::from_millis(1)),
        authorized_ttl: Duration::ZERO,
        unauthorized_ttl: Duration::ZERO,
        on_error: Decision::NoOpinion,
        match_conditions: MatchConditions::default(),
    }
}

fn webhook(server: &WebhookServer, config: WebhookConfig) -> Asked {
    let folder = tempfile::tempdir().unwrap();
    let file = server.kubeconfig(folder.path());
    let client = Client::new(Endpoint::from_kubeconfig(&file).unwrap()).unwrap();
    let (metrics, own) = metrics();
    Asked { webhook: Webhook::new(client, config, own, &Clock::system()), metrics, _folder: folder }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_review_says_what_is_asked() {
    let user = r#""user":"jane","groups":["dev"],"extra":{"key":["value"]},"uid":"u""#;
    for (what, expected) in [
        (
            "GET /api/v1/namespaces/a/pods/b/log",
            r#""resourceAttributes":{"namespace":"a","verb":"get","version":"v1","resource":"pods","subresource":"log","name":"b"}"#,
        ),
        (
            "GET /apis/apps/v1/deployments?labelSelector=a%3Db,c+notin+(d,e),f,!g&fieldSelector=x!%3Dy",
            r#""resourceAttributes":{"verb":"list","group":"apps","version":"v1","resource":"deployments","fieldSelector":{"requirements":[{"key":"x","operator":"NotIn","values":["y"]}]},"labelSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]},{"key":"c","operator":"NotIn","values":["d","e"]},{"key":"f","operator":"Exists"},{"key":"g","operator":"DoesNotExist"}]}}"#,
        ),
        ("POST /healthz", r#""nonResourceAttributes":{"path":"/healthz","verb":"post"}"#),
    ] {
        let server = WebhookServer::saying("{}");
        let asked = webhook(&server, config());
        assert_eq!(ask(&asked.webhook, "jane,dev", what).await, Opinion::none(""));
        let expected = format!(
            r#"{{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{{}},"spec":{{{expected},{user}}},"status":{{"allowed":false}}}}"#
        );
        assert_eq!(server.asked(), [expected]);
    }
    // The older form calls groups `group`.
    let server = WebhookServer::saying(r#"{"allowed":true}"#);
    let asked = webhook(&server, WebhookConfig { version: ReviewVersion::V1beta1, ..config() });
    assert_eq!(ask(&asked.webhook, "jane,dev", "GET /x").await, Opinion::allow());
    let body = &server.asked()[0];
    assert!(body.contains(r#""apiVersion":"authorization.k8s.io/v1beta1""#), "{body}");
    assert!(body.contains(r#""group":["dev"]"#) && !body.contains("groups"), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_decides() {
    let both = "webhook subject access review returned both allow and deny response";
    for (status, expected) in [
        (
            r#"{"allowed":true,"reason":"yes"}"#,
            Opinion { reason: "yes".into(), ..Opinion::allow() },
        ),
        (r#"{"allowed":false,"reason":"hm"}"#, Opinion::none("hm")),
        (r#"{"denied":true,"reason":"no"}"#, Opinion::deny("no")),
        (
            r#"{"denied":true,"allowed":true}"#,
            Opinion { error: Some(both.into()), ..Opinion::deny("") },
        ),
        ("null", Opinion::none("")),
    ] {
        let server = WebhookServer::saying(status);
        let asked = webhook(&server, config());
        assert_eq!(ask(&asked.webhook, "jane", "GET /x").await, expected, "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_never_allows() {
    let review = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}"#;
    let answers: [(u16, String); 7] = [
        (200, "rubbish".into()),
        (200, "[]".into()),
        (200, review.replace("true", "\"true\"")),
        (200, review.replace("/v1", "/v1beta1")),
        (200, review.replace("SubjectAccessReview", "Status")),
        (404, review.into()),
        (403, review.into()),
    ];
    for (code, body) in answers {
        for on_error in [Decision::NoOpinion, Decision::Deny] {
            let answer = body.clone();
            let server = WebhookServer::start(move |_| (code, answer.clone()));
            let asked = webhook(&server, WebhookConfig { on_error, ..config() });
            let opinion = ask(&asked.webhook, "jane", "GET /x").await;
            assert!(opinion.error.is_some(), "{code} {body}");
            assert_eq!(opinion.decision, on_error, "{code} {body}");
        }
    }
    // A webhook with a certificate of another authority is not trusted.
    let server = WebhookServer::saying(r#"{"allowed":true}"#);
    let folder = tempfile::tempdir().unwrap();
    let file = server.kubeconfig_with(folder.path(), &other_ca());
    let client = Client::new(Endpoint::from_kubeconfig(&file).unwrap()).unwrap();
    let webhook = Webhook::new(client, config(), metrics().1, &Clock::system());
    let opinion = ask(&webhook, "jane", "GET /x").await;
    assert_eq!(opinion.decision, Decision::NoOpinion);
    assert!(opinion.error.is_some() && server.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_that_may_pass_is_tried_again() {
    let mut calls = 0;
    let server = WebhookServer::start(move |_| {
        calls += 1;
        let ok = r#"{"status":{"allowed":true}}"#;
        if calls < 3 { (500, "busy".into()) } else { (200, ok.into()) }
    });
    let asked = webhook(&server, config());
    assert_eq!(ask(&asked.webhook, "jane", "GET /x").await, Opinion::allow());
    assert_eq!(server.asked().len(), 3);
    let shown = asked.metrics.show();
    for line in [
        r#"apiserver_authorization_webhook_evaluations_total{name="w",result="error"} 2"#,
        r#"apiserver_authorization_webhook_evaluations_total{name="w",result="success"} 1"#,
    ] {
        assert!(shown.contains(line), "{line}");
    }
    let server = WebhookServer::start(|_| (500, "busy".into()));
    let asked = webhook(&server, config());
    assert!(ask(&asked.webhook, "jane", "GET /x").await.error.is_some());
    assert_eq!(server.asked().len(), 5);
    let line =
        r#"apiserver_authorization_webhook_evaluations_fail_open_total{name="w",result="error"} 1"#;
    assert!(asked.metrics.show().contains(line));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_remembered() {
    let minute = Duration::from_secs(60);
    let long = format!("GET /{}", "x".repeat(10_000));
    for (status, authorized_ttl, unauthorized_ttl, what, calls) in [
        (r#"{"allowed":true}"#, minute, Duration::ZERO, "GET /x", 1),
        (r#"{"allowed":true}"#, Duration::ZERO, minute, "GET /x", 2),
        (r#"{"allowed":false}"#, minute, Duration::ZERO, "GET /x", 2),
        (r#"{"denied":true}"#, Duration::ZERO, minute, "GET /x", 1),
        // Made-up names must not fill the cache.
        (r#"{"allowed":true}"#, minute, minute, long.as_str(), 2),
    ] {
        let server = WebhookServer::saying(status);
        let asked =
            webhook(&server, WebhookConfig { authorized_ttl, unauthorized_ttl, ..config() });
        let first = ask(&asked.webhook, "jane", what).await;
        assert_eq!(ask(&asked.webhook, "jane", what).await, first);
        assert_eq!(server.asked().len(), calls, "{status} {what:.20}");
        // Entries of others are asked for again.
        ask(&asked.webhook, "joe", what).await;
        ask(&asked.webhook, "jane,dev", what).await;
        assert_eq!(server.asked().len(), calls + 2);
    }
}
