//! Truncation of audit events and batches that are too large for a backend.

use std::sync::Arc;

use super::backend::{Backend, Errors};
use super::event::Event;
use kevel_component::future::Pending;
use kevel_registry::audit::Level;

const PLUGIN: &str = "truncate";

/// Truncates events that are too large, and splits batches (`--audit-*-truncate-*`).
pub struct Truncate<B> {
    /// Next backend.
    pub delegate: B,
    /// Bytes above which an event loses its objects, and is dropped if it is still too large.
    pub max_event: usize,
    /// Bytes above which a batch is split.
    pub max_batch: usize,
    /// Reports dropped events.
    pub errors: Errors,
}

impl<B> std::fmt::Debug for Truncate<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Truncate")
    }
}

impl<B: Backend> Backend for Truncate<B> {
    fn name(&self) -> String {
        format!("{PLUGIN}<{}>", self.delegate.name())
    }

    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> Pending<'a, bool> {
        Box::pin(async move {
            let (mut success, mut batch, mut size) = (true, Vec::new(), 0);
            for event in events {
                let Some((event, bytes)) = self.cut(event) else {
                    let error = "event is too large even after truncating";
                    self.errors.tell(PLUGIN, error, std::slice::from_ref(event));
                    continue;
                };
                if !batch.is_empty() && size + bytes > self.max_batch {
                    success &= self.delegate.process(&std::mem::take(&mut batch)).await;
                    size = 0;
                }
                size += bytes;
                batch.push(event);
            }
            if !batch.is_empty() {
                success &= self.delegate.process(&batch).await;
            }
            success
        })
    }

    fn shut_down(&self) -> Pending<'_, ()> {
        self.delegate.shut_down()
    }
}

impl<B> Truncate<B> {
    /// An event that is not too large, and its size.
    fn cut(&self, event: &Arc<Event>) -> Option<(Arc<Event>, usize)> {
        let size = event.to_json().len();
        if size <= self.max_event {
            return Some((event.clone(), size));
        }
        if event.level < Level::Request {
            return None;
        }
        let mut cut = Event { request_object: None, response_object: None, ..(**event).clone() };
        cut.annotations.insert("audit.k8s.io/truncated".to_owned(), "true".to_owned());
        let size = cut.to_json().len();
        (size <= self.max_event).then(|| (Arc::new(cut), size))
    }
}
