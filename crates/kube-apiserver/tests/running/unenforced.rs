//! What only looks as if it kept a cluster safe stands in the log.

use bytes::Bytes;
use http_body_util::Full;
use kevel_test_support::until;

use crate::Server;
use crate::client::{Client, Version};

const WEBHOOKS: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?dryRun=";

/// Lines of the log that speak of policies that are not enforced.
fn unenforced(server: &Server) -> Vec<String> {
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains("is not enforced by this server yet"));
    lines.map(|line| line.split_once("] ").unwrap().1.to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_that_are_not_enforced_are_in_the_log_when_written_and_at_the_start() {
    let server = Server::start(&[]).await;
    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    for (name, dry_run) in [("tried", "All"), ("made", "")] {
        let body = format!(
            r#"{{"metadata":{{"name":"{name}"}},"webhooks":[{{"name":"a.b.c","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{{"url":"https://127.0.0.1/"}}}}]}}"#
        );
        let uri = format!("{WEBHOOKS}{dry_run}");
        let request = http::Request::post(uri.trim_end_matches("?dryRun="));
        let request =
            request.header("host", "localhost").header("content-type", "application/json");
        let answer =
            client.send(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
        assert_eq!(answer.status(), 201);
    }
    let expected = [
        "\"ValidatingWebhookConfiguration is not enforced by this server yet: its webhooks are not \
         called\" name=\"made\"",
    ];
    assert_eq!(unenforced(&server), expected);
    server.terminate();
    let (_, folder) = server.ended().await;
    let server = Server::start_on(folder, &[]).await;
    until(async || !unenforced(&server).is_empty()).await;
    assert_eq!(unenforced(&server), expected);
}
