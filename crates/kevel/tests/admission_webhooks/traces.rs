//! Webhooks in the trace of the request that they are called for.

use kevel_test_support::TraceCollector;
use serde_json::json;

use crate::{CONFIG_MAPS, Hooked, Kind, allow, config_map};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_parts_of_their_request_s_trace() {
    let collector = TraceCollector::start().await;
    let folder = tempfile::tempdir().unwrap();
    let flag = collector.flag(folder.path(), 0);
    let hooked = Hooked::start(&[&flag]).await;
    hooked.hooks.on("/look", |_| allow());
    let webhook = hooked.webhook("/look", json!({}));
    hooked.configure(Kind::Validating, "look", &[webhook]).await;
    let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let headers = [("content-type", "application/json"), ("traceparent", parent.as_str())];
    let create = format!("POST {CONFIG_MAPS}");
    let made = hooked.cluster.send_with("admin", &create, &headers, &config_map("o")).await;
    assert_eq!(made.0, 201, "{}", made.1);
    let received = hooked.hooks.received("/look");
    let sent = received[0].headers["traceparent"].to_str().unwrap().to_owned();
    hooked.stop().await;
    let spans = collector.of(TRACE);
    let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let (call, post) = (named("Call validating webhook"), named("HTTP POST"));
    assert_eq!(call.attributes["webhook"], "look.hook.test");
    assert_eq!(call.attributes["operation"], "CREATE");
    assert_eq!(call.events, ["Request completed"]);
    assert_eq!(post.parent, call.id);
    assert_eq!(sent, format!("00-{TRACE}-{}-01", post.id));
}

/// Without spans of its own, the server passes on what its client has sent.
#[tokio::test(flavor = "multi_thread")]
async fn webhooks_get_trace_context_of_client() {
    let hooked = Hooked::start(&[]).await;
    hooked.hooks.on("/look", |_| allow());
    let webhook = hooked.webhook("/look", json!({}));
    hooked.configure(Kind::Validating, "look", &[webhook]).await;
    let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let create = format!("POST {CONFIG_MAPS}");
    for (name, given) in [("a", Some(parent.as_str())), ("b", None)] {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(given.map(|given| ("traceparent", given)));
        let made = hooked.cluster.send_with("admin", &create, &headers, &config_map(name)).await;
        assert_eq!(made.0, 201, "{}", made.1);
        let received = hooked.hooks.received("/look");
        let sent = received.last().unwrap().headers.get("traceparent");
        assert_eq!(sent.map(|sent| sent.to_str().unwrap()), given);
    }
    hooked.stop().await;
}
