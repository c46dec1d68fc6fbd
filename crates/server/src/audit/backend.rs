//! Audit backends (upstream: `audit.Backend`).

use std::sync::Arc;

use super::event::Event;
use crate::metrics::{Counter, Description, Family, Metrics};
use kevel_component::future::Pending;

/// A backend of audit events (upstream: `audit.Backend`).
pub trait Backend: Send + Sync + 'static {
    /// Name in messages: `buffered<webhook>`.
    fn name(&self) -> String;

    /// Stores events; `false` if some could not be stored, which the backend has [reported](Errors::tell).
    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> Pending<'a, bool>;

    /// Flushes the remaining events. No others follow.
    fn shut_down(&self) -> Pending<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Events that could not be stored: counted and logged.
#[derive(Clone, Debug)]
pub struct Errors(Arc<Family<Counter>>);

impl Errors {
    /// Registers the metric.
    pub fn new(metrics: &Metrics) -> Self {
        Errors(metrics.counter(Description {
            name: "apiserver_audit_error_total",
            help: "[ALPHA] Audit events that a backend could not write, by plugin.",
            labels: &["plugin"],
        }))
    }

    /// Reports events that are lost or incomplete.
    pub fn tell(&self, plugin: &str, error: &str, impacted: &[Arc<Event>]) {
        self.0.with(&[plugin]).add(impacted.len() as u64);
        let events: Vec<String> = impacted.iter().map(|event| event.to_legacy()).collect();
        let (count, events) = (events.len(), events.join("\n"));
        tracing::error!(
            "Error in audit plugin '{plugin}' affecting {count} audit events: {error}\n\
             Impacted events:\n{events}"
        );
    }
}

/// Several backends, called one after the other.
pub struct Union(pub Vec<Box<dyn Backend>>);

impl std::fmt::Debug for Union {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl Backend for Union {
    fn name(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|backend| backend.name()).collect();
        match names.as_slice() {
            [name] => name.clone(),
            names => format!("union[{}]", names.join(",")),
        }
    }

    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> Pending<'a, bool> {
        match self.0.as_slice() {
            [backend] => backend.process(events),
            backends => Box::pin(async move {
                let mut success = true;
                for backend in backends {
                    success &= backend.process(events).await;
                }
                success
            }),
        }
    }

    fn shut_down(&self) -> Pending<'_, ()> {
        Box::pin(async move {
            for backend in &self.0 {
                backend.shut_down().await;
            }
        })
    }
}

/// Mode `blocking`: a request continues even if its event is lost.
pub struct IgnoreErrors<B>(pub B);

impl<B> std::fmt::Debug for IgnoreErrors<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IgnoreErrors")
    }
}

impl<B: Backend> Backend for IgnoreErrors<B> {
    fn name(&self) -> String {
        format!("ignoreErrors<{}>", self.0.name())
    }

    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> Pending<'a, bool> {
        Box::pin(async move {
            self.0.process(events).await;
            true
        })
    }

    fn shut_down(&self) -> Pending<'_, ()> {
        self.0.shut_down()
    }
}

impl Backend for Box<dyn Backend> {
    fn name(&self) -> String {
        (**self).name()
    }

    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> Pending<'a, bool> {
        (**self).process(events)
    }

    fn shut_down(&self) -> Pending<'_, ()> {
        (**self).shut_down()
    }
}
