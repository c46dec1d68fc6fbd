//! `pods/log`: logs of a container, read from its kubelet.

use std::sync::Arc;

use http::{StatusCode, header};
use http_body_util::{BodyExt as _, Either, Full, Limited};
use hyper::body::Incoming;
use kevel_api::builtin;
use kevel_api::field_error::{FieldError, Path};
use kevel_api::gvk::{GroupKind, GroupResource};
use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::query::encode;
use kevel_registry::type_ref::TypeRef;
use kevel_server::body::Body;
use kevel_server::connecter::{ConnectRequest, GetterWithOptions};
use kevel_server::handler::Response;
use kevel_server::proxy::{Location, Passed, Transport, unknown};

use super::container::{container, kubelet_of};
use super::metrics::ConnectMetrics;
use crate::kubelet::NodeConnectionInfoGetter;

/// Maximum size of a kubelet's error that is read.
const MAX_ERROR: usize = 50_000;

/// Values of the option `stream`.
const STREAMS: [&str; 3] = ["All", "Stderr", "Stdout"];

/// Options that are passed on unchanged, in the order of the query.
const FLAGS: [&str; 3] = ["follow", "previous", "timestamps"];
const NUMBERS: [&str; 3] = ["sinceSeconds", "tailLines", "limitBytes"];

/// Connecter of `pods/log`.
#[derive(Debug)]
pub(super) struct PodLog {
    kubelets: Arc<NodeConnectionInfoGetter>,
    /// Gate `PodLogsQuerySplitStreams`: stdout or stderr can be requested alone.
    split_streams: bool,
    options: TypeRef,
    metrics: ConnectMetrics,
}

impl PodLog {
    pub fn new(
        kubelets: Arc<NodeConnectionInfoGetter>,
        split_streams: bool,
        metrics: ConnectMetrics,
    ) -> Result<Self, String> {
        let options =
            builtin::schema("", "v1", "PodLogOptions").ok_or("PodLogOptions are no type")?;
        Ok(PodLog { kubelets, split_streams, options: TypeRef::BuiltIn(options), metrics })
    }

    /// URL of the log at the kubelet, with the transport; `None` if the pod is not bound.
    async fn location(
        &self,
        request: &ConnectRequest<'_>,
    ) -> Result<Option<(Location, Arc<Transport>)>, StatusError> {
        let pod = request.resource.find(&request.namespace, &request.name).await?;
        let container = container(&pod, request.options.str_at(&["container"]))?;
        let Some(kubelet) = kubelet_of(&pod, request, &self.kubelets).await? else {
            return Ok(None);
        };
        let (namespace, name) =
            (pod.str_at(&["metadata", "namespace"]), pod.str_at(&["metadata", "name"]));
        let path = format!("/containerLogs/{namespace}/{name}/{container}");
        let location = kubelet.location(path, encode(&self.query(&request.options)));
        let transport = match request.flag("insecureSkipTLSVerifyBackend") {
            true => kubelet.insecure_skip_tls_verify_transport,
            false => kubelet.transport,
        };
        Ok(Some((location, transport)))
    }

    fn query(&self, options: &Value) -> Vec<(String, String)> {
        let flags = FLAGS.into_iter().filter(|flag| is_set(options, flag));
        let flags = flags.map(|flag| (flag.to_owned(), "true".to_owned()));
        let numbers = NUMBERS.into_iter().filter_map(|name| {
            let number = options.at(&[name]).and_then(Value::as_int)?;
            Some((name.to_owned(), number.to_string()))
        });
        let since = options.at(&["sinceTime"]).and_then(Value::as_str);
        let since = since.map(|time| ("sinceTime".to_owned(), time.to_owned()));
        let stream = || ("stream".to_owned(), stream(options).unwrap_or("All").to_owned());
        let stream = self.split_streams.then(stream);
        flags.chain(numbers).chain(since).chain(stream).collect()
    }

    /// Requests the log from the kubelet; redirects are not followed.
    async fn read(
        &self,
        location: &Location,
        transport: &Transport,
        name: &str,
    ) -> Result<Incoming, StatusError> {
        let uri = location.uri().map_err(unknown)?;
        let failed = |url: &str, why: &str| unknown(format!("Get {}: {why}", quote(url)));
        let mut request = http::Request::new(Either::Right(Full::default()));
        *request.uri_mut() = uri.clone();
        let answer = transport.send(request).await.map_err(|why| {
            if why.contains("x509:") {
                self.metrics.log_tls_failure();
            }
            failed(&uri.to_string(), &why)
        })?;
        let to = answer.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
        if let (Some(to), 301 | 302 | 303 | 307 | 308) = (to, answer.status().as_u16()) {
            return Err(failed(to, "redirects forbidden"));
        }
        match answer.status().as_u16() {
            200..=206 => Ok(answer.into_body()),
            code => Err(refusal(code, answer.into_body(), name).await),
        }
    }
}

impl GetterWithOptions for PodLog {
    fn options_type(&self) -> &TypeRef {
        &self.options
    }

    fn get<'a>(
        &'a self,
        request: ConnectRequest<'a>,
    ) -> Pending<'a, Result<Response, StatusError>> {
        Box::pin(async move {
            self.metrics.log(request.flag("insecureSkipTLSVerifyBackend"));
            let errors = validate(&request.options, self.split_streams);
            if !errors.is_empty() {
                let kind = GroupKind::new("", "PodLogOptions");
                return Err(StatusError::invalid(&kind, &request.name, errors));
            }
            let Some((location, transport)) = self.location(&request).await? else {
                let mut response = http::Response::new(Body::empty());
                *response.status_mut() = StatusCode::NO_CONTENT;
                return Ok(response);
            };
            let log = self.read(&location, &transport, &request.name).await?;
            let mut response = http::Response::new(Body::pieces(Passed::from(log)));
            let plain = http::HeaderValue::from_static("text/plain");
            response.headers_mut().insert(header::CONTENT_TYPE, plain);
            Ok(response)
        })
    }
}

fn is_set(options: &Value, name: &str) -> bool {
    options.at(&[name]).and_then(Value::as_bool).unwrap_or_default()
}

fn stream(options: &Value) -> Option<&str> {
    options.at(&["stream"]).and_then(Value::as_str)
}

/// Errors in the options.
fn validate(options: &Value, split_streams: bool) -> Vec<FieldError> {
    let number = |name: &str| options.at(&[name]).and_then(Value::as_int);
    let mut errors = Vec::new();
    let mut invalid = |name: &'static str, number: i64, why: &'static str| {
        errors.push(FieldError::invalid(&Path::new(name), number, why));
    };
    if let Some(lines) = number("tailLines").filter(|lines| *lines < 0) {
        invalid("tailLines", lines, "must be greater than or equal to 0");
    }
    if let Some(bytes) = number("limitBytes").filter(|bytes| *bytes < 1) {
        invalid("limitBytes", bytes, "must be greater than 0");
    }
    match (number("sinceSeconds"), options.at(&["sinceTime"])) {
        (Some(_), Some(_)) => errors.push(FieldError::forbidden(
            &Path::new(""),
            "at most one of `sinceTime` or `sinceSeconds` may be specified",
        )),
        (Some(seconds), None) if seconds < 1 => {
            invalid("sinceSeconds", seconds, "must be greater than 0");
        }
        _ => {}
    }
    match (split_streams, stream(options)) {
        (false, None) => {}
        (false, Some(_)) => {
            errors.push(FieldError::forbidden(&Path::new("stream"), "may not be specified"));
        }
        (true, asked) => {
            let asked = asked.unwrap_or("All");
            if !STREAMS.contains(&asked) {
                errors.push(FieldError::not_supported(&Path::new("stream"), asked, STREAMS));
            }
            if asked != "All" && number("tailLines").is_some() {
                errors.push(FieldError::forbidden(
                    &Path::new(""),
                    "`tailLines` and specific `stream` are mutually exclusive for now",
                ));
            }
        }
    }
    errors
}

/// Error for a kubelet's response without a log.
async fn refusal(code: u16, body: Incoming, name: &str) -> StatusError {
    let mut said = Vec::new();
    let mut body = Limited::new(body, MAX_ERROR);
    // The text beyond the limit is dropped.
    while let Some(Ok(frame)) = body.frame().await {
        said.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
    }
    let said = String::from_utf8_lossy(&said).into_owned();
    match code {
        500 => StatusError::internal(said),
        400 => StatusError::bad_request(said),
        code => {
            let resource = GroupResource::new("", "pods/log");
            StatusError::generic(code, "", &resource, name, &said, 0, false)
        }
    }
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::{Unknown, decode_any};

    use super::*;

    #[test]
    fn options_make_sense() {
        for (options, split, expected) in [
            (r#"{"tailLines":0,"limitBytes":1,"sinceSeconds":1}"#, false, vec![]),
            (
                r#"{"tailLines":-1,"limitBytes":0,"sinceSeconds":0}"#,
                false,
                vec![
                    "tailLines: Invalid value: -1: must be greater than or equal to 0",
                    "limitBytes: Invalid value: 0: must be greater than 0",
                    "sinceSeconds: Invalid value: 0: must be greater than 0",
                ],
            ),
            (
                r#"{"sinceSeconds":1,"sinceTime":"2026-01-01T00:00:00Z"}"#,
                false,
                vec![
                    "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
                ],
            ),
            (r#"{"stream":"Stdout"}"#, false, vec!["stream: Forbidden: may not be specified"]),
            (r#"{"stream":"Stdout"}"#, true, vec![]),
            (
                r#"{"stream":"Stdout","tailLines":1}"#,
                true,
                vec![
                    "[]: Forbidden: `tailLines` and specific `stream` are mutually exclusive for now",
                ],
            ),
            (
                r#"{"stream":"x"}"#,
                true,
                vec![
                    r#"stream: Unsupported value: "x": supported values: "All", "Stderr", "Stdout""#,
                ],
            ),
        ] {
            let value = decode_any(options.as_bytes(), Unknown::Ignore).unwrap().value;
            let found: Vec<String> =
                validate(&value, split).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{options}");
        }
    }
}
