//! Spans of requests to resources (upstream: `tracing.Start` in the handlers and in storage).

use http::Version;
use http::header::{ACCEPT, USER_AGENT};
use kevel_api::status::StatusError;
use kevel_trace::{KeyValue, TraceSpan, number, text};

use super::ResourceRequest;
use crate::audit::source_ips;
use crate::chain::{Hold, hold, logged};
use crate::handler::Response;
use crate::negotiate::MediaType;
use crate::request::Request;
use kevel_registry::list_options::truthy;
use kevel_registry::verb::Verb;

/// Longest user agent of a span, in bytes, as in the reference.
const MAX_USER_AGENT: usize = 1024;

/// Starts the span of a request's verb.
pub(super) fn of_verb(request: &Request) -> TraceSpan {
    let name = match request.info.verb {
        Verb::Get => "Get",
        Verb::List => "List",
        Verb::Create => "Create",
        Verb::Update => "Update",
        Verb::Patch => "Patch",
        Verb::Delete | Verb::DeleteCollection => "Delete",
        Verb::Watch if is_watch_list(request) => "WatchList",
        _ => return TraceSpan::default(),
    };
    kevel_trace::start(name, || fields(request))
}

/// Whether a watch begins with the state, and tells where that ends.
fn is_watch_list(request: &Request) -> bool {
    let has = |name| kevel_registry::query::first(&request.info.query, name).is_some_and(truthy);
    has("sendInitialEvents") && has("allowWatchBookmarks")
}

fn fields(request: &Request) -> Vec<KeyValue> {
    let info = &request.info;
    let client = source_ips(&request.parts.headers, request.connection.peer).first().copied();
    let client = client.map(|client| client.to_string()).unwrap_or_default();
    let agent = request.header(USER_AGENT);
    let scope = match (info.name.is_empty(), info.namespace.is_empty()) {
        (false, _) => "resource",
        (true, false) => "namespace",
        (true, true) => "cluster",
    };
    vec![
        text("accept", request.header(ACCEPT)),
        text("audit-id", logged(&request.audit_id)),
        text("client", client),
        text("api-group", info.group.as_str()),
        text("api-version", info.version.as_str()),
        text("name", info.name.as_str()),
        text("subresource", info.subresource.as_str()),
        text("namespace", info.namespace.as_str()),
        text("protocol", protocol(request.parts.version)),
        text("resource", info.resource.as_str()),
        text("scope", scope),
        text("url", info.path.as_str()),
        text("user-agent", truncated(agent)),
        text("verb", info.verb.as_ref()),
    ]
}

fn truncated(agent: &str) -> String {
    if agent.len() <= MAX_USER_AGENT {
        return agent.to_owned();
    }
    let end = (0..=MAX_USER_AGENT).rev().find(|&end| agent.is_char_boundary(end)).unwrap_or(0);
    format!("{}...TRUNCATED", agent.get(..end).unwrap_or_default())
}

/// Protocol as Go names it.
fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    }
}

impl ResourceRequest<'_> {
    /// Begins the encoding of the response: what the verb was to do has been done.
    pub(super) fn serializing(&self) -> Serializing<'_> {
        if !self.span.is_recording() || self.accepted.in_process {
            return Serializing { verb: self.span, span: TraceSpan::default() };
        }
        let done = match self.request.info.verb {
            Verb::Create | Verb::Update => Some("Write to database call succeeded"),
            Verb::Patch => Some("Object stored in database"),
            Verb::Delete => Some("Object deleted from database"),
            _ => None,
        };
        done.into_iter().for_each(|done| self.span.event(done));
        if self.request.info.verb != Verb::List {
            self.span.event("About to write a response");
        }
        let media = self.accepted.media;
        let start = || kevel_trace::start("SerializeObject", || self.response_fields(media.name()));
        Serializing { verb: self.span, span: self.span.in_scope(start) }
    }

    /// Attributes of the span of an encoded response.
    pub(super) fn response_fields(&self, media_type: &str) -> Vec<KeyValue> {
        let Request { parts, info, audit_id, .. } = &self.request;
        let media = self.accepted.media;
        let version = self.resource.kind.group_version();
        let raw = media_type != media.name();
        vec![
            text("audit-id", logged(audit_id)),
            text("method", parts.method.as_str()),
            text("url", info.path.as_str()),
            text("protocol", protocol(parts.version)),
            text("mediaType", media_type),
            text("encoder", encoder(media, raw, self.accepted.pretty, &version.to_string())),
        ]
    }

    /// Adds the event of a body of so many bytes that has been read.
    pub(super) fn note_body(&self, len: usize) {
        self.span.event_with("limitedReadBody succeeded", || vec![number("len", len)]);
    }
}

/// Identifier of the reference's encoder: JSON in JSON. Protobuf in a stream is `raw`.
fn encoder(media: MediaType, raw: bool, pretty: bool, version: &str) -> String {
    let encoder = match media {
        MediaType::Protobuf if raw => r#""raw-protobuf""#.to_owned(),
        MediaType::Protobuf => r#""protobuf""#.to_owned(),
        MediaType::Cbor => r#""cbor""#.to_owned(),
        MediaType::Json | MediaType::Yaml => {
            let yaml = media == MediaType::Yaml;
            let fields = [("name", "json".to_owned()), ("pretty", pretty.to_string())];
            let fields = fields
                .into_iter()
                .chain([("strict", "false".to_owned()), ("yaml", yaml.to_string())]);
            let fields = fields.map(|(name, value)| format!(r#"\"{name}\":\"{value}\""#));
            format!("\"{{{}}}\"", fields.collect::<Vec<_>>().join(","))
        }
    };
    format!(r#"{{"encodeGV":"{version}","encoder":{encoder},"name":"versioning"}}"#)
}

/// Encoding of a response.
pub(super) struct Serializing<'a> {
    verb: &'a TraceSpan,
    span: TraceSpan,
}

impl Serializing<'_> {
    /// Ends with the response; with its body if that is made while it is sent.
    pub(super) fn finish(
        self,
        response: Result<Response, StatusError>,
    ) -> Result<Response, StatusError> {
        let Serializing { verb, span } = self;
        if !span.is_recording() {
            return response;
        }
        let response = response?;
        span.event("About to start writing response");
        let response = hold(response, WrittenSpan { span, size: 0 });
        verb.event("Writing http response done");
        Ok(response)
    }
}

/// Span of a response until it has been written.
struct WrittenSpan {
    span: TraceSpan,
    size: u64,
}

impl Hold for WrittenSpan {
    fn sent(&mut self, bytes: u64) {
        self.size += bytes;
    }
}

impl Drop for WrittenSpan {
    fn drop(&mut self) {
        let size = self.size;
        self.span.event_with("Write call succeeded", || vec![number("size", size)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoders_are_identified_as_in_the_reference() {
        let json = r#"{"encodeGV":"v1","encoder":"{\"name\":\"json\",\"pretty\":\"false\",\"strict\":\"false\",\"yaml\":\"false\"}","name":"versioning"}"#;
        assert_eq!(encoder(MediaType::Json, false, false, "v1"), json);
        let protobuf = r#"{"encodeGV":"apps/v1","encoder":"protobuf","name":"versioning"}"#;
        assert_eq!(encoder(MediaType::Protobuf, false, false, "apps/v1"), protobuf);
    }

    #[test]
    fn long_user_agents_are_cut() {
        let long = "é".repeat(MAX_USER_AGENT);
        assert_eq!(truncated("kubectl"), "kubectl");
        assert_eq!(truncated(&long).len(), MAX_USER_AGENT + "...TRUNCATED".len());
    }
}
