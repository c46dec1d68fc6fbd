//! Audit webhook backend.

use std::sync::Arc;

use super::backend::{Backend, Errors};
use super::event::Event;
use crate::webhook::{Backoff, Client, REQUEST_TIMEOUT, succeeded};
use kevel_component::future::Pending;

const PLUGIN: &str = "webhook";

/// Posts `EventList`s to a webhook, with retries.
#[derive(Debug)]
pub struct Webhook {
    /// Client of the webhook.
    pub client: Client,
    /// Retries of failed requests.
    pub backoff: Backoff,
    /// Reports events that could not be sent.
    pub errors: Errors,
}

impl Backend for Webhook {
    fn name(&self) -> String {
        PLUGIN.to_owned()
    }

    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> Pending<'a, bool> {
        Box::pin(async move {
            let body = bytes::Bytes::from(list(events));
            let post = || async {
                succeeded(self.client.post_json("", body.clone(), REQUEST_TIMEOUT).await?)
            };
            // Every failure is retried, so that events are not lost to a temporary one.
            match self.backoff.call_while(post, |_| true).await {
                Ok(_) => true,
                Err(error) => {
                    self.errors.tell(PLUGIN, &error.to_string(), events);
                    false
                }
            }
        })
    }
}

/// Encodes an `EventList`.
fn list(events: &[Arc<Event>]) -> Vec<u8> {
    let mut out =
        br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#.to_vec();
    for (index, event) in events.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        event.write_item(&mut out);
    }
    out.extend_from_slice(b"]}\n");
    out
}
