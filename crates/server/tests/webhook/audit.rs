//! Tests of the audit webhook.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kevel_component::signals::Signal;
use kevel_registry::audit::Level;
use kevel_server::audit::{Backend, Batch, Buffered, Errors, Event, Throttle, Truncate, Webhook};
use kevel_server::metrics::Metrics;
use kevel_server::webhook::{Backoff, Client};

use crate::Receiver;

const QUICK: Backoff =
    Backoff { initial: Duration::from_millis(1), factor: 1.0, jitter: 0.0, steps: 5 };

const BATCH: Batch = Batch {
    buffer_size: 100,
    max_size: 10,
    max_wait: Duration::from_secs(3600),
    throttle: None,
    concurrent: true,
};

fn webhook(receiver: &Receiver, metrics: &Metrics) -> (Webhook, Errors) {
    let errors = Errors::new(metrics);
    let client = Client::new(receiver.endpoint()).unwrap();
    (Webhook { client, backoff: QUICK, errors: errors.clone() }, errors)
}

fn event(id: usize) -> Arc<Event> {
    let event = Event { audit_id: id.to_string(), level: Level::Request, ..Event::default() };
    Arc::new(event)
}

/// Audit IDs of an `EventList`.
fn ids(list: &str) -> Vec<&str> {
    let items = list.split(r#""auditID":""#).skip(1);
    items.map(|item| item.split('"').next().unwrap()).collect()
}

#[tokio::test]
async fn events_are_sent_as_a_list_until_they_are_taken() {
    let metrics = Metrics::default();
    let receiver = Receiver::start().answering(&[500, 403, 503]);
    let (webhook, _) = webhook(&receiver, &metrics);
    assert!(webhook.process(&[event(1), event(2)]).await);
    let requests = receiver.requests();
    assert_eq!(requests.len(), 4);
    assert!(requests.iter().all(|request| request == &requests[0]));
    let list = &requests[0].body;
    let start = r#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[{"level":"Request","auditID":"1","#;
    assert!(list.starts_with(start), "{list}");
    assert_eq!(ids(list), ["1", "2"]);
    assert!(!metrics.show().contains("apiserver_audit_error_total{"));
}

#[tokio::test]
async fn events_that_are_not_taken_are_counted() {
    let metrics = Metrics::default();
    let receiver = Receiver::start().answering(&[500; 5]);
    let (webhook, _) = webhook(&receiver, &metrics);
    assert!(!webhook.process(&[event(1), event(2)]).await);
    assert_eq!(receiver.requests().len(), 5);
    let shown = metrics.show();
    assert!(shown.contains("apiserver_audit_error_total{plugin=\"webhook\"} 2\n"), "{shown}");
}

#[tokio::test]
async fn batches_are_full_or_flushed_when_the_server_stops() {
    let metrics = Metrics::default();
    let receiver = Receiver::start();
    let (webhook, errors) = webhook(&receiver, &metrics);
    let throttle = Some(Throttle { qps: 1000.0, burst: 1 });
    let batch = Batch { throttle, ..BATCH };
    let buffered = Buffered::start(webhook, batch, errors);
    assert_eq!(buffered.name(), "buffered<webhook>");
    for id in 0..23 {
        assert!(buffered.process(&[event(id)]).await);
    }
    receiver.wait_for(2).await;
    buffered.shut_down().await;
    let requests = receiver.requests();
    let mut sizes: Vec<usize> = requests.iter().map(|request| ids(&request.body).len()).collect();
    sizes.sort();
    assert_eq!(sizes, [3, 10, 10]);
    // An event after the shutdown is reported as lost.
    assert!(buffered.process(&[event(24)]).await);
    assert!(metrics.show().contains("apiserver_audit_error_total{plugin=\"buffered\"} 1\n"));
}

#[tokio::test]
async fn a_batch_is_sent_when_it_has_waited_long_enough() {
    let receiver = Receiver::start();
    let (webhook, errors) = webhook(&receiver, &Metrics::default());
    let batch = Batch { max_wait: Duration::from_millis(1), ..BATCH };
    let buffered = Buffered::start(webhook, batch, errors);
    buffered.process(&[event(1)]).await;
    assert_eq!(ids(&receiver.wait_for(1).await[0].body), ["1"]);
}

#[tokio::test]
async fn events_beyond_the_queue_are_dropped_and_counted() {
    let metrics = Metrics::default();
    let receiver = Receiver::start();
    let go = Signal::new("go");
    receiver.received.answers.lock().unwrap().push((200, Vec::new(), Some(go.clone())));
    let (webhook, errors) = webhook(&receiver, &metrics);
    let batch = Batch { buffer_size: 2, max_size: 1, concurrent: false, ..BATCH };
    let buffered = Buffered::start(webhook, batch, errors);
    buffered.process(&[event(1)]).await;
    receiver.wait_for(1).await;
    buffered.process(&[event(2), event(3), event(4), event(5)]).await;
    assert!(metrics.show().contains("apiserver_audit_error_total{plugin=\"buffered\"} 2\n"));
    go.signal();
    buffered.shut_down().await;
    let requests = receiver.requests();
    let sent: Vec<&str> = requests.iter().flat_map(|request| ids(&request.body)).collect();
    assert_eq!(sent, ["1", "2", "3"]);
}

#[tokio::test]
async fn events_that_are_too_large_are_cut() {
    let metrics = Metrics::default();
    let receiver = Receiver::start();
    let (webhook, errors) = webhook(&receiver, &metrics);
    let truncate = Truncate { delegate: webhook, max_event: 500, max_batch: 800, errors };
    let large = |id: usize, agent: usize| {
        Arc::new(Event {
            request_object: Some(Bytes::from(format!("\"{}\"", "x".repeat(500)))),
            user_agent: "y".repeat(agent),
            ..(*event(id)).clone()
        })
    };
    let events = [event(1), large(2, 0), large(3, 500), event(4), event(5)];
    assert!(truncate.process(&events).await);
    let requests = receiver.requests();
    let sent: Vec<Vec<&str>> = requests.iter().map(|request| ids(&request.body)).collect();
    assert_eq!(sent, [vec!["1", "2", "4"], vec!["5"]]);
    assert!(requests[0].body.contains(r#""annotations":{"audit.k8s.io/truncated":"true"}"#));
    assert!(!requests[0].body.contains("xxx"));
    assert!(metrics.show().contains("apiserver_audit_error_total{plugin=\"truncate\"} 1\n"));
}
