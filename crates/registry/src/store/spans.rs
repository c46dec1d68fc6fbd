//! Spans of reads and writes of the store (upstream: `tracing.Start` in storage).

use kevel_trace::{KeyValue, TraceSpan, text};

use super::Store;
use crate::storage::{local_key, shown_key};

impl Store<'_> {
    /// Starts the span of a write of the store.
    pub(crate) fn storage_span(&self, name: &'static str, object: &str) -> TraceSpan {
        kevel_trace::start(name, || {
            let mut fields = self.key_fields(object);
            let of = self.group_resource();
            fields.extend([
                text("type", format!("*{}", self.go_type())),
                text("group", of.group.as_str()),
                text("resource", of.resource.as_str()),
            ]);
            fields
        })
    }

    /// Starts the span of a read of one object from the cache.
    pub(crate) fn get_span(&self, version: &str) -> TraceSpan {
        kevel_trace::start("cacher.Get", || {
            let mut fields = self.key_fields(self.name());
            fields.push(text("resource-version", version.to_owned()));
            fields
        })
    }

    /// Starts the span of a read of many objects from the cache.
    pub(crate) fn cache_span(&self, name: &'static str) -> TraceSpan {
        kevel_trace::start(name, || {
            let audit_id = self.context.audit_id.to_owned();
            vec![text("audit-id", audit_id), text("type", self.group_resource().to_string())]
        })
    }

    fn key_fields(&self, object: &str) -> Vec<KeyValue> {
        let local = local_key(self.namespace(), object);
        let key = shown_key(&self.storage.key_of(&local));
        let slash = if key.starts_with('/') { "" } else { "/" };
        let audit_id = self.context.audit_id.to_owned();
        vec![text("audit-id", audit_id), text("key", format!("{slash}{key}"))]
    }
}
