//! Events sent to a server outside.

use std::sync::Arc;

use super::backend::{Backend, Errors};
use super::event::Event;
use crate::future::Pending;
use crate::webhook::{Backoff, Client, REQUEST_TIMEOUT, succeeded};

const PLUGIN: &str = "webhook";

/// Posts events in lists, again and again until the server takes them.
#[derive(Debug)]
pub struct Webhook {
    /// The client of the webhook.
    pub client: Client,
    /// How often it is tried.
    pub backoff: Backoff,
    /// Counts events that it does not take.
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
            // Whatever is wrong may be right again: no failure is a reason to lose events.
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

/// An `EventList`.
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
